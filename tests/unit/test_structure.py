"""Tests of dependencies: no cycles among files or modules, and crates use only the layers below them.

A file depends on the files that define the names it uses; declarations of modules and re-exports by `pub use`
are no dependencies. A file with submodules often defines items that the submodules share, and also uses the
submodules. Relative to its submodules, such a file therefore counts as two parts. The contract is below the
submodules; it consists of the definitions that they import, and of all definitions that these mention. The
rest of the file is above the submodules.
"""

import ast
import re
import subprocess
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import Optional, TypeAlias

import pytest

ROOT = Path(__file__).resolve().parents[2]
CRATES = {path.parent.name: path.parent for path in sorted(ROOT.glob("crates/*/Cargo.toml"))}
LAYERS = [
    "features base cli law",
    "linux",
    "context net model",
    "tcp",
    "sim wire",
    "lab",
    "agent drill emu page py",
]
PYTHON_LAYERS = [
    "context models",
    "base",
    "store",
    "analysis",
    "modelling figures testbed",
    "report",
    "api web",
    "papers",
    "cli",
]
ROOTS = sorted([*ROOT.glob("crates/*/src/lib.rs"), *ROOT.glob("crates/*/src/main.rs")])

NO_CODE = re.compile(r"""//[^\n]*|/\*.*?\*/|r(#*)".*?"\1|"(?:\\.|[^"\\])*"|'(?:\\[^']+|[^'\\])'""", re.DOTALL)
USE = re.compile(r"\b(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);")
MODULE = re.compile(r"\bmod\s+(\w+)\s*;")
PATH = re.compile(r"(?<![\w.])\w+(?:\s*::\s*\w+)*")
TYPE = re.compile(r"\b(?:struct|enum|union|trait)\s+(\w+)")
DEFINITION = re.compile(r"\b(?:struct|enum|union|trait|type|fn|const|static|macro_rules!)\s+(?:mut\s+)?(\w+)")
IMPLEMENTATION = re.compile(r"[^{]*\b(?:impl(?:<.*?>(?=\s))?|for)\s+&?(?:\w+::)*(\w+)[^{]*", re.DOTALL)
NO_UNSAFE_CODE = re.compile(r"^#!\[(forbid|deny)\(unsafe_code\)\]", re.MULTILINE)

PathParts: TypeAlias = tuple[str, ...]
Graph: TypeAlias = defaultdict[str, defaultdict[str, set[str]]]


@pytest.mark.parametrize("root", ROOTS, ids=lambda root: str(root.relative_to(ROOT)))
def test_no_circle_among_the_files_of_a_crate(root: Path) -> None:
    assert circle(rust(root)) == ""


def test_no_circle_among_the_modules_of_the_python_package() -> None:
    assert circle(python(ROOT / "python" / "catnip")) == ""


def test_a_part_of_the_python_package_imports_only_those_of_the_layers_below_it() -> None:
    package = ROOT / "python" / "catnip"
    level = {part: number for number, layer in enumerate(PYTHON_LAYERS) for part in layer.split()}
    parts = {path.parent if path.name == "__init__.py" else path for path in package.glob("*.py")}
    parts |= {path.parent for path in package.glob("*/__init__.py")}
    assert sorted(level) == sorted(path.stem for path in parts if path.stem not in ("catnip", "__main__"))
    for module, uses in python(package).items():
        for here, there in ((part_of(module), part_of(other)) for other in uses):
            if here in level and there in level and here != there:
                assert level[there] < level[here], f"{module} imports from {there}"


def part_of(module: str) -> str:
    """Returns the part of the package, such as a subpackage, that contains a module."""
    return ".".join(module.split(".")[1:2])


def test_a_crate_uses_those_of_the_layers_below_it() -> None:
    assert sorted(CRATES) == sorted(" ".join(LAYERS).split())
    below = set[str]()
    for layer in LAYERS:
        for crate in layer.split():
            uses = tomllib.loads((CRATES[crate] / "Cargo.toml").read_text())["dependencies"]
            up = {name.removeprefix("catnip-") for name in uses if name.startswith("catnip-")} - below
            assert not up, f"{crate} uses {', '.join(sorted(up))}: not of a layer below it"
        below |= {*layer.split()}


def test_module_and_programs_take_libraries_with_the_features_that_tests_take() -> None:
    # Cargo builds a library once for each set of features, and with it all crates that use it.
    tests = libraries("--workspace", "--exclude", "catnip-py")
    for build in (["-p", "catnip-py"], ["-p", "catnip-emu", "-p", "catnip-agent"]):
        for name, features in libraries(*build).items():
            assert features <= tests.get(name, features), f"{name}: to be named in crates/features"


def libraries(*packages: str) -> dict[str, set[str]]:
    """Returns the sets of features, one for each build, of the libraries that these crates and tests use."""
    words = ["cargo", "tree", "--locked", "--edges=normal,build,dev", "--prefix=none", "--format={p}|{f}"]
    listed = subprocess.run([*words, *packages], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found = defaultdict[str, set[str]](set)
    for line in filter(None, listed.replace(" (*)", "").splitlines()):
        name, features = line.split("|")
        found[name].add(features)
    return found


def test_unsafe_code_and_clocks_are_in_one_crate() -> None:
    for crate, folder in CRATES.items():
        # clippy.toml disallows clocks; code that reads one must allow it explicitly.
        code = "".join(path.read_text() for path in (folder / "src").rglob("*.rs"))
        assert crate == "linux" or "disallowed_methods" not in code, crate
        # The Python module replaces the allocator, whose trait is unsafe.
        if crate not in ("linux", "py"):
            roots = [path.read_text() for path in ROOTS if path.is_relative_to(folder)]
            assert all(NO_UNSAFE_CODE.search(root) for root in roots), crate


def test_the_tests_that_the_threat_model_names_are_there() -> None:
    named = set(re.findall(r"`([\w/]+\.(?:py|rs))`", (ROOT / "docs" / "security.md").read_text()))
    known = {
        path.as_posix() for folder in ("tests", "crates", "tools") for path in (ROOT / folder).rglob("*.*")
    }
    assert len(named) > 5
    assert {name for name in named if not any(path.endswith(f"/{name}") for path in known)} == set()


def test_the_architecture_lists_the_crates_from_the_bottom_up() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "architecture.md").read_text(), re.MULTILINE)
    assert listed == " ".join(LAYERS).split()


def circle(graph: Graph) -> str:
    """Returns a cycle of the dependency graph, file by file with the names that each uses of the next.

    The result is empty if there is no cycle.
    """
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        ties = pairwise(reversed(error.args[1]))
        return "\n".join(f"{a} uses {', '.join(sorted(graph[a][b]))} of {b}" for a, b in ties)
    return ""


def rust(first: Path) -> Graph:
    """Returns the dependencies among the files of the crate with this root file."""
    graph: Graph = defaultdict(lambda: defaultdict(set))
    family = list(Module(first).family())
    ties = {module: module.ties(module.code, module.imports) for module in family}
    for module in family:
        below = {*module.family()} - {module}
        needed = {name for child in below for there, name in ties[child] if there is module}
        parts = {module.name: ties[module]}
        if needed:
            parts[f"{module.name} (contract)"] = module.ties(module.contract(needed), set())
            graph[module.name][f"{module.name} (contract)"] |= needed
        for part, tied in parts.items():
            for there, name in tied:
                graph[part][f"{there.name} (contract)" if module in there.family() else there.name].add(name)
    return graph


def python(package: Path) -> Graph:
    """Returns the dependencies among the modules of a package."""
    graph: Graph = defaultdict(lambda: defaultdict(set))
    paths = {path.relative_to(package.parent).with_suffix(""): path for path in package.rglob("*.py")}
    files = {".".join(path.parts).removesuffix(".__init__"): file for path, file in paths.items()}
    for module, file in files.items():
        for node in executed(ast.parse(file.read_text())):
            for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else []:
                path = f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
                there = next((at for at in (path, path.rpartition(".")[0]) if at in files), module)
                if there != module:
                    graph[module][there].add(alias.name)
    return graph


def executed(tree: ast.AST) -> Iterator[ast.AST]:
    """Yields the syntax nodes that run when a module is imported, without imports for type checkers."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from executed(node)


class Module:
    """Module of a Rust crate: a file with its submodules."""

    def __init__(self, path: Path, parent: Optional["Module"] = None) -> None:
        code = production(path.read_text())
        folder = path.parent if path.stem in ("lib", "main", "mod") else path.with_suffix("")
        files = {name: (folder / f"{name}.rs", folder / name / "mod.rs") for name in MODULE.findall(code)}
        self.parent = parent
        self.root: Module = parent.root if parent else self
        self.folder: Path = parent.folder if parent else path.parent
        self.name = str(path.relative_to(self.folder))
        self.children = {name: Module(next(filter(Path.exists, at)), self) for name, at in files.items()}
        self.uses: dict[str, PathParts] = {}
        self.imports: set[PathParts] = set()
        for public, tree in USE.findall(code):
            for leaf in leaves(tree):
                path_there, _, alias = leaf.strip().partition(" as ")
                parts = tuple(path_there.removesuffix("::self").split("::"))
                self.uses[alias or parts[-1]] = parts
                self.imports |= set() if public else {parts}
        self.code = MODULE.sub("", USE.sub("", code))
        self.defines = set(DEFINITION.findall(self.code))

    def family(self) -> Iterator["Module"]:
        yield self
        for child in self.children.values():
            yield from child.family()

    def find(self, path: PathParts) -> tuple["Module", str] | None:
        """Returns the file that defines a path, and the name in that file; empty for the file itself."""
        first, rest = path[0], path[1:]
        module_there = {"crate": self.root, "self": self, "super": self.parent, **self.children}.get(first)
        if module_there and rest:
            return module_there.find(rest) or (module_there, rest[0])
        if first in self.defines:
            return self, first
        if first in self.uses and (self.uses[first][0] != first or module_there):
            return self.find(self.uses[first] + rest)
        return (module_there, "") if module_there else None

    def ties(self, code: str, imports: set[PathParts]) -> set[tuple["Module", str]]:
        """Returns the names that `code` uses from other files of its crate, with the defining files."""
        paths = imports | {tuple(re.split(r"\s*::\s*", path)) for path in PATH.findall(code)}
        return {there for path in paths if (there := self.find(path)) and there[1] and there[0] is not self}

    def contract(self, needed: set[str]) -> str:
        """Returns the code that defines the names `needed`, and all names that these definitions mention."""
        text, rest = "", list(items(self.code))
        while chosen := [item for item in rest if defined(item) & needed]:
            rest = [item for item in rest if item not in chosen]
            text += "".join(chosen)
            needed = set(re.findall(r"\w+", text))
        return text


def production(code: str) -> str:
    """Returns Rust code without comments, string literals and tests."""
    code = NO_CODE.sub("''", code)
    while "#[cfg(test)]" in code:
        before, _, after = code.partition("#[cfg(test)]")
        code = before + after.removeprefix(next(items(after)))
    return code


def leaves(tree: str) -> list[str]:
    """Returns the single paths of a `use` with nested braces."""
    while group := re.search(r"([\w:]*)\{([^{}]*)\}", tree):
        inner = (group[1] + part.strip() for part in group[2].split(",") if part.strip())
        tree = tree.replace(group[0], ",".join(inner))
    return tree.split(",")


def items(code: str) -> Iterator[str]:
    """Yields the top-level items of some Rust code in order."""
    depth = start = 0
    for end, char in enumerate(code, 1):
        depth += (char in "([{") - (char in ")]}")
        if depth == 0 and char in ";}":
            yield code[start:end]
            start = end


def defined(item: str) -> set[str]:
    """Returns the names that an item defines; for an `impl` its type, and for a macro the types in it."""
    subject = IMPLEMENTATION.match(item)
    if subject and not DEFINITION.search(subject[0]):
        return {subject[1]}
    first = DEFINITION.search(item) or re.search(r"(\w+)!", item)
    return {*TYPE.findall(item), *(first.groups() if first else ())}


RED = "use super::Queue; struct Red; impl Queue for Red {}"
QUEUES = {
    "lib.rs": "mod queue; pub use queue::{Any, Red}; fn queue(_: Any, _: Red) {}",
    "queue/mod.rs": "mod red; pub use red::Red; trait Queue {} enum Any { Red(Red) } impl Queue for Any {}",
    "queue/red.rs": RED,
}
UNSEEN = f'{RED} /* crate::Any */ const A: &str = "crate::Any"; #[cfg(test)] mod tests {{ use crate::Any; }}'
MENTIONED = {"queue/mod.rs": "mod red; pub use red::Red; trait Queue { fn of(red: &Red); }"}
LOSS = {
    "lib.rs": "mod loss; mod queue; pub use loss::{Lossy, Lossy as Other};",
    "loss.rs": "use crate::queue::{self, Any}; struct Lossy(Any); fn f<Q: queue::Queue>() {}",
    "queue/mod.rs": f"{QUEUES['queue/mod.rs']} use crate::{{Other as Third}}; fn f(_: Third) {{}}",
}


def test_the_files_that_the_makefile_names_are_there() -> None:
    named = set(
        re.findall(r"\b(?:benches|tests|tools)/[\w/.-]+\.(?:py|sh|toml)\b", (ROOT / "Makefile").read_text())
    )
    assert len(named) > 10
    assert {name for name in named if not (ROOT / name).exists()} == set()


@pytest.mark.parametrize(
    ("changed", "lines"),
    [
        ({}, []),
        ({"queue/red.rs": UNSEEN}, []),
        (
            MENTIONED,
            [
                "queue/mod.rs (contract) uses Red of queue/red.rs",
                "queue/red.rs uses Queue of queue/mod.rs (contract)",
            ],
        ),
        (LOSS, ["loss.rs uses Any, Queue of queue/mod.rs", "queue/mod.rs uses Lossy of loss.rs"]),
    ],
    ids=[
        "a contract and those who hold to it",
        "comments, texts and tests",
        "a contract that knows them",
        "two files",
    ],
)
def test_circles_in_rust_are_found_and_named(
    tmp_path: Path, changed: dict[str, str], lines: list[str]
) -> None:
    (tmp_path / "queue").mkdir()
    for name, code in (QUEUES | changed).items():
        (tmp_path / name).write_text(code)
    assert sorted(circle(rust(tmp_path / "lib.rs")).splitlines()) == lines


def test_circles_in_python_are_found_and_named(tmp_path: Path) -> None:
    package = tmp_path / "net"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "a.py").write_text("from net import b")
    (package / "b.py").write_text("def f():\n    from net.a import c, d")
    (package / "e.py").write_text("if TYPE_CHECKING:\n    from net.e import f\n    from net import a")
    lines = sorted(circle(python(package)).splitlines())
    assert lines == ["net.a uses b of net.b", "net.b uses c, d of net.a"]
