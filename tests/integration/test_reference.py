"""Tests of the schema of scenario files: an independent validator checks the bundled scenarios."""

import io
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from catnip import _core, cli
from catnip.base import paths
from catnip.cli.options import BAD_INPUT, EXIT_CODES
from catnip.store import results
from conftest import Run

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "python" / "catnip" / "scenario.schema.json"
BUNDLED = paths.scenario_files()
NAMED = {"node", "link", "traffic", "define", "sla"}
"""Tables of a scenario file whose keys are names chosen by the user."""


@pytest.fixture(scope="module")
def validator() -> Draft7Validator:
    schema = json.loads(SCHEMA.read_text())
    Draft7Validator.check_schema(schema)
    return Draft7Validator(schema)


def test_the_schema_beside_the_package_is_the_one_that_is_printed(catnip: Run) -> None:
    assert catnip("schema").out == SCHEMA.read_text() == _core.schema()


@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.stem)
def test_a_bundled_scenario_is_valid_and_names_the_schema(path: Path, validator: Draft7Validator) -> None:
    text = path.read_text()
    named = re.match(r"#:schema (\S+)\n", text)
    assert named and (path.parent / named[1]).resolve() == SCHEMA
    errors = [error.message for error in validator.iter_errors(tomllib.loads(text))]
    assert errors == []


def test_a_misspelled_key_is_refused_wherever_it_stands(validator: Draft7Validator) -> None:
    tried = set[str]()
    for path in BUNDLED:
        document = tomllib.loads(path.read_text())
        for path_of_key in _keys(document):
            pattern = _pattern(document, path_of_key)
            if pattern not in tried:
                tried.add(pattern)
                broken = deepcopy(document)
                table = _at(broken, path_of_key[:-1])
                table[f"{path_of_key[-1]}x"] = table.pop(path_of_key[-1])
                assert not validator.is_valid(broken), f"{path.name}: {path_of_key}"
                with pytest.raises(_core.InputError):
                    _core.Scenario.parse(path, _toml(broken))
    assert len(tried) > 150


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (("link", "bottleneck", "queue"), "droptail:10"),
        (("link", "bottleneck", "rate"), 3),
        (("seeds",), 0),
        (("duration",), "5"),
        (("node", "client", "kind"), "switch"),
        (("traffic", "web", "kind"), "wed"),
        (("traffic", "web", "think_s"), {"distribution": "exponental", "mean": 2}),
        (("traffic", "web", "servers"), "server[a]"),
    ],
)
def test_a_value_that_is_none_is_refused(
    key: tuple[str, ...], value: Any, validator: Draft7Validator
) -> None:
    document = tomllib.loads(Path(paths.scenario("catnip-generated").path).read_text())
    assert validator.is_valid(document)
    _at(document, key[:-1])[key[-1]] = value
    assert not validator.is_valid(document)


def test_a_new_scenario_is_valid_runs_and_is_not_overwritten(
    catnip: Run, tmp_path: Path, validator: Draft7Validator
) -> None:
    file = tmp_path / "deep" / "my.toml"
    assert catnip("new", file).code == 0
    text = file.read_text()
    named = re.match(r"#:schema (\S+)\n", text)
    assert named and (file.parent / named[1]).resolve() == SCHEMA
    assert [error.message for error in validator.iter_errors(tomllib.loads(text))] == []
    ended = catnip("run", file, "--seeds", "1")
    assert (ended.code, ended.err) == (0, "")
    repeated = catnip("new", file)
    assert repeated.code == BAD_INPUT and f"{file} already exists" in repeated.err
    assert file.read_text() == text


def test_check_tells_what_is_in_each_file_and_what_is_wrong_in_others(catnip: Run, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    catnip("new", good)
    bad.write_text(good.read_text().replace("drop-tail:50", "drop-tial:50"))
    ended = catnip("check", good, bad, tmp_path / "none.toml")
    assert ended.code == BAD_INPUT
    assert "2 variants: short queue, long queue" in ended.out
    assert "21 hosts, 1 router" in ended.out
    assert "links: access (20), line" in ended.out
    assert "traffic: file (20 pairs of hosts)" in ended.out
    errors = ended.err.splitlines()
    assert len(errors) == 2
    assert f"{bad}: link.access.queue: " in errors[0] and "did you mean drop-tail?" in errors[0]
    assert "none.toml" in errors[1]
    contents = json.loads(catnip("check", good, "--json").out)["scenarios"][str(good)]
    assert (contents["hosts"], contents["routers"], contents["links"]) == (21, 1, {"access": 20, "line": 1})
    assert catnip("check", good).code == 0


def test_every_bundled_scenario_passes_the_check(catnip: Run) -> None:
    assert catnip("check", *BUNDLED).code == 0


def test_a_dry_run_tells_what_would_be_run_and_runs_nothing(catnip: Run, tmp_path: Path) -> None:
    file, out = tmp_path / "my.toml", tmp_path / "out"
    catnip("new", file)
    ended = catnip("run", file, "--dry-run", "--seeds", "3", "--out", out, "--json")
    planned = json.loads(ended.out)
    assert ended.code == 0 and not out.exists()
    assert (planned["variants"], planned["seeds"], planned["runs"]) == (
        ["short queue", "long queue"],
        [1, 2, 3],
        6,
    )
    assert "connections" in planned["tables"] and "events" not in planned["tables"]
    assert "long queue" in catnip("run", file, "--dry-run").out
    assert catnip("run", file, "--dry-run", "--variant", "none").code == BAD_INPUT


def test_a_key_set_on_the_command_line_holds_and_the_manifest_does_the_same_run(
    catnip: Run, tmp_path: Path
) -> None:
    file, out = tmp_path / "my.toml", tmp_path / "out"
    catnip("new", file)
    options = ["--set", "link.line.queue=red:10,gentle=true", "--set", "node.client.count=3", "--seeds", "2"]
    assert catnip("run", file, *options, "--out", out).code == 0
    manifest, tables = results.read(out)
    assert len(tables["connections"]["seed"]) == 2 * 2 * 3
    reread = _core.Scenario.parse(file, manifest.text or "")
    connections = reread.run(manifest.variants, manifest.seeds, ["connections"])["connections"]
    assert list(connections["acked_s"]) == list(tables["connections"]["acked_s"])
    for option, message in [
        ("link.lien.queue=red:10", f"{file}: link.lien.queue: link.lien is not defined; did you mean line?"),
        ("link.line.queue", "--set: link.line.queue: expected KEY=VALUE"),
        ("seeds=many", "seeds: invalid type"),
    ]:
        ended = catnip("run", file, "--set", option)
        assert ended.code == BAD_INPUT and message in ended.err


def test_a_scenario_may_come_from_standard_input(
    catnip: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catnip("new", tmp_path / "my.toml")
    text = (tmp_path / "my.toml").read_text().replace('rate = "2Mbit" ', 'rate = "trace:there.trace" ')
    (tmp_path / "there.trace").write_text("1\n2\n3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert catnip("run", "-", "--dry-run").code == 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"id = 3")))
    ended = catnip("check", "-")
    assert ended.code == BAD_INPUT and "-: id: " in ended.err


def test_exit_codes_are_documented_once_and_told_by_each_help(catnip: Run) -> None:
    page = (ROOT / "docs" / "results.md").read_text().split("## Exit codes")[1]
    rows = dict(re.findall(r"^\| ([\d, ]+) \| (.+) \|$", page, re.MULTILINE))
    assert list(rows) == [code for code, _, _ in EXIT_CODES]
    for code, means, commands in EXIT_CODES:
        assert rows[code].endswith(means)
        assert all(f"`{command}`" in rows[code] for command in commands)
    for command in set(cli.COMMANDS) - {"agent", "link", "router", "emulate"}:
        help_text = " ".join(catnip(command, "--help").out.split())
        for code, means, commands in EXIT_CODES:
            assert (f"{code} {means}" in help_text) == (not commands or command in commands), command


def _keys(table: Mapping[str, Any], key_path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yields the path of every key of a scenario that is not a name chosen by the user."""
    for key, value in table.items():
        is_name = len(key_path) > 0 and key_path[-1] in NAMED and _is_top(key_path[:-1])
        if not is_name:
            yield (*key_path, key)
        if isinstance(value, dict) and key != "with":
            yield from _keys(value, (*key_path, key))
        if isinstance(value, list):
            for index, one in enumerate(value):
                if isinstance(one, dict):
                    yield from _keys(one, (*key_path, key, index))


def _is_top(key_path: tuple[Any, ...]) -> bool:
    return key_path == () or (len(key_path) == 2 and key_path[0] == "variant")


def _pattern(document: Any, key_path: tuple[Any, ...]) -> str:
    """Returns an identifier that is equal for all keys with the same JSON Schema."""
    parts = list(key_path)
    top = 2 if key_path[0] == "variant" and len(key_path) > 1 else 0
    kind = ""
    if len(parts) > top + 1 and parts[top] in NAMED:
        if parts[top] == "traffic":
            kind = str(_at(document, key_path[: top + 2]).get("kind"))
        parts[top + 1] = "NAME"
    return ".".join("0" if isinstance(part, int) else part for part in parts) + kind + str("base" in document)


def _at(document: Any, key_path: tuple[Any, ...]) -> Any:
    for part in key_path:
        document = document[part]
    return document


def _toml(value: Any) -> str:
    return "\n".join(f"{json.dumps(key)} = {_inline(inner)}" for key, inner in value.items())


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f"{json.dumps(key)} = {_inline(inner)}" for key, inner in value.items()) + " }"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value)
