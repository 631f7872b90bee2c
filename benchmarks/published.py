"""Judges published kernels whose authors call them correct: how many our judge rejects, and why.

    python benchmarks/published.py ROWS.jsonl FOLDER... [--precision bf16,default,tf32] [--backend cuda] [--rounds 60]
    python benchmarks/published.py ROWS.jsonl                  the table of what was judged so far

FOLDER is a checkout of KernelAgent's artifacts or of its optimisation artifacts (folders with a reference in the KernelBench
form next to a file that defines `kernel_function`; `--rounds` adds that many of the kernels timed in the optimisation's
rounds), or of Liger-Kernel (`published_liger.py`). Each becomes a `ModelNew`. For KernelAgent's, the constructor is
the reference's, and forward calls `kernel_function` with the inputs, then the parameters, then those constructor
arguments that it takes by name.

A kernel is judged in each precision until one accepts it. Each verdict becomes a line of ROWS.jsonl at once, and is not
repeated: delete lines to judge again. A rejection may be wrong: each is reviewed by a person, see docs/audit.md.
Writes none of their code to disk.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import published_liger

from kernelwright.errors import UserError
from kernelwright.parsing import names_within
from kernelwright.records import Candidate, Task
from kernelwright.tasks import small_shapes
from kernelwright.tasks.form import check_reference, read_text
from kernelwright.verify import VerifierPool

REFERENCES = ("original.py", "problem.py")
KERNELS = (
    "kernel_code.py",
    "generated_kernel.py",
    "triton_kernel.py",
    "final_kernel.py",
    "optimized_kernel*.py",
)
_IMPORTS = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"


@dataclasses.dataclass(frozen=True)
class Published:
    """A kernel whose authors call it correct."""

    name: str
    reference: str
    """In the KernelBench form."""
    code: str
    """With a `ModelNew`."""


def found(root: Path, rounds: int) -> Iterator[Published]:
    """Kernels of a checkout that can be bound to a reference."""
    if (root / "src/liger_kernel").is_dir():
        yield from (Published(*one) for one in published_liger.found(root))
        return
    traced: list[tuple[str, str, Path]] = []
    for name in REFERENCES:
        for path in sorted(root.rglob(name)):
            folder, reference = path.parent, read_text(path)
            title = f"{folder.parent.name}/{folder.name}"
            kernels = [one for pattern in KERNELS for one in sorted(folder.glob(pattern))]
            yield from bound([(title, reference, kernel) for kernel in kernels[:1]])
            clocked = [one.parent for one in folder.rglob("optimization_trace/*/benchmark_results.json")]
            traced += [(f"{title}/{one.name}", reference, one / "kernel.py") for one in sorted(clocked)]
    yield from bound(random.Random(0).sample(traced, min(rounds, len(traced))))


def bound(entries: Iterable[tuple[str, str, Path]]) -> Iterator[Published]:
    """Kernels that define a function that their reference can be bound to; prints the names of the others."""
    for name, reference, kernel in entries:
        try:
            yield Published(name, reference, wrapped(reference, read_text(kernel)))
        except (UserError, OSError) as error:
            print(f"{name}: left out: {error}", flush=True)


def wrapped(reference: str, kernel: str) -> str:
    """The kernel's file with a `ModelNew` for the reference. Raises UserError if it has no such function."""
    model = next(
        one for one in ast.parse(reference).body if isinstance(one, ast.ClassDef) and one.name == "Model"
    )
    functions = [one for one in ast.parse(kernel).body if isinstance(one, ast.FunctionDef)]
    function = next((one for one in functions if one.name == "kernel_function"), None)
    if function is None:
        raise UserError("no kernel_function")
    methods = {one.name: one for one in model.body if isinstance(one, ast.FunctionDef)}
    forward = [one.arg for one in methods["forward"].args.args[1:]]
    kept = [
        ast.unparse(one).replace("super(Model, self)", "super()")
        for one in methods.values()
        if one.name != "forward"
    ]
    init = (
        methods["__init__"].args
        if "__init__" in methods
        else ast.parse("lambda self: 0", mode="eval").body.args
    )  # type: ignore[attr-defined]
    given = [one.arg for one in init.args[1:]]
    body = "\n".join("    " + line for text in kept for line in text.splitlines())
    keep = "".join(f"        self._given[{name!r}] = {name}\n" for name in given)
    call = ", ".join(_arguments(function, forward, given, ast.unparse(methods.get("__init__", model))))
    return (
        f"{_without_tests(kernel)}\n\n{_IMPORTS}\n\nclass _Made(nn.Module):\n{body or '    pass'}\n\n\nclass ModelNew(_Made):\n"
        f"    def __init__({ast.unparse(init)}):\n        super().__init__({', '.join(given)})\n        self._given = {{}}\n{keep}\n"
        f"    def forward(self, {', '.join(forward)}):\n{_WEIGHTS}        return kernel_function({call})\n"
    )


_WEIGHTS = """        weights = [one for child in self.children() for one in child.parameters()]
        weights += self._parameters.values()
        statistics = dict(self.named_buffers())
"""
"""Parameters of submodules come first: most constructors make those first, and functions take them in this order."""


def _without_tests(kernel: str) -> str:
    """The file without code that only its own test runs: functions that `kernel_function` does not reach, and the main guard."""
    tree = ast.parse(kernel)
    named = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef | ast.ClassDef)}
    others = [one for one in tree.body if one not in named.values() and not isinstance(one, ast.If)]
    reached, todo = set(), ["kernel_function", *(name for one in others for name in names_within(one))]
    while todo:
        name = todo.pop()
        if name in named and name not in reached:
            reached.add(name)
            todo += names_within(named[name])
    kept = [one for one in tree.body if one in others or getattr(one, "name", "") in reached]
    lines = kernel.splitlines()
    starts = [min([one.lineno, *(d.lineno for d in getattr(one, "decorator_list", []))]) for one in kept]
    return "\n".join(
        line for one, start in zip(kept, starts, strict=True) for line in lines[start - 1 : one.end_lineno]
    )


def _arguments(function: ast.FunctionDef, forward: list[str], given: list[str], init: str) -> Iterator[str]:
    """Arguments for the call: inputs by position, then by name constructor arguments, running statistics, a dictionary of all
    weights, or the parameters in order. `*args` receives the weights, then the numbers that the constructor keeps."""
    yield from forward
    numbers = [name for name in given if f"self.{name} = {name}" in init]
    if function.args.vararg is not None:
        yield "*weights"
        if function.args.kwarg is None:
            yield from (f"self._given[{name!r}]" for name in numbers)
        else:
            names = [name for name in given if name != "bias" and repr(name) in ast.unparse(function)]
            yield from (f"{name}=self._given[{name!r}]" for name in names)
        return
    optional = {
        one.arg for one in function.args.args[len(function.args.args) - len(function.args.defaults) :]
    }
    weight = 0
    for one in function.args.args[len(forward) :]:
        name = one.arg
        if name in ("params", "weights", "state_dict"):
            yield f"{name}=dict(self.state_dict())"
        elif name in ("running_mean", "running_var"):
            yield f"{name}=next(value for key, value in statistics.items() if key.endswith({name!r}))"
        elif (
            name in given
            and f"nn.Parameter(torch.randn({name}))" not in init
            and f"self.{name} = nn" not in init
        ):
            if name != "bias":  # a constructor's `bias` is a switch
                yield f"{name}=self._given[{name!r}]"
                continue
            yield f"{name}=weights[{weight}] if len(weights) > {weight} else None"
            weight += 1
        elif (
            name not in optional
            or name in ("weight", "bias", "add_bias")
            or name.endswith(("_weight", "_bias"))
        ):
            yield f"{name}=weights[{weight}] if len(weights) > {weight} else None"
            weight += 1


def judge(pool: VerifierPool, one: Published, precision: str) -> dict[str, str]:
    """The row of a kernel's verdict in one precision."""
    row = {"name": one.name, "precision": precision}
    try:
        task = Task(
            id=f"published/{one.name}",
            suite="published",
            source=check_reference(one.reference, one.name),
            precision=precision,
        )
        verdict = pool.verify(small_shapes(task), Candidate(code=one.code))
    except UserError as error:
        return row | {"outcome": "no_reference", "detail": " ".join(str(error).split())[:400]}
    where = f"{verdict.evidence.where}: " if verdict.evidence.where else ""
    return row | {
        "outcome": verdict.outcome.value,
        "detail": where + " ".join(verdict.detail.split())[:400],
        "seconds": f"{sum(verdict.evidence.seconds.values()):.1f}",
    }


_FOR_ANOTHER = ("runtime_error", "wrong_dtype", "no_reference")
"""Outcomes typical of a kernel that was written for another precision: the least informative ones."""


def table(rows: list[dict[str, str]]) -> str:
    """The result of each kernel: accepted in one precision, or the most informative refusal."""
    best: dict[str, tuple[int, dict[str, str]]] = {}
    for row in rows:
        rank = 0 if row["outcome"] == "correct" else 2 if row["outcome"] in _FOR_ANOTHER else 1
        if row["name"] not in best or rank < best[row["name"]][0]:
            best[row["name"]] = rank, row
    lines = [
        f"{one['outcome']:22} {name} in {one['precision']}: {one['detail'][:200]}"
        for name, (_, one) in sorted(best.items())
    ]
    return "\n".join([*lines, f"{len(best)}: {dict(Counter(one['outcome'] for _, one in best.values()))}"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", type=Path)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--precision", default="bf16,default,tf32")
    parser.add_argument("--backend", default="interpret", choices=["interpret", "cuda"])
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--deadline", type=float, default=60.0)
    parser.add_argument("--only", default="", help="kernels whose name has this in it")
    args = parser.parse_args()
    rows = [json.loads(line) for line in args.rows.read_text().splitlines()] if args.rows.exists() else []
    entries = [one for root in args.folders for one in found(root, args.rounds) if args.only in one.name]
    with VerifierPool(workers=1, backend=args.backend, deadline_s=args.deadline) as pool:
        for one in entries:
            for precision in args.precision.split(","):
                done = {row["precision"]: row["outcome"] for row in rows if row["name"] == one.name}
                if precision in done or "correct" in done.values():
                    continue
                rows.append(judge(pool, one, precision))
                with args.rows.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
