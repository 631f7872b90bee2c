"""Registers the modules, with the inputs that each is run on."""

import torch
import torch.nn as nn

MODELS = {}
BF16, FP16 = torch.bfloat16, torch.float16


def module(*inputs, dtype=torch.float32, init=None, **kwargs):
    """Registers a function, or a class made with `init`, with its inputs: "SHAPE[:KIND]" as `_tensor` reads, or values."""

    def register(made):
        def build():
            methods = {"forward": staticmethod(made)}
            model = made(*init) if init is not None else type(made.__name__, (nn.Module,), methods)()
            return model.eval(), tuple(_tensor(one, dtype) for one in inputs), kwargs

        assert made.__name__ not in MODELS
        MODELS[made.__name__] = build
        return made

    return register


def _tensor(given, dtype):
    if not isinstance(given, str):
        return given
    sizes, _, kind = given.partition(":")
    shape = [int(size) for size in sizes.split()]
    if "<" in kind:
        name, _, end = kind.partition("<")
        return torch.randint(0, int(end), shape, dtype=getattr(torch, name or "int64"))
    if kind == "bool":
        return torch.rand(shape) < 0.7
    if kind == "int8":
        return torch.randint(-127, 128, shape, dtype=torch.int8)
    made = torch.randn(shape)
    if kind in ("unit", "positive"):
        made = torch.rand(shape) if kind == "unit" else torch.rand(shape) * 2 + 0.1
    elif kind == "probability":
        made = made.softmax(-1)
    elif kind == "small":
        made = made * 0.05
    return made.to(getattr(torch, kind) if kind.startswith(("float", "bfloat")) else dtype)
