"""Finds degenerate tasks: those where an answer passes that no honest kernel would give.

    python benchmarks/degenerate.py SUITE [--tolerance strict] [--seconds 20] [--json FILE]

Tries on each task, under each protocol's inputs and tolerances: zeros, one constant, an input returned (reshaped or
broadcast), another seed's output, memory left over from another call, an input ignored, an input's elements in another
order, and the reference against itself. If one passes, the task is degenerate under that tolerance.

References run in a confined process of their own (`verify.sandbox.confine`), at sizes that grow from the interpreter's
small ones towards the task's own as far as time and memory permit; every finding says at which sizes it holds. If the
error falls steadily with the size, as a mean's does, it is extrapolated to the full size, and labelled so.

A task without findings is not necessarily good: only these answers are tried, on a few seeds.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import dataclasses
import itertools
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Literal

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.children import run_forked
from kernelwright.errors import UserError
from kernelwright.records import Task
from kernelwright.shapes import constants
from kernelwright.tasks import load_suite, small_shapes
from kernelwright.tasks.probe import WARM_UP, ReferenceProbe
from kernelwright.verify.protocol import PROTOCOLS, Protocol, protocol
from kernelwright.verify.reference import distributions
from kernelwright.verify.reference.cases import make_case
from kernelwright.verify.reference.comparison import compare
from kernelwright.verify.reference.task_module import Reference, private_rng
from kernelwright.verify.sandbox import confine
from kernelwright.verify.structures import convert, flatten

Sizes = Literal["full", "shrunk", "extrapolated"]

STEPS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Sizes tried, from the small ones (0) to the task's own (1), in geometric steps."""
_SEEDS = (11, 12)
_MOSTLY = 0.1
"""If zeros are wrong for less than this share of the elements, that is a separate finding."""
_PATIENCE = 6.0
"""Factor of wall-clock time over the CPU time that a task may use, since other processes use the cores too."""
_MEANING = {
    "zeros": "zeros pass",
    "mostly_zeros": "zeros are right for nearly all elements",
    "constant": "one constant passes",
    "identity": "an input handed back passes",
    "another_seed": "another seed's output passes",
    "stale_memory": "memory left over from another call passes",
    "ignores_input": "the output does not depend on an input",
    "order": "the order of an input's elements does not matter",
    "random": "the reference does not agree with itself (live dropout, or chance)",
    "imprecise": "the reference itself is outside the tolerance around what float64 gives",
    "fails": "the reference fails",
}


@dataclasses.dataclass(frozen=True)
class Finding:
    """One reason why a task is degenerate under one protocol."""

    task_id: str
    protocol: str
    kind: str
    """A key of `MEANING`."""
    detail: str
    sizes: Sizes
    """At the task's own sizes, at smaller ones only, or extrapolated from smaller ones."""
    elements: int
    """Input elements at the largest size that was run."""

    @property
    def meaning(self) -> str:
        return _MEANING[self.kind]


def audit(
    tasks: Sequence[Task], protocols: Sequence[str], seconds: float = 20.0, max_elements: int = 1 << 26
) -> list[Finding]:
    """Every finding, task by task. `seconds` (of CPU time) bound one task, `max_elements` its inputs.

    Raises UserError for an unknown protocol.
    """
    for name in protocols:
        protocol(name)
    with tempfile.TemporaryDirectory(prefix="kernelwright-audit-") as folder:
        return [
            finding
            for task in tasks
            for finding in judge(
                task, protocols, _confined(task, protocols, seconds, max_elements, Path(folder))
            )
        ]


def levels(task: Task) -> list[dict[str, int]]:
    """Shape overrides from the first small set to the full size; the last one is the full size."""
    full = dict(task.shapes.get("full", {}))
    small = next((task.shapes[name] for name in task.shapes if name.startswith("small")), None)
    if small is None:
        return [full]
    known = constants(task.source) | full
    found: list[dict[str, int]] = []
    for step in STEPS:
        sizes = {name: _between(small[name], known[name], step) for name in small if name in known}
        if step == 1.0:
            sizes = full
        if sizes not in found:
            found.append(sizes)
    return found


def _between(small: int, full: int, step: float) -> int:
    """A size in between, a multiple of the greatest common divisor of both ends."""
    if small >= full or small <= 0:
        return small
    unit = math.gcd(small, full)
    return max(small, round(small * (full / small) ** step / unit) * unit)


def judge(task: Task, protocols: Sequence[str], answer: Mapping[str, Any]) -> list[Finding]:
    """Findings from what the confined process measured at each level."""
    rows = [row for row in answer["levels"] if "ratios" in row]
    if not rows:
        problem = str(answer["levels"][0]["failed"]) if answer["levels"] else str(answer["ended"])
        return [Finding(task.id, name, "fails", problem[:300], "full", 0) for name in protocols]
    found = []
    for name in protocols:
        suspicions: dict[str, dict[str, Any]] = {}
        kinds = dict.fromkeys(kind for row in rows for kind in row["ratios"].get(name, {}))
        for kind in kinds:
            series = [
                (row["elements"], row["ratios"][name][kind])
                for row in rows
                if kind in row["ratios"].get(name, {})
            ]
            sizes = _holds(series, rows[-1], int(answer.get("full_elements", 0)))
            if sizes is not None:
                suspicions[kind] = {"sizes": sizes, "ratio": series[-1][1]}
        found += [_finding(task, name, kind, facts, rows[-1]) for kind, facts in _telling(suspicions).items()]
    return found


def _holds(series: list[tuple[int, float]], last: Mapping[str, Any], full: int) -> Sizes | None:
    """At which sizes an answer passes, given (input elements, error relative to the allowed one) from small to large; None if it fails."""
    elements, ratio = series[-1]
    if last["full"]:
        return "full" if ratio <= 1.0 else None
    points = [(math.log(n), math.log(r)) for n, r in series[-3:] if n > 0 and 0.0 < r < math.inf]
    predicted = None
    if len(points) >= 2 and points[-1][0] > points[0][0] and full > elements:
        slope = (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])
        steady = all(b[1] < a[1] for a, b in itertools.pairwise(points)) and len(points) > 2
        predicted = math.exp(points[-1][1] + slope * (math.log(full) - points[-1][0]))
        if ratio > 1.0:
            return "extrapolated" if steady and predicted <= 1.0 else None
    if ratio > 1.0 or (predicted is not None and predicted > 1.0):
        return None
    return "shrunk"


def _telling(suspicions: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Drop findings implied by another: if zeros pass, so does every small constant."""
    if "random" in suspicions:
        return {"random": suspicions["random"]}
    if suspicions.get("imprecise", {}).get("sizes") == "extrapolated":
        del suspicions[
            "imprecise"
        ]  # a difference that grows must not be extrapolated: the full size is unknown
    implied = {
        "zeros": ("constant", "mostly_zeros", "another_seed", "stale_memory", "ignores_input", "order"),
        "constant": ("another_seed", "stale_memory", "ignores_input", "order"),
        "another_seed": ("stale_memory", "ignores_input", "order"),
        "ignores_input": ("order",),
    }
    kept = dict(suspicions)
    for strong, weak in implied.items():
        if strong in kept:
            sure = kept[strong]["sizes"] != "extrapolated"
            for kind in list(kept):
                family = kind.split(":")[0]
                if family in weak and (sure or kept[kind]["sizes"] == "extrapolated"):
                    del kept[kind]
    return kept


def _finding(task: Task, name: str, kind: str, facts: Mapping[str, Any], last: Mapping[str, Any]) -> Finding:
    family, _, which = kind.partition(":")
    detail = f"{_MEANING[family]}{f' ({which})' if which else ''}"
    return Finding(task.id, name, family, detail, facts["sizes"], int(last["elements"]))


# -- in the confined process ----------------------------------------------------------------------------------


def examine(
    task: Task,
    sizes: Sequence[Mapping[str, int]],
    protocols: Sequence[str],
    max_elements: int,
    emit: Callable[[Mapping[str, Any]], Any],
) -> None:
    """Measure one task at each of `sizes` in turn; calls `emit` with a row for each.

    A row: `elements`, `full`, and `ratios` (protocol -> answer -> error relative to the allowed one, the worst
    of all cases); or `failed`, with the exception. Executes the task's source in this process.
    """
    with contextlib.suppress(Exception):
        emit({"full_elements": _elements(Reference(task, dict(sizes[-1])))})
    for place, level in enumerate(sizes):
        row: dict[str, Any] = {"full": place == len(sizes) - 1}
        try:
            reference = Reference(task, dict(level))
            with contextlib.suppress(Exception):
                if place and _elements(reference) > max_elements:
                    return
            row |= _measured(reference, [protocol(name) for name in protocols], first=place == 0)
        except MemoryError:
            return
        except Exception as error:
            if isinstance(error, RuntimeError) and "memory" in str(error):
                return
            row["failed"] = f"{type(error).__name__}: {error}"[:300]
        emit(row)


def _elements(reference: Any) -> int:
    """Number of input elements, counted on meta tensors."""
    with torch.device("meta"):
        made = reference.arguments()
    return sum(tensor.numel() for tensor in flatten(list(made)))


def _measured(reference: Any, rules: Sequence[Protocol], first: bool) -> dict[str, Any]:
    module = reference.build()
    drawn = [reference.inputs(seed) for seed in _SEEDS]
    elements = sum(tensor.numel() for tensor in flatten(list(drawn[0])))
    ratios: dict[str, dict[str, float]] = {rule.name: {} for rule in rules}
    for scale in dict.fromkeys(scale for rule in rules for scale in rule.distributions):
        one, two = (distributions.scale_inputs(inputs, scale) for inputs in drawn)
        answers: dict[str, list[Any]] | None = None
        for calibrated in (False, True):
            chosen = [r for r in rules if r.calibrated is calibrated and scale in r.distributions]
            if not chosen:
                continue
            case = make_case(f"x{scale:g}", module, one, chosen[0])
            if case is None:
                if scale == 1.0:
                    raise ValueError("the reference's own output is not finite")
                continue
            if not case.expected:
                raise ValueError("the reference returns no tensor")
            if answers is None:
                answers = dict(_answers(module, one, two, case, first))
            for rule in chosen:
                found = ratios[rule.name]
                for name, outputs in answers.items():
                    ratio, share = _ratio(outputs, case, rule)
                    if name == "zeros":
                        _worst(found, "mostly_zeros", share / _MOSTLY)
                    if name in ("random", "imprecise"):
                        # Here passing is the correct result, so the ratio is inverted.
                        if name == "random":
                            ratio = _apart(answers["imprecise"], outputs, rule)
                        found[name] = min(found.get(name, math.inf), 1.0 / max(ratio, 1e-9))
                    else:
                        _worst(found, name, ratio)
    return {"elements": elements, "ratios": ratios}


def _worst(found: dict[str, float], name: str, ratio: float) -> None:
    found[name] = max(found.get(name, 0.0), ratio)


def _ratio(outputs: list[Any], case: Any, rule: Protocol) -> tuple[float, float]:
    """(error relative to the allowed one, share of wrong elements), the worst over all outputs."""
    if len(outputs) != len(case.expected):
        return math.inf, 1.0
    worst, share = 0.0, 0.0
    for index, (got, expected) in enumerate(zip(outputs, case.expected, strict=True)):
        if tuple(got.shape) != expected.shape:
            return math.inf, 1.0
        comparison = compare(index, got.to(expected.dtype), expected, rule)
        worst = max(worst, comparison.worst)
        share = max(share, comparison.mismatch.wrong_share if comparison.mismatch else 0.0)
    return worst, share


def _apart(one: list[Any], two: list[Any], rule: Protocol) -> float:
    """Difference of two runs on the same inputs, relative to what the protocol allows."""
    worst = 0.0
    for first, second in zip(one, two, strict=True):
        rtol, atol = rule.preset(str(first.dtype).removeprefix("torch."))
        a, b = first.double().nan_to_num(), second.double().nan_to_num()
        if a.numel():
            worst = max(worst, float(((a - b).abs() / (atol + rtol * a.abs())).max()))
    return worst


def _answers(module: Any, one: Any, two: Any, case: Any, first: bool) -> Iterator[tuple[str, list[Any]]]:
    """(name, output tensors) of every answer to try for the inputs `one`; `two` are another seed's."""
    shapes = [item.shape for item in case.expected]
    dtypes = [item.dtype for item in case.expected]
    kept: list[Any] = []
    other = _run(module, two, 1, kept if first else None)
    yield "imprecise", _run(module, one, 1)
    yield "random", _run(module, one, 2)
    yield "zeros", [torch.zeros(s, dtype=d) for s, d in zip(shapes, dtypes, strict=True)]
    yield (
        "constant",
        [torch.full(s, _middle(o), dtype=d) for s, d, o in zip(shapes, dtypes, other, strict=True)],
    )
    yield "another_seed", other
    flat = flatten(list(one))
    for index, tensor in enumerate(flat):
        fitted = [_fitted(tensor, shape) for shape in shapes]
        if all(item is not None for item in fitted):
            yield f"identity:input {index}", fitted
    for number, tensor in enumerate(kept[:64]):
        if len(shapes) == 1 and tensor.numel() == math.prod(shapes[0]):
            yield f"stale_memory:{number}", [tensor.reshape(shapes[0])]
    if len(flat) > 1:
        for index in range(len(flat)):
            yield (
                f"ignores_input:input {index}",
                _run(module, _with(one, index, flatten(list(two))[index]), 1),
            )
            mixed = flat[index].reshape(-1)[torch.randperm(flat[index].numel())].reshape(flat[index].shape)
            yield f"order:input {index}", _run(module, _with(one, index, mixed), 1)


def _run(module: Any, inputs: Any, seed: int, kept: list[Any] | None = None) -> list[Any]:
    """Output tensors of a fresh copy of the module; `kept` collects the results of all its operators."""
    with private_rng(seed), torch.no_grad():
        given = convert(inputs, torch.clone)
        native = copy.deepcopy(module)
        if kept is None:
            return [tensor.detach() for tensor in flatten(native(*given))]
        with _keeper(kept):
            return [tensor.detach() for tensor in flatten(native(*given))]


def _keeper(kept: list[Any]) -> Any:
    class Keeper(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor) and len(kept) < 256:
                kept.append(result.detach().clone())
            return result

    return Keeper()


def _with(inputs: Any, index: int, tensor: Any) -> Any:
    """The nested inputs with the `index`-th tensor replaced."""
    counter = iter(range(1 << 30))
    return convert(inputs, lambda old: tensor if next(counter) == index else old)


def _fitted(tensor: Any, shape: tuple[int, ...]) -> Any:
    """The tensor reshaped or broadcast to another shape; None if neither works."""
    if tensor.numel() == math.prod(shape):
        return tensor.reshape(shape)
    with contextlib.suppress(RuntimeError):
        return tensor.broadcast_to(shape)
    return None


def _middle(tensor: Any) -> Any:
    """The midpoint of the extremes, as a number of the tensor's kind."""
    if tensor.numel() == 0 or tensor.dtype == torch.bool:
        return 0
    wide = tensor.double()
    wide = wide[torch.isfinite(wide)]
    middle = (float(wide.min()) + float(wide.max())) / 2.0 if wide.numel() else 0.0
    return middle if tensor.is_floating_point() else int(middle)


def _confined(
    task: Task, protocols: Sequence[str], seconds: float, max_elements: int, scratch: Path
) -> dict[str, Any]:
    """Rows of a child process that may read only torch, write nothing, and reach no network."""
    patience = _PATIENCE * seconds
    ended = run_forked(lambda out: _measure(task, protocols, seconds, max_elements, scratch, out), patience)
    over = f"nothing within {patience:g} s"
    answer: dict[str, Any] = {
        "levels": [],
        "ended": over if ended.status is None else f"the process ended with status {ended.status}",
    }
    for line in ended.data.split(b"\n")[:-1]:
        with contextlib.suppress(ValueError):
            row = json.loads(line)
            if not isinstance(row, dict):
                continue
            if "full_elements" in row:
                answer["full_elements"] = int(row["full_elements"])
            else:
                answer["levels"].append(row)
    return answer


def _measure(
    task: Task, protocols: Sequence[str], seconds: float, max_elements: int, scratch: Path, out: BinaryIO
) -> None:
    def emit(row: Mapping[str, Any]) -> None:
        out.write(json.dumps(row).encode() + b"\n")
        out.flush()

    os.chdir(scratch)
    confine.apply(
        confine.Limits(memory_bytes=8 << 30, cpu_seconds=math.ceil(seconds)), scratch, {out.fileno()}
    )
    try:
        examine(task, levels(task), protocols, max_elements, emit)
    except UserError as error:
        emit({"failed": str(error)})


def warm_up() -> None:
    """Import and compile what a confined child can no longer import or compile."""
    torch.set_num_threads(1)
    examine(Task(id="audit/warm", suite="audit", source=WARM_UP), [{}], list(PROTOCOLS), 64, lambda row: None)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Find tasks that a wrong answer passes, and references that fail."
    )
    parser.add_argument("suite", help="wright, kernelbench:PATH[/level1[/3,5-9]], tritonbench:PATH, a file")
    parser.add_argument("--tolerance", action="append", help="protocols whose tolerances apply; default: all")
    parser.add_argument("--seconds", type=float, default=20.0, help="CPU time for one task")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    warm_up()
    try:
        with ReferenceProbe() as probe:
            tasks = [small_shapes(task, probe) for task in load_suite(args.suite)]
        found = audit(tasks, args.tolerance or list(PROTOCOLS), args.seconds)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    if args.json:
        args.json.write_text(json.dumps([dataclasses.asdict(finding) for finding in found], indent=1))
    for one in found:
        where = (
            "the full size"
            if one.sizes == "full"
            else f"{one.sizes} sizes up to {one.elements:,} input elements"
        )
        print(f"{one.task_id}  {one.protocol}  {one.detail}  ({where})")
    print(f"{len({finding.task_id for finding in found})} of {len(tasks)} tasks have findings")
    return 0


if __name__ == "__main__":
    sys.exit(main())
