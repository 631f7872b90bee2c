"""Harvest: self-contained `nn.Module`s out of installed packages, as tasks with their licence on record.

    package -> tasks/closure.py (each class with what it uses, as text; nothing of the package is imported)
            -> guess.py (constructor arguments and input shapes, by name) -> run.py (which of them run, in a child)

Writes tasks as a suite (`load_suite` reads it), and for every class, task or not, an `Origin`: package, version,
licence, file, and the reason where there is no task. A class that equals an earlier one but for names is a duplicate.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernelwright.data import normal
from kernelwright.data.harvest import guess, run
from kernelwright.data.streams import Progress, Stream
from kernelwright.errors import UserError
from kernelwright.records import Record, Task
from kernelwright.tasks.closure import Library, Package, Skip, find

__all__ = ["Origin", "harvest"]


class Origin(Record):
    """Where a class comes from, and what became of it."""

    package: str
    version: str
    licence: str
    module: str
    name: str
    form: str = ""
    """Digest of the class with what it uses, names apart; of tasks, no two share it."""
    task_id: str = ""
    reason: str = ""
    """Why there is no task."""


def harvest(
    names: Sequence[str],
    out: Path,
    folder: Path | None = None,
    most: int = 0,
    progress: Progress | None = None,
) -> Counter[str]:
    """Write the tasks of the packages to `out`, origins beside it; goes on where a stopped run left off.

    `folder` is where `pip install --target` put them; `most` classes of each package at most (0: all).
    Returns how many ended how. Raises UserError for a package that is not installed.
    """
    tasks, origins = Stream(out, Task), Stream(out.with_name(f"{out.stem}.origins.jsonl"), Origin)
    found = list(origins.records())
    done = {(origin.package, origin.module, origin.name) for origin in found}
    work = list(_classes(names, folder, most))
    rest = [item for item in work if (item[0].package.name, item[1], item[2].name) not in done]
    if tasks.whole and origins.whole:
        if rest:
            others = ", ".join(dict.fromkeys(library.package.name for library, _, _ in rest))
            raise UserError(f"{out} is a whole harvest without all of {others}; name another file with -o")
        return _ended(found)
    written = {task.id for task in tasks.records()}
    seen = {origin.form for origin in found if origin.task_id}
    failed: dict[str, str] = {}
    run.prepare()
    with tasks, origins:
        for number, (library, module, node) in enumerate(rest, len(work) - len(rest) + 1):
            origin, task = _one(library, module, node, seen, failed)
            if task is not None and task.id not in written:
                tasks.write(task)
            origins.write(origin)
            if progress is not None:
                progress("harvest", number, len(work))
    return _ended(list(origins.records()))


def _ended(origins: Sequence[Origin]) -> Counter[str]:
    return Counter(origin.reason or f"tasks of {origin.package}" for origin in origins)


def _classes(
    names: Sequence[str], folder: Path | None, most: int
) -> Iterator[tuple[Library, str, ast.ClassDef]]:
    for name in names:
        package = find(name, folder)
        if package is None:
            where = f"in {folder}" if folder else "here"
            raise UserError(f"package {name!r} is not installed {where}; pip install --no-deps {name}")
        library = Library(package)
        count = 0
        for module in library.modules():
            for node in library.classes(module):
                count += 1
                if most and count > most:
                    break
                yield library, module, node


def _one(
    library: Library, module: str, node: ast.ClassDef, seen: set[str], failed: dict[str, str]
) -> tuple[Origin, Task | None]:
    """`seen` has the forms of tasks, `failed` the reasons of classes that did not run, by text but for the name."""
    package = library.package
    origin = Origin(
        package=package.name, version=package.version, licence=package.licence, module=module, name=node.name
    )
    try:
        body = library.closure(module, node.name)
        form = normal.digest(normal.normal_form(body))
        if form in seen:
            raise Skip("duplicate")
        text = re.sub(rf"\b{node.name}\b", "_", body)
        if text in failed:
            raise Skip(failed[text])
        found = run.search(list(proposals(package, module, node, body)))
        if "reason" in found:
            failed[text] = str(found["reason"])
            raise Skip(failed[text])
    except Skip as skip:
        return origin.model_copy(update={"reason": str(skip)}), None
    seen.add(form)
    digest = hashlib.sha256(found["source"].encode()).hexdigest()[:8]
    task = Task(
        id=f"harvest/{package.name}-{node.name}-{digest}",
        suite="harvest",
        source=found["source"],
        shapes=found["shapes"],
        family="harvest",
        difficulty=3,
        policy="partial",
        min_share=0.5,
    )
    return origin.model_copy(update={"task_id": task.id, "form": form}), task


def proposals(package: Package, module: str, node: ast.ClassDef, body: str) -> Iterator[str]:
    """References that may run, likelier ones first; `body` is the class with what it uses. Raises Skip."""
    methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
    arguments, config = guess.arguments(methods.get("__init__"))
    note = f"# {node.name} of {package.name} {package.version} ({module}), licence: {package.licence}"
    for inputs in guess.inputs(methods["forward"], body):
        words = set(re.findall(r"\w+", f"{arguments} {inputs}"))
        sizes = [name for name in guess.FULL if name in words]
        state = [name for name in sizes if re.search(rf"\b{name}\b", arguments)]
        parts = [note, body, "\n".join(f"{name} = {guess.FULL[name]}" for name in sizes)]
        if config:
            parts.append(config)
        made = f"{node.name}({arguments})"
        for name in state:
            made = re.sub(rf"\b{name}\b", name.lower(), made)
        signature = ", ".join(["self", *(name.lower() for name in state)])
        names = [item.arg for item in methods["forward"].args.args[1:]][: inputs.count("torch.")]
        taken = ", ".join(names)
        parts.append(
            f"class Model(nn.Module):\n    def __init__({signature}):\n        super().__init__()\n"
            f"        self.layer = {made}\n\n    def forward(self, {taken}):\n        return self.layer({taken})"
        )
        parts.append(f"def get_inputs():\n    return [{inputs}]")
        parts.append(f"def get_init_inputs():\n    return [{', '.join(state)}]")
        yield "\n\n\n".join(parts) + "\n"
