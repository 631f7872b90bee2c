"""The static gate: what it refuses and why, what it leaves to run time, and that no text crashes it."""

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.outcomes import Outcome
from kernelwright.verify.static import bare_load, inspect_code

KERNEL = """
@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)
"""
MODEL = """
class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        {inside}
        return out
"""
IMPORTS = "import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n"


def outcome(before: str = "", inside: str = "pass", after: str = "") -> Outcome | None:
    """The gate's outcome for an otherwise honest file with something added."""
    found = inspect_code(f"{IMPORTS}{before}\n{KERNEL}{MODEL.format(inside=inside)}{after}\n")
    return None if found is None else found.outcome


def test_the_plain_file_passes() -> None:
    assert outcome() is None


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[1] / "honest").glob("*.py"))[::10], ids=lambda path: path.stem
)
def test_an_honest_kernel_passes(path: Path) -> None:
    assert inspect_code(path.read_text("utf-8")) is None


# refused


@pytest.mark.parametrize(
    "line",
    [
        "import subprocess",
        "import ctypes",
        "import socket",
        "import threading",
        "import inspect",
        "import gc",
        "import builtins",
        "import importlib",
        "import multiprocessing",
        "import pickle",
        "import atexit",
        "import signal",
        "import mmap",
        "import __main__",
        "import kernelwright",
        "import cupy",
        "from os import system",
        "from sys import modules",
        "from . import reference",
        "from torch.utils.cpp_extension import load_inline",
        "from torch import ops",
        "from torch.utils._python_dispatch import _disable_current_modes",
        "from dataclasses import builtins",
        "from operator import *",
        "from operator import attrgetter",
        "import logging.config",
        "import concurrent.futures",
        "from typing import get_type_hints",
        "from functools import update_wrapper",
    ],
)
def test_an_import_that_reaches_outside_is_forbidden(line: str) -> None:
    assert outcome(before=line) is Outcome.FORBIDDEN_IMPORT


@pytest.mark.parametrize(
    "code",
    [
        "eval('1')",
        "exec('1')",
        "compile('1', '', 'eval')",
        "open('/etc/passwd')",
        "__import__('os')",
        "globals()",
        "vars()",
        "dir(x)",
        "type(x) is torch.Tensor",
        "x.grad_fn.name()",
        "x._post_accumulate_grad_hooks",
        "self.w._values()",
        "self._compiled_call_impl",
        "breakpoint()",
        "exit()",
        "torch._C._jit_pass_dce",
        "torch.ops.aten.relu(x)",
        "torch.compile(lambda y: y)",
        "torch.jit.script",
        "torch.load('x')",
        "torch.save(x, 'x')",
        "torch.cuda.CUDAGraph()",
        "torch.cuda.synchronize = None",
        "torch.backends.cudnn.enabled = False",
        "torch.backends.cuda.matmul.allow_tf32 = True",
        "torch.set_num_threads(1)",
        "torch.get_num_interop_threads()",
        "torch.get_default_device()",
        "torch.backends.cuda.flash_sdp_enabled()",
        "torch.backends.mha.get_fastpath_enabled()",
        "torch.backends.opt_einsum.strategy",
        "getattr(torch, 'get_default_device')()",
        "torch.nn.functional.importlib",
        "torch.Tensor.__eq__ = None",
        "setattr(torch, 'equal', None)",
        "getattr(torch, 'o' + 'ps')",
        "x.__dict__",
        "(lambda: 0).__globals__",
        "self.forward.__func__.__code__",
        "type(kernel).run = None",
        "type('A', (), {})",
        "fetch = getattr",
        "list(map(getattr, [x], ['y']))",
        "t = torch\n        t._C",
        "c = torch.cuda\n        c.Event = None",
        "m = [torch][0]",
        "(lambda module: module)(torch)",
        "x.share_memory_()",
        "tl.load = None",
    ],
)
def test_a_construct_that_only_reaches_the_judge_is_forbidden(code: str) -> None:
    assert outcome(inside=code) is Outcome.FORBIDDEN_CODE


@pytest.mark.parametrize(
    "code",
    [
        "class A:\n    def __del__(self): pass",
        "class A(torch.Tensor): pass",
        "class A(metaclass=type): pass",
        "async def f(): pass",
        "match torch:\n    case object(__dict__=d): pass",
        "import os\nos.environ['A'] = 'b'",
        "import os\nos.environ.update(A='b')",
        "import os\nos._exit(0)",
        "import sys\nsys.exit(0)",
        "import sys\nsys.modules",
        "import time\ntime.perf_counter = None",
        "import random\nrandom._os",
        "import numpy as np\nnp.zeros(1).ctypes",
        "import numpy as np\nnp.load('x')",
        "import numpy as np\nnp.random.rand()",
        "from torch.utils.data import get_worker_info",
        "import string\nstring.Formatter",
        "import contextlib\ncontextlib.os",
        "import enum\nenum.bltns",
    ],
)
def test_a_definition_that_only_reaches_the_judge_is_forbidden(code: str) -> None:
    assert outcome(before=code) in (Outcome.FORBIDDEN_CODE, Outcome.FORBIDDEN_IMPORT)


# left to run time, or harmless


@pytest.mark.parametrize(
    "code",
    [
        "torch.relu(x)",
        "x @ x",
        "self.linear = nn.Linear(3, 3)",
        "torch.cuda.synchronize()",
        "torch.count_nonzero(x)",
        "torch.is_grad_enabled() and torch.is_tensor(x) and torch.backends.cuda.matmul.allow_tf32",
        "x.get_device()",
        "assert x.is_cuda",
        "print('exec eval os._exit')",
        "self.register_buffer('b', x)",
        "setattr(self, 'a', 1)",
        "setattr(self, f'weight_{1}', 1)",
        "getattr(self, 'a', None)",
        "hasattr(self, 'a')",
        "self._values = x\n        y = self._values[0]",
        "for m in self.modules(): pass",
        "self.eval()",
        "input = x",
        "with torch.no_grad(): pass",
        "isinstance(x, torch.Tensor)",
        "x.data_ptr()",
        "self.__class__.__name__",
        "raise TypeError(x.__class__.__name__)",
        "type(x) is int",
        "type(x)(y)",
        "try:\n            pass\n        except RuntimeError:\n            raise",
        "torch.cuda.get_device_properties(0).multi_processor_count",
        "device = torch.cuda.current_device()",
        "torch.empty(3, device='cuda').zero_()",
    ],
)
def test_what_honest_files_do_is_left_alone(code: str) -> None:
    assert outcome(inside=code) is None


@pytest.mark.parametrize(
    "line",
    [
        "import math",
        "import os",
        "import sys",
        "import time",
        "import numpy as np",
        "import torch.nn.functional as F",
        "from typing import Optional, Tuple",
        "from functools import partial, lru_cache",
        "from dataclasses import dataclass",
        "from collections import OrderedDict",
        "from contextlib import nullcontext",
        "from __future__ import annotations",
        "from triton.language.extra import libdevice",
        "from triton.language.extra.cuda import libdevice",
        "DEVICE = triton.runtime.driver.active.get_active_torch_device()",
        "functools = 1",
    ],
)
def test_usual_imports_pass(line: str) -> None:
    first = line if line.startswith("from __future__") else ""
    assert (
        inspect_code(f"{first}\n{IMPORTS}{'' if first else line}\n{KERNEL}{MODEL.format(inside='pass')}")
        is None
    )


@pytest.mark.parametrize(
    "word", ["exec", "eval", "__globals__", "os._exit(0)", "import subprocess", "torch.ops"]
)
def test_words_in_texts_and_comments_do_not_matter(word: str) -> None:
    assert outcome(before=f'"""{word}"""\nNOTE = "{word}"  # {word}', inside=f"'{word}'") is None


def test_what_stands_under_main_never_runs_here() -> None:
    main = "if __name__ == '__main__':\n    torch.manual_seed(0)\n    triton.testing.do_bench(lambda: 0)\n    exit()"
    assert outcome(after=main) is None


# form


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("", Outcome.NOT_TRITON),
        ("x = (", Outcome.SYNTAX_ERROR),
        ("\x00", Outcome.SYNTAX_ERROR),
        ("def f(:", Outcome.SYNTAX_ERROR),
        ("x = " + "(" * 500 + ")" * 500, Outcome.SYNTAX_ERROR),
        ("x = " + "-" * 100_000 + "1", Outcome.SYNTAX_ERROR),
        (IMPORTS + "class ModelNew(nn.Module): pass", Outcome.NOT_TRITON),
        (IMPORTS + KERNEL + "class ModelNew(nn.Module): pass", Outcome.NOT_TRITON),
        (IMPORTS + KERNEL + "kernel[(1,)](0, 0, 0, BLOCK=1)", Outcome.NO_ENTRY),
        (
            IMPORTS + KERNEL.replace("@triton.jit", "# @triton.jit") + MODEL.format(inside="pass"),
            Outcome.NOT_TRITON,
        ),
    ],
    ids=range(10),
)
def test_a_file_without_the_form_is_named(code: str, expected: Outcome) -> None:
    found = inspect_code(code)
    assert found is not None
    assert found.outcome is expected
    assert "\n" not in found.detail
    assert len(found.detail) <= 600


def test_the_first_offence_is_told_with_its_line() -> None:
    found = inspect_code(f"{IMPORTS}import ctypes\nimport socket\n{KERNEL}{MODEL.format(inside='pass')}")
    assert found is not None
    assert found.detail.startswith("line 5:")
    assert "ctypes" in found.detail


@given(st.text(max_size=300))
def test_no_text_breaks_the_gate(text: str) -> None:
    inspect_code(text)


fragments = st.lists(
    st.sampled_from(
        [
            *IMPORTS.splitlines(),
            KERNEL,
            MODEL.format(inside="pass"),
            "x = torch",
            "del torch",
            "global x",
            "match x:\n case _: pass",
            "class A: pass",
            "f = lambda: torch",
            "[torch for torch in ()]",
            "torch: int = 3",
            "with torch as t: pass",
            "(y := torch).z",
            "def f(torch=torch): return torch.x",
            "try: pass\nexcept* E as torch: pass",
            "@torch\ndef g(): pass",
        ]
    ),
    max_size=8,
)


@settings(max_examples=200)
@given(fragments)
def test_no_order_of_statements_breaks_the_gate(lines: list[str]) -> None:
    inspect_code("\n".join(lines))


@pytest.mark.parametrize(
    "code",
    [
        "import torch as a0\n" + "".join(f"a{i + 1}=a{i}.b.c.d.e\n" for i in range(500)),
        "x=1\n" * 6_000,
        "x = " + "[" * 90 + "0" + "".join(f" for v{i} in y]" for i in range(90)),
    ],
    ids=["aliases of aliases", "long text", "nested comprehensions"],
)
def test_no_text_keeps_a_judge_busy(code: str) -> None:
    start = time.process_time()
    assert inspect_code(code) is not None
    assert time.process_time() - start < 5.0


def test_a_load_by_a_mask_without_another_value_is_found() -> None:
    assert bare_load("tl.load(p)\ntl.load(p, mask=m, other=0)\ntl.load(p, m, 0.0)\nd.load([i, j])") == 0
    assert bare_load("tl.load(p)\ntl.load(p, mask=m)\ntl.load(p, m)") == 2
