"""The operators that graphs are made of: their kinds, what stays whole, and how exact they are.

A captured graph is written in this set. Operators that mean something by themselves (linear, convolution, softmax,
layer norm, gelu, attention, pooling, interpolation, losses ...) stay whole; whatever is not here is decomposed by
torch's own decomposition tables until it is. Graphs of AOTAutograd add the backward operators.

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
    gather        reads at places that a tensor names                      embedding, index, gather
    scatter       writes at places that a tensor names                     index_put, scatter_add
    sort          orders elements                                          sort, topk
    random        draws numbers                                            native_dropout, rand

Narrower floats are computed and accumulated in float32, sums in any order, and rounded once to the result's dtype. Products of
narrower floats are exact; float32 products follow the task's precision. Views, moves, gathers and sorts are exact (the
order of equal elements is free unless `stable`), scatters are but where several writes to one place are added.

Does not guarantee that an operator outside the set cannot be run: `execute` runs any ATen operator. `kind` says
`other` of those.
"""

from __future__ import annotations

import functools
import tomllib
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
"""What is never decomposed, in every functional overload."""


def packet(op: str) -> str:
    """`mul` of `aten.mul.Tensor`."""
    return op.split(".")[1]


def kind(op: str) -> Kind:
    """The kind of an operator given as `aten.mul.Tensor`; `other` for what is outside the set."""
    if op == "aten.view.dtype":
        return "map"
    if not op.startswith("aten."):
        return "other"
    return KIND.get(packet(op), "other")


def resolve(op: str) -> Any:
    """The callable of `torch.ops` named `namespace.name.overload`. Raises AttributeError where torch has none."""
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
    """torch's decomposition table without what stays whole, as `ExportedProgram.run_decompositions` splits it: rules for
    operators that are composites of others in C++, and for the rest.

    Of the former only those that are to stay whole, or that have a rule in Python: torch would install each of some 500 anew
    for every program, which takes longer than a small module's capture does; without that they fall into the same parts.
    """
    from torch._decomp import global_decomposition_table
    from torch.export import default_decompositions
    from torch.export import exported_program as torchs

    table = default_decompositions()
    for one in list(table.keys()):
        if one.namespace == "aten" and one._schema.name.removeprefix("aten::") in WHOLE:
            table.pop(one)
    # Batch statistics are reductions like others; torch keeps the operator for its running averages.
    trained = resolve("aten._native_batch_norm_legit_functional.default")
    table[trained] = global_decomposition_table["post_autograd"][trained]
    composites, others = torchs._split_decomp_table_to_cia_and_python_decomp(dict(table))
    rules = global_decomposition_table["post_autograd"]
    kept = torchs._special_op_to_preserve_cia
    others[resolve("aten.copy.default")] = _copy
    named = {op: rule for op, rule in composites.items() if rule is kept or op in rules}
    return named | {resolve("aten.bilinear.default"): _bilinear}, others


def _copy(x: Any, source: Any, non_blocking: bool = False) -> Any:
    """What `x.copy_(source)` leaves in `x`, as exported writes into slices have it."""
    return source.to(x.dtype).expand(x.shape)


def _bilinear(x: Any, y: Any, weight: Any, bias: Any = None) -> Any:
    """x' W_n y for each n, [..., I], [..., J] by [N, I, J] -> [..., N]: a product and a sum, where torch's own multiplies
    elements in an operator that no function of its shows."""
    outs, inner, _ = weight.shape
    rows = x.reshape(-1, inner) @ weight.permute(1, 0, 2).reshape(inner, -1)
    made = (rows.view(*x.shape[:-1], outs, y.shape[-1]) * y.unsqueeze(-2)).sum(-1)
    return made if bias is None else made + bias


assert set(_TABLES["kinds"]) | {"other"} == set(get_args(Kind))
