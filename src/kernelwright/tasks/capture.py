"""A live module with example inputs as a Task: its class as text, its constructor's arguments, inputs of those shapes.

Arguments are read back from attributes (`self.dim = dim`), from defaults, or found by trying the sizes that the weights
have. Sizes become constants of the source, so that smaller ones can be put in their place. What comes out is built
and compared with the module on the example inputs, so a task that is returned computes what the module does.

Not possible, and said in one line: classes whose source cannot be read, that need packages other than torch, or whose
constructor takes what cannot be written down.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernelwright.errors import UserError
from kernelwright.parsing import parse
from kernelwright.records import Task
from kernelwright.tasks.closure import Live, Skip
from kernelwright.tasks.reference import Reference
from kernelwright.tasks.shapes import kind_of

LAYER = "layer."
"""Before the names of weights where the module is wrapped."""
_TRIED = 2000
"""Combinations of sizes that are tried for constructor arguments."""
_AXES = {
    1: ("LENGTH",),
    2: ("BATCH", "DIM"),
    3: ("BATCH", "LENGTH", "DIM"),
    4: ("BATCH", "CHANNELS", "HEIGHT", "WIDTH"),
    5: ("BATCH", "CHANNELS", "DEPTH", "HEIGHT", "WIDTH"),
}
_MODES = ("Dropout", "BatchNorm", "InstanceNorm", "RReLU", "FeatureAlphaDropout", "AlphaDropout")


@dataclass(frozen=True)
class Captured:
    """A task, and how the module's weights are named in it."""

    task: Task
    prefix: str
    """Before each of the module's own names: `layer.` or nothing."""
    digest: str
    """Of the module alone, without the values of its weights and without input shapes."""


def capture(module: Any, inputs: Sequence[Any], init: Mapping[str, Any] | None = None) -> Captured:
    """The task that `module` poses on inputs like `inputs` (arguments of `forward`, tensors and plain values).

    `init` are constructor arguments by name, where they cannot be read back. Raises UserError, in one line.
    """
    name = type(module).__name__
    _check(module, inputs)
    try:
        reasons = []
        for arguments in _arguments(module, dict(init or {}), inputs):
            try:
                source, prefix = _Writer(module, arguments).source(inputs)
                reason = _differs(module, source, prefix, inputs)
            except Skip as skip:
                reason = str(skip)
            if not reason:
                break
            reasons.append(reason)
        else:
            raise Skip(
                reasons[0] if reasons else "its constructor's arguments cannot be found; pass init={...}"
            )
    except Skip as skip:
        raise UserError(
            f"{name} cannot be made a task: {skip}; write it as a file with Model, get_inputs() and get_init_inputs()"
        ) from None
    floats = (one for one in (*inputs, *module.parameters()) if _tensor(one) and one.is_floating_point())
    dtype = next((str(one.dtype).removeprefix("torch.") for one in floats), "float32")
    task = Task(id=f"module/{name}", suite="module", source=source, dtype=dtype)
    return Captured(task, prefix, digest_of(module))


def digest_of(module: Any) -> str:
    """16 hex digits over a module's classes as text, their plain attributes, weights by name and shape, and mode."""
    facts = []
    for name, part in module.named_modules():
        try:
            text = "" if _of_torch(type(part)) else inspect.getsource(type(part))
        except (OSError, TypeError):
            text = ""
        plain = {
            key: repr(value)
            for key, value in sorted(vars(part).items())
            if isinstance(value, bool | int | float | str | tuple)
            and key not in ("training", "call_super_init")
        }
        facts.append([name, type(part).__qualname__, text, plain])
    weights = [[name, list(one.shape), str(one.dtype)] for name, one in module.state_dict().items()]
    mode = module.training if depends_on_mode(module) else None
    return hashlib.sha256(json.dumps([facts, weights, mode]).encode()).hexdigest()[:16]


def depends_on_mode(module: Any) -> bool:
    """Whether `train()` and `eval()` may make a difference."""
    for part in module.modules():
        if type(part).__name__.startswith(_MODES):
            return True
        if not _of_torch(type(part)):
            try:
                if "self.training" in inspect.getsource(type(part)):
                    return True
            except (OSError, TypeError):
                return True
    return False


def _check(module: Any, inputs: Sequence[Any]) -> None:
    import torch

    name = type(module).__name__
    if not isinstance(module, torch.nn.Module):
        raise UserError(f"{name} is no nn.Module; pass a module and a tuple of example inputs")
    if not any(_tensor(one) for one in inputs):
        raise UserError(
            f"{name}: there is no tensor among the example inputs; pass what forward takes, as a tuple"
        )
    for number, one in enumerate(inputs):
        if not _tensor(one) and not isinstance(one, bool | int | float | str | None):
            raise UserError(
                f"{name}: example input {number} is a {type(one).__name__}; tensors and plain values can be judged"
            )
        if _tensor(one) and (one.layout is not torch.strided or not one.is_contiguous()):
            raise UserError(f"{name}: example input {number} is not contiguous; pass it as .contiguous()")
    if module.training and depends_on_mode(module):
        raise UserError(
            f"{name} behaves otherwise in training (dropout, batch norm); call .eval() on it first"
        )
    with torch.no_grad():
        try:
            module(*_copies(inputs))
        except Exception as error:
            what = " ".join(str(error).split())[:200]
            raise UserError(
                f"{name} raises {type(error).__name__} on the example inputs: {what}; mend them"
            ) from None


# -- the constructor's arguments -------------------------------------------------------------------------------


def _arguments(module: Any, given: dict[str, Any], inputs: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Constructor arguments by name under which the class may make `module`, likelier ones first. Raises Skip."""
    import torch

    if isinstance(module, torch.nn.Sequential | torch.nn.ModuleList) and _of_torch(type(module)):
        yield {}
        return
    signature = inspect.signature(type(module).__init__)
    parameters = list(signature.parameters.values())[1:]
    unknown = [name for name in given if name not in signature.parameters]
    if unknown:
        raise Skip(f"its constructor has no argument {unknown[0]}")
    stored = _stored(type(module))
    found, missing = dict(given), []
    for parameter in parameters:
        if parameter.name in found or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        value, known = _read_back(module, stored.get(parameter.name, parameter.name))
        if parameter.name in ("device", "dtype") and _of_torch(type(module)):
            continue
        if known:
            found[parameter.name] = value
        elif parameter.default is parameter.empty:
            missing.append(parameter.name)
    if not missing:
        yield found
        return
    sizes = sorted(
        {size for one in (*module.state_dict().values(), *filter(_tensor, inputs)) for size in one.shape}
    )
    sizes += [size for size in (1, 2, 4, 8) if size not in sizes]
    shapes = {name: one.shape for name, one in module.state_dict().items()}
    for combination in itertools.islice(itertools.product(sizes, repeat=len(missing)), _TRIED):
        arguments = {**found, **dict(zip(missing, combination, strict=True))}
        try:
            with torch.device("meta"):
                made = type(module)(**arguments)
        except Exception:
            continue
        if {name: one.shape for name, one in made.state_dict().items()} == shapes:
            yield arguments
    raise Skip(
        f"its constructor's argument {missing[0]} cannot be read back; pass init={{'{missing[0]}': ...}}"
    )


def _stored(cls: type) -> dict[str, str]:
    """Parameter -> attribute, for every `self.attribute = parameter` of the constructor."""
    try:
        tree = parse(inspect.cleandoc("\n" + inspect.getsource(cls.__init__)))  # type: ignore[misc]
    except (OSError, TypeError, SyntaxError, IndentationError):
        return {}
    return {
        node.value.id: node.targets[0].attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Attribute)
        and isinstance(node.value, ast.Name)
    }


def _read_back(module: Any, name: str) -> tuple[Any, bool]:
    """(value, whether there is one) of an attribute; a weight stands for `bias=True`."""
    import torch

    if not hasattr(module, name):
        return None, False
    value = getattr(module, name)
    if isinstance(value, torch.Tensor):
        return True, name in ("bias", "weight")
    if value is None and name in module._parameters:
        return False, True
    return value, not callable(value) or isinstance(value, torch.nn.Module | type)


# -- the source ------------------------------------------------------------------------------------------------


@dataclass
class _Writer:
    """Writes one module as a reference."""

    module: Any
    arguments: dict[str, Any]
    sizes: dict[str, int] = field(default_factory=dict)
    """Constants: name -> value."""
    texts: dict[str, str] = field(default_factory=dict)
    """Classes taken along: name -> text, imports first."""

    def source(self, inputs: Sequence[Any]) -> tuple[str, str]:
        """(source, prefix of the weights' names). Raises Skip."""
        module = self.module
        made = self.made(module, self.arguments)
        options = self._options()
        own = None if _of_torch(type(module)) or options else self._as_model()
        names = [n for n in inspect.signature(type(module).forward).parameters if n != "self"]
        if len(inputs) > len(names) or "args" in names:
            names = [*(["x"] if len(inputs) == 1 else [f"x{n}" for n in range(len(inputs))])]
        taken = ", ".join(names[: len(inputs)])
        drawn = ", ".join(self._drawn(one) for one in inputs)
        constants = "\n".join(f"{name} = {value}" for name, value in self.sizes.items())
        if own is not None:
            parts, init, prefix = [own], self._positional(), ""
        else:
            words = set(re.findall(r"\w+", made))
            state = [name for name in self.sizes if name in words]
            for name in state:
                made = re.sub(rf"\b{name}\b", name.lower(), made)
            signature = ", ".join(["self", *(name.lower() for name in state)])
            wrapper = (
                f"class Model(nn.Module):\n    def __init__({signature}):\n        super().__init__()\n"
                f"        self.layer = {made}{options}\n\n    def forward(self, {taken}):\n        return self.layer({taken})"
            )
            heads = list(self.texts.values()) or ["import torch\nimport torch.nn as nn"]
            parts, init, prefix = [*heads, wrapper], ", ".join(state), LAYER
        parts += [constants] if constants else []
        parts += [f"def get_inputs():\n    return [{drawn}]", f"def get_init_inputs():\n    return [{init}]"]
        return "\n\n\n".join(parts) + "\n", prefix

    def _options(self) -> str:
        """What is called on a fresh module to make it like this one."""
        import torch

        kinds = {one.dtype for one in self.module.parameters() if one.is_floating_point()}
        kinds -= {torch.float32}
        if len(kinds) > 1:
            raise Skip("its weights are of several types")
        text = f".to({next(iter(kinds))})" if kinds else ""
        return text + (".eval()" if not self.module.training and depends_on_mode(self.module) else "")

    def _as_model(self) -> str | None:
        """The module's own class under the name `Model`; None where that cannot be, and it is wrapped."""
        cls = type(self.module)
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
        if any(p.kind is not p.POSITIONAL_OR_KEYWORD for p in parameters if p.name in self.arguments):
            return None
        text = self.texts[cls.__name__]
        if cls.__name__ != "Model" and re.search(r"\bModel\b", text):
            return None
        return re.sub(rf"\b{cls.__name__}\b", "Model", text)

    def _positional(self) -> str:
        """The constructor's arguments up to the last that is not the default."""
        parameters = list(inspect.signature(type(self.module).__init__).parameters.values())[1:]
        parameters = [p for p in parameters if p.name in self.arguments]
        while parameters and _same(self.arguments[parameters[-1].name], parameters[-1].default):
            parameters.pop()
        return ", ".join(self.value(p.name, self.arguments[p.name]) for p in parameters)

    def made(self, module: Any, arguments: Mapping[str, Any] | None = None) -> str:
        """The expression that makes a module. Raises Skip."""
        cls = type(module)
        if _of_torch(cls) and cls.__name__ in ("Sequential", "ModuleList"):
            inner = ", ".join(self.made(part) for part in module)
            return f"nn.{cls.__name__}({f'[{inner}]' if cls.__name__ == 'ModuleList' else inner})"
        if arguments is None:
            arguments = next(_arguments(module, {}, ()))
        defaults = {p.name: p.default for p in inspect.signature(cls.__init__).parameters.values()}
        words = [
            f"{name}={self.value(name, value)}"
            for name, value in arguments.items()
            if not _same(value, defaults.get(name, inspect.Parameter.empty))
        ]
        return f"{self._class(cls)}({', '.join(words)})"

    def _class(self, cls: type) -> str:
        """How the source names a class; one that is not torch's is taken along."""
        import torch

        if _of_torch(cls):
            if getattr(torch.nn, cls.__name__, None) is not cls:
                raise Skip(f"{cls.__module__}.{cls.__name__} is not in torch.nn")
            return f"nn.{cls.__name__}"
        if cls.__name__ not in self.texts:
            self.texts[cls.__name__] = Live(cls).closure(cls.__module__, cls.__name__)
        return cls.__name__

    def value(self, name: str, value: Any) -> str:
        """A constructor's argument as text; sizes as constants. Raises Skip."""
        import torch

        if isinstance(value, bool) or value is None or isinstance(value, str):
            return repr(value)
        if isinstance(value, int):
            return self._size(name, value)
        if isinstance(value, float):
            return repr(value) if math.isfinite(value) else f'float("{value}")'
        if isinstance(value, list | tuple):
            inner = ", ".join(self.value(name, one) for one in value)
            return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
        if isinstance(value, torch.dtype):
            return str(value)
        if isinstance(value, torch.nn.Module):
            return self.made(value)
        if isinstance(value, type) and issubclass(value, torch.nn.Module):
            return self._class(value)
        raise Skip(f"its constructor's argument {name} is a {type(value).__name__}")

    def _size(self, name: str, value: int) -> str:
        """The constant that stands for a size; windows, strides and small numbers stay literals."""
        if kind_of(name, value) == "keep":
            return str(value)
        known = next((known for known, number in self.sizes.items() if number == value), None)
        if known is None:
            base = known = name.upper()
            for number in itertools.count(2):
                if known not in self.sizes:
                    break
                known = f"{base}_{number}"
            self.sizes[known] = value
        return known

    def _drawn(self, one: Any) -> str:
        """An input like the example, as text."""
        import torch

        if not _tensor(one):
            return repr(one)
        axes = _AXES.get(one.dim(), ())
        sizes = [self._size(axes[n] if axes else f"SIZE_{n}", int(size)) for n, size in enumerate(one.shape)]
        shape = f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
        if one.dtype is torch.bool:
            return f"torch.rand{shape} > 0.5" if sizes else "torch.tensor(True)"
        if not one.is_floating_point():
            if one.is_complex():
                raise Skip("an input is complex")
            high = int(one.max()) + 1 if one.numel() else 1
            above = {value: name for name, value in self.sizes.items() if value >= high}
            bound = above[min(above)] if above and min(above) <= 2 * high + 8 else str(high)
            return f"torch.randint(0, {bound}, {shape}, dtype={one.dtype})"
        positive = one.numel() and bool((one >= 0).all()) and bool((one <= 1).all())
        kind = "" if one.dtype is torch.float32 else f", dtype={one.dtype}"
        return f"torch.{'rand' if positive else 'randn'}({', '.join(sizes) or '()'}{kind})"


def _differs(module: Any, source: str, prefix: str, inputs: Sequence[Any]) -> str:
    """Why the source does not compute what the module does; empty when it does."""
    import torch

    try:
        made = Reference(source).module()
    except Exception as error:
        return (
            f"its class does not stand alone ({type(error).__name__}: {' '.join(str(error).split())[:120]})"
        )
    state = {f"{prefix}{name}": one for name, one in module.state_dict().items()}
    own = {name: one.shape for name, one in made.state_dict().items()}
    if own != {name: one.shape for name, one in state.items()}:
        return "its constructor makes other weights than it has"
    made.load_state_dict(state)
    device = next((one.device for one in (*module.state_dict().values(), *filter(_tensor, inputs))), "cpu")
    with torch.no_grad():
        try:
            mine, theirs = (_flat(one(*_copies(inputs))) for one in (made.to(device), module))
        except Exception as error:
            return f"its class raises {type(error).__name__} when it stands alone"
    if len(mine) != len(theirs) or any(not close(a, b) for a, b in zip(mine, theirs, strict=True)):
        return "what was read back from its attributes computes something else"
    return ""


def close(made: Any, wanted: Any) -> bool:
    """Whether two outputs are one but for rounding: by their norms, 1e-3 apart at most (2e-2 in half precision)."""
    import torch

    if made.shape != wanted.shape or made.dtype != wanted.dtype:
        return False
    if not wanted.is_floating_point():
        return wanted.numel() == 0 or float((made == wanted).float().mean()) > 0.999
    a, b = made.double(), wanted.double()
    finite = torch.isfinite(b)
    if not torch.equal(finite, torch.isfinite(a)):
        return False
    a, b = a[finite], b[finite]
    allowed = 2e-2 if wanted.dtype in (torch.float16, torch.bfloat16) else 1e-3
    return float((a - b).norm()) <= allowed * float(b.norm()) + 1e-12


def _flat(output: Any) -> list[Any]:
    if _tensor(output):
        return [output]
    if isinstance(output, list | tuple):
        return [one for part in output for one in _flat(part)]
    if isinstance(output, dict):
        raise Skip("forward returns a dict")
    return []


def _copies(inputs: Sequence[Any]) -> list[Any]:
    return [one.detach().clone() if _tensor(one) else one for one in inputs]


def _tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _of_torch(cls: type) -> bool:
    return cls.__module__.split(".")[0] == "torch"


def _same(value: Any, default: Any) -> bool:
    try:
        return type(value) is type(default) and bool(value == default)
    except Exception:
        return False
