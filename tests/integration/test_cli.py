"""Tests of the commands' exit codes and messages; other modules test the numbers that they print."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from catnip import __version__, cli
from catnip.analysis import claims
from catnip.analysis.verdicts import Band
from catnip.base import paths
from catnip.base.progress import Progress
from catnip.cli.options import BAD_INPUT, DEFECT, INTERRUPTED
from catnip.papers import runner
from catnip.papers.runner import Request
from catnip.report import model
from catnip.report.values import Values
from catnip.store import results
from catnip.store.tables import SERIES, TABLES
from conftest import Run

SMALL = "catnip-e2"
SINGLE_TRANSFERS = "hysteresis-priority"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "missing.toml"], "missing.toml: "),
        (["run", "nowhere"], "nowhere is neither a file nor a scenario of `catnip list`"),
        (["run"], "SCENARIO"),
        (["run", "catnip-e22"], "; did you mean catnip-e2"),
        (["rum"], "No such command 'rum'. Did you mean 'run'?"),
        (["run", SMALL, "--seeds", "0"], "--seeds: 0 is not"),
        (["run", SMALL, "--seeds", "many"], "--seeds: 'many' is not"),
        (["run", SMALL, "--seed", "-1"], "--seed: -1 is not"),
        (["run", SMALL, "--variant", "Vegas"], f"{SMALL}.toml: --variant: Vegas is not one of "),
        (["run", SMALL, "--tables", "runs"], "--out"),
        (["run", SMALL, "--out", "/dev/null"], "/dev/null: "),
        (["run", SMALL, "--out", "/dev/null/x"], "/dev/null/x: "),
        (["run", SMALL, "--out", "x", "--tables", "pages,frames"], "--tables: frames is not one of runs, "),
        (["run", SMALL, "--fast"], "--fast"),
        (["walk"], "walk"),
        (["reproduce", "vegas"], "PAPER: vegas is not one of catnip"),
        (["reproduce", "catnip", "--experiment", "CAT-E99"], "--experiment: CAT-E99 is not one of CAT-"),
        (["reproduce", "catnip", "--report", "/dev/null/r.html"], "/dev/null"),
        (["reproduce", "catnip", "--table", "/"], "--table: "),
        (["reproduce", "catnip", "--seeds", "0"], "--seeds: 0 is not"),
        (["trace", "--profile", "vegas"], "profile: "),
        (["trace", "--rate", "fast"], "rate: "),
        (["trace", "--queue", "drop-tail"], "queue: "),
        (["trace", "--drop", "20,x"], "--drop: 'x' is not a packet number"),
        (["trace", "--drop", "0"], "--drop: '0' is not a packet number"),
        (["trace", "--packets", "0"], "--packets: 0 is not"),
        (["trace", "--json", "--csv", "-"], "both write to stdout"),
        (["trace", "--plot", "/dev/null/p.svg"], "/dev/null"),
        (["trace", "--plot", "p.gif"], "--plot: p.gif: expected a file name that ends in .svg"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line(catnip: Run, arguments: list[str], message: str) -> None:
    ended = catnip(*arguments)
    assert ended.code == BAD_INPUT
    assert ended.out == ""
    assert ended.err.startswith("error: ")
    assert ended.err.count("\n") == 1
    assert message in ended.err


def test_an_error_in_a_scenario_names_file_key_and_value(catnip: Run, tmp_path: Path) -> None:
    text = Path(paths.scenario(SMALL).path).read_text()
    file = tmp_path / "broken.toml"
    file.write_text(text.replace('rate = "', 'rate = "minus ', 1))
    ended = catnip("run", file)
    assert ended.code == BAD_INPUT
    assert ended.err.startswith(f"error: {file}: ")
    assert 'link.path.rate: "minus 1Mbit"' in ended.err
    assert ended.err.count("\n") == 1


def test_ctrl_c_is_one_line(catnip: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(name: str, changes: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(paths, "scenario", interrupt)
    ended = catnip("run", SMALL)
    assert (ended.code, ended.err) == (INTERRUPTED, "error: interrupted\n")


@pytest.mark.parametrize("command", ["run", "reproduce", "list", "tmix", "trace", "emulate", "pages"])
def test_help_has_an_example_and_the_common_options(catnip: Run, command: str) -> None:
    ended = catnip(command, "--help")
    assert ended.code == 0
    assert f"Example: catnip {command}" in ended.out
    assert "--json" in ended.out
    assert "--seed " in ended.out
    assert "-q, --quiet" in ended.out
    assert "-v, --verbose" in ended.out


def test_verbose_says_when_what_is_done_and_the_last_word_counts(catnip: Run, tmp_path: Path) -> None:
    def said(*options: str) -> str:
        ended = catnip("run", SMALL, "--seeds", 1, "--out", tmp_path / "out", *options)
        assert ended.code == 0
        return ended.err

    assert said() == said("--quiet") == said("-vq") == ""
    notes = [re.fullmatch(r" *(\d+\.\d{3}) s  (.+)", line) for line in said("-qv").splitlines()]
    assert [note and note[2] for note in notes] == [
        f"read {paths.scenario(SMALL).path}",
        "CAT-E2",
        f"wrote the tables to {tmp_path / 'out'}",
    ]
    times = [float(note[1]) for note in notes if note]
    assert times == sorted(times)


@pytest.mark.parametrize("command", ["list", "trace --packets 5", "tmix bursts", "model --trials 10"])
def test_every_command_has_something_to_say_to_who_asks(catnip: Run, command: str) -> None:
    usual, verbose = (catnip(*command.split(), *option) for option in ((), ("-v",)))
    assert (usual.code, verbose.code, usual.err) == (0, 0, "")
    assert verbose.out == usual.out
    assert re.fullmatch(r"( *\d+\.\d{3} s  .+\n)+", verbose.err)


def test_without_a_command_there_is_help(catnip: Run) -> None:
    ended = catnip()
    assert ended.code == 0
    assert "reproduce" in ended.out


def test_version(catnip: Run) -> None:
    assert __version__ in catnip("--version").out


def test_list(catnip: Run) -> None:
    ended = catnip("list")
    assert (ended.code, ended.err) == (0, "")
    assert "CAT-E2" in ended.out
    assert "ns2-2002" in ended.out
    assert "catnip-good" in ended.out
    assert all(f" {table} " in ended.out for table in TABLES)


def test_list_as_json(catnip: Run) -> None:
    listed = json.loads(catnip("list", "--json", "--seed", 5).out)
    scenario = next(scenario for scenario in listed["scenarios"] if scenario["id"] == "CAT-E2")
    assert scenario["seeds"][0] == 5
    assert len(scenario["variants"]) >= 4
    assert "rfc" in listed["profiles"]
    assert list(listed["tables"]) == list(TABLES)
    column = listed["tables"]["pages"]["columns"]["time_s"]
    assert (column["type"], column["unit"]) == ("float", "s")


def test_a_scenario_goes_by_path_name_and_id(catnip: Run) -> None:
    outputs = [
        catnip("run", name, "--seeds", 1, "--json").out
        for name in (paths.scenario(SMALL).path, SMALL, "CAT-E2", "cat-e2")
    ]
    assert outputs[0]
    assert set(outputs) == {outputs[0]}


def test_run_writes_tables_that_can_be_read(catnip: Run, tmp_path: Path) -> None:
    ended = catnip(
        "run", SMALL, "--seeds", 2, "--seed", 7, "--out", tmp_path, "--bursts", "--events", "--json"
    )
    assert (ended.code, ended.err) == (0, "")
    printed = json.loads(ended.out)
    manifest, tables = results.read(tmp_path)
    assert printed["seeds"] == manifest.seeds == [7, 8]
    assert list(printed["variants"]) == manifest.variants
    assert set(tables) == set(TABLES) - set(SERIES)
    assert len(tables["runs"]["seed"]) == 2 * len(manifest.variants)


CUT = """
id = "X"
title = "Two files"
duration = "{duration}"
[node]
server = {{ kind = "host" }}
client = {{ kind = "host" }}
[link.radio]
from = "server"
to = "client"
rate = "1Mbit"
delay = "50ms"
queue = "drop-tail:100"
[traffic.{name}]
kind = "bulk"
from = "server"
to = "client"
bytes = "{size}"
start_s = {{ distribution = "constant", value = 0.5 }}
"""


def cut(folder: Path, duration: str, size: str = "100KB") -> Path:
    """Writes a scenario that ends after `duration`; its transfer of 100 KB needs 1.5 s."""
    file = folder / "cut.toml"
    file.write_text(CUT.format(duration=duration, size=size, name="document"))
    return file


def test_a_run_that_ends_too_early_says_how_many_have_finished(catnip: Run, tmp_path: Path) -> None:
    second = CUT[CUT.index("[traffic") :].format(name="note", size="1KB")
    file = cut(tmp_path, "1s")
    file.write_text(file.read_text() + second)
    ended = catnip("run", file, "--seeds", 2)
    assert (ended.code, ended.err) == (0, "")
    assert "0 of 2" in ended.out
    assert "* Mean of the transfers that finished" in ended.out
    groups = json.loads(catnip("run", file, "--seeds", 2, "--json").out)["variants"]["default"]["groups"]
    assert {name: (of["finished"], of["started"]) for name, of in groups.items()} == {
        "document": (0, 2),
        "note": (2, 2),
    }
    assert "completed_s" not in groups["document"]["means"]


@pytest.mark.parametrize(
    ("duration", "message"),
    [
        ("1s", "none of 2 transfers finished before the end of the run"),
        ("100ms", "no packet was sent before the end of the run"),
        ("0s", "no packet was sent before the end of the run"),
    ],
)
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_run_in_which_nothing_finishes_says_so_and_has_a_code_of_its_own(
    catnip: Run, tmp_path: Path, duration: str, message: str, as_json: list[str]
) -> None:
    file = cut(tmp_path, duration)
    ended = catnip("run", file, "--seeds", 2, *as_json, "--out", tmp_path / "out")
    assert ended.code == 4
    assert ended.err == f"error: {file}: duration: {message}\n"
    _, tables = results.read(tmp_path / "out")
    begun = 2 if duration == "1s" else 0
    assert [len(tables[name]["seed"]) for name in ("runs", "connections")] == [2, begun]


def test_no_digit_is_cut_on_a_narrow_terminal(
    catnip: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = cut(tmp_path, "10s")
    wide = catnip("run", file, "--seeds", 2).out
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("FORCE_COLOR", "1")
    narrow = re.sub("\x1b\\[[0-9;]*m", "", catnip("run", file, "--seeds", 2).out)
    assert [line.split() for line in narrow.splitlines()] == [line.split() for line in wide.splitlines()]


def test_help_says_of_each_command_what_its_own_help_says() -> None:
    context = click.Context(cli.catnip)
    for name, (_, about) in cli.COMMANDS.items():
        command = cli.catnip.get_command(context, name)
        assert command is not None
        assert command.get_short_help_str(limit=200).rstrip(".") == about.rstrip("."), name


def test_help_is_there_without_what_commands_need(catnip: Run) -> None:
    loads = "import sys; from catnip import cli; cli.main(['--help']); sys.exit('numpy' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", loads], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == catnip("--help").out


def test_a_defect_has_a_code_that_no_missed_claim_has(catnip: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("in the middle")

    monkeypatch.setattr(cli, "import_module", broken)
    ended = catnip("reproduce", "catnip", "--quick")
    assert ended.code == DEFECT
    assert ended.err.endswith("ZeroDivisionError: in the middle\n")


@pytest.mark.parametrize(
    ("command", "absent", "most"),
    [
        (["--help"], {"numpy", "rich", "scipy"}, 107),
        (["run", "--help"], {"numpy", "rich", "scipy"}, 112),
        (["list"], {"numpy", "rich", "scipy"}, 112),
        (["run", SMALL, "--seeds", "1"], {"numpy", "rich", "scipy", "matplotlib", "pandas", "pyarrow"}, 122),
        (
            ["run", SINGLE_TRANSFERS, "--seeds", "3"],
            {"numpy", "rich", "scipy", "matplotlib", "pandas", "pyarrow"},
            122,
        ),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_a_command_loads_only_what_it_needs(command: list[str], absent: set[str], most: int) -> None:
    """Counts modules, because their import takes most of the time of a short command.

    Those that Python itself begins with do not count; Debian's has one more than others.
    """
    count = "import sys; own = {*sys.modules}; from catnip.__main__ import start; start(); "
    count += "print(*{*sys.modules} - own, file=sys.stderr)"
    arguments = [sys.executable, "-c", count, *command]
    ended = subprocess.run(arguments, capture_output=True, text=True, check=True)
    loaded = ended.stderr.split()
    assert not absent & set(loaded)
    assert len(loaded) <= most


@pytest.mark.parametrize("command", [("trace",), ("run", SMALL)])
def test_options_of_other_tools_are_refused_with_their_equivalent(
    catnip: Run, command: tuple[str, ...]
) -> None:
    ended = catnip(*command, "--xplot", "file.xpl")
    assert (ended.code, ended.out) == (BAD_INPUT, "")
    assert "tcptrace" in ended.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_are_told_how_to_complete(shell: str) -> None:
    ended = completed(f"{shell}_source")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "_CATNIP_COMPLETE" in ended.stdout


def test_commands_options_and_scenarios_are_completed() -> None:
    for tokens, expected in (
        (["catnip", "re"], {"reproduce"}),
        (["catnip", "run", "--see"], {"--seeds", "--seed"}),
        (["catnip", "run", "catnip-e1"], {"catnip-e1", "catnip-e11", "catnip-e12"}),
    ):
        ended = completed("bash_complete", COMP_WORDS=" ".join(tokens), COMP_CWORD=str(len(tokens) - 1))
        completions = dict(line.split(",", 1)[::-1] for line in ended.stdout.splitlines())
        assert expected <= set(completions), (tokens, ended.stdout, ended.stderr)


def completed(instruction: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "catnip"],
        env={**os.environ, "_CATNIP_COMPLETE": instruction, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("command", ["list", "run --seeds 1 catnip-e2", "--help"])
def test_closed_standard_output_and_few_letters_are_no_reason_to_fail(command: str) -> None:
    program = f"{sys.executable} -m catnip {command}"
    closed = subprocess.run(f"{program} >&-", shell=True, capture_output=True, text=True, check=False)
    assert (closed.returncode, closed.stderr) == (0, "")
    few = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    ended = subprocess.run(program, shell=True, env=few, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_names_of_files_need_not_be_text(catnip: Run, tmp_path: Path) -> None:
    strange = os.fsdecode(b"caf\xe9")
    file = cut(tmp_path, "10s").rename(tmp_path / f"{strange}.toml")
    out = tmp_path / strange
    ended = catnip("run", file, "--seeds", 2, "--out", out, "--json")
    assert (ended.code, ended.err) == (0, "")
    _, tables = results.read(out)
    assert len(tables["connections"]["seed"]) == 2
    logs = [out / f"x.{kind}" for kind in ("pcapng", "qlog")]
    assert catnip("run", file, "--packets", logs[0], "--qlog", logs[1]).code == 0
    assert all(log.stat().st_size > 0 for log in logs)
    missing = catnip("run", tmp_path / f"no{strange}.toml")
    assert missing.code == BAD_INPUT
    assert missing.err.endswith(".toml: No such file or directory (os error 2)\n")


def test_a_file_with_any_name_is_a_scenario(
    catnip: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "my.json"):
        cut(tmp_path, "10s").rename(tmp_path / name)
        assert catnip("run", name, "--seeds", 1).code == 0


def test_the_package_runs_as_a_program() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "catnip", "--version"], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("catnip, version ")


def test_run_prints_one_row_per_variant(catnip: Run) -> None:
    variant = paths.scenario(SMALL).variants[0]
    ended = catnip("run", SMALL, "--seeds", 2, "--variant", variant)
    assert ended.code == 0
    assert "seeds 1 to 2" in ended.out
    assert "completion time, s" in ended.out
    assert ended.out.count("±") >= 2


def test_run_is_the_same_on_any_number_of_threads(catnip: Run) -> None:
    one, two = (catnip("run", SMALL, "--seeds", 4, "--threads", n, "--json").out for n in (1, 2))
    assert one == two


@pytest.mark.parametrize("failing", [False, True])
def test_reproduce(catnip: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failing: bool) -> None:
    def reproduce(request: Request, progress: Progress, before: Values | None) -> model.Reproduction:
        assert request == Request("catnip", ["CAT-E1"], True, 3, 5)
        assert before is None
        progress.task("one loss")(1, 2)
        claim = claims.judged("CAT-E1.loss", "loss, %", 2.0, Band(high=1.0 if failing else 3.0))
        return model.Reproduction("Title", "Headline.", [claim], seeds=[5, 6, 7])

    monkeypatch.setattr(runner, "reproduce", reproduce)
    report, table = tmp_path / "new" / "report.html", tmp_path / "table.md"
    arguments = ("reproduce", "catnip", "--experiment", "cat-e1", "--quick", "--seeds", 3, "--seed", 5)

    ended = catnip(*arguments, "--report", report, "--table", table)
    assert (ended.code, ended.err) == (int(failing), "")
    assert "Headline." in ended.out
    assert "--experiment CAT-E1 --quick --seeds 3 --seed 5" in report.read_text()
    assert "| CAT-E1.loss | loss, % |" in table.read_text()

    (line,) = catnip(*arguments, "--json").out.splitlines()
    assert json.loads(line)["verdict"] == ("not reproduced" if failing else "reproduced")


def test_a_refused_output_leaves_nothing_behind(catnip: Run, tmp_path: Path) -> None:
    catnip("reproduce", "catnip", "--report", tmp_path / "r.html", "--table", "/dev/null/t.md")
    assert list(tmp_path.iterdir()) == []


HOSTILE = "a\x1b]0;owned\x07\x9b31m\u202eb"


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", f"{HOSTILE}.toml"],
        ["check", "{scenario}"],
        ["run", f"{HOSTILE}"],
        ["run", SMALL, "--variant", HOSTILE],
        ["trace", "--profile", HOSTILE],
        ["reproduce", HOSTILE],
        [HOSTILE],
        ["har", "{har}"],
        ["replay", "{site}", "--", "true"],
    ],
)
def test_what_controls_a_terminal_is_shown_and_not_printed(
    catnip: Run, tmp_path: Path, arguments: list[str]
) -> None:
    scenario, har, site = (tmp_path / f"{HOSTILE}{kind}" for kind in (".toml", ".har", ".site"))
    scenario.write_text('id = "x"\ntitle = "\\u001b]0;owned\\u0007"\n"k\\u001b" = 1\n', encoding="utf-8")
    entries = [
        {"request": {"method": "GET", "url": f"https://x.org/{HOSTILE}"}, "response": {"status": "\x1b"}}
    ]
    har.write_text(json.dumps({"log": {"entries": entries}}), encoding="utf-8")
    site.mkdir()
    (site / "site.jsonl").write_text('{"catnip_site": 1}\n{"method": "\\u001b["}\n', encoding="utf-8")
    found = catnip(*(one.format(scenario=scenario, har=har, site=site) for one in arguments))
    assert found.code == BAD_INPUT, found
    printed = found.out + found.err
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", printed), repr(printed)
    assert r"\u{1b}" in printed or r"\x1b" in printed or r"\u001b" in printed, printed


def test_messages_are_printed_in_one_place() -> None:
    package = Path(cli.__file__).parents[1]
    uses = {file.name for file in package.rglob("*.py") if re.search(r"\berr=True", file.read_text())}
    # `emulate` passes on what the emulator has printed, which is clean.
    assert uses == {"verbosity.py", "real_time.py"}
