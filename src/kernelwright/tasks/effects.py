"""Reads off a function's text why its calls may not make an oracle, what it writes to, and how it uses its tensors.

Goes by the names of operators and parameters; does not see through aliases or the function's own helpers.
"""

from __future__ import annotations

import ast
import math
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelwright.parsing import callee
from kernelwright.tasks.redraw import Use, number

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
REASONS: dict[str, str] = _TABLES["reasons"]
"""Reasons why a call is not a task."""

DRAWS = frozenset({"rand", "randn", "randint", "randperm", "normal", "rand_like", "randn_like"})
_RANDOM = frozenset(
    {"sample", "rsample", "bernoulli", "multinomial", "fractional_max_pool2d", "rrelu", *DRAWS}
)
_FACTORS = frozenset({"eig", "eigh", "svd", "qr", "ldl_factor"})
_MATRICES = frozenset({"linalg", "cholesky", "cholesky_solve", "det", "inverse", "lu"})
_COMPARES = frozenset({"eq", "ne", "equal", "isin"})
_COUNTS = frozenset({"masked_select", "nonzero", "argwhere"})
_INDEX = re.compile(r"ind(ex|ices)|target|label|mask|idx")
_DOMAINS: dict[str, tuple[float, float]] = _TABLES["domains"]
_UNKNOWN = object()


class NotATask(Exception):
    """A call is not a task; `reason` is a key of REASONS."""

    def __init__(self, reason: str) -> None:
        super().__init__(REASONS[reason])
        self.reason = reason


def check_function(function: ast.FunctionDef) -> None:
    """Raises NotATask if no call of the function can be a task."""
    names = _names_in(function)
    if "optim" in names:
        raise NotATask("no result")
    if names & _RANDOM:
        raise NotATask("random")
    if "fft" in names and not any(name.endswith(("shift", "freq")) for name in names):
        raise NotATask("complex")
    factors = {
        name
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and callee(node.value) in _FACTORS
        for target in node.targets
        for name in _parts(target)
    }
    for node in ast.walk(function):
        if isinstance(node, ast.Return) and node.value is not None and factors & set(_parts(node.value)):
            raise NotATask("not unique")


def check_call(function: ast.FunctionDef, values: Mapping[str, ast.expr], tensors: set[str]) -> None:
    """Raises NotATask if these options, or an `out`, leave nothing to judge."""
    for node in _calls_in(function):
        if "dropout" in callee(node):
            share, training = _option(node, 1, "p", 0.5, values), _option(node, 2, "training", True, values)
            if share != 0 and training is not False:
                raise NotATask("random")
        if callee(node) == "lu" and _option(node, 1, "pivot", True, values) is False:
            raise NotATask("needs a GPU")
    if tensors & {"out", "out_tensor"}:
        raise NotATask("out")


def check_domain(function: ast.FunctionDef, ranges: Mapping[str, tuple[float, float]]) -> None:
    """Raises NotATask if a parameter's range of values exceeds an operator's domain."""
    for node in _calls_in(function):
        least, most = _DOMAINS.get(callee(node), (-math.inf, math.inf))
        for operand in [*node.args[:1], *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]:
            if isinstance(operand, ast.Name) and operand.id in ranges:
                low, high = ranges[operand.id]
                if low < least or high > most:
                    raise NotATask("domain")


def written_to(function: ast.FunctionDef, values: Mapping[str, ast.expr]) -> set[str]:
    """Parameters whose tensors the function changes, as far as its text shows."""
    own = {one.arg for one in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    found: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.AugAssign):
            found |= set(_parts(node.target))
    for node in _calls_in(function):
        name, given = callee(node), [one.id if isinstance(one, ast.Name) else "" for one in node.args]
        if name.endswith("_") and not name.endswith("__") and isinstance(node.func, ast.Attribute):
            found |= set(_parts(node.func.value))
        if any(one.arg == "inplace" and _value(one.value, values) is True for one in node.keywords):
            found |= set(given[:1])
        if name in ("batch_norm", "instance_norm") and _option(node, 5, "training", False, values) is True:
            found |= set(given[1:3])
        if name == "embedding" and _option(node, 3, "max_norm", None, values) is not None:
            found |= set(given[1:2])
    return found & own


def _option(node: ast.Call, place: int, name: str, default: Any, values: Mapping[str, ast.expr]) -> Any:
    """An option of a call in the function, by position or name, if it is a literal or a parameter bound to one."""
    named = [one.value for one in node.keywords if one.arg == name]
    if named:
        return _value(named[0], values)
    return _value(node.args[place], values) if len(node.args) > place else default


def _value(node: ast.expr, values: Mapping[str, ast.expr]) -> Any:
    if isinstance(node, ast.Name):
        node = values.get(node.id, node)
    if isinstance(node, ast.Constant):
        return node.value
    try:
        return number(node)
    except ValueError:
        return _UNKNOWN


def defaults(function: ast.FunctionDef) -> dict[str, ast.expr]:
    """Default values of its parameters, by name."""
    own = function.args
    named = [*own.posonlyargs, *own.args]
    found = {one.arg: value for one, value in zip(named[::-1], own.defaults[::-1], strict=False)}
    return found | {
        one.arg: value
        for one, value in zip(own.kwonlyargs, own.kw_defaults, strict=True)
        if value is not None
    }


def _calls_in(function: ast.FunctionDef) -> list[ast.Call]:
    return [node for node in ast.walk(function) if isinstance(node, ast.Call)]


def _names_in(function: ast.FunctionDef) -> set[str]:
    """Every attribute name in the function's body: `nn`, `functional`, `relu` for `torch.nn.functional.relu`."""
    nodes = (node for part in function.body for node in ast.walk(part))
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def _parts(node: ast.expr) -> list[str]:
    """The names in a name, or in a tuple or list of names."""
    if isinstance(node, ast.Tuple | ast.List):
        return [name for one in node.elts for name in _parts(one)]
    return [node.id] if isinstance(node, ast.Name) else []


def use_of(function: ast.FunctionDef, parameter: str) -> Use:
    """How it uses the tensor of that parameter."""
    names = _names_in(function)
    return Use(
        index=_INDEX.search(parameter) is not None,
        matrix=bool(names & _MATRICES),
        compared=bool(names & _COMPARES),
        counted=bool(names & _COUNTS),
    )
