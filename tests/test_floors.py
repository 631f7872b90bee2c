"""The floors of the design, enforced on the source text: imports go down only."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import kernelwright

PACKAGE = Path(kernelwright.__file__).parent

FLOORS = {
    "errors": 0, "records": 0, "outcomes": 0, "config": 0, "hardware": 0, "runs": 0, "shapes": 0, "progress": 0,
    "children": 0, "drawing": 0, "parsing": 0, "models": 0, "extensions": 0, "precision": 0,
    "graph": 1, "tasks": 1, "candidates": 1, "faults": 1,
    "synth": 2,
    "verify": 3, "rewards": 3, "metrics": 3, "archive": 3,
    "prompts": 4, "policy": 4, "migrate": 4,
    "rollouts": 5,
    "evaluate": 6, "search": 6, "train": 6, "data": 6, "report": 6,
    "serve": 7, "adapters": 7, "compile_backend": 7, "drop_in": 7,
    "cli": 8, "demo": 8, "api": 8,
}  # fmt: skip
WORKFLOWS = {unit for unit, floor in FLOORS.items() if floor == 6}
NOUNS = {unit for unit, floor in FLOORS.items() if floor == 0}
HEAVY = {"torch", "triton", "transformers", "trl", "datasets", "accelerate", "peft"}


def modules() -> list[Path]:
    """Every module of the package; the folders of built-in tasks hold programs, not modules of ours."""
    return sorted(p for p in PACKAGE.rglob("*.py") if "wright" not in p.relative_to(PACKAGE).parts[:-1])


def unit_of(path: Path) -> str:
    """The table's name for a file: `verify/pool.py` -> `verify`, `cli.py` -> `cli`."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Dotted names imported anywhere in the file, lazily or not, with their lines."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = ("kernelwright", *path.relative_to(PACKAGE).parts[:-1])
                base = ".".join((*package[: len(package) - node.level + 1], *filter(None, [base])))
            yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)


def own_imports(path: Path) -> Iterator[tuple[str, str]]:
    """(unit imported, where) for every import of a unit of this package."""
    for name, line in imports(path):
        parts = name.split(".")
        if parts[0] == "kernelwright" and len(parts) > 1 and parts[1] != "__version__":
            yield parts[1], f"{path.relative_to(PACKAGE)}:{line} imports {name}"


def files_imported() -> dict[Path, set[Path]]:
    """Of each module the modules that it imports, lazily or for types alone as well; the package's own file apart, which hands on
    names of others when they are asked for."""
    names = {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
        for path in modules()
    }
    found: dict[Path, set[Path]] = {}
    for path in modules():
        asked = [
            name.removeprefix("kernelwright.")
            for name, _ in imports(path)
            if name.startswith("kernelwright.")
        ]
        meant = {names.get(name) or names.get(name.rpartition(".")[0]) for name in asked}
        found[path] = {one for one in meant if one not in (None, path, PACKAGE / "__init__.py")}  # type: ignore[misc]
    return found


PARAMETERS = pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))


@PARAMETERS
def test_every_module_has_a_floor(path: Path) -> None:
    assert unit_of(path) in {*FLOORS, "__init__", "__main__"}, "add it to FLOORS (and to the design)"


@PARAMETERS
def test_imports_go_down_only(path: Path) -> None:
    unit = unit_of(path)
    floor = FLOORS.get(unit, 8)
    climbs = [where for name, where in own_imports(path) if name != unit and FLOORS[name] > floor]
    assert climbs == []


def test_no_file_imports_itself_by_way_of_others() -> None:
    """Files that import nothing of what is left, or that nothing left imports, are taken away until none goes: circles stay."""
    left = files_imported()
    while loose := {
        path
        for path, asked in left.items()
        if not asked & left.keys() or not any(path in other for other in left.values())
    }:
        left = {path: asked for path, asked in left.items() if path not in loose}
    assert sorted(str(path.relative_to(PACKAGE)) for path in left) == []


@PARAMETERS
def test_workflows_never_import_each_other(path: Path) -> None:
    unit = unit_of(path)
    if unit in WORKFLOWS:
        assert [where for name, where in own_imports(path) if name in WORKFLOWS - {unit}] == []


@PARAMETERS
def test_the_judge_imports_only_nouns_candidates_and_graphs(path: Path) -> None:
    if unit_of(path) == "verify":
        allowed = NOUNS | {"candidates", "graph", "verify"}
        assert [where for name, where in own_imports(path) if name not in allowed] == []


@PARAMETERS
def test_nouns_import_nothing_heavy(path: Path) -> None:
    if unit_of(path) in {*NOUNS, "__init__"}:
        assert [name for name, _ in imports(path) if name.split(".")[0] in HEAVY] == []


@PARAMETERS
def test_every_module_says_why_it_exists(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not text.strip() or ast.get_docstring(ast.parse(text)), "open the file with a docstring"


@PARAMETERS
def test_functions_are_short(path: Path) -> None:
    long = [
        f"{node.name}: {lines} lines"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and (lines := node.end_lineno - node.lineno + 1) > 60
    ]
    assert long == [], "split where the split has a name"


def annotations(path: Path) -> Iterator[ast.expr]:
    """Of arguments, returned values and variables."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield node.returns
        elif isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield node.annotation


def test_fewer_than_a_twentieth_of_the_judges_annotations_say_any() -> None:
    found = [one for path in (PACKAGE / "verify").rglob("*.py") for one in annotations(path)]
    loose = [one for one in found if "Any" in {n.id for n in ast.walk(one) if isinstance(n, ast.Name)}]
    assert len(loose) / len(found) < 0.05
