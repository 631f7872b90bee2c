"""What must not be trained on: checkouts of KernelBench, TritonBench or any other folder of Python files, and JSONL files
of tasks.

An example goes when its reference is one of the benchmark's: the same text but for white space, the same syntax tree
but for names, docstrings and sizes, or the same operator graph with the same shapes; or when its answer holds one of
the benchmark's kernels, names apart. Functions and sizes as such are free: a ReLU is a ReLU. References are the files
that define a `Model`, and of TritonBench-T every call that its tests make.

Files are parsed; references are run forked and on tensors without data, for their graph.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from kernelwright.children import forked
from kernelwright.data import normal
from kernelwright.data.bulk.hear import Entry, Practice, reference_form
from kernelwright.data.fingerprint import prints
from kernelwright.errors import UserError
from kernelwright.records import Task, read_jsonl
from kernelwright.tasks import tritonbench

SECONDS = 4.0
"""For one file."""
MEMORY = 16 * 2**30


_WARM_UP = Task(
    id="warm/up",
    source="""
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs(): return [torch.rand(4)]
def get_init_inputs(): return []
""",
)


class Benchmarks:
    """The digests of everything in some folders, and where each comes from."""

    def __init__(self, folders: Iterable[Path]) -> None:
        """Raises UserError for a folder that is missing or holds no Python file, and for a file that holds no tasks."""
        prints(_WARM_UP)  # what torch imports late, once and not in every child
        self.files: dict[str, int] = {}
        """Python files by folder, none for a JSONL of tasks: a checkout that lacks some looks like any other."""
        self.references = 0
        self.kernels = 0
        self.unreadable: list[str] = []
        self.untraced: list[str] = []
        """References whose operator graph is not known: text and syntax tree are compared all the same."""
        self._known: dict[tuple[str, str], str] = {}
        for folder in folders:
            name = folder.absolute().name
            self.files.setdefault(name, 0)
            if folder.is_file():
                for task in read_jsonl(folder, Task):
                    self._reference(task, f"{name}/{task.id}")
                continue
            files = sorted(folder.rglob("*.py")) if folder.is_dir() else []
            if not files:
                raise UserError(f"{folder} holds no Python file; name the folder of a benchmark's checkout")
            self.files[name] += len(files)
            for path in files:
                self._read(path, f"{name}/{path.relative_to(folder)}")

    def _read(self, path: Path, where: str) -> None:
        try:
            text = path.read_text("utf-8")
            tree = ast.parse(text)
            kernels = normal.kernel_forms(text)
        except (OSError, UnicodeDecodeError, SyntaxError, ValueError, RecursionError):
            self.unreadable.append(where)
            return
        self.kernels += len(kernels)
        for kernel in kernels:
            self._known.setdefault(("kernel", kernel), where)
        references = [text] * any(
            isinstance(node, ast.ClassDef) and node.name == "Model" for node in tree.body
        )
        if not kernels and not references:
            with contextlib.suppress(UserError):
                references = [task.source for task in tritonbench.from_file(path)[0]]
        for source in references:
            self._reference(Task(id=where, source=source), where)

    def _reference(self, task: Task, where: str) -> None:
        self.references += 1
        self._known.setdefault(("source", plain(task.source)), where)
        self._known.setdefault(("syntax tree", reference_form(task)), where)
        shaped = _shaped(task)
        if shaped:
            self._known.setdefault(("operator graph and shapes", shaped), where)
        else:
            self.untraced.append(where)

    def leak(self, found: Entry | Practice) -> tuple[str, str]:
        """How an example or a task is a benchmark's, and which file's; two empty strings where it is not."""
        task = found.example.task if isinstance(found, Entry) else found.task
        keys = [
            ("source", plain(task.source)),
            ("syntax tree", found.reference),
            ("operator graph and shapes", found.shaped),
        ]
        if isinstance(found, Entry):
            keys += [("kernel", kernel) for kernel in found.kernels]
        for key in keys:
            if key[1] and key in self._known:
                return key[0], self._known[key]
        return "", ""


def plain(text: str) -> str:
    """Digest of a text without white space."""
    return hashlib.sha256("".join(text.split()).encode()).hexdigest()[:16]


def _shaped(task: Task) -> str:
    """The operator graph with shapes of a reference that may do anything; empty where it does not run."""

    if "from_pretrained" in task.source:
        return ""  # a model of a hub, to be downloaded: no operator graph of ours is that long

    def run(out: BinaryIO) -> None:
        out.write(json.dumps(prints(task)).encode())

    ended = forked(run, SECONDS, memory=MEMORY)
    return str(json.loads(ended.data)[1]) if ended.status == 0 and ended.data else ""
