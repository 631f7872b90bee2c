"""The tables that `static.py` reads: what a kernel file may import, and which members no honest kernel needs.

A path is a dotted name from an imported module on, such as `torch.cuda.graph`. Nothing is imported here.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ANY = frozenset(["*"])
"""Every public member, those apart that are modules of the standard library."""

STANDARD: dict[str, frozenset[str]] = {
    "__future__": _ANY,
    "abc": _ANY,
    "collections": _words("abc namedtuple OrderedDict defaultdict deque Counter ChainMap"),
    "contextlib": _words("contextmanager nullcontext suppress ExitStack ContextDecorator AbstractContextManager closing"),
    "copy": frozenset(["copy", "deepcopy"]),
    "dataclasses": _words("dataclass field asdict astuple replace fields is_dataclass KW_ONLY InitVar MISSING"),
    "enum": _words("Enum IntEnum Flag IntFlag StrEnum auto unique member"),
    "functools": _words("partial partialmethod reduce lru_cache cache cached_property wraps total_ordering cmp_to_key"),
    "itertools": _ANY,
    "logging": _words("getLogger basicConfig Logger StreamHandler NullHandler Formatter DEBUG INFO WARNING WARN ERROR CRITICAL "
        "debug info warning error critical exception log"),
    "math": _ANY,
    "numbers": _ANY,
    "operator": _ANY,
    "os": _words("environ path getenv linesep sep"),
    "random": _words("random randint seed choice choices sample shuffle uniform gauss randrange Random"),
    "re": _ANY,
    "string": _words("ascii_letters ascii_lowercase ascii_uppercase digits hexdigits punctuation whitespace Template"),
    "sys": _words("maxsize version version_info platform float_info stdout stderr byteorder getsizeof"),
    "textwrap": _words("dedent indent fill wrap shorten"),
    "time": _words("time perf_counter monotonic time_ns perf_counter_ns monotonic_ns process_time sleep strftime"),
    "typing": _ANY,
    "typing_extensions": _ANY,
    "warnings": _words("warn filterwarnings simplefilter catch_warnings"),
}  # fmt: skip
"""Importable modules of the standard library, with what may be used of each."""
_PATHS = _words("join basename dirname split splitext splitdrive normpath normcase commonpath commonprefix isabs relpath abspath "
    "expanduser expandvars sep pathsep curdir pardir extsep")  # fmt: skip
"""Of `os.path`: names of files, and nothing of which files there are."""

PACKAGES = frozenset(["torch", "triton", "numpy", "einops"])

_HIDDEN: dict[str, frozenset[str]] = {
    "operator": frozenset(["attrgetter", "methodcaller"]),
    "typing": frozenset(["get_type_hints", "ForwardRef", "evaluate_forward_ref", "io", "re"]),
    "typing_extensions": frozenset(["get_type_hints", "ForwardRef", "evaluate_forward_ref"]),
    "numpy": _words("ctypeslib f2py testing distutils load save savez savez_compressed memmap fromfile loadtxt savetxt genfromtxt "
        "fromregex DataSource lib core compat"),
    "torch": _words("hub multiprocessing distributed package jit compile serialization load save ops library classes overrides fx "
        "export futures profiler monitor onnx from_file autograd.set_detect_anomaly autograd.detect_anomaly "
        "autograd.profiler cuda.graph cuda.graphs cuda.CUDAGraph cuda.make_graphed_callables cuda.cudart "
        "cuda.caching_allocator_alloc cuda.caching_allocator_delete cuda.memory use_deterministic_algorithms "
        "backends.cudnn.flags UntypedStorage TypedStorage get_rng_state random.get_rng_state default_generator "
        "random.default_generator cuda.get_rng_state cuda.get_rng_state_all cuda.default_generators set_rng_state "
        "random.set_rng_state __config__ version.git_version version.debug utils.collect_env"),
    "triton": _words("runtime compiler knobs backends tools profiler"),
}  # fmt: skip
"""By package: members (or dotted paths below it) that no kernel needs."""

_SHOWN = _words("""
    triton.runtime.driver.active.utils.get_device_properties triton.runtime.driver.active.get_current_device
    triton.runtime.driver.active.get_active_torch_device triton.runtime.driver.active.get_current_target
    triton.runtime.jit.JITFunction triton.runtime.JITFunction triton.runtime.errors.OutOfResources
    triton.runtime.OutOfResources triton.runtime.autotuner.Config triton.runtime.Config triton.runtime.jit.jit
    triton.tools.tensor_descriptor.TensorDescriptor.from_tensor
    """)
"""Paths that are allowed though a part of them is hidden: what Triton's own tutorials use."""

_KNOWN_PRIVATE = _words(
    """
    torch.nn.init._calculate_fan_in_and_fan_out torch.nn.init._calculate_correct_fan torch.nn.init._no_grad_trunc_normal_
    torch.nn.modules.utils._single torch.nn.modules.utils._pair torch.nn.modules.utils._triple
    torch._prims_common.is_boolean_dtype torch._prims_common.is_integer_dtype torch._prims_common.is_float_dtype
    triton.language.standard._log2
    """
)
"""Private by name, and part of every module that copies torch's own constructors, or kernels that sort as Triton does."""

_UTILS = frozenset(["checkpoint", "data", "dlpack"])
_SETTERS = _words("set_grad_enabled set_device set_stream set_printoptions set_rng_state")
_NAMESAKES = _words("""
    torch.random torch.cuda.random torch.types torch.select torch.trace torch.signal torch.Tensor.select
    torch.Tensor.trace triton.language.math triton.language.random numpy.random numpy.trace numpy.select numpy.typing
    """)
"""Paths whose last part is only a namesake of a module of the standard library."""
_MODULES = sys.stdlib_module_names | {"bltns", "torch", "triton", "numpy", "np", "sympy"}


def forbidden(path: str) -> str:
    """Why a path is not for kernel files, or an empty string."""
    root, _, rest = path.partition(".")
    if root not in STANDARD and root not in PACKAGES:
        return f"`{root}`: only torch, triton, numpy, einops and pure helpers of the standard library"
    if not rest:
        return ""
    if path in _KNOWN_PRIVATE:
        return ""
    parts = rest.split(".")
    if any(part.startswith("_") and not part.endswith("__") for part in parts):
        return f"`{path}` is private"
    first = (
        2 if parts[0] in STANDARD.get(root, ()) else 1
    )  # `copy.copy` and its kind are what they are called
    for count in range(first, len(parts) + 1):
        below = ".".join([root, *parts[:count]])
        if parts[count - 1] in _MODULES and below not in _NAMESAKES:
            return f"`{below}` leads to another module"
    if root in STANDARD and not ({"*", parts[0]} & STANDARD[root]):
        return f"`{root}.{parts[0]}` is not needed by a kernel"
    if parts[:1] == ["path"] and root == "os" and len(parts) > 1 and parts[1] not in _PATHS:
        return f"`{path}` looks at the files of this machine"
    hidden = _HIDDEN.get(root, frozenset())
    shown = any(f"{known}.".startswith(f"{path}.") for known in _SHOWN)
    if not shown and any(".".join(parts[:count]) in hidden for count in range(1, len(parts) + 1)):
        return f"`{path}` is not allowed in a kernel file"
    if root == "torch" and _global_switch(parts):
        return f"`{path}` changes torch for everyone"
    if root == "torch" and parts[0] == "utils" and len(parts) > 1 and parts[1] not in _UTILS:
        return f"`{path}` is not allowed in a kernel file"
    return ""


def _global_switch(parts: list[str]) -> bool:
    if parts[0] == "backends":
        return parts[-1].startswith(("enable_", "set_", "preferred_"))
    hooks = any(part.startswith("register_module_") for part in parts)
    return hooks or any(part.startswith("set_") and part not in _SETTERS for part in parts)


@functools.cache
def is_module(path: str) -> bool:
    """Whether a path names a module (as far as the installed files tell), or as good as one."""
    if path in STANDARD or path in PACKAGES or path in ("os.environ", "os.path", "collections.abc"):
        return True
    root, *parts = path.split(".")
    if root not in PACKAGES:
        return False
    spec = importlib.util.find_spec(root)
    if spec is None or spec.origin is None:
        return False
    place = os.path.join(os.path.dirname(spec.origin), *parts)
    return os.path.isdir(place) or os.path.isfile(f"{place}.py")


ATTRIBUTES = _words("""
    tb_frame tb_next f_back f_globals f_locals f_builtins f_code gi_frame gi_code cr_frame ag_frame ag_code co_code
    func_globals ctypes meta_path path_hooks settrace setprofile from_file fromfile tofile memmap share_memory_
    _cdata _unsafe_update_src _rebuild_tensor cache_info cache_parameters
    """)
"""Attributes of anything that lead to frames, code, files or other processes, or that count calls where nobody can move
the count."""

DUNDERS = _words("""
    __name__ __qualname__ __doc__ __version__ __class__ __init__ __new__ __post_init__ __call__ __len__ __getitem__
    __setitem__ __contains__ __iter__ __next__ __enter__ __exit__ __repr__ __str__ __bool__ __int__ __float__
    __index__ __add__ __sub__ __mul__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__
    """)
"""Attributes with two underscores that honest code reads."""
SUPER_DUNDERS = DUNDERS | {"__getattr__", "__setattr__", "__delattr__", "__init_subclass__"}
"""The same on `super()`."""
ASSIGNED_DUNDERS = frozenset(["__name__", "__qualname__", "__doc__"])
DUNDER_NAMES = _words("__name__ __file__ __doc__ __class__ __debug__")
DUNDER_GLOBALS = _words("__all__ __version__ __author__ __slots__ __constants__ __hash__ __doc__")
"""Names with two underscores that may be read, and that may be assigned."""

BUILTINS = _words(
    "exec eval compile open input breakpoint globals locals vars exit quit help hash __import__"
)
"""`hash` gives a text another number in every process."""
REFLECTION = frozenset(["getattr", "setattr", "delattr", "hasattr"])
DEFINITIONS = _words("""
    __del__ __torch_function__ __torch_dispatch__ __getattribute__ __reduce__ __reduce_ex__ __prepare__
    __instancecheck__ __subclasscheck__ __mro_entries__
    """)
"""Methods that run behind the caller's back."""
