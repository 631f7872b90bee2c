"""Simulates a GPU for Inductor where there is none: its questions about the machine are answered from a data sheet.

Everything that depends on torch's internals or version is here and in `lower.py`'s list of settings: stand-ins for device
properties and streams, the offline Triton driver, the hook that intercepts Inductor's output, and the choice of a GEMM
template without a benchmark. `install` changes this process permanently: call it in a worker.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import torch

from kernelwright.hardware import Target
from kernelwright.synth.sizes import next_power_of_two

SETTINGS: dict[str, Any] = {
    "compile_threads": 1, "fx_graph_cache": False, "force_disable_caches": True, "size_asserts": False,
    "alignment_asserts": False, "assert_indirect_indexing": False, "allow_buffer_reuse": False,
    "inplace_buffers": False, "comment_origin": False, "online_softmax": False, "combo_kernels": False,
    "memory_planning": False, "max_autotune": True, "max_autotune_gemm_backends": "TRITON",
    "max_autotune_conv_backends": "TRITON", "triton.cudagraphs": False, "triton.mix_order_reduction": False,
    "triton.cooperative_reductions": False, "triton.use_block_ptr": False, "triton.store_cubin": False,
    "triton.enable_pdl": False, "triton.descriptive_names": "original_aten",
}  # fmt: skip
"""Inductor's configuration; names that this version of torch does not know are skipped."""

LIBRARY: dict[str, Any] = {
    "max_autotune": False,
    "max_autotune_gemm_backends": "ATEN",
    "max_autotune_conv_backends": "ATEN",
    "size_asserts": True,
}
"""Changes if contractions stay with the library; the asserts reveal the sizes of its results."""

TILE = (128, 128, 32)
"""Preferred (M, N, K) tile of a GEMM or convolution template, for outputs that are large enough."""
SHARED = 128 * 1024
"""Most bytes of shared memory for a template's pipeline, at four bytes per element."""
WHOLE_ROWS = 4096
"""Longest row, in elements, that a program with dynamic row length processes at once."""
SHORT = 1024
"""Longest reduction, in elements, that is never split over programs: a second launch would take longer."""


_GUARDS = ("guard_int_seq", "evaluate_static_shapes")
"""Names, by torch version, of the function that turns sizes into integers, newest first."""
_SIZES = ("optimization_hint", "size_hint")
"""Names of the function that returns a size's hint."""


class Emitted(BaseException):
    """Carries Inductor's wrapper and kernels as one text; raised to end the compilation before anything is loaded."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self.code = code


def install(sheet: Target) -> None:
    """Make torch and Triton see one GPU like `sheet`, and intercept Inductor's output."""
    _host()
    _device(sheet)
    _driver(sheet)
    _inductor()
    _inductors_reductions()


def settings(contractions: str = "own") -> dict[str, Any]:
    """The `SETTINGS` that this torch knows; with `auto`, products and convolutions stay with the library."""
    from torch._inductor import config

    known = config.get_config_copy()
    wanted = SETTINGS if contractions == "own" else {**SETTINGS, **LIBRARY}
    return {name: value for name, value in wanted.items() if name in known}


def _host() -> None:
    """Settings that a symbolic trace needs on any machine."""
    from torch.utils._sympy.value_ranges import SymPyValueRangeAnalysis, ValueRanges

    # With symbols, its cache costs more than it saves: a fifth of a compilation.
    torch._dynamo.config.fake_tensor_cache_enabled = False
    # The CPU's convolution libraries are selected by size, which would add guards to a symbolic trace.
    torch._C._set_nnpack_enabled(False)
    torch._C._set_mkldnn_enabled(False)
    natural = SymPyValueRangeAnalysis.pow_by_natural

    def pow_by_natural(base: Any, power: Any) -> Any:
        """Handles sizes of strided convolutions: as fractions, torch has no range for them and would fail."""
        return ValueRanges.unknown() if ValueRanges.wrap(power).upper < 0 else natural(base, power)

    setattr(SymPyValueRangeAnalysis, "pow_by_natural", staticmethod(pow_by_natural))  # noqa: B010


def _device(sheet: Target) -> None:
    from torch._dynamo import device_interface
    from torch._subclasses import fake_tensor

    major, minor = int(sheet.arch) // 10, int(sheet.arch) % 10
    properties = types.SimpleNamespace(
        name=sheet.name,
        major=major,
        minor=minor,
        multi_processor_count=sheet.sms,
        regs_per_multiprocessor=sheet.registers_per_sm,
        max_threads_per_multi_processor=sheet.threads_per_sm,
        max_threads_per_block=1024,
        warp_size=sheet.warp_size,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=sheet.shared_per_block,
        shared_memory_per_multiprocessor=sheet.shared_per_sm,
        L2_cache_size=sheet.l2_bytes,
        total_memory=80 * 2**30,
        gcnArchName="",
    )
    answers: dict[str, Any] = {
        "is_available": True,
        "is_bf16_supported": True,
        "current_device": 0,
        "device_count": 1,
        "get_device_properties": properties,
        "get_device_capability": (major, minor),
        "get_device_name": sheet.name,
        "get_rng_state": torch.zeros(16, dtype=torch.uint8),
        "set_rng_state": None,
        "set_device": None,
        "synchronize": None,
        "_lazy_init": None,
        "_exchange_device": 0,
        "_maybe_exchange_device": 0,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, _always(answer))
    # Of all operators, only `~x` sets the device, which a torch without CUDA cannot.
    setattr(torch.Tensor, "__invert__", lambda self: torch.bitwise_not(self))  # noqa: B010
    # Torch 2.11 allocates a real tensor on a device that it believes to exist.
    setattr(fake_tensor, "init_gpu_context", _always(None))  # noqa: B010
    interface: Any = device_interface.CudaInterface
    for name in ("is_available", "current_device", "device_count", "get_device_properties", "synchronize"):
        setattr(interface, name, staticmethod(_always(answers[name])))
    for name in ("exchange_device", "maybe_exchange_device", "get_raw_stream"):
        setattr(interface, name, staticmethod(_always(0)))
    interface.get_compute_capability = staticmethod(_always(major * 10 + minor))
    device_interface.caching_worker_device_properties["cuda"] = [properties]
    device_interface.caching_worker_current_devices["cuda"] = 0


def _driver(sheet: Target) -> None:
    import triton
    from triton.backends.compiler import GPUTarget

    limits = {
        "max_shared_mem": sheet.shared_per_block,
        "multiprocessor_count": sheet.sms,
        "warpSize": sheet.warp_size,
        "max_num_regs": sheet.registers_per_sm,
    }
    driver = types.SimpleNamespace(
        get_current_target=_always(GPUTarget("cuda", int(sheet.arch), sheet.warp_size)),
        get_current_device=_always(0),
        get_current_stream=_always(0),
        get_active_torch_device=_always(torch.device("cuda", 0)),
        get_benchmarker=_always(None),
        utils=types.SimpleNamespace(get_device_properties=_always(limits)),
    )
    triton.runtime.driver.set_active(driver)


def _inductor() -> None:
    from torch._inductor import graph, select_algorithm
    from torch._inductor.ir import TritonTemplateCallerBase
    from torch._inductor.sizevars import SizeVarAllocator

    def emit(self: Any) -> Any:
        code, _ = self.codegen()
        raise Emitted(code if isinstance(code, str) else code.value)

    select: Any = select_algorithm.AlgorithmSelectorCache.__call__

    def choose(self: Any, name: str, choices: list[Any], *rest: Any, **options: Any) -> Any:
        templates = [choice for choice in choices if isinstance(choice, TritonTemplateCallerBase)]
        return select(self, name, sorted(templates, key=_distance)[:1] or choices, *rest, **options)

    sequences = next(name for name in _GUARDS if hasattr(SizeVarAllocator, name))
    guard: Any = getattr(SizeVarAllocator, sequences)

    def guard_int_seq(self: Any, left: Any) -> list[Any]:
        """Skips guards on channel counts, which the convolution's lowering adds although its templates take any."""
        caller = sys._getframe(1)
        weight = caller.f_locals.get("weight") if caller.f_code.co_name == "convolution" else None
        if weight is not None and len(left) > 2 and list(left) == list(weight.get_size()):
            return [*left[:2], *guard(self, left[2:])]
        return list(guard(self, left))

    stand_ins: tuple[tuple[Any, str, Any], ...] = (
        (SizeVarAllocator, sequences, guard_int_seq),
        (graph.GraphLowering, "compile_to_module", emit),
        (select_algorithm.AlgorithmSelectorCache, "__call__", choose),
    )
    for owner, name, stand_in in stand_ins:
        setattr(owner, name, stand_in)


def _inductors_reductions() -> None:
    """Process whole rows per program, and do not split sums and scans."""
    from torch._inductor import ir
    from torch._inductor.choices import InductorChoices
    from torch._inductor.codegen.triton import TritonKernel

    persistent = InductorChoices.should_use_persistent_reduction

    def whole_rows(features: Any, cooperative: bool) -> bool:
        from torch._inductor.runtime.hints import ReductionHint
        from torch._inductor.virtualized import V

        rows = V.graph.sizevars.simplify(features.reduction_numel)
        if not rows.free_symbols:
            return bool(persistent(features, cooperative))
        hint = _hint(rows)
        inner = features.get_reduction_hint() == ReductionHint.INNER
        return hint <= (WHOLE_ROWS if inner else 64)

    def whole_scan(*_: Any, **__: Any) -> Any:
        """Do not split scans: that needs a look-back protocol without a plain form."""
        from torch._inductor.runtime.hints import ReductionHint

        return ReductionHint.INNER, 1

    split = InductorChoices.reduction_split_factor

    def parts(device: Any, elements: int, results: int, inner_reduction: bool) -> int:
        return 1 if elements <= SHORT else int(split(device, elements, results, inner_reduction))

    fixed = TritonKernel._get_persistent_RBLOCK

    def row_block(rows: Any) -> Any:
        """For a row of dynamic length, the next power of two of its hint; the launch computes the actual one."""
        from torch._inductor.virtualized import V

        rows = V.graph.sizevars.simplify(rows)
        if getattr(rows, "free_symbols", None):
            return next_power_of_two(_hint(rows))
        return fixed(rows)

    stand_ins: tuple[tuple[Any, str, Any], ...] = (
        (InductorChoices, "should_use_persistent_reduction", whole_rows),
        (InductorChoices, "reduction_split_factor", parts),
        (TritonKernel, "_get_persistent_RBLOCK", row_block),
        (ir.Scan, "num_splits", whole_scan),
    )
    for owner, name, stand_in in stand_ins:
        setattr(owner, name, staticmethod(stand_in))


def _hint(expression: Any) -> int:
    """The value of a symbolic size in the traced shape set."""
    from torch._inductor.virtualized import V

    variables = V.graph.sizevars
    name = next(name for name in _SIZES if hasattr(variables, name))
    return int(getattr(variables, name)(expression))


def _distance(choice: Any) -> float:
    """Distance of a template's tile from the preferred one, in powers of two."""
    import ast

    try:
        tall, deep, broad = ast.literal_eval(choice.log_info["tile_shape"])
        stages = int(choice.log_info.get("num_stages", 3))
        element = max(node.get_dtype().itemsize for node in choice.input_nodes)
        if element * stages * (int(tall) + int(broad)) * int(deep) > SHARED:
            return 90.0
        *_, rows, columns = [_hint(side) for side in choice.layout.size]
        small = choice.name.find("conv") < 0
        wanted = (min(TILE[0], rows), min(TILE[1], columns), TILE[2]) if small else TILE
        return sum(
            abs(int(side).bit_length() - int(want).bit_length())
            for side, want in zip((tall, broad, deep), wanted, strict=True)
        )
    except (AttributeError, KeyError, TypeError, ValueError, SyntaxError):
        return 99.0


def _always(answer: Any) -> Any:
    return lambda *_, **__: answer
