"""The operators that graphs consist of: their kinds, which are never decomposed, and their precision.

Captured graphs use this set. Operators with a meaning of their own (linear, convolution, softmax,
layer norm, gelu, attention, pooling, interpolation, losses ...) stay whole; torch's decomposition tables decompose any
operator outside the set until all are in it. Graphs of AOTAutograd also have the backward operators.

    kind          what it does                                             examples
    view          other shape, same elements                               reshape, permute, slice, expand
    move          copies elements to other places                          cat, repeat, roll, constant_pad_nd
    create        makes a tensor from numbers                              full, arange, zeros_like
    map           each element from elements at the same place             add, gelu, where, _to_copy
    reduction     fewer elements from many                                 sum, amax, var, argmax
    norm          a reduction whose result is applied to what was reduced  softmax, layer_norm, batch norm
    loss          a map and a reduction of predictions and targets         cross_entropy_loss, mse_loss
    contraction   sums of products                                         linear, mm, convolution, attention
    window        reductions over neighbours, and interpolation            max_pool2d, upsample_bilinear2d
    scan          running reductions                                       cumsum, cumprod
    gather        reads at indices that a tensor holds                     embedding, index, gather
    scatter       writes at indices that a tensor holds                    index_put, scatter_add
    sort          orders elements                                          sort, topk
    random        draws numbers                                            native_dropout, rand

Narrower floats are computed and accumulated in float32, sums in any order, and rounded once to the result's dtype. Products of
narrower floats are exact; float32 products follow the task's precision. Views, moves, gathers and sorts are exact (the
order of equal elements is free unless `stable`); so are scatters, unless several writes to one position are added.

Operators outside the set may run as well: `execute` runs any ATen operator. Their `kind` is `other`.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args

Kind = Literal[
    "view", "move", "create", "map", "reduction", "norm", "loss", "contraction", "window", "scan", "gather",
    "scatter", "sort", "random", "other",
]  # fmt: skip

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
KIND: dict[str, Kind] = {name: kind for kind, names in _TABLES["kinds"].items() for name in names.split()}
"""ATen operator without overload -> kind."""
WHOLE = frozenset(_TABLES["whole"].split())
"""Operators that are never decomposed, in every functional overload."""

RECURRENT = frozenset(["lstm", "gru", "rnn_tanh", "rnn_relu"])
"""Layers of cells that wait for one another; a GPU runs each as one call."""


def packet(op: str) -> str:
    """`mul` of `aten.mul.Tensor`."""
    return op.split(".")[1]


def kind(op: str) -> Kind:
    """The kind of an operator given as `aten.mul.Tensor`; `other` outside the set."""
    if op == "aten.view.dtype":
        return "map"
    if not op.startswith("aten."):
        return "other"
    return KIND.get(packet(op), "other")


def resolve(op: str) -> Any:
    """The callable of `torch.ops` named `namespace.name.overload`. Raises AttributeError if torch has none."""
    import torch

    found: Any = torch.ops
    for part in op.split("."):
        found = getattr(found, part)
    return found


def lists(op: str) -> bool:
    """Whether an operator returns a list of tensors, even of one."""
    returns = resolve(op)._schema.returns
    return len(returns) == 1 and str(returns[0].type) == "List[Tensor]"


@functools.cache
def decompositions() -> tuple[dict[Any, Any], dict[Any, Any]]:
    """torch's decomposition table without `WHOLE`, split as `ExportedProgram.run_decompositions` does: rules for operators that
    are composites of others in C++, and for the rest.

    Of the composites we keep only those to preserve whole and those with a Python rule: torch would install some 500 anew for
    every program, which takes longer than capturing a small module; without them the decomposition is the same.
    """
    from torch._decomp import global_decomposition_table
    from torch.export import default_decompositions
    from torch.export import exported_program as torchs

    table = default_decompositions()
    for one in list(table.keys()):
        if one.namespace == "aten" and one._schema.name.removeprefix("aten::") in WHOLE:
            table.pop(one)
    # Batch statistics become ordinary reductions; torch keeps the operator for its running averages.
    trained = resolve("aten._native_batch_norm_legit_functional.default")
    table[trained] = global_decomposition_table["post_autograd"][trained]
    composites, others = torchs._split_decomp_table_to_cia_and_python_decomp(dict(table))
    rules = global_decomposition_table["post_autograd"]
    kept = torchs._special_op_to_preserve_cia
    others[resolve("aten.copy.default")] = _copy
    named = {op: rule for op, rule in composites.items() if rule is kept or op in rules}
    return named | {resolve("aten.bilinear.default"): _bilinear}, others | _of_lists()


def _of_lists() -> dict[Any, Any]:
    """Rules for operators on lists of tensors, as optimisers use them: the operator of one tensor for each."""
    import torch

    own = {
        "addcmul": lambda x, a, b, value=1: torch.addcmul(x, a, b, value=value),
        "addcdiv": lambda x, a, b, value=1: torch.addcdiv(x, a, b, value=value),
        "copy": _copy,
        "maximum": lambda x, y: torch.maximum(x, y) if isinstance(y, torch.Tensor) else x.clamp_min(y),
        "minimum": lambda x, y: torch.minimum(x, y) if isinstance(y, torch.Tensor) else x.clamp_max(y),
        "norm": lambda x, order=2, dtype=None: torch.linalg.vector_norm(x, order, dtype=dtype),
        "zero": torch.zeros_like,
    }
    made = {}
    for full in torch._C._dispatch_get_all_op_names():
        name, _, overload = full.removeprefix("aten::_foreach_").partition(".")
        one: Any = own.get(name) or getattr(torch, name, None)
        numbers = (overload, name[:4]) == ("Tensor", "addc")  # a tensor with a number for each
        if full.startswith("aten::_foreach_") and one and not full.endswith(("_", "out")) and not numbers:
            op = resolve(f"aten._foreach_{name}.{overload or 'default'}")
            made[op] = functools.partial(_each, one)
    return made


def _each(one: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
    """`one` of each element of the lists among `args`; the others go to each."""
    count = next(len(given) for given in args if isinstance(given, list | tuple))
    return [
        one(*(given[at] if isinstance(given, list | tuple) else given for given in args), **kwargs)
        for at in range(count)
    ]


def _copy(x: Any, source: Any, non_blocking: bool = False) -> Any:
    """The new value of `x` after `x.copy_(source)`, which exported writes into slices use."""
    return source.to(x.dtype).expand(x.shape)


def _bilinear(x: Any, y: Any, weight: Any, bias: Any = None) -> Any:
    """x' W_n y for each n, [..., I], [..., J] by [N, I, J] -> [..., N], as a product and a sum. torch's own rule uses an operator
    without a public function."""
    outs, inner, _ = weight.shape
    rows = x.reshape(-1, inner) @ weight.permute(1, 0, 2).reshape(inner, -1)
    made = (rows.view(*x.shape[:-1], outs, y.shape[-1]) * y.unsqueeze(-2)).sum(-1)
    return made if bias is None else made + bias


assert set(_TABLES["kinds"]) | {"other"} == set(get_args(Kind))
