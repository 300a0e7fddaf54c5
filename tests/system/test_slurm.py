"""Tests of job arrays in a Slurm of their own: what `--emit slurm=N` prints is submitted as it is."""

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import slurm
from conftest import Run
from plans import LINE, eventually, points_in, tables_of
from slurm import Cluster

REASON = slurm.missing()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"no Slurm: {REASON}")

PLAN = (
    """
id = "It's X-7"
title = "Files so long that a share can be killed in the middle"
"""
    + LINE
    + """
rate = "20Mbit"
delay = "5ms"
queue = "drop-tail:20"
loss = "bernoulli:0.001"
[traffic.file]
kind = "bulk"
from = "server"
to = "client"
bytes = "10MB"
[sweep]
samples = 60
seeds = "2..8"
until = "goodput_mbps 5%"
[[axis]]
key = "link.line.delay"
range = "1ms..60ms"
"""
)
OPTIONS = ["--seed", 0, "--tables", "runs,groups", "--set", "link.line.loss=bernoulli:0.002"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with slurm.cluster(tmp_path_factory.mktemp("slurm")) as running:
        yield running


@dataclass(frozen=True)
class Plan:
    """Plan in a folder with a name that shells split, in which the commands run."""

    folder: Path
    catnip: Run
    alone: dict[str, bytes]
    """Tables of a run by threads."""

    def script(self, shares: int) -> Path:
        """Writes the script that runs the plan, and returns its path."""
        printed = self.catnip("run", "plan.toml", *OPTIONS, "--out", "results", "--emit", f"slurm={shares}")
        assert printed.code == 0, printed
        script = self.folder / "plan.sh"
        script.write_text(printed.out)
        return script

    @property
    def results(self) -> Path:
        """Folder into which the script writes."""
        return self.folder / "results"

    def points_of_share(self, number: int, shares: int) -> set[str]:
        """Returns the points of a share, which is run elsewhere."""
        done = self.catnip("run", "plan.toml", *OPTIONS, "--out", "share", "--shard", f"{number}/{shares}")
        assert done.code == 0, done
        return self.stored("share")

    def stored(self, folder: str = "results") -> set[str]:
        """Returns the points of which something is stored."""
        return {point for of in points_in(self.folder / folder).values() for point in of}


ALONE: dict[str, bytes] = {}
"""Tables of the run by threads, which is made once."""


@pytest.fixture
def plan(catnip: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    folder = tmp_path / "plans of 'my' $HOME"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "plan.toml").write_text(PLAN)
    if not ALONE:
        assert catnip("run", "plan.toml", *OPTIONS, "--out", "alone").code == 0
        ALONE.update(tables_of(folder / "alone"))
    return Plan(folder, catnip, ALONE)


def test_a_submitted_script_leaves_the_bytes_of_threads(cluster: Cluster, plan: Plan, tmp_path: Path) -> None:
    script = plan.script(5)
    job = cluster.submit(script, cwd=tmp_path)
    told = [tmp_path / f"slurm-{job}_{task}.out" for task in range(1, 6)]
    assert cluster.ended(job, 5) == dict.fromkeys(range(1, 6), "COMPLETED"), [one.read_text() for one in told]
    assert tables_of(plan.results) == plan.alone != {}
    assert all(file.exists() for file in told), "they are where the script was submitted"


def test_a_killed_task_fails_alone_and_the_script_submitted_again_ends_with_the_same_bytes(
    cluster: Cluster, plan: Plan
) -> None:
    of_second = plan.points_of_share(2, 3)
    script = plan.script(3)
    job = cluster.submit(script)
    assert eventually(lambda: bool(of_second & plan.stored()))
    cluster.signal(signal.SIGKILL, job, task=2)
    assert cluster.ended(job, 3) == {1: "COMPLETED", 2: "FAILED", 3: "COMPLETED"}
    assert not tables_of(plan.results)
    kept = points_in(plan.results)
    assert of_second & plan.stored()
    again = cluster.submit(script)
    assert cluster.ended(again, 3) == dict.fromkeys((1, 2, 3), "COMPLETED")
    assert kept.items() <= points_in(plan.results).items()
    assert tables_of(plan.results) == plan.alone


def test_a_controller_killed_in_the_middle_goes_on_with_the_array(cluster: Cluster, plan: Plan) -> None:
    job = cluster.submit(plan.script(3))
    assert eventually(lambda: bool(plan.stored()))
    # As long as the tasks are stopped, what the controller saves stays true.
    cluster.signal(signal.SIGSTOP, job)
    cluster.save(job)
    assert {*cluster.states(job).values()} >= {"RUNNING"}
    cluster.kill_controller()
    cluster.start_controller()
    cluster.signal(signal.SIGCONT, job)
    assert cluster.ended(job, 3) == dict.fromkeys((1, 2, 3), "COMPLETED")
    assert tables_of(plan.results) == plan.alone


def test_a_script_with_more_shares_than_the_cluster_allows_says_what_to_do(
    cluster: Cluster, plan: Plan
) -> None:
    shares = slurm.MOST_TASKS + 1
    script = plan.script(shares)
    refused = cluster.run("sbatch", script)
    told = refused.stderr.strip().rpartition(": ")[2]
    assert (refused.returncode, told) == (1, "Invalid job array specification")
    assert f'# If sbatch says "{told}", {shares} tasks are more than' in script.read_text()
    limit = next(
        line for line in cluster.output("scontrol", "show", "config").splitlines() if "MaxArray" in line
    )
    assert limit.split() == ["MaxArraySize", "=", str(slurm.MOST_TASKS + 1)]
