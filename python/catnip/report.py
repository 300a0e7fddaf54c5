"""A reproduction as one HTML page that needs nothing else: styles and figures are inside."""

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from catnip._core import __version__
from catnip.papers import claims
from catnip.papers.outcome import Reproduction


def render(outcome: Reproduction, command: str) -> str:
    """The page; `command` is what makes it again."""
    environment = Environment(
        loader=PackageLoader("catnip"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2").render(
        outcome=outcome,
        command=command,
        version=__version__,
        show=claims.show,
        tally=claims.tally(outcome.claims),
        figures=[(figure, Markup(figure.svg)) for figure in outcome.figures],
    )
