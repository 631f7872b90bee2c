"""The kernel language: what a kernel may contain, and that the checked code is what runs."""

from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime import jit

from kernelwright.verify.interpret.endings import KernelError, Unsupported
from kernelwright.verify.interpret.interpreter import Engine
from kernelwright.verify.trace.kernels import Kernels, NotAKernel, constant, describe
from kernelwright.verify.trace.tape import Launch

SCALE = tl.constexpr(3.0)
TL: dict[str, Any] = {"module": "triton.language"}


def spec(
    body: str, names: dict[str, Any] | None = None, head: str = "def kernel(x_ptr, n, BLOCK: tl.constexpr):"
) -> Any:
    """A kernel in its wire format."""
    return {
        "name": "kernel",
        "source": f"{head}\n    {body}\n",
        "names": {"tl": TL, **(names or {})},
        "options": {},
    }


def rebuilt(*args: Any, **kwargs: Any) -> jit.JITFunction:
    return Kernels([spec(*args, **kwargs)])[0]


# what a loop leaves behind


@pytest.mark.parametrize(
    ("body", "used"),
    [
        ("for i in range(n):\n        pass\n    j = i", "i"),
        ("i = 0\n    for i in tl.range(n):\n        pass\n    i += 1", "i"),
        ("if n > 1:\n        for i in range(n):\n            pass\n    while i < 3:\n        break", "i"),
        ("for i in range(n):\n        for j in range(i):\n            i = j\n        n += j", "j"),
        ("for i in tl.static_range(3):\n        pass\n    j = i", ""),
        ("for i in range(n):\n        j = i\n    i = 3\n    j = i", ""),
        ("for i in range(n):\n        pass\n    for i in range(n):\n        j = i", ""),
        ("for i in range(n):\n        pass\n    j = [i for i in (1, 2)]", ""),
    ],
)
def test_a_loops_variable_is_undefined_after_it(body: str, used: str) -> None:
    if not used:
        rebuilt(body)
        return
    with pytest.raises(NotAKernel, match=f"`{used}` after its loop"):
        rebuilt(body)


# what a kernel may be


@pytest.mark.parametrize(
    "body",
    [
        "pass",
        "'''a docstring'''",
        "at = tl.arange(0, BLOCK)\n    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n))",
        "for i in range(n):\n        if i > 3:\n            break\n        else:\n            continue",
        "while n > 0:\n        n -= 1",
        "x = tl.load(x_ptr) if n > 0 else 0.0",
        "a, (b, c) = 1, (2, 3)",
        "x: tl.float32 = 1.0",
        "x = tl.zeros((BLOCK,), dtype=tl.float32)[:, None]",
        "x = tl.load(x_ptr).to(tl.float32).to(x_ptr.dtype.element_ty)",
        "assert BLOCK > 0, f'block {BLOCK}'",
        "tl.static_assert(BLOCK >= 16)",
        "tl.device_print('x', n)",
        "x = min(n, 3) + max(n, 4) + abs(n) + int(2) + len((1, 2))",
        "x = tl.math.exp(tl.sqrt(2.0)) + tl.cdiv(n, BLOCK)",
        "x = not n or (n and 3) ^ 5 | 6 << 2",
        "x = tl.reduce(tl.arange(0, 4), 0, helper)",
        "return",
        "x = tl.load(x_ptr, mask=n > 0, other=float('inf'), cache_modifier='.cg')",
        "x = [1, 2, 3]",
        "tl.store(x_ptr, *(1.0, n > 0))",
    ],
    ids=range(21),
)
def test_ordinary_kernels_are_kernels(body: str) -> None:
    helper = {"name": "helper", "source": "def helper(a, b):\n    return a + b\n", "names": {}, "options": {}}
    made = Kernels([spec(body, names={"helper": {"kernel": 1}}), helper])[0]
    assert isinstance(made, jit.JITFunction)


@pytest.mark.parametrize(
    "body",
    [
        "import os",
        "from os import system",
        "x = lambda: 0",
        "x = {i: i for i in range(3)}",
        "x = (i for i in range(3))",
        "x = {1: 2}",
        "x = {1, 2}",
        "def inner(): pass",
        "class A: pass",
        "try:\n        pass\n    except Exception:\n        pass",
        "with tl as t: pass",
        "global tl",
        "nonlocal tl",
        "del n",
        "yield 1",
        "await n",
        "match n:\n        case object(__class__=c): pass",
        "x = n.__class__",
        "x = tl.__dict__",
        "x = tl._C",
        "x = tl.core.inspect",
        "x = tl.core.os",
        "x = tl.load.__globals__",
        "x = ().__class__.__base__",
        "x = tl.arange(0, 4).handle",
        "x = tl.float32.to_ir",
        "x = eval('1')",
        "x = exec('1')",
        "x = open('/etc/passwd')",
        "x = __import__('os')",
        "x = getattr(tl, 'core')",
        "x = type(n)",
        "x = globals()",
        "x = vars(tl)",
        "x = __builtins__",
        "__builtins__ = 3",
        "x = object()",
        "x = setattr",
        "x = f'{n.__class__}'",
        "x = f'{n!r:{n.__class__}}'",
        "x = tl.load(**tl.__dict__)",
        "x = n[tl.__name__]",
        "x = np.zeros(3)",
        "x = torch.zeros(3)",
    ],
    ids=range(44),
)
def test_anything_else_is_not(body: str) -> None:
    with pytest.raises(NotAKernel) as caught:
        rebuilt(body)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "head",
    [
        "def kernel(x=print(1)):",
        "def kernel(x=[].append):",
        "def kernel(x: print(1)):",
        "def kernel(x) -> print(1):",
        "def kernel(x: ().__class__):",
        "def other(x):",
        "async def kernel(x):",
        "class kernel:",
        "x = 1\ndef kernel(x):",
        "@print\ndef kernel(x):",
        "def kernel(x, *, y=tl.__name__):",
    ],
    ids=range(11),
)
def test_heads_evaluate_nothing(head: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        rebuilt("pass", head=head)
    except NotAKernel:
        pass
    else:
        assert head.startswith("@print")  # the decorator was removed
    assert capsys.readouterr().out == ""


# one reading


SEPARATORS = ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029", "\r"]


@pytest.mark.parametrize("separator", SEPARATORS, ids=lambda s: f"{ord(s):x}")
@pytest.mark.parametrize("where", ["before", "inside"])
def test_no_separator_of_lines_makes_two_texts_of_one(separator: str, where: str) -> None:
    hidden = f"def kernel(x_ptr, n, BLOCK: tl.constexpr): tl.store(x_ptr, 666.0){separator}"
    honest = "def kernel(x_ptr, n, BLOCK: tl.constexpr):\n    tl.store(x_ptr, 1.0)\n"
    source = (
        f"#{separator}{hidden}\n{honest}" if where == "before" else honest + f"    #{separator}{hidden}\n"
    )
    out = torch.zeros(1)
    try:
        kernel = Kernels([{"name": "kernel", "source": source, "names": {"tl": TL}, "options": {}}])[0]
    except NotAKernel:
        return
    assert "666" not in kernel.src.split("#")[0]
    engine = Engine(lambda launch: 1.0)
    with engine.installed():
        engine.launch(kernel, (1,), (out, 1), {"BLOCK": 16})
    assert out.item() == 1.0


def test_a_definition_in_a_docstring_is_text() -> None:
    body = "\"\"\"\ndef kernel(x_ptr, n, BLOCK):\n    tl.store(x_ptr, 666.0)\n    '''\"\"\"\n    tl.store(x_ptr, 1.0)\n    # '''"
    out = torch.zeros(1)
    engine = Engine(lambda launch: 1.0)
    kernel = rebuilt(body)
    with engine.installed():
        engine.launch(kernel, (1,), (out, 1), {"BLOCK": 16})
    assert out.item() == 1.0


def test_the_interpreters_own_names_are_not_in_scope() -> None:
    engine = Engine(lambda launch: 1.0)
    first = rebuilt("tl.store(x_ptr, 1.0)")
    with engine.installed():
        engine.launch(first, (1,), (torch.zeros(1), 1), {"BLOCK": 16})
    assert not {"np", "ast", "inspect", "interpreter_builder", "partial"} & set(first.fn.__globals__)


# names


@pytest.mark.parametrize(
    "reference",
    [
        {"module": "os"},
        {"module": "sys"},
        {"module": "builtins"},
        {"module": "triton.runtime.jit"},
        {"module": "triton.language.core", "member": "inspect"},
        {"module": "triton.language.core", "member": "__builtins__"},
        {"module": "triton.language", "member": "no_such"},
        {"unknown": "function"},
    ],
    ids=range(8),
)
def test_a_name_stands_for_nothing_outside_the_language(reference: dict[str, Any]) -> None:
    assert _refused_or_undefined("x = thing.value", {"thing": reference})


@pytest.mark.parametrize(
    "name", ["np", "ast", "inspect", "torch", "interpreter_builder", "_patch_attr", "partial", "sys"]
)
def test_a_name_that_was_not_given_is_not_there(name: str) -> None:
    assert _refused_or_undefined(f"x = {name}", {})


def _refused_or_undefined(body: str, names: dict[str, Any]) -> bool:
    """Whether a kernel is refused, or fails at run time because a name is undefined."""
    try:
        made = rebuilt(body, names=names)
    except NotAKernel:
        return True
    engine = Engine(lambda launch: 1.0)
    with engine.installed(), pytest.raises((KernelError, Unsupported), match=r"NameError|not defined"):
        engine.launch(made, (1,), (torch.zeros(1), 1), {"BLOCK": 16})
    return True


@pytest.mark.parametrize("name", ["__builtins__", "__name__", "__loader__", "not a name", "", "_semantic"])
def test_strange_names_are_refused_or_ignored(name: str) -> None:
    try:
        made = rebuilt("pass", names={name: {"module": "triton.language.core"}})
    except NotAKernel:
        return
    builtins = made.fn.__globals__["__builtins__"]
    assert isinstance(builtins, dict)
    assert "eval" not in builtins
    assert "inspect" not in builtins


@pytest.mark.parametrize("number", [-1, 5, 10**9])
def test_an_undescribed_kernel_is_refused(number: int) -> None:
    with pytest.raises(NotAKernel):
        Kernels([spec("pass")])[number]


# there and back


@triton.jit
def helper_device_function(x):
    return x * SCALE


@triton.jit
def example_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, helper_device_function(x) + 1, mask=at < n)


def test_a_described_kernel_computes_what_the_original_computes() -> None:
    found: dict[int, Any] = {}
    number = describe(example_kernel, found)
    kernel = Kernels([item for _, item in found.values()])[number]
    assert kernel is not example_kernel
    x, out = torch.randn(100), torch.empty(100)
    engine = Engine(lambda launch: 1.0)
    with engine.installed():
        engine.launch(kernel, (2,), (x, out, 100), {"BLOCK": 64})
    torch.testing.assert_close(out, x * 3 + 1)


@tl.constexpr
def named_after_a_dtype(dtype: tl.dtype) -> tl.dtype:
    if dtype.is_fp16():
        return tl.float32
    return dtype


@triton.constexpr_function
def doubled(number):
    return 2 * number


@triton.jit
def refusing_kernel(x_ptr, BLOCK: tl.constexpr):
    kind: tl.constexpr = named_after_a_dtype(x_ptr.dtype.element_ty)
    if BLOCK > 4:
        raise ValueError("too many")
    tl.store(x_ptr + tl.arange(0, doubled(BLOCK)), tl.full((), 1.0, kind))


def test_functions_of_constants_are_described_and_a_raise_fails_where_constants_lead_to_it() -> None:
    found: dict[int, Any] = {}
    number = describe(refusing_kernel, found)
    assert len(found) == 3
    kernel = Kernels([item for _, item in found.values()])[number]
    engine, x = Engine(lambda launch: 1.0), torch.zeros(16)
    with engine.installed():
        engine.launch(kernel, (1,), (x,), {"BLOCK": 4})
        assert x.sum() == 8
        with pytest.raises(KernelError):
            engine.launch(kernel, (1,), (x,), {"BLOCK": 8})


@pytest.mark.parametrize(
    "body", ["return len(str(number))", "return number is None", "return isinstance(number, int)"]
)
def test_a_function_of_constants_does_not_learn_who_calls_it(body: str) -> None:
    described = spec(body, head="def kernel(number):")
    described["options"]["of_constants"] = True
    with pytest.raises(NotAKernel):
        Kernels([described])[0]


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        -(2**40),
        1.5,
        float("inf"),
        "text",
        (1, (2.0, None)),
        tl.float16,
        tl.constexpr(7),
        tl.constexpr("a"),
    ],
)
def test_constants_survive(value: Any) -> None:
    back = Kernels([]).argument(constant(value))
    if isinstance(value, tl.constexpr):
        assert isinstance(back, tl.constexpr)
        assert back.value == value.value
    else:
        assert back == value


@pytest.mark.parametrize("value", [object(), {}, torch.zeros(1), lambda: 0, {1, 2}, b"x", 1j])
def test_other_things_are_no_constants(value: Any) -> None:
    assert constant(value) is None


@pytest.mark.parametrize(
    "data",
    [
        None,
        3,
        "x",
        [],
        {},
        {"value": []},
        {"value": {}},
        {"float": "x"},
        {"float": 3},
        {"dtype": "os"},
        {"tuple": 3},
        {"kernel": 99},
        {"constexpr": 3},
        {"module": "os"},
        {"float": "0x1p99999999"},
    ],
    ids=range(15),
)
def test_forged_constants_are_refused(data: Any) -> None:
    with pytest.raises(NotAKernel):
        Kernels([]).argument(data)


def test_a_network_may_have_hundreds_of_kernels() -> None:
    """From the 257th on a network was refused, as if its trace were none."""
    bodies = [f"tl.store(p, {number})" for number in range(300)]
    assert Kernels([spec(body) for body in bodies])[299].fn is not None
    launch = Launch.read({"kernel": 299, "grid": [1, 1, 1], "arguments": {}, "options": {}})
    assert launch.kernel == 299
