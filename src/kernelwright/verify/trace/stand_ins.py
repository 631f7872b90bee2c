"""Stand-ins for `torch.cuda` and Triton's driver without a GPU, with the classes, names and texts of the real ones.

Where the real function, class or property would answer and the answer is not modelled, `Unmodelled` is raised and remembered,
caught or not: a candidate could recognise the judge by a missing attribute.

Streams and events order work (`streams.py`) and do nothing else.

Not guaranteed: identities below Python (`type(x) is` a class of torch's bindings that this build of torch lacks) differ
from those of a GPU build.
"""

from __future__ import annotations

import contextlib
import functools
import random
import sys
import types
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import torch
from torch._library.custom_ops import CustomOpDef

from kernelwright.hardware import Target
from kernelwright.verify.trace import switches
from kernelwright.verify.trace.pretend_cuda import Unmodelled
from kernelwright.verify.trace.streams import STREAMS, Clock
from kernelwright.verify.trace.surroundings import Surroundings

_CUDA = torch.device("cuda", 0)
_REGISTERS = 1 << 16
"""Registers of a multiprocessor."""


class StandIn:
    """Stand-in for a foreign object. Attributes that it lacks raise Unmodelled."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        raise Unmodelled(f"`{name}` of a {type(self).__name__} is not answered without a GPU")


def _go_by(made: type, name: str, module: str, text: str | None) -> None:
    """Give a class the name, module and docstring of another."""
    made.__name__, made.__qualname__, made.__module__, made.__doc__ = name, name, module, text


def like(original: object, answer: object) -> object:
    """`answer`, with the name, module and docstring of `original`."""
    if isinstance(answer, types.FunctionType) and callable(original) and not isinstance(original, type):
        functools.update_wrapper(answer, original)
        del answer.__wrapped__  # type: ignore[attr-defined]
    return answer


class _Metadata(StandIn):
    def __init__(self, shared: int, options: dict[str, object]) -> None:
        self.shared = shared
        self.num_warps, self.num_ctas = int(str(options.get("num_warps", 4))), 1
        self.num_stages = int(str(options.get("num_stages", 3)))


_go_by(_Metadata, "KernelMetadata", "triton.compiler.compiler", None)


class CompiledKernel(StandIn):
    """What a launch or `warmup` returns; it can be launched again. Registers and shared memory are unknown while kernels are only
    recorded, so plausible values are drawn."""

    n_spills, n_max_threads = 0, 1024

    def __init__(
        self, launch: Callable[..., object], options: dict[str, object], dice: random.Random, usual: bool
    ) -> None:
        """`launch` takes a grid and arguments. The values drawn are `usual` or larger."""
        self._launch = launch
        self.metadata = _Metadata(
            1024 * (dice.randrange(1, 17) if usual else dice.randrange(17, 97)), options
        )
        most = _REGISTERS // (32 * self.metadata.num_warps)
        self.n_regs = min(2 * (dice.randrange(12, 33) if usual else dice.randrange(33, 116)), most)

    def _init_handles(self) -> None: ...

    def __getitem__(self, grid: object) -> Callable[..., object]:
        return functools.partial(self._launch, grid)


_go_by(CompiledKernel, "CompiledKernel", "triton.compiler.compiler", None)


class _Guard(StandIn):
    """Stand-in for context managers that make a device or stream current."""

    def __init__(self, *args: object, **kwargs: object) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *exc: object) -> None: ...


class _DeviceGuard(_Guard):
    idx, prev_idx = 0, -1


_go_by(_DeviceGuard, "device", "torch.cuda", torch.cuda.device.__doc__)


class _DeviceOf(_DeviceGuard): ...


_go_by(_DeviceOf, "device_of", "torch.cuda", torch.cuda.device_of.__doc__)


class _StreamGuard(_Guard):
    def __init__(self, stream: object = None) -> None:
        self.stream, self.idx = stream, 0

    def __enter__(self) -> None:
        STREAMS.entered.append(getattr(self.stream, "cuda_stream", None))

    def __exit__(self, *exc: object) -> None:
        del STREAMS.entered[-1:]


_go_by(_StreamGuard, "StreamContext", "torch.cuda", torch.cuda.StreamContext.__doc__)


class _Stream(StandIn):
    """A stream without work. The default stream is number 0."""

    device, device_index, device_type, priority = _CUDA, 0, 1, 0
    _next: ClassVar[int] = 0x5581_2000_0000

    def __init__(self, *args: object, default: bool = False, **kwargs: object) -> None:
        _Stream._next += 0 if default else 4096
        self.cuda_stream = self.stream_id = 0 if default else _Stream._next

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Stream) and other.cuda_stream == self.cuda_stream

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"

    def query(self) -> bool:
        return STREAMS.query(STREAMS.clock(self.cuda_stream))

    def record_event(self, event: Any = None) -> object:
        made = _Event() if event is None else event
        made.record(self)
        return made

    def synchronize(self) -> None:
        STREAMS.stop_for(STREAMS.clock(self.cuda_stream))

    def wait_event(self, event: Any) -> None:
        event.wait(self)

    def wait_stream(self, stream: Any) -> None:
        STREAMS.wait(self.cuda_stream, STREAMS.clock(stream.cuda_stream))


_go_by(_Stream, "Stream", "torch.cuda.streams", torch.cuda.Stream.__doc__)


class _Event(StandIn):
    """An event with a time from the clock that `surroundings` draws."""

    device = _CUDA
    ticks: ClassVar[Callable[[], float]] = staticmethod(lambda: 0.0)

    def __init__(self, *args: object, **kwargs: object) -> None:
        self._at = 0.0
        self._known: Clock = {}

    def record(self, stream: Any = None) -> None:
        self._at = _Event.ticks()
        self._known = dict(STREAMS.clock(None if stream is None else stream.cuda_stream))

    def elapsed_time(self, end_event: Any) -> float:
        return float(1e3 * (end_event._at - self._at))

    def query(self) -> bool:
        return STREAMS.query(self._known)

    def synchronize(self) -> None:
        STREAMS.stop_for(self._known)

    def wait(self, stream: Any = None) -> None:
        STREAMS.wait(None if stream is None else stream.cuda_stream, self._known)


_go_by(_Event, "Event", "torch.cuda.streams", torch.cuda.Event.__doc__)


class _Properties(StandIn):
    """`torch.cuda.get_device_properties`, from the target's specification."""

    def __init__(self, target: Target) -> None:
        nvidia = target.backend == "cuda"
        self.name = f"NVIDIA {target.name.upper()}" if target.vendor == "nvidia" else target.name
        self.major, self.minor = (int(target.arch[0]), int(target.arch[1:])) if nvidia else (9, 4)
        self.multi_processor_count = target.sms
        self.total_memory = 140 * 2**30
        self.warp_size = target.warp_size
        self.regs_per_multiprocessor = target.registers_per_sm
        self.max_threads_per_multi_processor = target.threads_per_sm
        self.max_threads_per_block = 1024
        self.shared_memory_per_block = 49152
        self.shared_memory_per_block_optin = target.shared_per_block
        self.shared_memory_per_multiprocessor = target.shared_per_sm
        self.L2_cache_size = target.l2_bytes
        self.clock_rate, self.memory_clock_rate, self.memory_bus_width = 1_980_000, 2_619_000, 6144
        self.pci_bus_id, self.pci_device_id, self.pci_domain_id = 0x1B, 0, 0
        self.is_integrated = self.is_multi_gpu_board = 0
        self.gcnArchName = self.name if nvidia else target.arch
        self.uuid = uuid.uuid4()

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // 2**20}MB, multi_processor_count={self.multi_processor_count}, "
            f"uuid={self.uuid}, pci_bus_id={self.pci_bus_id}, pci_device_id={self.pci_device_id}, "
            f"pci_domain_id={self.pci_domain_id}, L2_cache_size={self.L2_cache_size // 2**20}MB)"
        )


_go_by(_Properties, "_CudaDeviceProperties", "torch._C", None)


class _Driver(StandIn):
    """Stand-in for Triton's active driver: what Triton's tutorials ask of it."""

    def __init__(self, target: Target, properties: _Properties) -> None:
        from triton.backends.compiler import GPUTarget

        arch: object = int(target.arch) if target.backend == "cuda" else target.arch
        self._target = GPUTarget(target.backend, arch, target.warp_size)
        self._properties = properties
        self.utils = self

    def get_current_target(self) -> object:
        return self._target

    def get_active_torch_device(self) -> torch.device:
        return _CUDA

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: object = None) -> int:
        return 0

    def get_device_interface(self) -> object:
        return torch.cuda

    def get_device_properties(self, device: object = None) -> dict[str, int]:
        known = self._properties
        return {
            "max_shared_mem": known.shared_memory_per_block_optin,
            "max_num_regs": known.regs_per_multiprocessor,
            "multiprocessor_count": known.multi_processor_count,
            "warpSize": known.warp_size,
            "sm_clock_rate": 1_980_000,
            "mem_clock_rate": 2_619_000,
            "mem_bus_width": 6144,
        }


def _answers(properties: _Properties, surroundings: Surroundings | None) -> dict[str, object]:
    """Replacements for attributes of `torch.cuda`, by name, except those that depend on seeds."""

    def used(device: object = None) -> int:
        return surroundings.memory_in_use() if surroundings is not None else 0

    side = _Stream()
    STREAMS.other = side.cuda_stream

    def current_stream(device: object = None) -> _Stream:
        entered = next((one for one in reversed(STREAMS.entered) if one is not None), None)
        if entered is not None:
            made = _Stream(default=True)
            made.cuda_stream = made.stream_id = entered
            return made
        return side if surroundings is not None and surroundings.streaming else _Stream(default=True)

    def unmodelled() -> None:
        raise Unmodelled("a question to torch.cuda that is not answered without a GPU")

    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "device_count": lambda: surroundings.gpus if surroundings is not None else 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "synchronize": lambda device=None: STREAMS.stop_for(),
        "get_device_name": lambda device=None: properties.name,
        "get_device_capability": lambda device=None: (properties.major, properties.minor),
        "get_device_properties": lambda device=None: properties,
        "memory_allocated": used,
        "max_memory_allocated": used,
        "memory_reserved": used,
        "max_memory_reserved": used,
        "mem_get_info": lambda device=None: (properties.total_memory - used(), properties.total_memory),
        "memory_stats": lambda device=None: _statistics(used()),
        "is_current_stream_capturing": lambda: surroundings is not None and surroundings.capturing,
        "get_arch_list": lambda: [f"sm_{properties.major}{properties.minor}"],
        "utilization": lambda device=None: used() // 512 % 101,
        "_lazy_init": unmodelled,
        "current_stream": current_stream,
        "default_stream": lambda device=None: _Stream(default=True),
        "stream": lambda stream=None: _StreamGuard(stream),
        "Stream": _Stream,
        "Event": _Event,
        "StreamContext": _StreamGuard,
        "device": _DeviceGuard,
        "device_of": _DeviceOf,
        "is_bf16_supported": lambda *args, **kwargs: True,
        **dict.fromkeys(("manual_seed", "manual_seed_all"), _seeds(surroundings)),
    }


_FELT = {
    **dict.fromkeys(
        ("empty_cache", "ipc_collect"), "gives back memory that the allocator keeps for everybody"
    ),
    **dict.fromkeys(
        ("reset_peak_memory_stats", "reset_accumulated_memory_stats", "reset_max_memory_allocated"),
        "sets back statistics of memory that everybody reads",
    ),
}
"""Functions that affect the whole process."""


def _felt(surroundings: Surroundings | None) -> list[tuple[object, str, Callable[..., None]]]:
    """Replacements for the functions in `_FELT`, everywhere torch has them."""

    def disturbs(what: str) -> Callable[..., None]:
        def disturb(device: object = None) -> None:
            if surroundings is not None:
                surroundings.disturb(what)

        return disturb

    owners = torch.cuda, torch.cuda.memory, torch.accelerator, getattr(torch.accelerator, "memory", None)
    return [
        (owner, name, disturbs(what))
        for owner in owners
        for name, what in _FELT.items()
        if hasattr(owner, name)
    ]


def _seeds(surroundings: Surroundings | None) -> Callable[[object], None]:
    """Replacement for functions that seed generators; torch's own functions call it, too."""

    def seed(seed: object) -> None:
        if surroundings is not None:
            surroundings.hear_of_seeds("torch.manual_seed")

    return seed


class _Operator(StandIn):
    """What `torch.library.triton_op` makes of a function: a callable that calls it."""

    def __init__(self, name: str, function: Callable[..., object]) -> None:
        self._name, self._function = name, function

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self._function(*args, **kwargs)


_go_by(_Operator, "CustomOpDef", "torch._library.custom_ops", CustomOpDef.__doc__)


def _triton_op(
    name: str,
    fn: Callable[..., object] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    schema: str | None = None,
) -> object:
    return functools.partial(_Operator, name) if fn is None else _Operator(name, fn)


def _wrap_triton(triton_kernel: object, /) -> object:
    return triton_kernel


@contextlib.contextmanager
def pretend_torch_cuda(target: Target, surroundings: Surroundings | None = None) -> Iterator[None]:
    """Make `torch.cuda` and Triton's driver answer as on one GPU of this kind, with the memory in use that `surroundings`
    report (none without them). Restored on exit."""
    from triton.runtime import driver

    properties = _Properties(target)
    if surroundings is not None:
        _Event.ticks = surroundings.ticks
    drawn = surroundings or Surroundings(environment=False)

    names = ("initial_seed", "is_inference_mode_enabled", "get_default_dtype")
    hidden = {name: getattr(torch, name) for name in names}

    def initial_seed() -> int:
        seed = int(hidden["initial_seed"]())
        return drawn.seed if seed == drawn.weights else seed

    def default_dtype() -> torch.dtype:
        """The drawn dtype for a candidate; the real one for torch's own functions."""
        own = str(sys._getframe(1).f_globals.get("__name__")).partition(".")[0] == "torch"
        return hidden["get_default_dtype"]() if own or not drawn.dtype else getattr(torch, drawn.dtype)

    former = driver._active
    driver.set_active(_Driver(target, properties))
    changes: list[tuple[object, str, object]] = [
        (torch.cuda, name, value) for name, value in _answers(properties, surroundings).items()
    ]
    changes += [(torch.cuda.streams, "Stream", _Stream), (torch.cuda.streams, "Event", _Event)]
    changes += [
        *_build(target),
        (torch.accelerator, "device_count", lambda: 1 if surroundings is None else surroundings.gpus),
        *_felt(surroundings),
        *switches.answers(lambda: drawn.way),
        (torch.library, "triton_op", _triton_op),
        (torch.library, "wrap_triton", _wrap_triton),
        (torch.cuda, "initial_seed", lambda: initial_seed()),
        (torch, "initial_seed", initial_seed),
        (torch.random, "initial_seed", initial_seed),
        (
            torch,
            "is_inference_mode_enabled",
            lambda: hidden["is_inference_mode_enabled"]() or drawn.inference,
        ),
        (torch, "get_default_dtype", default_dtype),
        (torch, "get_num_threads", lambda: drawn.threads),
        (torch, "get_num_interop_threads", lambda: drawn.threads),
    ]
    saved = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    for (owner, name, value), (_, _, original) in zip(changes, saved, strict=True):
        setattr(owner, name, like(original, value))
    try:
        yield
    finally:
        driver._active = former
        for owner, name, value in saved:
            setattr(owner, name, value)


def _statistics(used: int) -> dict[str, int]:
    """`torch.cuda.memory_stats` under all of its names."""
    kinds = ["allocation", "segment", "active", "inactive_split"]
    kinds += [f"{kind}_bytes" for kind in ("allocated", "reserved", "active", "inactive_split", "requested")]
    found = {
        f"{kind}.{pool}.{when}": used if kind.endswith("_bytes") else used // 2**20
        for kind in kinds
        for pool in ("all", "small_pool", "large_pool")
        for when in ("current", "peak", "allocated", "freed")
    }
    for kind in ("oversize_allocations", "oversize_segments"):
        found |= {f"{kind}.{when}": 0 for when in ("current", "peak", "allocated", "freed")}
    single = ("num_alloc_retries", "num_ooms", "num_sync_all_streams", "num_device_alloc", "num_device_free")
    return {**found, "max_split_size": -1, **dict.fromkeys(single, 0)}


def _build(target: Target) -> list[tuple[Any, str, Any]]:
    """What a build of torch for such GPUs reports of itself, whatever this build is."""
    cuda = target.backend == "cuda"
    plain = str(torch.__version__).partition("+")[0]
    return [
        (torch, "__version__", torch.torch_version.TorchVersion(f"{plain}+{'cu128' if cuda else 'rocm6.4'}")),
        (torch.version, "__version__", f"{plain}+{'cu128' if cuda else 'rocm6.4'}"),
        (torch.version, "cuda", "12.8" if cuda else None),
        (torch.version, "hip", None if cuda else "6.4"),
        (torch.backends.cuda, "is_built", lambda: True),
        (torch.backends.cudnn, "is_available", lambda: True),
        (torch.backends.cudnn, "version", lambda: 91002),
        (torch.accelerator, "is_available", lambda: True),
        (torch.accelerator, "current_accelerator", lambda check_available=False: torch.device("cuda")),
        (torch.accelerator, "synchronize", lambda device=None: STREAMS.stop_for()),
    ]
