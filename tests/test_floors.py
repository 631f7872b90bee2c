"""The layers of the design, checked in the source: imports go down only."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import kernelwright

PACKAGE = Path(kernelwright.__file__).parent

FLOORS = {
    "errors": 0, "records": 0, "outcomes": 0, "config": 0, "hardware": 0, "runs": 0, "shapes": 0, "progress": 0,
    "children": 0, "drawing": 0, "parsing": 0, "models": 0, "extensions": 0, "precision": 0, "templates": 0,
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
    """Every module of the package, except built-in tasks, whose folders hold programs."""
    return sorted(p for p in PACKAGE.rglob("*.py") if "wright" not in p.relative_to(PACKAGE).parts[:-1])


@functools.cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def unit_of(path: Path) -> str:
    """The table's name for a file: `verify/pool.py` -> `verify`, `cli.py` -> `cli`."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@functools.cache
def imports(path: Path) -> list[tuple[str, int]]:
    """Dotted names imported anywhere in the file, lazily or not, with their lines."""
    found: list[tuple[str, int]] = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = ("kernelwright", *path.relative_to(PACKAGE).parts[:-1])
                base = ".".join((*package[: len(package) - node.level + 1], *filter(None, [base])))
            found += [(f"{base}.{alias.name}", node.lineno) for alias in node.names]
    return found


def own_imports(path: Path) -> Iterator[tuple[str, str]]:
    """(unit imported, where) for every import of a unit of this package."""
    for name, line in imports(path):
        parts = name.split(".")
        if parts[0] == "kernelwright" and len(parts) > 1 and parts[1] != "__version__":
            yield parts[1], f"{path.relative_to(PACKAGE)}:{line} imports {name}"


def files_imported() -> dict[Path, set[Path]]:
    """Module -> modules that it imports, including lazy and type-only imports. Leaves out the package's `__init__`, which forwards
    names lazily."""
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


def test_every_module_has_a_floor() -> None:
    """Add new units to FLOORS and to the design."""
    assert {unit_of(path) for path in modules()} - {*FLOORS, "__init__", "__main__"} == set()


def test_imports_go_down_only() -> None:
    climbs = [
        where
        for path in modules()
        for unit in [unit_of(path)]
        for name, where in own_imports(path)
        if name != unit and FLOORS[name] > FLOORS.get(unit, 8)
    ]
    assert climbs == []


def test_no_file_imports_itself_by_way_of_others() -> None:
    """Remove files that import nothing remaining or that nothing remaining imports, until none is left to remove: cycles remain."""
    left = files_imported()
    while loose := {
        path
        for path, asked in left.items()
        if not asked & left.keys() or not any(path in other for other in left.values())
    }:
        left = {path: asked for path, asked in left.items() if path not in loose}
    assert sorted(str(path.relative_to(PACKAGE)) for path in left) == []


def test_workflows_never_import_each_other() -> None:
    workflows = [path for path in modules() if unit_of(path) in WORKFLOWS]
    found = [
        where
        for path in workflows
        for name, where in own_imports(path)
        if name in WORKFLOWS - {unit_of(path)}
    ]
    assert found == []


def test_the_judge_imports_only_nouns_candidates_and_graphs() -> None:
    allowed = NOUNS | {"candidates", "graph", "verify"}
    judge = [path for path in modules() if unit_of(path) == "verify"]
    assert [where for path in judge for name, where in own_imports(path) if name not in allowed] == []


def test_nouns_import_nothing_heavy() -> None:
    nouns = [path for path in modules() if unit_of(path) in {*NOUNS, "__init__"}]
    assert [(path, name) for path in nouns for name, _ in imports(path) if name.split(".")[0] in HEAVY] == []


def test_every_module_says_why_it_exists() -> None:
    """Every module begins with a docstring."""
    written = [path for path in modules() if path.read_text("utf-8").strip()]
    assert [path for path in written if not ast.get_docstring(tree(path))] == []


def test_functions_are_short() -> None:
    """Split a long function where the part has a name."""
    long = [
        f"{path.relative_to(PACKAGE)}: {node.name}: {lines} lines"
        for path in modules()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and (lines := node.end_lineno - node.lineno + 1) > 60
    ]
    assert long == []


def annotations(path: Path) -> Iterator[ast.expr]:
    """Annotations of arguments, return values and variables."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            yield node.returns
        elif isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield node.annotation


def test_fewer_than_a_twentieth_of_the_judges_annotations_say_any() -> None:
    found = [one for path in (PACKAGE / "verify").rglob("*.py") for one in annotations(path)]
    loose = [one for one in found if "Any" in {n.id for n in ast.walk(one) if isinstance(n, ast.Name)}]
    assert len(loose) / len(found) < 0.05
