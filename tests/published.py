"""Access of tests to the committed claims of the papers in validation/."""

from pathlib import Path

from catnip.analysis.claims import Claim
from catnip.papers import runner
from catnip.report import values

ROOT = Path(__file__).resolve().parent.parent


def published(name: str) -> list[Claim]:
    """Returns the claims of a paper with the verdicts on the values in validation/`name`.json."""
    return list(runner.judge(name, values.read(ROOT / "validation" / f"{name}.json", name)).claims)
