"""What `kernel[grid](*args, **kwargs)` binds, by Triton's rules: arguments by parameter, launch options, grid."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

from triton.language import constexpr

MAX_GRID = (2**31 - 1, 65535, 65535)
"""The most programs per axis that CUDA can start."""
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "launch_pdl")
"""Launch options that are integers."""
_RESERVED = {
    *(*OPTIONS, "enable_fp_fusion", "debug", "grid", "warmup", "stream", "launch_cooperative_grid"),
    "waves_per_eu",
}


class Bound(NamedTuple):
    values: dict[str, Any]
    """Arguments by parameter, defaults included."""
    options: dict[str, Any]
    """The options given, of `OPTIONS` and `enable_fp_fusion`."""
    grid: tuple[int, int, int]


def bind(function: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bound:
    """Bind a launch of a `@triton.jit` function. Raises as Triton does for bad arguments."""
    names = {parameter.name for parameter in function.params}
    unknown = [name for name in kwargs if name not in names and name not in _RESERVED]
    if unknown:
        raise KeyError(f"Keyword argument {unknown[0]} was specified but unrecognised")
    bound = function.signature.bind(*args, **{name: value for name, value in kwargs.items() if name in names})
    bound.apply_defaults()
    values = {name: plain(value) for name, value in bound.arguments.items()}
    if callable(grid):
        grid = grid(dict(values))
    extents = tuple(
        operator.index(plain(extent)) for extent in (grid if isinstance(grid, (tuple, list)) else (grid,))
    )
    x, y, z = (*extents, 1, 1)[:3]
    for extent, most in zip((x, y, z), MAX_GRID, strict=True):
        if not 0 <= extent <= most:
            raise RuntimeError(f"Triton Error [CUDA]: invalid argument (grid {(x, y, z)})")
    given = (*OPTIONS, "enable_fp_fusion")
    options = {name: plain(kwargs[name]) for name in given if kwargs.get(name) is not None}
    return Bound(values, options, (x, y, z))


def plain(value: object) -> Any:
    """The value of a `tl.constexpr`, or the value itself."""
    return value.value if isinstance(value, constexpr) else value
