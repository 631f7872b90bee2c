"""The worker without a GPU: the candidate on Triton's interpreter, its kernels through the compiler for a target.

Commands: load; model (meta tensors at full size: launches, sampled traffic, assembler text); build; run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from kernelwright.hardware import Target
from kernelwright.outcomes import Outcome
from kernelwright.verify import channel, cost, crosscompile
from kernelwright.verify.device import AtenTrace, PretendCuda, poison_, pretend_torch_cuda
from kernelwright.verify.interpreter import Engine, HostTensor, KernelError, TracedLaunch, Unsupported
from kernelwright.verify.memory import SECTOR_BYTES, OutOfBounds
from kernelwright.verify.worker import REPLACED, WATCHED, Failure, Worker, check_outputs, map_tree


def summarise(launch: TracedLaunch) -> cost.Work:
    """The sampled instances of a launch, averaged."""
    count = max(len(launch.traffic), 1)
    unique: dict[str, float] = {}
    flops: dict[str, float] = {}
    for traffic in launch.traffic:
        for name, sectors in traffic.unique_sectors().items():
            unique[name] = unique.get(name, 0.0) + sectors * SECTOR_BYTES / count
        for unit, operations in traffic.flops.items():
            flops[unit] = flops.get(unit, 0.0) + operations / count
    return cost.Work(
        kernel=launch.function.__name__,
        programs=launch.programs,
        num_warps=int(launch.options.get("num_warps", 4)),
        num_stages=int(launch.options.get("num_stages", 3)),
        unique_bytes=unique,
        sizes=launch.sizes,
        touched_bytes=sum(traffic.touched_bytes for traffic in launch.traffic) / count,
        steps=sum(traffic.steps for traffic in launch.traffic) / count,
        flops=flops,
    )


class InterpretWorker(Worker):
    """Judged without a GPU: Triton's interpreter on CPU tensors, the compiler for a named target."""

    def __init__(self, target: Target, scratch: Path) -> None:
        super().__init__(scratch)
        self.target = target
        self.cuda = PretendCuda("cpu")
        self.engine = Engine(self.cuda, lambda launch: cost.price(summarise(launch), target).ms)

    # -- commands -------------------------------------------------------------------------------------

    def load(self, code: str) -> dict[str, Any]:
        """Execute the candidate's top level under the pretended device."""
        self.engine.install()
        self.mark(WATCHED)
        with self.failures(Outcome.LOAD_ERROR), self.cuda:
            self.execute(code)
        if not isinstance(getattr(self.module, "ModelNew", None), type):
            raise Failure(Outcome.NO_ENTRY, "no class ModelNew after loading")
        self.untouched()
        return {}

    def model(self, init: Any, inputs: Any) -> dict[str, Any]:
        """Run the forward pass on meta tensors at full size: launches, sampled traffic, assembler text."""
        cuda, engine = PretendCuda("meta"), self.engine
        engine.mode, engine.cuda, engine.launches = "model", cuda, []
        with self.failures(Outcome.RUNTIME_ERROR), cuda, torch.no_grad():
            module = self.module.ModelNew(*init)
            module.cuda()
            tensors = map_tree(inputs, lambda tensor: cuda.adopt(torch.empty_like(tensor, device="meta")))
            engine.launches.clear()
            module(*tensors)
        launches = engine.launches
        return {
            "launches": [self._describe(launch) for launch in launches],
            "assemblies": self._compile(launches),
        }

    def build(self, key: str, init: Any, seed: int, state: dict[str, torch.Tensor]) -> dict[str, Any]:
        """Construct `ModelNew` for one shape set and give it the reference's weights, by name where they fit."""
        self.engine.mode, self.engine.cuda = "execute", self.cuda
        with self.failures(Outcome.CONSTRUCTOR_ERROR), self.cuda, torch.no_grad():
            own = self.construct(init, seed, state, "ModelNew")
        self.models[key] = self.built
        return {"own_state": own}

    def run(
        self, key: str, inputs: Any, ablate: bool, want_assembly: bool
    ) -> tuple[dict[str, Any], list[torch.Tensor]]:
        """One forward pass. Returns facts and the raw output tensors."""
        engine, trace = self.engine, AtenTrace(poison=True)
        engine.mode, engine.cuda, engine.launches = "ablate" if ablate else "execute", self.cuda, []
        fresh = map_tree(inputs, lambda tensor: self.cuda.adopt(tensor.clone()))
        flat: list[torch.Tensor] = []
        map_tree(fresh, flat.append)
        kept = [channel.tensor_bytes(tensor) for tensor in flat]
        with self.failures(Outcome.RUNTIME_ERROR), self.cuda, torch.no_grad(), trace:
            output = self.models[key](*fresh)
        tensors: list[torch.Tensor] = []
        try:
            structure = channel.encode(output, tensors)
        except TypeError as error:
            raise Failure(Outcome.WRONG_STRUCTURE, str(error)) from None
        check_outputs(tensors)
        if any(self.cuda.on_host(tensor) for tensor in tensors):
            raise Failure(Outcome.WRONG_STRUCTURE, "an output lives in host memory, not on the device")
        storages = {tensor.untyped_storage()._cdata: index for index, tensor in enumerate(flat)}
        self.untouched()
        facts = {
            "structure": structure,
            "aliases": [storages.get(tensor.untyped_storage()._cdata, -1) for tensor in tensors],
            "changed": [
                index for index, tensor in enumerate(flat) if channel.tensor_bytes(tensor) != kept[index]
            ],
            "aten": dict(trace.compute),
            "host_reads": trace.host_reads,
            "launches": [self._describe(launch) for launch in engine.launches[:64]],
            "launch_count": sum(1 for launch in engine.launches if launch.programs),
            "assemblies": self._compile(engine.launches) if want_assembly else [],
        }
        return facts, [tensor.detach() for tensor in tensors]

    # -- helpers ------------------------------------------------------------------------------------------

    def _compile(self, launches: list[TracedLaunch]) -> list[dict[str, Any]]:
        """Assembler text of every distinct specialisation, or the compiler's complaint."""
        self.engine.uninstall()
        try:
            return self._assemblies(launches)
        finally:
            self.engine.install()
            self.mark(REPLACED)

    def _assemblies(self, launches: list[TracedLaunch]) -> list[dict[str, Any]]:
        done: dict[str, dict[str, Any]] = {}
        for launch in launches:
            identity = (
                f"{launch.function.fn.__qualname__}|{launch.signature}|{launch.constexprs}|{launch.options}"
            )
            if identity in done:
                continue
            try:
                assembly = crosscompile.to_assembly(launch, self.target)
            except crosscompile.CompileError as error:
                raise Failure(Outcome.COMPILE_ERROR, f"{launch.function.__name__}: {error}") from None
            done[identity] = {
                "kernel": assembly.kernel,
                "text": assembly.text,
                "shared_bytes": assembly.shared_bytes,
                "num_warps": assembly.num_warps,
            }
        return list(done.values())

    def _kernel_failure(self, error: KernelError) -> Failure:
        """Whose failure an exception inside a kernel is: the compiler decides.

        A compiled kernel cannot raise, except by `tl.device_assert`; so what the compiler takes and the
        interpreter does not is the interpreter's limit.
        """
        if isinstance(error.__cause__, AssertionError):
            return Failure(Outcome.RUNTIME_ERROR, f"in a kernel: {error}")
        try:
            self._compile(self.engine.launches[-1:])
        except Failure as refused:
            return refused
        return Failure(Outcome.UNSUPPORTED, f"compiles, but is not interpreted: {error}")

    def _describe(self, launch: TracedLaunch) -> dict[str, Any]:
        return {
            "kernel": launch.function.__name__,
            "grid": list(launch.grid),
            "num_warps": int(launch.options.get("num_warps", 4)),
            "num_stages": int(launch.options.get("num_stages", 3)),
            "constexprs": {name: repr(value)[:60] for name, value in launch.constexprs.items()},
            "signature": launch.signature,
            "work": summarise(launch).to_json(),
        }

    @contextlib.contextmanager
    def failures(self, otherwise: Outcome) -> Iterator[None]:
        """What the interpreter and the pretended device can raise, then the rest."""
        with super().failures(otherwise):
            try:
                yield
            except OutOfBounds as error:
                raise Failure(Outcome.OUT_OF_BOUNDS, str(error)) from None
            except Unsupported as error:
                raise Failure(Outcome.UNSUPPORTED, str(error)) from None
            except HostTensor as error:
                raise Failure(Outcome.RUNTIME_ERROR, f"ValueError: {error}") from None
            except KernelError as error:
                raise self._kernel_failure(error) from None

    def answer(
        self, body: dict[str, Any], tensors: list[torch.Tensor], outputs: list[torch.Tensor]
    ) -> dict[str, Any]:
        command = body["command"]
        if command == "load":
            return self.load(body["code"])
        if command == "model":
            return self.model(channel.decode(body["init"], tensors), _blank(body["inputs"]))
        if command == "build":
            state = channel.decode(body["state"], tensors)
            return self.build(body["key"], channel.decode(body["init"], tensors), body["seed"], state)
        if command == "run":
            inputs = channel.decode(body["inputs"], tensors)
            facts, found = self.run(body["key"], inputs, body["ablate"], body["want_assembly"])
            outputs.extend(found)
            return facts
        raise ValueError(f"unknown command {command!r}")


def _blank(spec: Any) -> Any:
    """Inputs for `model`: a tree whose tensors are described by shape and dtype only."""
    ((kind, value),) = spec.items()
    if kind == "meta":
        return torch.empty(value["shape"], dtype=channel.DTYPES[value["dtype"]], device="meta")
    if kind in ("list", "tuple"):
        items = [_blank(item) for item in value]
        return items if kind == "list" else tuple(items)
    if kind == "dict":
        return {key: _blank(item) for key, item in value.items()}
    return channel.decode(spec, [])


def warm(target: Target) -> None:
    """In the zygote, before any fork: fill Triton's caches (rewritten library functions, compiler, ptxas path)."""
    from kernelwright.verify import warmup

    cuda = PretendCuda("cpu")
    engine = Engine(cuda, lambda launch: 1.0)
    with pretend_torch_cuda(target), engine.installed(), cuda, torch.no_grad(), AtenTrace(poison=True):
        tensor = cuda.adopt(poison_(torch.empty(64)).fill_(1.0))
        warmup.row_kernel[(1,)](tensor, torch.empty_like(tensor), 64, BLOCK=64)
        square = cuda.adopt(torch.ones(16, 16))
        warmup.dot_kernel[(1,)](square, torch.empty_like(square), BLOCK=16)
    for launch in engine.launches:
        crosscompile.to_assembly(launch, target)
