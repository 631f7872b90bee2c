"""Reads the candidate's syntax tree for what no honest kernel needs. Explains; run-time evidence decides the rest.

A rule here names a construct whose only use in a kernel file is to reach the judge: leaving the process,
walking frames, patching modules. Compute done by torch is *not* judged here (`nn.Linear` may just hold a
weight): the aten trace sees what really ran. Regular expressions are not used, so strings and docstrings
never matter.
"""

from __future__ import annotations

import ast
import dataclasses

from kernelwright.outcomes import Outcome

ALLOWED_IMPORTS = frozenset(
    [
        "torch",
        "triton",
        "math",
        "typing",
        "typing_extensions",
        "functools",
        "itertools",
        "collections",
        "dataclasses",
        "enum",
        "abc",
        "numbers",
        "operator",
        "contextlib",
        "copy",
        "warnings",
        "logging",
        "__future__",
        "numpy",
        "einops",
        "string",
        "re",
        "textwrap",
        "time",
        "os",
        "sys",
        "random",
    ]
)
# Imported by honest kernel files out of habit; only the harmless part of them may be used.
_RESTRICTED_MEMBERS: dict[str, frozenset[str]] = {
    "os": frozenset({"environ", "path", "getenv", "linesep", "sep"}),
    "sys": frozenset({"maxsize", "version", "version_info", "platform", "float_info"}),
    "time": frozenset({"time", "perf_counter", "monotonic"}),
    "random": frozenset({"random", "randint", "seed", "choice"}),
}
_FORBIDDEN_TORCH = frozenset(
    [
        "utils.cpp_extension",
        "hub",
        "multiprocessing",
        "distributed",
        "package",
        "jit",
        "compile",
        "_dynamo",
        "_inductor",
        "serialization",
        "load",
        "save",
        "ops",
        "library",
        "classes",
        "sys",
        "os",
        "ctypes",
        "inspect",
        "builtins",
        "importlib",
        "threading",
        "textwrap",
        "platform",
        "_C",
        "_sources",
        "_utils",
        "_utils_internal",
        "overrides",
        "fx",
        "export",
        "testing",
        "futures",
        "profiler",
    ]
)
_FORBIDDEN_TRITON = frozenset(
    ["runtime", "compiler", "knobs", "testing", "backends", "_C", "tools", "profiler"]
)
_ALLOWED_TRITON_CHAINS = frozenset(
    {
        "triton.runtime.driver.active.utils.get_device_properties",
        "triton.runtime.driver.active.get_current_device",
    }
)
_FORBIDDEN_NAMES = frozenset(
    [
        "exec",
        "eval",
        "compile",
        "open",
        "input",
        "breakpoint",
        "globals",
        "locals",
        "vars",
        "__import__",
        "__builtins__",
        "__loader__",
        "__spec__",
        "memoryview",
        "exit",
        "quit",
        "help",
    ]
)
_FORBIDDEN_ATTRIBUTES = frozenset(
    [
        "__globals__",
        "__code__",
        "__closure__",
        "__subclasses__",
        "__bases__",
        "__base__",
        "__mro__",
        "__dict__",
        "__builtins__",
        "__import__",
        "__getattribute__",
        "__reduce__",
        "__reduce_ex__",
        "__loader__",
        "__spec__",
        "__traceback__",
        "__wrapped__",
        "__func__",
        "__self__",
        "__del__",
        "__class_getitem__",
        "__set_name__",
        "__init_subclass__",
        "__getstate__",
        "__setstate__",
        "__torch_function__",
        "__torch_dispatch__",
        "__cuda_array_interface__",
        "__array_interface__",
        "__dlpack__",
        "tb_frame",
        "f_back",
        "f_globals",
        "f_locals",
        "f_builtins",
        "gi_frame",
        "cr_frame",
        "ag_frame",
        "co_code",
        "func_globals",
        "_getframe",
        "settrace",
        "setprofile",
        "modules",
        "meta_path",
        "path_hooks",
        "system",
        "popen",
        "fork",
        "kill",
        "_exit",
        "abort",
        "set_active",
        "__defaults__",
        "__kwdefaults__",
        "record_function",
        "CUDAGraph",
        "graph",
        "make_graphed_callables",
        "cudart",
        "caching_allocator_alloc",
        "set_per_process_memory_fraction",
        "memory_stats",
        "register_forward_pre_hook",
        "register_module_forward_hook",
        "register_module_forward_pre_hook",
        "_cdata",
        "_storage",
        "set_num_threads",
        "set_float32_matmul_precision",
        "use_deterministic_algorithms",
        "set_deterministic_debug_mode",
        "allow_tf32",
        "set_default_dtype",
        "set_default_device",
        "set_default_tensor_type",
        "manual_seed",
        "set_rng_state",
        "from_blob",
        "frombuffer",
        "from_file",
        "untyped_storage",
        "storage",
        "_typed_storage",
        "share_memory_",
        "resize_",
        "tofile",
        "fromfile",
        "memmap",
        "ctypeslib",
        "_rebuild_tensor",
        "add_dll_directory",
    ]
)
_FORBIDDEN_DEFINITIONS = frozenset(
    ["__del__", "__torch_function__", "__torch_dispatch__", "__eq__", "__getattribute__"]
)


@dataclasses.dataclass(frozen=True)
class Finding:
    """Why the static gate stops the candidate."""

    outcome: Outcome
    detail: str


def inspect_code(code: str) -> Finding | None:
    """The first finding in `code`, or None when run-time evidence shall decide.

    The order is: parses, imports, forbidden constructs, has a launched Triton kernel, has `ModelNew`.
    """
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        return Finding(Outcome.SYNTAX_ERROR, f"line {line}: {getattr(error, 'msg', error)}"[:300])
    visitor = _Visitor()
    try:
        visitor.visit(tree)
    except RecursionError:
        return Finding(Outcome.SYNTAX_ERROR, "nested too deeply")
    if visitor.finding is not None:
        return visitor.finding
    if not visitor.kernels:
        return Finding(Outcome.NOT_TRITON, "no function is decorated with @triton.jit")
    if not visitor.launched:
        return Finding(
            Outcome.NOT_TRITON, f"kernel `{visitor.kernels[0]}` is never launched: kernel[grid](...)"
        )
    if "ModelNew" not in visitor.classes:
        return Finding(Outcome.NO_ENTRY, "no class ModelNew")
    return None


class _Visitor(ast.NodeVisitor):
    def __init__(self) -> None:
        self.finding: Finding | None = None
        self.kernels: list[str] = []
        self.classes: list[str] = []
        self.launched = False
        self._alias: dict[str, str] = {}
        """Local name -> dotted path of the imported module or member."""

    def _reject(self, outcome: Outcome, node: ast.AST, what: str) -> None:
        if self.finding is None:
            self.finding = Finding(outcome, f"line {getattr(node, 'lineno', '?')}: {what}")

    # -- imports

    def visit_Import(self, node: ast.Import) -> None:
        for name in node.names:
            self._import(node, name.name)
            local = name.asname or name.name.split(".")[0]
            self._alias[local] = name.name if name.asname else name.name.split(".")[0]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level:
            self._reject(
                Outcome.FORBIDDEN_IMPORT, node, "relative import: a candidate is one stand-alone file"
            )
            return
        for name in node.names:
            path = f"{node.module}.{name.name}"
            self._import(node, path)
            self._alias[name.asname or name.name] = path

    def _import(self, node: ast.AST, path: str) -> None:
        root, _, rest = path.partition(".")
        if root not in ALLOWED_IMPORTS:
            self._reject(
                Outcome.FORBIDDEN_IMPORT, node, f"import of `{root}`: only torch, triton and pure helpers"
            )
        elif rest:
            self._member(node, path, Outcome.FORBIDDEN_IMPORT)

    def _member(self, node: ast.AST, path: str, outcome: Outcome) -> None:
        """Judge a dotted path into an imported module."""
        root, _, rest = path.partition(".")
        parts = rest.split(".")
        first = parts[0]
        if root in _RESTRICTED_MEMBERS and first != "*" and first not in _RESTRICTED_MEMBERS[root]:
            self._reject(outcome, node, f"`{root}.{first}` is not needed by a kernel")
        elif root in _RESTRICTED_MEMBERS and first == "*":
            self._reject(outcome, node, f"from {root} import *")
        elif root == "torch" and (first in _FORBIDDEN_TORCH or ".".join(parts[:2]) in _FORBIDDEN_TORCH):
            self._reject(outcome, node, f"`torch.{rest}` is not allowed in a kernel file")
        elif root == "triton" and first in _FORBIDDEN_TRITON and path not in _ALLOWED_TRITON_CHAINS:
            if not any(chain.startswith(path + ".") for chain in _ALLOWED_TRITON_CHAINS):
                self._reject(outcome, node, f"`triton.{rest}` is not allowed in a kernel file")
        elif root == "numpy" and first in {
            "ctypeslib",
            "f2py",
            "testing",
            "distutils",
            "load",
            "save",
            "memmap",
        }:
            self._reject(outcome, node, f"`numpy.{rest}` is not allowed in a kernel file")
        elif root == "operator" and first in {"attrgetter", "methodcaller"}:
            self._reject(outcome, node, f"`operator.{first}` hides attribute access")

    # -- names, attributes, calls

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in _FORBIDDEN_NAMES:
            self._reject(Outcome.FORBIDDEN_CODE, node, f"`{node.id}`")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path = self._path(node)
        if node.attr in _FORBIDDEN_ATTRIBUTES:
            self._reject(Outcome.FORBIDDEN_CODE, node, f"attribute `{node.attr}`")
        elif path is not None:
            self._member(node, path, Outcome.FORBIDDEN_CODE)
        if isinstance(node.ctx, (ast.Store, ast.Del)) and self._is_library(node.value):
            self._reject(
                Outcome.FORBIDDEN_CODE, node, f"assignment to `{ast.unparse(node)}` patches a library"
            )
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Subscript):
            self.launched = True
        if (
            isinstance(node.func, ast.Attribute)
            and node.func.attr == "run"
            and any(k.arg == "grid" for k in node.keywords)
        ):
            self.launched = True
        if isinstance(node.func, ast.Name) and node.func.id in {"getattr", "setattr", "delattr", "hasattr"}:
            self._reflective(node, node.func.id)
        if isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) == 3:
            self._reject(Outcome.FORBIDDEN_CODE, node, "a class made by type(...)")
        self.generic_visit(node)

    def _reflective(self, node: ast.Call, name: str) -> None:
        key = node.args[1] if len(node.args) > 1 else None
        if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
            self._reject(Outcome.FORBIDDEN_CODE, node, f"{name} with a computed name")
        elif key.value in _FORBIDDEN_ATTRIBUTES or key.value in _FORBIDDEN_NAMES:
            self._reject(Outcome.FORBIDDEN_CODE, node, f"{name}(..., {key.value!r})")
        elif name in {"setattr", "delattr"} and self._is_library(node.args[0]):
            self._reject(Outcome.FORBIDDEN_CODE, node, f"{name} on a library")
        elif self._is_library(node.args[0]):
            base = self._path(node.args[0]) or ""
            self._member(node, f"{base}.{key.value}", Outcome.FORBIDDEN_CODE)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if isinstance(node.ctx, (ast.Store, ast.Del)) and self._path(node.value) == "os.environ":
            self._reject(Outcome.FORBIDDEN_CODE, node, "assignment to os.environ")
        self.generic_visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        # A module-level counter or cache is judged by what it does (`stateful`), not by its keyword.
        self.generic_visit(node)

    # -- definitions

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in _FORBIDDEN_DEFINITIONS:
            self._reject(Outcome.FORBIDDEN_CODE, node, f"definition of {node.name}")
        for decorator in node.decorator_list:
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            if self._path(target) in {"triton.jit", "triton.runtime.jit", "triton.runtime.jit.jit"}:
                self.kernels.append(node.name)
        self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._reject(Outcome.FORBIDDEN_CODE, node, "async function")

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.classes.append(node.name)
        for base in node.bases:
            path = self._path(base) or ""
            if path in {"torch.Tensor", "torch.overrides.TorchFunctionMode"} or path.endswith(
                "TorchDispatchMode"
            ):
                self._reject(Outcome.FORBIDDEN_CODE, node, f"subclass of {path}")
        for keyword in node.keywords:
            if keyword.arg == "metaclass":
                self._reject(Outcome.FORBIDDEN_CODE, node, "a metaclass")
        self.generic_visit(node)

    # -- helpers

    def _path(self, node: ast.AST) -> str | None:
        """`tl.math.exp` with `import triton.language as tl` -> `triton.language.math.exp`."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._alias:
            return None
        return ".".join([self._alias[node.id], *reversed(parts)])

    def _is_library(self, node: ast.AST) -> bool:
        path = self._path(node)
        return path is not None and path.split(".")[0] in {
            "torch",
            "triton",
            "numpy",
            "math",
            "builtins",
            "os",
            "sys",
        }
