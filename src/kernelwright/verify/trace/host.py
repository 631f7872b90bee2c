"""The candidate's process: it loads the candidate, calls its `forward` on tensors without data, and hands over the tape.

Nothing here knows a value of an input. Weights it drew itself, under a public seed, are the only data it has; those
that the reference has under the same name and shape are replaced by the reference's own before a kernel sees them.

Commands: load; trace (build for one shape set, then call `forward` several times). Every trace begins with a fresh copy
of the module, so that nothing is carried from shape to shape; a launch while the module is built belongs to the
first call.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import linecache
import math
import random
import secrets
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from triton.runtime import autotuner, jit
from triton.tools.tensor_descriptor import TensorDescriptor

from kernelwright.outcomes import Outcome
from kernelwright.verify.gradients import WithGradients
from kernelwright.verify.sandbox import channel
from kernelwright.verify.sandbox.service import Failure, Service
from kernelwright.verify.structures import convert, flatten
from kernelwright.verify.trace import affine, binding, kernels
from kernelwright.verify.trace.counters import Counters
from kernelwright.verify.trace.pretend_cuda import (
    ALLOCATION,
    COPIES,
    METADATA,
    VIEWS,
    HostRead,
    PretendCuda,
    Refused,
    Unmodelled,
    has_data,
    storage_of,
)
from kernelwright.verify.trace.stand_ins import CompiledKernel
from kernelwright.verify.trace.surroundings import Surroundings
from kernelwright.verify.trace.tape import Kind

_OTHER_SEED = 0x2545F491
"""Between the seeds of a module's weights and of those of another one."""
_JUMPS = 4
"""Calls after which counters of calls are moved on."""
_READS = frozenset(["_local_scalar_dense", "item", "equal", "is_nonzero", "nonzero", "unique", "_unique2"])


class HostTensor(Exception):
    """A kernel was given a tensor that lives in host memory."""


class Recorder(TorchDispatchMode):
    """Writes down what aten operators do to storages, and the launches that `launch` is told of."""

    def __init__(self, cuda: PretendCuda) -> None:
        super().__init__()
        self.cuda = cuda
        self.operations: list[dict[str, Any]] = []
        self.kernels: dict[int, tuple[int, dict[str, Any]]] = {}
        self.constants: dict[int, torch.UntypedStorage] = {}
        """Storage number -> the host memory that it starts from."""
        self._numbers: dict[int, tuple[int, torch.UntypedStorage]] = {}
        self._stand_ins: dict[int, torch.Tensor] = {}
        self._next = 0
        self._alternatives: list[dict[str, Any]] | None = None
        self._tuned: list[dict[str, Any]] = []
        self.chosen: tuple[dict[str, Any], dict[str, Any]] | None = None
        """The last launch, and its operation on the tape."""

    # -- storages ------------------------------------------------------------------------------------------

    def number(self, tensor: torch.Tensor) -> int:
        """The number of a tensor's storage, a fresh one for a storage that is new."""
        storage = storage_of(tensor)
        known = self._numbers.get(storage._cdata)
        if known is None:
            known = self._numbers[storage._cdata] = (
                self._next,
                storage,
            )  # held, so that no address comes back
            self._next += 1
            if has_data(tensor):
                self.constants[known[0]] = storage
        return known[0]

    def knows(self, tensor: torch.Tensor) -> bool:
        return storage_of(tensor)._cdata in self._numbers

    def view(self, tensor: torch.Tensor) -> list[Any]:
        """A tensor as `tape.View` writes it."""
        dtype = str(tensor.dtype).removeprefix("torch.")
        return [
            self.number(tensor),
            int(tensor.storage_offset()),
            list(tensor.shape),
            list(tensor.stride()),
            dtype,
        ]

    def size(self, number: int) -> int:
        return next(storage.nbytes() for found, storage in self._numbers.values() if found == number)

    def upload(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor without data that stands for a real one; tensors that share memory go on sharing it."""
        with torch.utils._python_dispatch._disable_current_modes(), torch._C.DisableTorchFunction():
            real = tensor.untyped_storage()
            stand_in = self._stand_ins.get(real._cdata)
            if stand_in is None:
                stand_in = torch.empty(real.nbytes(), dtype=torch.uint8, device="meta")
                self._stand_ins[real._cdata] = stand_in
                self.constants[self.number(stand_in)] = real
            made = torch.empty(0, dtype=tensor.dtype, device="meta")
            return made.set_(
                stand_in.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride()
            )

    # -- operators -----------------------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        if name in _READS:
            return self._read(name, args)
        tensors = flatten([list(args), kwargs])
        given = [tensor for tensor in tensors if has_data(tensor)]
        # What lies on the device has left its data behind, wherever the module kept it (an object of its own, a closure).
        if given and (len(given) < len(tensors) or not all(map(self.cuda.on_host, given))):
            args, kwargs = convert((list(args), kwargs), lambda t: self.upload(t) if has_data(t) else t)
        out = func(*args, **kwargs)
        outs = flatten(out)
        if any(map(has_data, outs)):
            return out  # host arithmetic on host memory
        quiet = name in VIEWS or name in METADATA or func._schema.name.startswith("prim::")
        if quiet and all(self.knows(tensor) for tensor in outs):
            return out
        if name in ALLOCATION:
            self._allocation(name, args, kwargs, outs)
        elif name in COPIES:
            self._copy(name, args, outs)
        elif name not in METADATA:
            self._compute(func, args, kwargs, outs)
        return out

    def _allocate(self, tensor: torch.Tensor) -> None:
        if not self.knows(tensor):
            number = self.number(tensor)
            dtype = str(tensor.dtype).removeprefix("torch.")
            self.add("alloc", storage=number, bytes=storage_of(tensor).nbytes(), dtype=dtype)

    def _allocation(self, name: str, args: Any, kwargs: Any, outs: list[torch.Tensor]) -> None:
        if name in ("resize_", "set_"):
            raise HostRead(f"{name} changes a tensor's memory behind the harness")
        for tensor in outs:
            self._allocate(tensor)
        value: Any = None
        if name.startswith(("zero", "new_zeros")):
            value = 0
        elif name.startswith(("ones", "new_ones")):
            value = 1
        elif name in ("full", "full_like", "new_full"):
            value = kwargs.get(
                "fill_value", args[2] if name == "new_full" else args[1] if len(args) > 1 else 0
            )
        elif name in ("fill_", "fill"):
            value = args[1]
        elif name == "scalar_tensor":
            value = args[0]
        elif name == "arange":
            numbers = [x for x in args if isinstance(x, (int, float))]
            start, step = (0 if len(numbers) < 2 else numbers[0]), (numbers[2] if len(numbers) > 2 else 1)
            self.add("arange", view=self.view(outs[0]), start=start, step=kwargs.get("step", step))
            return
        if isinstance(value, torch.Tensor):
            self._copy("copy_", (outs[0], value), outs)
        elif value is not None:
            plain = value if isinstance(value, (bool, int)) or math.isfinite(value) else repr(float(value))
            for tensor in outs:
                self.add("fill", view=self.view(tensor), value=plain)

    def _copy(self, name: str, args: Any, outs: list[torch.Tensor]) -> None:
        source = args[1] if name == "copy_" else args[0]
        for tensor in outs:
            if name != "copy_" and self.knows(tensor):
                continue
            self._allocate(tensor)
            with torch.utils._python_dispatch._disable_current_modes(), torch._C.DisableTorchFunction():
                spread = source.expand(tensor.shape)
            self.add("copy", target=self.view(tensor), source=self.view(spread))

    def _compute(self, func: Any, args: Any, kwargs: Any, outs: list[torch.Tensor]) -> None:
        name = str(func) if func.namespace == "aten" else func._schema.name
        arguments = [encode_argument(item, self) for item in args]
        named = {key: encode_argument(item, self) for key, item in kwargs.items() if key != "device"}
        results = [self.view(tensor) for tensor in outs]
        self.add("aten", name=name, arguments={"args": arguments, "kwargs": named}, results=results)

    def _read(self, name: str, args: Any) -> Any:
        tensor = args[0]
        real = self.constants.get(self.number(tensor)) if name in ("_local_scalar_dense", "item") else None
        if real is None:
            raise HostRead(f"`{name}` reads tensor elements on the host")
        with torch.utils._python_dispatch._disable_current_modes(), torch._C.DisableTorchFunction():
            if real.device.type == "meta":
                raise HostRead(f"`{name}` reads tensor elements on the host")
            made = torch.empty(0, dtype=tensor.dtype)
            return made.set_(real, tensor.storage_offset(), tensor.shape, tensor.stride()).item()

    def add(self, kind: Kind, **fields: Any) -> None:
        self.operations.append({"kind": kind, **fields})

    # -- launches ------------------------------------------------------------------------------------------

    def launch(
        self, function: jit.JITFunction, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """What `kernel[grid](*args, **kwargs)` does. Raises as Triton does for bad arguments."""
        bound = binding.bind(function, grid, args, kwargs)
        record = {
            "kernel": kernels.describe(function, self.kernels),
            "grid": list(bound.grid),
            "arguments": {name: self._argument(name, value) for name, value in bound.values.items()},
            "options": {name: int(bound.options[name]) for name in binding.OPTIONS if name in bound.options},
        }
        if self._alternatives is not None:
            self._alternatives.append(record)
            return
        tuned, self._tuned = self._tuned, []
        found = [item for item in tuned if item["kernel"] == record["kernel"]]
        self.add("launch", launches=found if record in found else [record, *found])
        self.chosen = record, self.operations[-1]

    def _argument(self, name: str, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if self.cuda.on_host(value):
                raise HostTensor(f"Pointer argument `{name}` cannot be accessed from Triton (cpu tensor?)")
            return {"view": self.view(self.upload(value) if has_data(value) else value)}
        if isinstance(value, jit.JITFunction):
            return {"kernel": kernels.describe(value, self.kernels)}
        if isinstance(value, TensorDescriptor):
            return {"descriptor": self._descriptor(name, value)}
        if isinstance(value, tuple):
            return {"tuple": [self._argument(f"{name}[{place}]", item) for place, item in enumerate(value)]}
        found = kernels.constant(value)
        if found is None:
            raise TypeError(f"argument `{name}` has type {type(value).__name__}, which Triton does not take")
        return found

    def _descriptor(self, name: str, given: TensorDescriptor) -> list[Any]:
        """See `tape.Descriptor`. Raises TypeError for a base that is no tensor."""
        if not isinstance(given.base, torch.Tensor):
            raise TypeError(f"argument `{name}`: a descriptor of a {type(given.base).__name__}")
        base: dict[str, Any] = self._argument(name, given.base)
        number, offset, _, _, dtype = base["view"]
        shape, strides, block = (
            [int(binding.plain(extent)) for extent in extents]
            for extents in (given.shape, given.strides, given.block_shape)
        )
        view = [number, offset, shape, strides, dtype]
        return [{"view": view}, block, str(given.padding), bool(getattr(given, "round_f32_to_tf32", False))]

    def bench(self, call: Callable[[], Any], secret: int) -> list[float]:
        """One configuration of an autotuned kernel: noted down, chosen among where there is a device. Its time (ms) is drawn,
        the same one whenever the process asks for the same launch."""
        kept, self.operations, self._alternatives = self.operations, [], []
        try:
            call()
            if len(self._alternatives) == 1:
                self._tuned.append(self._alternatives[0])
            dice = random.Random(f"{secret} {[_shown(item) for item in self._alternatives]}")
        finally:
            self.operations, self._alternatives = kept, None
        middle = 10.0 ** dice.uniform(-2.5, 0.5)
        return [middle, middle * dice.uniform(0.97, 1.0), middle * dice.uniform(1.0, 1.05)]


def _shown(launch: dict[str, Any]) -> str:
    """A launch without the numbers of its memory."""
    given = {name: value for name, value in launch["arguments"].items() if "view" not in value}
    return f"{launch['kernel']} {launch['grid']} {given} {launch['options']}"


def encode_argument(value: Any, recorder: Recorder) -> Any:
    """An aten argument as JSON. Raises TypeError for what cannot be replayed."""
    if isinstance(value, torch.Tensor):
        return {"view": recorder.view(value)}
    if isinstance(value, (list, tuple)):
        return [encode_argument(item, recorder) for item in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, (torch.layout, torch.memory_format, torch.device)):
        return None
    raise TypeError(f"an aten argument of type {type(value).__name__}")


class HostWorker(Service):
    """Loads one candidate and writes its tapes."""

    def __init__(self, surroundings: Surroundings | None = None) -> None:
        """`surroundings`: those that `torch.cuda` was told of, where it was."""
        self.surroundings = surroundings or Surroundings(environment=False)
        self.module: Any = None
        self.recorder: Recorder | None = None
        """Is told of launches; None between commands."""
        self._code = self._path = ""
        self._traced = False
        self._other: Any = None
        """The module that was called before the one that is judged."""
        self.secret = secrets.randbits(64)
        """Of the times that tuning finds."""
        self._host: dict[int, torch.UntypedStorage] = {}
        _patch_triton(self)

    def answer(
        self, body: dict[str, Any], tensors: list[torch.Tensor], outputs: list[torch.Tensor]
    ) -> dict[str, Any]:
        command = body["command"]
        if command == "load":
            return self.load(body["code"])
        if command == "trace":
            state = {name: blank(spec) for name, spec in body["shapes"].items()}
            state |= channel.decode(body["state"], tensors)
            init = channel.decode(body["init"], tensors)
            return self.trace(
                init,
                blank(body["inputs"]),
                body["seed"],
                state,
                body["calls"],
                body["values"],
                body["affine"],
                body["cast"],
                body["gradients"],
                body["evaluating"],
                body["second"],
                body["copied"],
                outputs,
            )
        raise ValueError(f"unknown command {command!r}")

    def load(self, code: str) -> dict[str, Any]:
        """Execute the candidate's top level, as a module, under the pretended device."""
        self._code = code
        self._execute()
        return {}

    def _execute(self) -> None:
        """A fresh copy of the candidate's module, elsewhere. Launches at its top level are checked, and lost."""
        if self.module is not None:
            sys.modules.pop(self.module.__name__, None)
            linecache.cache.pop(self._path, None)
        self.surroundings.redraw()
        name, path = self.surroundings.name, self.surroundings.path
        self._path = path
        linecache.cache[path] = (len(self._code), None, self._code.splitlines(keepends=True), path)
        self.module = sys.modules[name] = types.ModuleType(name)
        self.module.__file__ = path
        self._host.clear()
        cuda = PretendCuda("cpu", self._host, self.surroundings)
        with self.failures(Outcome.LOAD_ERROR), self.listening(Recorder(cuda)), cuda:
            code = compile(self._code, path, "exec")
            try:
                exec(code, self.module.__dict__)
            except ImportError as error:
                raise Failure(Outcome.INVALID_IMPORT, last_line(error, path)) from None
        if not isinstance(getattr(self.module, "ModelNew", None), type):
            raise Failure(Outcome.NO_ENTRY, "no class ModelNew after loading")

    @contextlib.contextmanager
    def listening(self, recorder: Recorder) -> Iterator[None]:
        """Launches go to `recorder`."""
        self.recorder = recorder
        try:
            yield
        finally:
            self.recorder = None

    def construct(
        self, init: Any, seed: int, state: dict[str, torch.Tensor], vary: bool, cast: str, real: PretendCuda
    ) -> torch.nn.Module:
        """The candidate's module, with the reference's weights where names and shapes agree and values are given; `real` is
        on."""
        torch.default_generator.manual_seed(seed)  # others would note where they were asked, a ms each
        self.surroundings.weights = seed
        with affine.varied(seed) if vary else contextlib.nullcontext() as finished:
            module = self.module.ModelNew(*init)
            if not isinstance(module, torch.nn.Module):
                raise Failure(Outcome.CONSTRUCTOR_ERROR, "ModelNew is not an nn.Module")
            if finished is not None:
                finished(module)
        for _, tensor in (*module.named_parameters(), *module.named_buffers()):
            real.adopt_alone(tensor)
        module.cuda()
        if cast:
            module.to(channel.DTYPES[cast])
        own = dict(module.named_parameters()) | dict(module.named_buffers())
        for name, value in state.items():
            if name in own and own[name].shape == value.shape and has_data(value):
                own[name].data = value.to(own[name].dtype)
        return module

    def trace(
        self,
        init: Any,
        inputs: Any,
        seed: int,
        state: dict[str, torch.Tensor],
        calls: int,
        values: bool,
        vary: bool,
        cast: str,
        gradients: dict[str, Any] | None,
        evaluating: bool,
        second: bool,
        copied: bool,
        outputs: list[torch.Tensor],
    ) -> dict[str, Any]:
        """Build `ModelNew`, then call it `calls` times: the tapes, and what they start from.

        `state` holds the shapes of the reference's weights (values only of the very small). Without `values` weights
        are not drawn either: enough for a tape that will be priced, not run. `vary` as the reference was (`trace/affine.py`), and
        `cast` the dtype that its weights were cast to, if any. With `gradients` a call is a forward and a backward pass
        (`verify/gradients.py`). `evaluating`: in evaluation mode; the `second` of
        its kind, after another one with other weights was built and called; a `copied` one
        is a copy of the one that was built, where that can be copied.
        """
        if self._traced:
            self._execute()
        self._traced = True
        real = PretendCuda("cpu" if values else "meta", self._host, self.surroundings)
        cuda = PretendCuda("meta", self._host, self.surroundings)
        recorder = Recorder(cuda)
        cuda.upload = recorder.upload
        builder = recorder if values else Recorder(real)
        fresh = self._blank_inputs(inputs, cuda)
        earlier: list[dict[str, Any]] = []
        if second:
            with self.failures(Outcome.CONSTRUCTOR_ERROR), self.listening(recorder), real, torch.no_grad():
                self._other = self.construct(init, seed ^ _OTHER_SEED, {}, vary, cast, real)
            self._detach(self._other, recorder, real, cuda)
            for tensor in flatten(fresh):
                recorder.number(tensor)
            self._call(self._other, fresh, recorder)
            earlier, recorder.operations = recorder.operations, []
        with self.failures(Outcome.CONSTRUCTOR_ERROR), self.listening(builder), real, torch.no_grad():
            module = self.construct(init, seed, state, vary, cast, real)
            if evaluating:
                module.eval()
            if copied:
                module = _copied(module)
        prepared = list(recorder.operations)
        named = dict(module.named_parameters()) | dict(module.named_buffers())
        shared = [
            name
            for name, tensor in named.items()
            if name in state and (state[name].shape, state[name].dtype) == (tensor.shape, tensor.dtype)
        ]
        views = {name: recorder.view(recorder.upload(named[name].data)) for name in shared}
        self._detach(module, recorder, real, cuda)
        tapes, given = [], []
        counters = Counters(module, self.module.__dict__)
        called: Callable[..., Any] = module
        if gradients is not None:
            learnt = matched(module, gradients["parameters"], state)
            called = WithGradients(module, learnt, gradients["positions"])
        self.surroundings.learning = gradients is not None
        for call in range(calls):
            # The last call gets the tensors of the one before: other data, by the judge's hand, at the same place.
            if 0 < call < calls - 1:
                fresh = self._blank_inputs(inputs, cuda)
            recorder.operations = [] if call else list(prepared)
            given.append([recorder.view(tensor) for tensor in flatten(fresh)])
            if call and call % _JUMPS == 0 and counters.jump(self.surroundings.dice, near=call == _JUMPS):
                output = self._call_far_ahead(called, fresh, recorder, counters)
            else:
                output = self._call(called, fresh, recorder)
            if (call // _JUMPS + 1) * _JUMPS < calls:  # another jump will come
                counters.look()
            tapes.append(self._tape(recorder, output))
        made = _made(earlier)
        if any(int(number) in made for tape in tapes for number in tape["foreign"]):
            tapes[0] = _after(earlier, tapes[0], recorder)
            prepared = [*earlier, *prepared]
        return {
            "tapes": tapes,
            "prepared": len(prepared),
            "inputs": given,
            "constants": self._constants(recorder, list(views.values()), outputs),
            "state": views,
            "kernels": [spec for _, spec in recorder.kernels.values()],
        }

    @staticmethod
    def _blank_inputs(inputs: Any, cuda: PretendCuda) -> Any:
        """Tensors like those of `inputs` that were never seen."""
        return convert(
            inputs,
            lambda t: cuda.adopt(torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")),
        )

    def _call(self, module: Callable[..., Any], inputs: Any, recorder: Recorder) -> Any:
        """One forward pass, in surroundings of its own."""
        self.surroundings.redraw()
        torch.default_generator.manual_seed(self.surroundings.seed)
        graded = torch.set_grad_enabled(
            self.surroundings.dice.random() < 0.5 and not self.surroundings.inference
        )
        Refused.last = None
        failures = self.failures(Outcome.RUNTIME_ERROR)
        with failures, self.listening(recorder), recorder.cuda, graded, recorder:
            output = module(*inputs)
            if Refused.last is not None:  # whatever it made of the exception
                raise Refused.last
        return output

    def _call_far_ahead(
        self, module: Callable[..., Any], inputs: Any, recorder: Recorder, counters: Counters
    ) -> Any:
        """A call after counters of calls were moved on; as it was, where it cannot stand that."""
        before = list(recorder.operations)
        try:
            return self._call(module, inputs, recorder)
        except Failure:
            counters.undo()
            recorder.operations = before
            return self._call(module, inputs, recorder)

    def _detach(
        self, module: torch.nn.Module, recorder: Recorder, real: PretendCuda, cuda: PretendCuda
    ) -> None:
        """Replace every tensor that the module holds by one without data."""

        def replaced(tensor: torch.Tensor) -> torch.Tensor:
            made = recorder.upload(tensor.data)
            if real.on_host(tensor):
                cuda.mark_host(made)
            return made

        for part in module.modules():
            for name, parameter in part._parameters.items():
                if parameter is not None:
                    part._parameters[name] = torch.nn.Parameter(replaced(parameter), requires_grad=False)
            for name, buffer in part._buffers.items():
                if buffer is not None:
                    part._buffers[name] = replaced(buffer)
            for name, value in list(vars(part).items()):
                if name not in ("_parameters", "_buffers", "_modules") and flatten(value):
                    part.__dict__[name] = convert(value, replaced)

    def _tape(self, recorder: Recorder, output: Any) -> dict[str, Any]:
        tensors: list[torch.Tensor] = []
        try:
            tree = channel.encode(output, tensors)
        except TypeError as error:
            raise Failure(Outcome.WRONG_STRUCTURE, str(error)) from None
        if any(type(tensor) not in (torch.Tensor, torch.nn.Parameter) for tensor in tensors):
            raise Failure(Outcome.WRONG_STRUCTURE, "an output is a tensor subclass")
        if any(tensor.layout != torch.strided for tensor in tensors):
            raise Failure(Outcome.WRONG_STRUCTURE, "an output is not a dense tensor")
        if any(recorder.cuda.on_host(tensor) for tensor in tensors):
            raise Failure(Outcome.WRONG_STRUCTURE, "an output lives in host memory, not on the device")
        views = [recorder.view(tensor) for tensor in tensors]
        used = {view[0] for view in views} | set(_storages(recorder.operations))
        foreign = {str(number): recorder.size(number) for number in used - _made(recorder.operations)}
        return {"operations": recorder.operations, "output": _with_views(tree, views), "foreign": foreign}

    def _constants(
        self, recorder: Recorder, shared: list[list[Any]], outputs: list[torch.Tensor]
    ) -> list[dict[str, int]]:
        """Storages that the tapes start from; `blob` numbers the bytes, where the reference does not give them."""
        whole = {v[0]: math.prod(v[2]) * channel.DTYPES[v[4]].itemsize for v in shared if v[1] == 0}
        found = []
        for number, storage in recorder.constants.items():
            item = {"storage": number, "bytes": storage.nbytes()}
            if whole.get(number) != storage.nbytes() and storage.device.type == "cpu":
                outputs.append(torch.empty(0, dtype=torch.uint8).set_(storage))
                item["blob"] = len(outputs) - 1
            found.append(item)
        return found

    @contextlib.contextmanager
    def failures(self, otherwise: Outcome) -> Iterator[None]:
        """Sorts whatever candidate code can raise; `otherwise` is what an ordinary exception is called."""
        try:
            yield
        except Failure:
            raise
        except HostRead as error:
            raise Failure(Outcome.TORCH_COMPUTE, str(error)) from None
        except Unmodelled as error:
            raise Failure(Outcome.UNSUPPORTED, str(error)) from None
        except HostTensor as error:
            raise Failure(Outcome.RUNTIME_ERROR, f"ValueError: {error}") from None
        except MemoryError:
            raise Failure(Outcome.OUT_OF_MEMORY, "out of host memory") from None
        except (SystemExit, KeyboardInterrupt) as error:
            raise Failure(Outcome.EARLY_EXIT, f"{type(error).__name__} raised") from None
        except BaseException as error:
            if isinstance(error, RuntimeError) and "can't allocate memory" in last_line(error):
                raise Failure(Outcome.OUT_OF_MEMORY, "out of memory") from None
            raise Failure(otherwise, last_line(error, self._path)) from None


def matched(module: torch.nn.Module, wanted: list[str], state: dict[str, torch.Tensor]) -> list[str]:
    """The candidate's names of the reference's parameters: the same, or by shape and order where it has others. Raises Failure
    where one has no counterpart: a gradient is of the weight that a user trains."""
    own = {name: one for name, one in module.named_parameters() if one.is_floating_point()}
    if all(name in own and own[name].shape == state[name].shape for name in wanted):
        return wanted
    if [one.shape for one in own.values()] == [state[name].shape for name in wanted]:
        return list(own)
    missing = next((name for name in wanted if name not in own), wanted[0])
    detail = f"no parameter {missing} of shape {list(state[missing].shape)}, whose gradient is asked"
    raise Failure(Outcome.WRONG_STRUCTURE, detail)


def _patch_triton(worker: HostWorker) -> None:
    """Launches and autotuning come to the worker's recorder, for the life of this process."""

    def run(function: jit.JITFunction, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> CompiledKernel:
        if not warmup:
            if worker.recorder is None:
                raise RuntimeError("a kernel is launched between calls")
            worker.recorder.launch(function, grid, args, kwargs)
        return CompiledKernel()

    def bench(tuner: autotuner.Autotuner) -> Callable[..., Any]:
        recorder = worker.recorder
        if recorder is None:
            raise RuntimeError("a kernel is tuned between calls")
        return lambda call, quantiles=None, **kw: recorder.bench(call, worker.secret)

    def tune(tuner: autotuner.Autotuner, *args: Any, **kwargs: Any) -> Any:
        tuner.cache.clear()  # every tape carries its alternatives
        tuner.__dict__["_launched"] = None  # nobody but Triton looks at the results meanwhile
        given = original(tuner, *args, **kwargs)
        tuner.__dict__["_launched"] = worker.recorder and worker.recorder.chosen
        return given

    original = autotuner.Autotuner.run
    jit.JITFunction.run = run
    autotuner.Autotuner.run = tune
    autotuner.Autotuner.do_bench = property(bench)
    jit.JITFunction.device_caches = property(_unknown, lambda function, value: None)
    for name in ("best_config", "configs_timings"):
        setattr(autotuner.Autotuner, name, _noticed(name))


def _unknown(function: jit.JITFunction) -> Any:
    raise Unmodelled("what was compiled of a kernel is not known where kernels are only recorded")


def _noticed(name: str) -> property:
    """A result of autotuning. Who looks at it does what comes next for the configuration that won, and for no other."""

    def get(tuner: autotuner.Autotuner) -> Any:
        if f"_{name}" not in tuner.__dict__:
            raise AttributeError(f"'Autotuner' object has no attribute '{name}'")
        if tuner.__dict__.get("_launched"):
            record, operation = tuner.__dict__["_launched"]
            operation["launches"] = [record]
        return tuner.__dict__[f"_{name}"]

    def put(tuner: autotuner.Autotuner, value: Any) -> None:
        tuner.__dict__[f"_{name}"] = value

    return property(get, put)


def last_line(error: BaseException, path: str = "") -> str:
    """Exception type, message, and the candidate's own line, if one is on the stack."""
    try:
        text = str(error).strip()[:300].encode("utf-8", "replace").decode()
    except BaseException:
        text = "(no message)"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    where = f" (line {frames[-1].lineno}: {frames[-1].line})" if frames else ""
    return f"{type(error).__name__}: {text}{where}"


def _copied(module: torch.nn.Module) -> torch.nn.Module:
    try:
        return copy.deepcopy(module)
    except (TypeError, RuntimeError, NotImplementedError, AttributeError, ValueError):
        return module  # a user cannot copy it either


def _made(operations: list[dict[str, Any]]) -> set[int]:
    """Numbers of the storages that operations allocate."""
    made = {op["storage"] for op in operations if op["kind"] == "alloc"}
    return made | {view[0] for op in operations if op["kind"] == "aten" for view in op["results"]}


def _after(earlier: list[dict[str, Any]], tape: dict[str, Any], recorder: Recorder) -> dict[str, Any]:
    """A tape that begins with what was done before it."""
    operations = [*earlier, *tape["operations"]]
    used = {*map(int, tape["foreign"]), *_storages(earlier)} - _made(operations)
    foreign = {str(number): recorder.size(number) for number in used}
    return {**tape, "operations": operations, "foreign": foreign}


def _storages(tree: Any) -> Iterator[int]:
    """Numbers of all storages that operations refer to."""
    for op in tree:
        for key in ("view", "target", "source"):
            if key in op:
                yield op[key][0]
        for launch in op.get("launches", ()):
            yield from _nested(launch["arguments"])
        if op["kind"] == "aten":
            yield from _nested(op["arguments"])


def _nested(tree: Any) -> Iterator[int]:
    if isinstance(tree, dict):
        if "view" in tree:
            yield tree["view"][0]
        else:
            for value in tree.values():
                yield from _nested(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _nested(value)


def _with_views(tree: Any, views: list[Any]) -> Any:
    """`channel.encode`'s tree with its tensor numbers replaced by views."""
    if isinstance(tree, dict):
        if "tensor" in tree:
            return {"view": views[tree["tensor"]]}
        return {key: _with_views(value, views) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_with_views(item, views) for item in tree]
    return tree


def blank(spec: Any) -> Any:
    """Inputs described by shape, stride and dtype, as tensors without data."""
    ((kind, value),) = spec.items()
    if kind == "meta":
        dtype = channel.DTYPES[value["dtype"]]
        return torch.empty_strided(value["shape"], value["stride"], dtype=dtype, device="meta")
    if kind in ("list", "tuple"):
        items = [blank(item) for item in value]
        return items if kind == "list" else tuple(items)
    if kind == "named":
        made = collections.namedtuple(value["name"], value["fields"])  # type: ignore[misc]
        return made(*map(blank, value["items"]))
    if kind == "dict":
        return {key: blank(item) for key, item in value.items()}
    return channel.decode(spec, [])


def warm() -> None:
    """In the zygote, before any fork: what torch imports and builds at the first recorded operator."""
    cuda = PretendCuda("meta")
    recorder = Recorder(cuda)
    cuda.upload = recorder.upload
    with cuda, torch.no_grad(), recorder:
        x = torch.empty(4, 4, device="cuda")
        made = [
            torch.empty_like(x),
            x.new_empty(3),
            torch.zeros(2, device="cuda"),
            torch.zeros_like(x),
            x.t().contiguous(),
        ]
        made += [
            torch.full((2,), 1.0, device="cuda"),
            x.clone(),
            x.to(torch.float16),
            torch.tensor([1.0], device="cuda"),
        ]
        made[0].copy_(x.view(16).reshape(4, 4))
        made[3].zero_()
        recorder.view(x[1:].unsqueeze(0).expand(2, 3, 4).permute(1, 0, 2))
