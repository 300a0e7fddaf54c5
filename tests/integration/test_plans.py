"""Tests of plans: shares, kills, changed axes and rules of stopping give what one undisturbed run gives."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from catnip.base.locks import LOCK, last_of_several_writers, one_of_several_writers, only_writer
from catnip.store import results, runs
from conftest import Run
from plans import LINE, eventually, points_in, tables_of

PLAN = (
    """
id = "X-5"
title = "Files over a lossy line"
seeds = 4
"""
    + LINE
    + """
rate = "1Mbit"
delay = "5ms"
queue = "drop-tail:8"
loss = "bernoulli:0.02"
[traffic.file]
kind = "bulk"
from = "server"
to = "client"
bytes = "32KB"
[[axis]]
key = "link.line.delay"
values = [DELAYS]
[[axis]]
key = "link.line.loss"
values = ["bernoulli:0.001", "bernoulli:0.05"]
"""
)
DELAYS = [5, 10, 20, 40, 80]
UNTIL = """
[sweep]
seeds = "4..64"
until = "goodput_mbps 10%"
"""


def plan(folder: Path, more: str = "", delays: list[int] = DELAYS) -> Path:
    file = folder / "plan.toml"
    values = ", ".join(f'"{delay}ms"' for delay in delays)
    file.write_text(PLAN.replace("DELAYS", values) + more)
    return file


def manifest_of(folder: Path) -> results.Manifest:
    return results.read(folder, tables=())[0]


def started(*arguments: object) -> "subprocess.Popen[str]":
    words = [sys.executable, "-m", "catnip", "run", *map(str, arguments), "--threads", "1", "-q"]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    "more",
    [
        "",
        UNTIL,
        UNTIL.replace("10%", "against delay=10ms 20%"),
        UNTIL.replace("10%", "against 0.6"),
    ],
    ids=["all seeds", "narrow", "difference", "bound"],
)
def test_three_shares_at_once_give_the_bytes_of_one_run(catnip: Run, tmp_path: Path, more: str) -> None:
    file = plan(tmp_path, more)
    alone = catnip("run", file, "--out", tmp_path / "one")
    assert alone.code == 0, alone.err
    shares = [started(file, "--out", tmp_path / "three", "--shard", f"{number}/3") for number in (1, 2, 3)]
    ended = [(*share.communicate(timeout=120), share.returncode) for share in shares]
    assert [code for *_, code in ended] == [0, 0, 0], ended
    assert tables_of(tmp_path / "three") == tables_of(tmp_path / "one") != {}
    last = catnip("run", file, "--out", tmp_path / "three", "--shard", "2/3")
    assert (last.code, last.out) == (0, alone.out)
    assert tables_of(tmp_path / "three") == tables_of(tmp_path / "one")
    counts = manifest_of(tmp_path / "one").seed_counts
    assert counts == manifest_of(tmp_path / "three").seed_counts
    if more:
        assert counts is not None and min(counts) < max(counts) and {*counts} <= {4, 8, 16, 32, 64}
    assert catnip("rerun", tmp_path / "three").code == 0


def test_two_shares_of_which_one_ends_while_the_other_one_looks_leave_the_tables(
    catnip: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, out = plan(tmp_path), tmp_path / "out"
    looks = runs.settled

    def settled(*arguments: Any) -> list[int] | None:
        counts = looks(*arguments)
        with started(file, "--out", out, "--shard", "2/2") as second:
            assert second.wait(timeout=120) == 0
        return counts

    monkeypatch.setattr(runs, "settled", settled)
    assert catnip("run", file, "--out", out, "--shard", "1/2").code == 0
    assert catnip("run", file, "--out", tmp_path / "one").code == 0
    assert tables_of(out) == tables_of(tmp_path / "one") != {}


def test_a_share_alone_says_that_others_are_missing_and_writes_no_tables(catnip: Run, tmp_path: Path) -> None:
    file = plan(tmp_path)
    done = catnip("run", file, "--out", tmp_path / "out", "--shard", "1/2")
    assert (done.code, done.out) == (0, "Share 1 of 2 is done; there are no tables until all are.\n")
    assert sorted(one.name for one in (tmp_path / "out").iterdir()) == ["points"]
    shown = catnip("run", file, "--out", tmp_path / "out", "--shard", "2/2", "--json")
    assert json.loads(shown.out)["seeds"] == [1, 2, 3, 4]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_run_killed_at_any_time_goes_on_to_the_same_bytes(catnip: Run, tmp_path: Path, number: int) -> None:
    file = plan(tmp_path, UNTIL)
    assert catnip("run", file, "--out", tmp_path / "one").code == 0
    out = tmp_path / "killed"
    environment = {**os.environ, "CATNIP_TEST_PART_S": "0"}
    words = [sys.executable, "-c", SHORT_PARTS, "run", str(file), "--out", str(out), "--threads", "1", "-q"]
    for parts in range(number, 30 * number, 5 * number):
        with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL) as running:
            until_s = time.monotonic() + 60
            while len(list(out.glob("points/*.zip"))) < parts and running.poll() is None:
                assert time.monotonic() < until_s
                time.sleep(0.001)
            running.send_signal(signal.SIGKILL)
        if (out / "manifest.json").exists():
            break
    assert catnip("run", file, "--out", out).code == 0
    assert tables_of(out) == tables_of(tmp_path / "one")
    assert not list(out.glob("points/.new-*"))


SHORT_PARTS = """
import sys
from catnip.cli import main
from catnip.store import runs
runs.PART_S = 0.0
raise SystemExit(main(sys.argv[1:]))
"""


def test_a_changed_axis_keeps_the_points_that_it_shares(catnip: Run, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert catnip("run", plan(tmp_path, UNTIL), "--out", out).code == 0
    before = points_in(out)
    file = plan(tmp_path, UNTIL.replace("X", "Y"), delays=[160, 5, 10, 20, 40])
    assert catnip("run", file, "--out", out).code == 0
    known = {point for of in before.values() for point in of}
    new = {point for name, of in points_in(out).items() if name not in before for point in of}
    assert len(new) == 2 and not new & known
    assert catnip("run", file, "--out", tmp_path / "alone").code == 0
    assert tables_of(out) == tables_of(tmp_path / "alone")


def test_several_share_a_folder_and_one_alone_has_it_to_itself(catnip: Run, tmp_path: Path) -> None:
    file, out = plan(tmp_path), tmp_path / "out"
    with one_of_several_writers(out), one_of_several_writers(out):
        refused = catnip("run", file, "--out", out)
        assert refused.code == 2 and "writes there; wait for it" in refused.err
        assert catnip("run", file, "--out", out, "--shard", "1/1").code == 0
        assert not (out / "manifest.json").exists(), "the others may not have ended"
    with only_writer(out):
        refused = catnip("run", file, "--out", out, "--shard", "1/2")
        assert refused.code == 2 and "writes there" in refused.err
    assert not (out / ".catnip-lock").exists()
    assert catnip("run", file, "--out", out).code == 0


def test_a_share_that_begins_while_another_one_writes_the_tables_waits(catnip: Run, tmp_path: Path) -> None:
    file, out = plan(tmp_path), tmp_path / "out"
    assert catnip("run", file, "--out", out, "--shard", "1/1").code == 0
    before = tables_of(out)
    with last_of_several_writers(out) as is_busy:
        late = started(file, "--out", out, "--shard", "1/2")
        assert not is_busy
        assert eventually(lambda: late.poll() is not None or is_open(late.pid, out / LOCK))
        assert late.poll() is None
    _, err = late.communicate(timeout=120)
    assert (late.returncode, err) == (0, "")
    assert tables_of(out) == before


def is_open(process: int, file: Path) -> bool:
    """Returns true if a process has opened a file."""
    return any(other.resolve() == file for other in Path(f"/proc/{process}/fd").iterdir())


def test_shares_are_disjoint_and_whole_and_of_nearly_the_same_size() -> None:
    for variants, shares in ((1, 1), (10, 3), (1000, 7), (3, 5), (10_000, 300)):
        of = [runs.share_of(variants, number, shares) for number in range(1, shares + 1)]
        assert sorted(variant for share in of for variant in share) == list(range(variants))
        sizes = [len(share) for share in of]
        assert max(sizes) - min(sizes) <= runs.BLOCK


@pytest.mark.parametrize(
    ("more", "options", "told"),
    [
        ("", ["--shard", "0/3"], "--shard: 0/3: expected K from 1 to N"),
        ("", ["--shard", "4/3"], "--shard: 4/3: expected K from 1 to N"),
        ("", ["--shard", "1"], "--shard: 1: expected K/N, such as 3/10"),
        ("", ["--shard", "1/2", "--report", "x.html"], "--shard: needs --out, and no other output"),
        ("", ["--until", "load_s 5%"], "--until: load_s 5%: 'load_s' is not one of "),
        ("", ["--until", "completed_s decided"], "--until: completed_s decided: needs --against"),
        ("", ["--until", "against delay=7ms 5%"], "--against: 'delay=7ms' is none of "),
        ("[sweep]\nseeds = '4..8'\n", [], "sweep.seeds: 4..8: needs a rule, sweep.until"),
        ("[sweep]\nuntil = 'soon'\n", [], "sweep.until: soon: expected decided"),
    ],
)
def test_what_no_plan_can_be_is_one_line(
    catnip: Run, tmp_path: Path, more: str, options: list[str], told: str
) -> None:
    done = catnip("run", plan(tmp_path, more), "--out", tmp_path / "out", *options)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert told in done.err


def test_check_reads_the_rule_of_a_plan(catnip: Run, tmp_path: Path) -> None:
    assert catnip("check", plan(tmp_path, UNTIL)).code == 0
    refused = catnip("check", plan(tmp_path, UNTIL.replace("10%", "10")))
    assert (
        refused.code == 2 and "sweep.until: goodput_mbps 10: expected decided, or a percentage" in refused.err
    )


def test_without_a_folder_a_rule_gives_the_same_summary(catnip: Run, tmp_path: Path) -> None:
    file = plan(tmp_path, UNTIL)
    stored = catnip("run", file, "--out", tmp_path / "out", "--against", "delay=5ms")
    held = catnip("run", file, "--against", "delay=5ms")
    assert (stored.code, held.out) == (0, stored.out)
    assert "looks at 1, 2, 4, 8, 16 times the first number of seeds, each with 99 % intervals" in held.out


def test_a_printed_script_runs_all_shares_with_the_options_of_the_command(
    catnip: Run, tmp_path: Path
) -> None:
    file, out = plan(tmp_path), tmp_path / "shares"
    options = [
        "--set",
        "link.line.queue=red:10",
        "--seeds",
        3,
        "--against",
        "delay=5ms",
        "--tables",
        "runs,groups",
    ]
    assert catnip("run", file, *options, "--out", tmp_path / "one").code == 0
    script = catnip("run", file, *options, "--out", out, "--emit", "parallel=3").out
    assert not out.exists()
    # Neither PATH nor the working folder has to lead to the program.
    environment = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["sh", "-c", script], env=environment, cwd="/", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert tables_of(out) == tables_of(tmp_path / "one")
    assert manifest_of(out).source == manifest_of(tmp_path / "one").source


def test_scripts_for_clusters_call_one_share_for_each_task(
    catnip: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plan(tmp_path)
    command = ["run", "plan.toml", "--seeds", 3, "--out", "out", "--seed", 0, "--dry-run"]
    options = "catnip run plan.toml --seeds 3 --out out --seed 0 --threads"
    slurm = catnip(*command, "--emit", "slurm=20").out
    program = Path(sys.executable).parent
    share = '--shard "$SLURM_ARRAY_TASK_ID/20"'
    assert "#SBATCH --job-name=X-5\n#SBATCH --array=1-20\n" in slurm
    assert f"cd {tmp_path} || exit\n" in slurm
    assert f'exec {program}/{options} "${{SLURM_CPUS_PER_TASK:-1}}" {share}\n' in slurm
    job = catnip(*command, "--emit", "kubernetes=20").out
    assert "  name: x-5\n" in job
    assert f'"exec {options} 1 --shard \\"$((JOB_COMPLETION_INDEX + 1))/20\\""' in job


@pytest.mark.parametrize(
    ("scenario", "options", "told"),
    [
        ("plan.toml", ["--emit", "slurm=1001"], "arrays have at most 1000 tasks"),
        ("plan.toml", ["--emit", "cron=3"], "expected one of kubernetes=N"),
        (
            "plan.toml",
            ["--emit", "slurm=3", "--shard", "1/3"],
            "--emit: needs a scenario that has a file, and no",
        ),
        ("-", ["--emit", "slurm=3"], "--emit: needs a scenario that has a file, and no --shard"),
    ],
)
def test_what_no_script_can_run_is_refused(
    catnip: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scenario: str, options: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with plan(tmp_path).open() as text:
        monkeypatch.setattr(sys, "stdin", text)
        refused = catnip("run", scenario, "--out", "out", *options)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert told in refused.err


def test_a_job_has_a_name_that_every_cluster_takes(catnip: Run, tmp_path: Path) -> None:
    file = plan(tmp_path)
    file.write_text(file.read_text().replace('"X-5"', "'Ünit \"5\" of 2026'"))
    slurm, kubernetes = (
        catnip("run", file, "--out", tmp_path / "out", "--emit", f"{kind}=2").out
        for kind in ("slurm", "kubernetes")
    )
    assert "#SBATCH --job-name=nit--5--of-2026\n" in slurm
    assert "  name: nit--5--of-2026\n" in kubernetes
