"""Tests of `catnip reproduce --kernel virtual`: who is refused, and what becomes of a guest's measurements.

In place of tools/transfers_vm.sh, which boots a guest, scripts write what one would have measured.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from catnip._core import InputError
from catnip.base import paths, programs
from catnip.base.progress import Progress
from catnip.cli.options import BAD_INPUT
from catnip.papers import parts
from catnip.papers.linux_tcp import behind_link, virtual
from catnip.papers.linux_tcp.cases import SEGMENT_BYTES, scripted
from catnip.papers.linux_tcp.runs import TransferRuns
from catnip.papers.runner import PAPERS
from catnip.report.values import VIRTUAL
from conftest import Run

ROOT = Path(__file__).resolve().parents[2]
RELEASE = "7.2.13+deb14-amd64"
GUEST = """#!/bin/sh
if [ "$1" = prepare ]; then echo 'getting Linux'; echo RELEASE; exit; fi
echo boot >>"${0%/*}/boots"
exec PYTHON "${0%/*}/measure.py" "$1"
"""
MEASURE = """import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
for number, (options, arguments) in enumerate(json.loads((folder / "jobs.json").read_text())):
    output = {"segments": [[0.0, 0]], "acks": [], "counters": {"TCPTimeouts": 2}, "cwnd": []}
    output["done_s"] = float(options["delay"].removesuffix("ms"))
    result = {"certificate": {"verdict": "green"}, "output": output, "release": "RELEASE"}
    (folder / f"{number}.json").write_text(json.dumps(result))
"""

Tools = Callable[..., Path]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tools:
    """Makes the folder of tools that stand in for those of a checkout."""

    def made(need: str = "#!/bin/sh\n", guest: str = GUEST, measures: str = RELEASE) -> Path:
        folder = tmp_path / "checkout" / "tools"
        folder.mkdir(parents=True)
        guest = guest.replace("RELEASE", RELEASE).replace("PYTHON", sys.executable)
        for name, text in (("need.sh", need), ("transfers_vm.sh", guest)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        (folder / "measure.py").write_text(MEASURE.replace("RELEASE", measures))
        monkeypatch.setattr(paths, "checkout", lambda: folder.parent)
        monkeypatch.setattr(virtual, "program", lambda: Path("/bin/true"))
        monkeypatch.setattr(virtual, "platform", Machine)
        return folder

    return made


class Machine:
    """Stand-in for the module `platform` on a machine that boots guests."""

    @staticmethod
    def machine() -> str:
        """Returns the name of the processor."""
        return "x86_64"


@pytest.mark.parametrize("paper", [paper for paper in PAPERS if paper != "linux-tcp"])
def test_papers_that_do_not_run_in_virtual_time_refuse_it_in_a_line(catnip: Run, paper: str) -> None:
    refused = catnip("reproduce", paper, "--quick", "--kernel", "virtual")
    assert refused.code == BAD_INPUT
    assert refused.err == f"error: --kernel virtual: {paper} cannot be measured with it, only linux-tcp\n"


def test_a_kernel_that_there_is_not_is_refused(catnip: Run) -> None:
    refused = catnip("reproduce", "linux-tcp", "--kernel", "newest")
    assert refused.code == BAD_INPUT
    assert "'newest' is not one of 'this', 'virtual'" in refused.err


def test_what_a_guest_lacks_is_told_in_a_line(catnip: Run, tools: Tools) -> None:
    tools("#!/bin/sh\necho 'make virtual-kernel: xz-utils is not installed' >&2\nexit 1\n")
    refused = catnip("reproduce", "linux-tcp", "--quick", "--kernel", "virtual")
    assert refused.code == BAD_INPUT
    assert refused.err == "error: --kernel virtual: xz-utils is not installed\n"


def test_an_installed_copy_tells_that_a_guest_needs_a_checkout(
    catnip: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "checkout", lambda: None)
    refused = catnip("reproduce", "linux-tcp", "--quick", "--kernel", "virtual")
    assert refused.code == BAD_INPUT
    assert "needs a checkout" in refused.err


def test_values_of_two_kernels_are_not_merged(catnip: Run, tmp_path: Path) -> None:
    stored = tmp_path / "linux-tcp.json"
    shutil.copy(ROOT / "validation" / "linux-tcp.json", stored)
    experiment = ("--experiment", "LNX-E1", "--kernel", "virtual", "--values", stored)
    refused = catnip("reproduce", "linux-tcp", *experiment)
    assert refused.code == BAD_INPUT
    assert f"--values: {stored}: has values of --kernel this" in refused.err


def test_the_parts_of_one_kernel_are_not_used_for_another(tmp_path: Path) -> None:
    parts.opened(tmp_path / "old", {"paper": "linux-tcp"})
    parts.opened(tmp_path / "old", {"paper": "linux-tcp", "kernel": "this"})
    with pytest.raises(InputError, match="has results for kernel = this, not virtual"):
        parts.opened(tmp_path / "old", {"paper": "linux-tcp", "kernel": "virtual"})


def test_transfers_of_guests_are_kept_boot_by_boot_and_become_the_results(
    tools: Tools, tmp_path: Path
) -> None:
    folder = tools()

    def measured() -> TransferRuns:
        kept = parts.opened(tmp_path / "parts", {})
        runs = TransferRuns(False, None, 1, Progress(quiet=True), parts=kept, kernel=VIRTUAL)
        runs.cases = scripted(quick=False)[:31]
        return runs

    runs = measured()
    transfers = [pair.kernel for pair in runs.pairs]
    assert [one.done_s for one in transfers] == [case.delay_ms for case in runs.cases]
    assert {one.timeouts for one in transfers} == {2}
    assert runs.kernel_name == f"{RELEASE} in virtual time"
    boots = (folder / "boots").read_text()
    assert boots == "boot\n" * 2, "thirty cases and one"
    again = measured()
    assert [pair.kernel for pair in again.pairs] == transfers
    assert (folder / "boots").read_text() == boots, "none is measured again"


def test_a_guest_with_another_kernel_or_without_results_is_an_error(tools: Tools) -> None:
    folder = tools(measures="6.12")
    with pytest.raises(InputError, match=r"Linux 6\.12 has measured, not 7\.2\.13"):
        virtual.prepared().transfers([({"delay": "10ms"}, ["1"])])
    (folder / "measure.py").write_text(
        "import sys; print('the sender failed: no route'); sys.exit('it ended early')"
    )
    with pytest.raises(InputError, match="--kernel virtual: the sender failed: no route; it ended early"):
        virtual.prepared().transfers([({"delay": "10ms"}, ["1"])])


def test_a_kernel_that_another_user_could_exchange_is_not_booted(tmp_path: Path) -> None:
    kernels = tmp_path / "build" / "qdisc-vm"
    kernels.mkdir(parents=True)
    kernels.chmod(0o777)
    script = f"suite=sid release=; . {ROOT / 'tools' / 'guest.sh'}; prepare"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{kernels}: another user can write to it" in done.stderr
    assert list(kernels.iterdir()) == [kernels / "sid"], "nothing is downloaded"


def test_the_program_of_a_guest_writes_what_a_transfer_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, ...]] = []

    def transfer(*job: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        asked.append(job)
        return {"verdict": "green"}, {}

    monkeypatch.setattr(behind_link, "transfer", transfer)
    (tmp_path / "jobs.json").write_text(json.dumps([[{"delay": "1ms"}, ["2896"]], [{}, []]]))
    behind_link.main("catnip-emu", str(tmp_path / "jobs.json"), str(tmp_path))
    assert asked == [("catnip-emu", {"delay": "1ms"}, ["2896"]), ("catnip-emu", {}, [])]
    written = json.loads((tmp_path / "0.json").read_text())
    assert (written["certificate"], written["output"]) == ({"verdict": "green"}, {})
    assert (tmp_path / "1.json").exists()


def test_a_link_that_cannot_be_made_is_a_failed_transfer_with_its_reason() -> None:
    try:
        emulator = str(programs.program())
    except InputError as missing:
        pytest.skip(str(missing))
    with pytest.raises(behind_link.Failed, match="rate"):
        behind_link.transfer(emulator, {"rate": "fast"}, [str(SEGMENT_BYTES), "reno", "0", "1"])
