"""Kernels that somebody called correct, before our judge: how many it rejects, and why.

    python benchmarks/published.py FOLDER... [--precision bf16,default] [--backend cuda] [--json FILE] [--workers 2]

FOLDER is a checkout of KernelAgent's artifacts or of its optimisation artifacts: folders with a reference in the KernelBench
form (`original.py` or `problem.py`) beside a file that defines `kernel_function`. Each becomes a `ModelNew` whose constructor
is the reference's and whose forward calls `kernel_function` with the inputs, then the parameters, then what of the
constructor's arguments it asks for by name. Judged in each precision; a kernel counts as accepted where one accepts it.

Does not say that a rejection is right: each is read by eye, and docs/audit.md says what was found. Writes nothing of theirs.
"""

from __future__ import annotations

import argparse
import ast
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kernelwright.errors import UserError
from kernelwright.records import Candidate, Task, Verdict
from kernelwright.tasks import small_shapes
from kernelwright.tasks.form import check_reference, read_text
from kernelwright.verify import VerifierPool

REFERENCES = ("original.py", "problem.py")
KERNELS = ("kernel_code.py", "optimized_kernel*.py")
_IMPORTS = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


def found(root: Path) -> Iterator[tuple[str, str, str]]:
    """(name, reference, kernel) of each folder below `root` that has both."""
    for name in REFERENCES:
        for reference in sorted(root.rglob(name)):
            kernels = [path for pattern in KERNELS for path in sorted(reference.parent.glob(pattern))]
            for kernel in kernels[:1]:
                yield (
                    f"{reference.parent.parent.name}/{reference.parent.name}",
                    read_text(reference),
                    read_text(kernel),
                )


def wrapped(reference: str, kernel: str) -> str:
    """The kernel's file with a `ModelNew` for the reference. Raises UserError where it has no such function."""
    model = next(
        one for one in ast.parse(reference).body if isinstance(one, ast.ClassDef) and one.name == "Model"
    )
    function = next(
        (
            one
            for one in ast.parse(kernel).body
            if isinstance(one, ast.FunctionDef) and one.name == "kernel_function"
        ),
        None,
    )
    if function is None:
        raise UserError("no kernel_function")
    methods = {one.name: one for one in model.body if isinstance(one, ast.FunctionDef)}
    forward = [one.arg for one in methods["forward"].args.args[1:]]
    kept = [
        ast.unparse(one).replace("super(Model, self)", "super()")
        for one in methods.values()
        if one.name != "forward"
    ]
    given = [one.arg for one in methods["__init__"].args.args[1:]] if "__init__" in methods else []
    call = ", ".join(_arguments(function, forward, given))
    body = "\n".join("    " + line for text in kept for line in text.splitlines())
    keep = "".join(f"        self._given_{name} = {name}\n" for name in given)
    return (
        f"{kernel}\n\n{_IMPORTS}\n\nclass _Made(nn.Module):\n{body or '    pass'}\n\n\nclass ModelNew(_Made):\n"
        f"    def __init__(self{''.join(', ' + name for name in given)}):\n        super().__init__({', '.join(given)})\n{keep}\n"
        f"    def forward(self, {', '.join(forward)}):\n        weights = list(self.parameters())\n"
        f"        return kernel_function({call})\n"
    )


def _arguments(function: ast.FunctionDef, forward: list[str], given: list[str]) -> Iterator[str]:
    """What to call it with: inputs by place, then by name constructor's arguments, then parameters in order."""
    yield from forward
    if function.args.vararg is not None:
        yield "*weights"
        return
    optional = {
        one.arg for one in function.args.args[len(function.args.args) - len(function.args.defaults) :]
    }
    weight = 0
    for one in function.args.args[len(forward) :]:
        if one.arg in given:
            yield f"{one.arg}=self._given_{one.arg}"
        elif one.arg not in optional or one.arg in ("weight", "bias"):
            yield f"{one.arg}=weights[{weight}] if len(weights) > {weight} else None"
            weight += 1


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--precision", default="bf16,default")
    parser.add_argument("--backend", default="interpret", choices=["interpret", "cuda"])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    best: dict[str, Verdict] = {}
    for precision in options.precision.split(","):
        pairs = []
        for root in options.folders:
            for name, reference, kernel in found(root):
                if name not in best or not best[name].correct:
                    source = check_reference(reference, name)
                    task = small_shapes(
                        Task(id=f"published/{name}", suite="published", source=source, precision=precision)
                    )
                    pairs.append((name, task, Candidate(code=wrapped(reference, kernel))))
        with VerifierPool(workers=options.workers, backend=options.backend, deadline_s=60.0) as pool:
            asked = [(name, pool.submit(task, candidate)) for name, task, candidate in pairs]
            for name, future in asked:
                try:
                    verdict = future.result()
                except UserError as error:
                    print(f"{name} in {precision}: no reference: {error}", flush=True)
                    continue
                if name not in best or verdict.correct:
                    best[name] = verdict
    for name, verdict in sorted(best.items()):
        where = f" [{verdict.evidence.where}]" if verdict.evidence.where else ""
        print(f"{verdict.outcome.value:24} {name}{where} {' '.join(verdict.detail.split())[:160]}")
    print(f"{len(best)} called correct: {dict(Counter(one.outcome.value for one in best.values()))}")
    if options.json:
        options.json.write_text(
            json.dumps({name: one.model_dump(mode="json") for name, one in best.items()}, indent=1)
        )


if __name__ == "__main__":
    main()
