"""How much of a benchmark's operator forms the families' problems have, level by level, and which are missing.

    python benchmarks/coverage.py --against kernelbench:PATH/level1 [--problems 4000] [--seed 0] [--families all] [--show 5]

Runs every reference on meta tensors and reads off its operators with their options: rank, bias, groups, whether there
is a stride, a padding, a dilation, which dimensions are reduced, what the other operand is (a number, a parameter by
channel, an input, an earlier value). No sizes and no values. Problems are drawn as a corpus draws them. A task is covered when every one of its forms occurs in
the drawn problems, and every two neighbours of its operators do as neighbours. Nothing of the benchmark is kept.
"""

import argparse
import itertools
import random
from collections import Counter
from typing import Any

from kernelwright.data.bulk.config import BulkConfig
from kernelwright.data.bulk.problems import draw_family
from kernelwright.data.families.table import pair
from kernelwright.progress import Bar
from kernelwright.records import Task
from kernelwright.tasks import load_suite
from kernelwright.tasks.reference import on_meta

_SILENT = frozenset([
    "detach", "alias", "clone", "lift_fresh", "_to_copy", "lift", "view", "_unsafe_view", "reshape", "expand",
    "unsqueeze", "squeeze", "t", "permute", "transpose", "empty", "copy", "contiguous", "slice", "select",
    "zeros", "zeros_like", "full", "scalar_tensor", "ones_like", "empty_like", "arange",
])  # fmt: skip
"""Calls that compute nothing."""


def forms(source: str) -> list[tuple[str, str]]:
    """(operator, operator with its options) of each call of one forward pass; empty where it does not run."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    origins: dict[int, str] = {}
    alive: list[Any] = []
    found: list[tuple[str, str]] = []

    def mark(tensor: Any, origin: str) -> None:
        origins[id(tensor)] = origin
        alive.append(tensor)

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            name = func._schema.name.removeprefix("aten::").removesuffix("_")
            given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            kinds = [origins.get(id(tensor), "number") for tensor in given]
            for leaf in tree_leaves(out):
                if isinstance(leaf, torch.Tensor) and id(leaf) not in origins:
                    silent = name in _SILENT and kinds
                    mark(leaf, kinds[0] if silent else "value" if kinds else "number")
            if name not in _SILENT:
                found.append((_named(name, args), _described(name, args, kwargs or {}, origins)))
            return out

    try:
        with on_meta(source) as (module, inputs):
            for tensor in module.state_dict(keep_vars=True).values():
                mark(tensor, "parameter")
            for tensor in tree_leaves(inputs):
                if isinstance(tensor, torch.Tensor):
                    mark(tensor, "input")
            with Recorder():
                module(*inputs)
    except Exception:
        return []
    return found


def _named(name: str, args: tuple[Any, ...]) -> str:
    """The operator, with the rank of a convolution."""
    if name == "convolution":
        return f"conv{'_transpose' if args[6] else ''}{args[0].dim() - 2}d"
    return {"mm": "matmul", "addmm": "linear"}.get(name, name)


def _kind(values: Any, plain: int) -> str:
    """Of the window's numbers: as they are by default, one for all dimensions, or several."""
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    if all(value == plain for value in values):
        return ""
    return "one" if len(set(values)) == 1 else "several"


def _described(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], origins: dict[int, str]) -> str:
    """The operator with its options; `origins` says of tensors, by id, what they are: parameter, input, value."""
    import torch

    said = [_named(name, args)]
    x = args[0] if args and isinstance(args[0], torch.Tensor) else None
    if name == "convolution":
        weight, bias, stride, padding, dilation, _, more, groups = args[1:9]
        window = weight.shape[2:]
        depthwise = groups > 1 and groups == args[0].shape[1]
        kinds = [("kernel", window, 1), ("stride", stride, 1), ("padding", padding, 0)]
        kinds += [("dilation", dilation, 1), ("output padding", more, 0)]
        said += [f"{what} {kind}" for what, values, plain in kinds if (kind := _kind(values, plain))]
        said += ["bias"] * (bias is not None) + ["large"] * (max(window) >= 9)
        said += ["depthwise" if depthwise else "groups"] * (groups > 1)
    elif name.startswith(("max_pool", "avg_pool")):
        # Window, stride, padding, then the dilation of a maximum; of a mean whether the padding counts.
        given: list[Any] = [*args[1:], *([[], 0, 1][len(args) - 2 :])]
        window, stride, padding, *more = given
        said.append("apart" if stride and list(stride) != list(window) else "tiled")
        said += [f"padding {kind}" for kind in [_kind(padding, 0)] if kind]
        if name.startswith("max"):
            said += ["dilation"] * any(_kind(value, 1) for value in more[:1])
        else:
            said += [str(value) for value in more if isinstance(value, bool)]
    elif name in ("native_batch_norm", "native_group_norm", "native_layer_norm", "_native_batch_norm_legit"):
        said.append(f"rank {args[0].dim()}")
        said.append("affine" if args[2 if name == "native_layer_norm" else 1] is not None else "plain")
    elif x is not None:
        numbers = [a for a in args[1:] if isinstance(a, (int, list)) and not isinstance(a, bool)]
        dims = kwargs.get("dim", numbers[0] if numbers else None)
        tensors = [a for a in (*args[1:], *kwargs.values()) if isinstance(a, torch.Tensor)]
        if name in _ALONG:
            said.append(_dimensions(dims, x.dim()))
            said += ["keepdim"] * any(a is True for a in (*args, *kwargs.values()))
        elif name in ("mm", "bmm", "addmm"):
            factors = args[1:3] if name == "addmm" else args[:2]
            said += [
                f"{origins.get(id(t), 'number')}{'' if t.is_contiguous() else ' turned'}" for t in factors
            ]
        else:
            said += [_operand(x, other, origins) for other in tensors]
            if not tensors and len(args) > 1 and name in _ARITHMETIC:
                said.append("number")
            if origins.get(id(x)) == "parameter":
                said.append("of a parameter")
    return ", ".join(said)


_ARITHMETIC = {"add", "sub", "mul", "div", "pow", "rsub", "minimum", "maximum"}
"""Whose second operand may be a number."""
_ALONG = frozenset([
    "sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "logsumexp", "_softmax", "_log_softmax",
    "cumsum", "cumprod", "prod", "var", "std", "linalg_vector_norm", "norm", "flip",
])  # fmt: skip
"""What works along dimensions."""


def _dimensions(dims: Any, rank: int) -> str:
    """Which dimensions of how many: by their places, without saying how they were counted."""
    dims = [dims] if isinstance(dims, int) else list(dims or range(rank))
    places = sorted(dim % rank for dim in dims)
    if len(places) == rank:
        return "all"
    return f"{','.join(map(str, places))} of {rank}"


def _operand(x: Any, other: Any, origins: dict[int, str]) -> str:
    """What the second operand is: whence, and along which dimensions it reaches."""
    origin = origins.get(id(other), "number")
    if other is x:
        return "itself"
    if other.numel() == 1:
        return f"{origin} of one"
    if other.shape == x.shape:
        return f"{origin} alike"
    reach = [place - other.dim() for place, size in enumerate(other.shape) if size != 1]
    return f"{origin} along {','.join(map(str, reach))}"


def parts(found: list[tuple[str, str]]) -> set[str]:
    """What must occur elsewhere for a task to be covered."""
    names = [name for name, _ in found]
    return {full for _, full in found} | {f"{one} -> {two}" for one, two in itertools.pairwise(names)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", required=True, nargs="+", help="suites, such as kernelbench:PATH/level1")
    parser.add_argument("--problems", type=int, default=4000)
    parser.add_argument("--families", default="all")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--show", type=int, default=1000, help="tasks without a counterpart to print")
    options = parser.parse_args()
    config = BulkConfig.parse({"names": options.families})
    seen: Counter[str] = Counter()
    drawn: dict[tuple[str, ...], str] = {}
    failed: Counter[str] = Counter()
    rng = random.Random(options.seed)
    with Bar("draw", options.problems) as bar:
        for number in range(options.problems):
            family, length = draw_family(config, rng)
            made = pair(family, f"{options.seed}:{number}", "", length)
            found = forms(made.task.source)
            failed[family.name] += not found
            seen.update(parts(found))
            drawn.setdefault(tuple(name for name, _ in found), family.name)
            bar.advance(1)
    if failures := {name: count for name, count in failed.items() if count}:
        print("problems that do not run on meta tensors:", failures)
    tasks: dict[str, list[Task]] = {}
    for task in [task for suite in options.against for task in load_suite(suite)]:
        tasks.setdefault("/".join(task.id.split("/")[:-1]), []).append(task)
    for level, asked in tasks.items():
        read = {task.id: forms(task.source) for task in asked}
        lacks = {name: sorted(parts(found) - seen.keys()) for name, found in read.items() if found}
        covered = sum(not missing for missing in lacks.values())
        alike = sum(tuple(name for name, _ in found) in drawn for found in read.values() if found)
        print(
            f"{level}: {covered} of {len(lacks)} tasks covered; {alike} have a problem of the same sequence of "
            f"operators; {len(read) - len(lacks)} do not run on meta tensors"
        )
        for name, missing in [item for item in lacks.items() if item[1]][: options.show]:
            names = tuple(n for n, _ in read[name])
            near = max(drawn, key=lambda d: len(set(d) & set(names)) / max(1, len(set(d) | set(names))))
            print(f"  {name}: lacks {'; '.join(missing)} (nearest: {drawn[near]}, {' '.join(near)})")


if __name__ == "__main__":
    main()
