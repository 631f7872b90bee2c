"""The candidate's process: it loads the candidate, calls its `forward` on tensors without data, and returns the tapes.

Nothing here knows an input value. The only data are weights that it drew itself, under a public seed; those that the
reference has under the same name and shape are replaced by the reference's before a kernel sees them.

Commands: load; trace (build for one shape set, then call `forward` several times). Every trace begins with a fresh copy
of the candidate's file, so no state carries over from shape to shape; launches while the module is built belong to the
first call.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import linecache
import math
import random
import secrets
import sys
import time
import traceback
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from triton.runtime import autotuner, jit

from kernelwright.outcomes import Outcome
from kernelwright.verify.gradient_ways import GradientWay
from kernelwright.verify.gradients import Watch, WithGradients
from kernelwright.verify.messages import Building
from kernelwright.verify.sandbox import channel
from kernelwright.verify.sandbox.service import Failure, Service
from kernelwright.verify.structures import Args, containers, convert, flatten
from kernelwright.verify.trace import affine, ways
from kernelwright.verify.trace.as_a_module import (
    CHANGES,
    asked_for,
    change_weight,
    copy_module,
    hang,
    make_anew,
    wrap,
)
from kernelwright.verify.trace.counters import Counters, set_version
from kernelwright.verify.trace.left_behind import (
    LeftBehind,
    Weights,
    callers_same,
    switches_same,
    tensors_held,
    tensors_same,
)
from kernelwright.verify.trace.pretend_cuda import (
    HostRead,
    PretendCuda,
    Refused,
    Unmodelled,
    has_data,
    storage_of,
)
from kernelwright.verify.trace.questions import versions_of
from kernelwright.verify.trace.recorder import (
    LAZY,
    HostTensor,
    Recorder,
    after,
    is_lazy,
    made_by,
    storages,
    with_views,
)
from kernelwright.verify.trace.stand_ins import CompiledKernel
from kernelwright.verify.trace.streams import STREAMS
from kernelwright.verify.trace.surroundings import Surroundings
from kernelwright.verify.trace.switches import pose
from kernelwright.verify.trace.tape import Tape, TapeError

_OTHER_SEED = 0x2545F491
"""XORed with the seed of a module's weights, it seeds those of the other modules."""
_STEP, _MOST_STEPS = 64, 5
"""Shifted inputs begin a multiple of this many elements later in their memory, which keeps their alignment."""
_HOOKS = itertools.count(1 << 10)
"""Ids of hooks, as torch counts them."""
_BEFORE, _BEHIND = "_forward_pre_hooks", "_forward_hooks"
_JUMPS = 4
"""After this many calls, or modules built, counters are advanced."""
_TRUE_CALLS, _TRUE_CALLS_S = 5000, 2.0
"""Limits, in calls and CPU seconds (others use the machine), for really calling a module whose state cannot be advanced."""
_MOST_CHANGED = 6
"""Most weights changed one at a time."""
_SECONDS = time.process_time


class HostWorker(Service):
    """Loads one candidate and records its tapes."""

    def __init__(self, surroundings: Surroundings | None = None) -> None:
        """`surroundings`: those that the `torch.cuda` stand-ins use, if any."""
        self.surroundings = surroundings or Surroundings(environment=False)
        self.module: Any = None
        self.recorder: Recorder | None = None
        """Records launches; None between commands."""
        self._code = self._path = ""
        self._asked: set[str] = set()
        """See `asked_for`."""
        self._traced = False
        self._given: list[torch.Tensor] = []
        """Tensors that the last call returned."""
        self._containers: list[object] = []
        """Containers that calls returned, kept alive so that no id is reused."""
        self._others: list[object] = []
        """Modules built before the one that is judged."""
        self.building: Building
        """How the module is built and called."""
        self.tracing: Recorder
        """What records the calls."""
        self.real: PretendCuda
        """The mode in which modules are built."""
        self._gradients: dict[object, torch.Tensor] = {}
        self._learning: list[torch.nn.Parameter] = []
        """Parameters that were built to require gradients; during calls they only report it, if it is `wanted`."""
        self.secret = secrets.randbits(64)
        """Seed of the simulated tuning times."""
        self._host: dict[int, torch.UntypedStorage] = {}
        self.pruned: dict[object, list[Any]] = {}
        """Configurations that a tuner tries, by the tuner's cache key."""
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
            earlier = blank(body["earlier"]) if body.get("earlier") is not None else None
            self.building = Building.read(body)
            self.surroundings.otherwise = self.building.otherwise
            with versions_of(self.building.otherwise):
                return self.trace(init, blank(body["inputs"]), state, outputs, earlier)
        raise ValueError(f"unknown command {command!r}")

    def load(self, code: str) -> dict[str, Any]:
        """Execute the candidate's file as a module, on the simulated device."""
        self._code = code
        self._execute()
        self._asked = asked_for(code)
        return {}

    def _execute(self, optimised: bool = False) -> None:
        """Execute the candidate's file anew under another name and path, `optimised` as by `python -OO`. Launches at its top
        level are checked and discarded."""
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
        self.pruned.clear()
        cuda = PretendCuda("cpu", self._host, self.surroundings)
        torch.default_generator.manual_seed(self.surroundings.seed)
        with self.failures(Outcome.LOAD_ERROR), self.listening(Recorder(cuda)), cuda, switches_same(True):
            code = compile(self._code, path, "exec", optimize=2 if optimised else 0)
            try:
                exec(code, self.module.__dict__)
            except ImportError as error:
                raise Failure(Outcome.INVALID_IMPORT, last_line(error, path)) from None
            self._not_reseeded("loading the file")
        if not isinstance(getattr(self.module, "ModelNew", None), type):
            raise Failure(Outcome.NO_ENTRY, "no class ModelNew after loading")

    @contextlib.contextmanager
    def listening(self, recorder: Recorder) -> Iterator[None]:
        """Send launches to `recorder` inside the block."""
        self.recorder = recorder
        try:
            yield
        finally:
            self.recorder = None

    def construct(self, init: Any, seed: int, state: dict[str, torch.Tensor]) -> torch.nn.Module:
        """The candidate's module, with the reference's weights if names and shapes agree and values are given; the mode `real`
        is active. Weights are varied as the reference's are (`trace/affine.py`)."""
        torch.default_generator.manual_seed(seed)  # torch.manual_seed takes a ms and is noted
        self.surroundings.weights = seed
        with affine.vary_affine(seed) if self.building.affine else contextlib.nullcontext() as finished:
            module = self.module.ModelNew(*init)
            if self.surroundings.reseeded:
                raise LeftBehind(
                    f"building the module seeds a generator that everybody shares ({self.surroundings.reseeded})"
                )
            if not isinstance(module, torch.nn.Module):
                raise Failure(Outcome.CONSTRUCTOR_ERROR, "ModelNew is not an nn.Module")
            if finished is not None:
                finished(module)
        for _, tensor in (*module.named_parameters(), *module.named_buffers()):
            self.real.adopt_alone(tensor)
        module.cuda()
        if self.building.cast:
            module.to(channel.DTYPES[self.building.cast])
        own = dict(module.named_parameters()) | dict(module.named_buffers())
        for name, value in state.items():
            if name in own and own[name].shape == value.shape and has_data(value):
                own[name].data = value.to(own[name].dtype)
        return module

    def trace(
        self,
        init: Any,
        inputs: Any,
        state: dict[str, torch.Tensor],
        outputs: list[torch.Tensor],
        other_sizes: object = None,
    ) -> dict[str, Any]:
        """Build `ModelNew` and call it as `self.building`. Returns the tapes and what they start from. With `other_sizes`, the module is
        first called on inputs of those sizes.

        `state` holds the shapes of the reference's weights, and the values of very small ones.
        """
        if self._traced:
            self._execute(self.building.optimised)
        self._traced = True
        self._learning, self._gradients, self._others = [], {}, []
        self.real = PretendCuda("cpu" if self.building.values else "meta", self._host, self.surroundings)
        cuda = PretendCuda("meta", self._host, self.surroundings)
        self.tracing = Recorder(cuda)
        cuda.upload, cuda.tell, cuda.whole = self.tracing.upload, self.tracing.tell, self.tracing.whole
        fresh = self._blank_inputs(inputs, self.building.copied)
        earlier = self._build_many(init) if self.building.copied else []
        earlier += self._call_another(init, fresh) if self.building.second else []
        module = self._build(init, state)
        prepared = list(self.tracing.operations)
        named = dict(module.named_parameters()) | dict(module.named_buffers())
        views = {
            name: self.tracing.view(self.tracing.upload(tensor.data))
            for name, tensor in named.items()
            if name in state and (state[name].shape, state[name].dtype) == (tensor.shape, tensor.dtype)
        }
        self._detach(module)
        weights = Weights(module, state, self.tracing.view)
        before = [] if other_sizes is None else self._call_at(module, other_sizes)
        for numbers in self.building.renumbered:
            before += self._call_at(module, blank(numbers), may_raise=True)
        self.tracing.operations = list(prepared)
        tapes, given, refused = self._calls(module, inputs, fresh, state)
        weights.check([*tapes, {"operations": before}])
        if self.building.copied and self.building.ways:
            self._follow_changes(module, inputs, state, tapes)
        made = made_by(before)
        if any(int(number) in made for tape in tapes for number in tape["foreign"]):
            operations = tapes[0]["operations"][len(prepared) :]
            prepared = [*prepared, *before]
            tapes[0] = after(prepared, {**tapes[0], "operations": operations}, self.tracing)
        made = made_by(earlier)
        if any(int(number) in made for tape in tapes for number in tape["foreign"]):
            tapes[0] = after(earlier, tapes[0], self.tracing)
            prepared = [*earlier, *prepared]
        return {
            "tapes": tapes,
            "prepared": len(prepared),
            "inputs": given,
            "refused": refused,
            "constants": self._constants(list(views.values()), outputs),
            "state": views,
            "kernels": [spec for _, spec in self.tracing.kernels.values()],
        }

    def _follow_changes(
        self,
        module: torch.nn.Module,
        inputs: object,
        wanted: Collection[str],
        tapes: Sequence[dict[str, Any]],
    ) -> None:
        """Change one weight at a time and call the module. Copies that it keeps of weights may stay as they are, but if a change
        makes it read a weight again, each must: raises LeftBehind. See also `_follow_attributes`."""
        first, last = (set(storages(tape["operations"])) for tape in (tapes[0], tapes[-1]))
        copied = {
            name
            for name, one, learns, _ in tensors_held(module)
            if learns and self.tracing.number(one) in first - last
        }
        dice, heard, missed = self.surroundings.dice, "", ""
        names = dice.sample(sorted(copied), min(len(copied), _MOST_CHANGED))
        for how in dice.sample(CHANGES, len(CHANGES)):
            for name in names:
                with torch.utils._python_dispatch._disable_current_modes():
                    made = change_weight(module, name, how)
                self.tracing.operations = []
                self._call(module, self._blank_inputs(inputs))
                if self.tracing.number(made) in set(storages(self.tracing.operations)):
                    heard = f"{name} {how}"
                else:
                    missed = f"{name} {how}"
                if heard and missed:
                    what = f"a call lays weights out again where {heard}, but not where {missed}"
                    raise LeftBehind(what, "what it keeps of them is stale")
        self._follow_attributes(module, inputs, wanted)

    def _follow_attributes(self, module: torch.nn.Module, inputs: object, wanted: Collection[str]) -> None:
        """Call the module a last time, its weights parametrized as by pruning and adapters. Raises LeftBehind if a call reads the
        original of a weight; raising is allowed."""
        with torch.utils._python_dispatch._disable_current_modes():
            before = make_anew(module, wanted)
        if not before:
            return
        self.tracing.operations = []
        try:
            self._call(module, self._blank_inputs(inputs))
        except Failure:
            return
        used = set(storages(self.tracing.operations))
        for name, one in before.items():
            if self.tracing.number(one) in used:
                what = f"a call reads what {name} is made from, where it is made anew (parametrized, pruned)"
                raise LeftBehind(what, "the weight is what the module has by that name")

    def _build_many(self, init: object) -> list[dict[str, object]]:
        """Build other instances, like the layers of a deep model, and advance what counts them as if by thousands (undone if then
        none can be built). Returns their operations."""
        counters = Counters(torch.nn.Identity(), self.module.__dict__)
        for _ in range(_JUMPS):
            self._build_another(init)
            counters.note()
        if counters.jump(self.surroundings.dice):
            try:
                self._build_another(init)
            except Failure:
                counters.undo()
        done, self.tracing.operations = self.tracing.operations, []
        return done

    def _build_another(self, init: object) -> torch.nn.Module:
        """Another instance, with other weights; it lives as long as the one that is judged."""
        with (
            self.failures(Outcome.CONSTRUCTOR_ERROR),
            self.listening(self.tracing),
            self.real,
            torch.no_grad(),
        ):
            other = self.construct(init, self.building.seed ^ _OTHER_SEED, {})
        self._others.append(other)
        return other

    def _call_another(self, init: object, inputs: object) -> list[dict[str, object]]:
        """Build another instance, with other weights, and call it. Returns its operations."""
        other = self._build_another(init)
        self._detach(other)
        for tensor in flatten(inputs):
            self.tracing.number(tensor)
        self._call(other, inputs)
        done, self.tracing.operations = self.tracing.operations, []
        return done

    def _call_at(
        self, module: torch.nn.Module, inputs: Any, may_raise: bool = False
    ) -> list[dict[str, object]]:
        """Call the judged module at other sizes or numbers, on zeros. Returns its operations."""
        self.tracing.operations = []
        given = self._blank_inputs(inputs)
        for tensor in flatten(given):
            self.tracing.zeros(tensor)
        try:
            self._call(module, given)
        except LeftBehind:
            raise
        except Failure:
            if not may_raise:
                raise
        return self.tracing.operations

    def _build(self, init: object, state: dict[str, torch.Tensor]) -> torch.nn.Module:
        """The judged module. Operations while it is built belong to the first call, unless values are not asked."""
        builder = self.tracing if self.building.values else Recorder(self.real)
        with self.failures(Outcome.CONSTRUCTOR_ERROR), self.listening(builder), self.real, torch.no_grad():
            module = self.construct(init, self.building.seed, state)
            if self.building.evaluating:
                module.eval()
            if self.building.copied:
                module = _with_weights_anew(copy_module(module, state, self.building.tied))
                wrap(module, self._asked, self.module.__name__)
            return module

    def _calls(
        self, module: torch.nn.Module, inputs: object, fresh: object, state: dict[str, torch.Tensor]
    ) -> tuple[list[dict[str, Any]], list[list[Any]], list[int]]:
        """Returns a tape for each call (the first gets `fresh` and includes what was recorded before it), views of each
        call's inputs, and the numbers of calls that the module refused in other ways; these repeat the tape before."""
        self._containers = []
        tapes: list[dict[str, Any]] = []
        given: list[list[Any]] = []
        refused = []
        counters = Counters(module, self.module.__dict__)
        called = _with_gradients(module, self.building, state, partial(self._watch, module))
        self.surroundings.learning = self.building.gradients is not None
        for number in range(self.building.calls):
            way = self.building.ways[number - 1] if 0 < number <= len(self.building.ways) else ""
            # The last call gets the tensors of the one before: the judge writes other data to the same memory.
            if 0 < number < self.building.calls - 1:
                fresh = self._blank_inputs(inputs, self.building.copied and not way, way)
            if number:
                self.tracing.operations = []
            given.append([self.tracing.view(tensor) for tensor in flatten(fresh)])
            if way:
                try:
                    asking = GradientWay.read(way)
                    one = called.asked(asking) if asking and isinstance(called, WithGradients) else called
                    names = self.building.names if way == ways.BY_NAME else ()
                    with ways.set_switches(way):
                        output = self._call(one, fresh, way, names=names)
                    made = self._tape(output)
                    Tape.read(made)  # a descriptor that ignores strides reaches outside of its tensor
                    tapes.append(made)
                    self._given = flatten(output)
                except LeftBehind:
                    raise
                except (Failure, TapeError):
                    refused.append(number)
                    tapes.append(tapes[-1])
                continue
            call = number - len(self.building.ways) if number else 0
            near = call == _JUMPS
            jumped = call > 0 and call % _JUMPS == 0 and counters.jump(self.surroundings.dice, near)
            if counters.unmoved and not near:
                self._call_often(called, fresh)
                counters.unmoved = False
            if jumped:
                output = self._call_far_ahead(called, fresh, counters)
            else:
                output = self._call(called, fresh)
            self._given = flatten(output)
            if (call // _JUMPS + 1) * _JUMPS < self.building.calls - len(
                self.building.ways
            ):  # another jump will come
                counters.note()
                if counters.grows:
                    raise LeftBehind("every call leaves more tensors behind than there were")
            tapes.append(self._tape(output))
        return tapes, given, refused

    @staticmethod
    def _hangs_on_something(output: object, inputs: object) -> None:
        """Raises LeftBehind if an output claims to require gradients but depends on nothing that does: a loss of it would
        silently have no gradients."""
        given = {id(one) for one in flatten(inputs)}
        with torch._C.DisableTorchFunction():
            for one in flatten(output):
                leaf = one.requires_grad and one.grad_fn is None
                if leaf and id(one) not in given and not isinstance(one, torch.nn.Parameter):
                    raise LeftBehind(
                        "an output says that it can be differentiated", "it depends on no input or weight"
                    )

    def _not_reseeded(self, when: str) -> None:
        """Raises LeftBehind if a shared random generator was seeded."""
        own = torch.default_generator.initial_seed() != self.surroundings.seed
        if what := self.surroundings.reseeded or ("torch.default_generator" if own else ""):
            raise LeftBehind(f"{when} seeds a generator that everybody shares ({what})")

    def _in_new_containers(self, output: object, inputs: object) -> None:
        """Raises LeftBehind if a call returns a list or dictionary that an earlier call returned, unless it is an input."""
        given = set(map(id, containers(inputs)))
        found = [one for one in containers(output) if id(one) not in given]
        if set(map(id, found)) & set(map(id, self._containers)):
            what = "a call returns the list or dictionary that an earlier one returned"
            raise LeftBehind(what, "the caller's results change")
        self._containers += found

    def _blank_inputs(self, inputs: object, elsewhere: bool = False, way: str = "") -> Any:
        """New tensors like those of `inputs`, in the layout of the `way`. `elsewhere`: they begin later in their memory, as parts
        of a batch do. Equal ones are a single tensor in the way `ONE_TENSOR`."""
        known: dict[object, torch.Tensor] = {}
        layout, places, numbers = ways.layout_of(way), itertools.count(), itertools.count()
        given_back = {
            (one.shape, one.stride(), one.dtype): one for one in self._given if way == ways.FED_BACK
        }
        tensors = flatten(inputs)
        forms = [(tuple(like.shape), like.dtype) for like in tensors if like.is_contiguous()]
        parts = ways.parts_of_larger(forms, way) if way in ways.JOINED and len(forms) == len(tensors) else {}
        wholes: dict[int, torch.Tensor] = {}

        def made(like: torch.Tensor) -> torch.Tensor:
            if (part := parts.get(next(numbers))) is not None:
                larger, begin, steps, count = part
                if larger not in wholes:
                    wholes[larger] = torch.empty(count, dtype=like.dtype, device="meta")
                return self.tracing.cuda.adopt_input(wholes[larger].as_strided(like.shape, steps, begin))
            if (back := given_back.pop((like.shape, like.stride(), like.dtype), None)) is not None:
                return back  # once only: two inputs that are one tensor are a way of their own
            key, stride = (tuple(like.shape), like.stride(), like.dtype), like.stride()
            if way == ways.ONE_TENSOR and key in known:
                return known[key]
            if ways.concerns(way, next(places)) and layout and ways.holds(tuple(like.shape), stride):
                stride = ways.strides(tuple(like.shape), layout)
            start = _STEP * self.surroundings.dice.randrange(1, _MOST_STEPS) if elsewhere else 0
            plain = torch.empty_strided(like.shape, stride, dtype=like.dtype, device="meta")
            if start:
                room = torch.empty(
                    start + storage_of(plain).nbytes() // like.element_size(), dtype=like.dtype, device="meta"
                )
                plain = room.as_strided(like.shape, stride, start)
            known[key] = plain
            if self.surroundings.dice.random() < 0.5:  # as if often written to
                set_version(plain, int(10.0 ** self.surroundings.dice.uniform(0.0, 6.0)))
            if elsewhere and plain.is_floating_point() and not self.surroundings.learning:
                known[key] = plain = torch.nn.Parameter(plain, requires_grad=False)  # a learnt input
            hang(plain, self._asked if elsewhere else ())
            return self.tracing.cuda.adopt_input(plain)

        return convert(inputs, made)

    def _call(
        self,
        module: Callable[..., object],
        inputs: Any,
        way: str = "",
        often: bool = False,
        names: Sequence[str] = (),
    ) -> Any:
        """One forward pass, in newly drawn surroundings, called in a `way`, with keyword arguments if there are `names`. If it is
        one of thousands (`often`), the checks of what it leaves behind are skipped."""
        self.surroundings.enter_call(way)
        torch.default_generator.manual_seed(self.surroundings.seed)
        graded = torch.set_grad_enabled(self.surroundings.recording)
        Refused.last = None
        STREAMS.begin(STREAMS.other if self.surroundings.streaming else 0)
        self.tracing.cuda.listed = 0
        failures = self.failures(Outcome.RUNTIME_ERROR)
        nothing = contextlib.nullcontext()
        hooks = with_hooks(module) if self.surroundings.hooked and not often else nothing
        kept = nothing if often else switches_same()
        seen = nothing if often else pose(self.surroundings.dice)
        own = nothing if often or not isinstance(module, torch.nn.Module) else self._watch(module, inputs)
        with (
            failures,
            self.listening(self.tracing),
            self.tracing.cuda,
            hooks,
            graded,
            self.tracing,
            seen,
            kept,
            own,
        ):
            output = module(**dict(zip(names, inputs, strict=True))) if names else module(*inputs)
            if Refused.last is not None:  # even if the candidate caught it
                raise Refused.last
        if fault := STREAMS.fault():
            raise Failure(Outcome.NONDETERMINISTIC, fault)
        self._not_reseeded("a call")
        if self.surroundings.disturbed:
            raise LeftBehind(
                f"a call {self.surroundings.disturbed}", "the program around has asked for a result"
            )
        if not often:
            self._in_new_containers(output, inputs)
            self._hangs_on_something(output, inputs)
        return output

    @contextlib.contextmanager
    def _watch(self, module: torch.nn.Module, inputs: object) -> Iterator[None]:
        """Inside the block, what the module's caller holds must not change."""
        around = self.surroundings
        learning = self._learning if around.wanted and not (around.recording or around.learning) else ()
        for one in learning:
            one.requires_grad_(True)
        try:
            with callers_same(module, inputs, self.building.left), self._with_gradients_on(module, inputs):
                yield
        finally:
            for one in learning:
                one.requires_grad_(False)

    def _with_gradients_on(
        self, module: torch.nn.Module, inputs: object
    ) -> contextlib.AbstractContextManager[None]:
        """In some surroundings parameters and inputs have gradients, which a call must leave unchanged."""
        around = self.surroundings
        if not around.graded:
            return contextlib.nullcontext()
        named = [(name, one) for name, one, learns, _ in tensors_held(module) if learns]
        if not around.computed:
            named += [(f"input {number}", one) for number, one in enumerate(flatten(inputs))]
        return tensors_same(named, self._gradient, self.tracing.knows, around.dice)

    def _gradient(self, tensor: torch.Tensor) -> torch.Tensor:
        """A gradient for a tensor, one for all tensors of the same shape and dtype."""
        form = tensor.shape, tensor.dtype
        if form not in self._gradients:
            with torch.utils._python_dispatch._disable_current_modes():
                self._gradients[form] = torch.empty_like(tensor, requires_grad=False)
        return self._gradients[form]

    def _call_often(self, module: Callable[..., object], inputs: object) -> None:
        """Really call the module thousands of times, within limits; the tapes are discarded."""
        start = _SECONDS()
        for _ in range(_TRUE_CALLS):
            self._call(module, inputs, often=True)
            self.tracing.operations = []
            if _SECONDS() - start > _TRUE_CALLS_S:
                return

    def _call_far_ahead(self, module: Callable[..., object], inputs: object, counters: Counters) -> object:
        """A call after counters were advanced; if it raises, they are restored and the call repeated."""
        before = list(self.tracing.operations)
        try:
            return self._call(module, inputs)
        except Failure:
            counters.undo()
            self.tracing.operations = before
            return self._call(module, inputs)

    def _detach(self, module: torch.nn.Module) -> None:
        """Replace every tensor that the module holds by one without data."""

        def replaced(tensor: torch.Tensor) -> torch.Tensor:
            made = self.tracing.upload(tensor.data)
            if self.real.on_host(tensor):
                self.tracing.cuda.mark_host(made)
            return made

        for part in module.modules():
            for name, parameter in part._parameters.items():
                if parameter is not None:
                    made = torch.nn.Parameter(replaced(parameter), requires_grad=False)
                    self._learning += [made] if parameter.requires_grad else []
                    part._parameters[name] = made
            for name, buffer in part._buffers.items():
                if buffer is not None:
                    part._buffers[name] = replaced(buffer)
            for name, value in list(vars(part).items()):
                if name not in ("_parameters", "_buffers", "_modules") and flatten(value):
                    part.__dict__[name] = convert(value, replaced)

    def _tape(self, output: Any) -> dict[str, object]:
        tensors: list[torch.Tensor] = []
        try:
            tree = channel.encode(output, tensors)
        except TypeError as error:
            raise Failure(Outcome.WRONG_STRUCTURE, str(error)) from None
        if any(type(tensor) not in (torch.Tensor, torch.nn.Parameter) for tensor in tensors):
            raise Failure(Outcome.WRONG_STRUCTURE, "an output is a tensor subclass")
        if any(tensor.layout != torch.strided for tensor in tensors):
            raise Failure(Outcome.WRONG_STRUCTURE, "an output is not a dense tensor")
        if any(self.tracing.cuda.on_host(tensor) for tensor in tensors):
            raise Failure(Outcome.WRONG_STRUCTURE, "an output lives in host memory, not on the device")
        if any(map(is_lazy, tensors)):
            raise Failure(Outcome.TORCH_COMPUTE, f"an output is {LAZY}")
        views = [self.tracing.view(tensor) for tensor in tensors]
        used = {view[0] for view in views} | set(storages(self.tracing.operations))
        foreign = {
            str(number): self.tracing.size(number) for number in used - made_by(self.tracing.operations)
        }
        return {
            "operations": self.tracing.operations,
            "output": with_views(tree, views),
            "foreign": foreign,
            "stops": STREAMS.stops,
            "listed": self.tracing.cuda.listed,
        }

    def _constants(self, shared: list[list[Any]], outputs: list[torch.Tensor]) -> list[dict[str, int]]:
        """Storages that the tapes start from; `blob` is the index of the contents, unless the reference provides them."""
        whole = {v[0]: math.prod(v[2]) * channel.DTYPES[v[4]].itemsize for v in shared if v[1] == 0}
        found = []
        for number, storage in self.tracing.constants.items():
            item = {"storage": number, "bytes": storage.nbytes()}
            if whole.get(number) != storage.nbytes() and storage.device.type == "cpu":
                outputs.append(torch.empty(0, dtype=torch.uint8).set_(storage))
                item["blob"] = len(outputs) - 1
            found.append(item)
        return found

    @contextlib.contextmanager
    def failures(self, otherwise: Outcome) -> Iterator[None]:
        """Map any exception of candidate code to a Failure; `otherwise` is the outcome of ordinary exceptions."""
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


def _with_gradients(
    module: torch.nn.Module, building: Building, state: dict[str, torch.Tensor], watch: Watch
) -> Callable[..., object]:
    """The callable for calls: the module, wrapped if gradients are asked."""
    if building.gradients is None:
        return module
    beside = [] if building.beside is None else blank(building.beside)
    for tensor in flatten(beside):
        tensor.requires_grad_(tensor.is_floating_point())
    learnt = match_parameters(module, building.gradients["parameters"], state)
    return WithGradients(module, learnt, building.gradients["positions"], beside=beside, watch=watch)


def match_parameters(module: torch.nn.Module, wanted: list[str], state: dict[str, torch.Tensor]) -> list[str]:
    """The candidate's names of the reference's parameters: the same names, else by order and shape. Raises Failure if that
    fails: gradients are compared for the weights that a user trains."""
    own = {name: one for name, one in module.named_parameters() if one.is_floating_point()}
    if all(name in own and own[name].shape == state[name].shape for name in wanted):
        return wanted
    if [one.shape for one in own.values()] == [state[name].shape for name in wanted]:
        return list(own)
    missing = next((name for name in wanted if name not in own), wanted[0])
    detail = f"no parameter {missing} of shape {list(state[missing].shape)}, whose gradient is asked"
    raise Failure(Outcome.WRONG_STRUCTURE, detail)


def _patch_triton(worker: HostWorker) -> None:
    """For the life of this process, send launches and autotuning to the worker's recorder."""

    def run(
        function: jit.JITFunction, *args: object, grid: object, warmup: bool, **kwargs: object
    ) -> CompiledKernel:
        if not warmup:
            if worker.recorder is None:
                raise RuntimeError("a kernel is launched between calls")
            worker.recorder.launch(function, grid, args, kwargs)
        return compiled(function, args, kwargs)

    def compiled(function: jit.JITFunction, args: Args, options: dict[str, object]) -> CompiledKernel:
        """A compiled kernel that, launched again, keeps the constants it was compiled with, whatever is passed for them."""

        def launch(grid: object, *given: object, **_: object) -> None:
            names = [parameter.name for parameter in function.params]
            at_first = dict(zip(names, args, strict=False)) | options
            now = at_first | dict(zip(names, given, strict=False))
            constants = [one.name for one in function.params if one.is_constexpr and one.name in at_first]
            run(function, grid=grid, warmup=False, **now | {name: at_first[name] for name in constants})

        usual = worker.surroundings.way != ways.BINARIES
        dice = random.Random(f"{worker.secret} {function.fn.__name__} {usual}")
        return CompiledKernel(launch, options, dice, usual)

    def bench(tuner: autotuner.Autotuner) -> Callable[..., object]:
        recorder = worker.recorder
        if recorder is None:
            raise RuntimeError("a kernel is tuned between calls")
        return lambda call, quantiles=None, **kw: recorder.bench(call, worker.secret)

    def tune(tuner: autotuner.Autotuner, *args: object, **kwargs: object) -> object:
        tuner.cache.clear()  # every tape records the alternatives
        tuner.__dict__["_launched"] = None  # meanwhile only Triton itself reads the results
        with _tuned_before(tuner, worker.recorder):
            given = original(tuner, *args, **kwargs)
        tuner.__dict__["_launched"] = worker.recorder and worker.recorder.chosen
        return given

    def prune(tuner: autotuner.Autotuner, kwargs: dict[str, Any]) -> list[Any]:
        """Like a user's tuner, do not prune again for a known key: return what was kept then."""
        given = {name: one for name, one in {**tuner.nargs, **kwargs}.items() if name in tuner.arg_names}
        key_parts = [given.get(name) for name in tuner.keys if name in given]
        key_parts += [str(one.dtype) for one in given.values() if hasattr(one, "dtype")]
        key = (id(tuner), repr(key_parts))
        if key not in worker.pruned:
            worker.pruned[key] = usual(tuner, kwargs)
        return worker.pruned[key]

    original, usual = autotuner.Autotuner.run, autotuner.Autotuner.prune_configs
    autotuner.Autotuner.prune_configs = prune
    jit.JITFunction.run = run
    autotuner.Autotuner.run = tune
    autotuner.Autotuner.do_bench = property(bench)
    jit.JITFunction.device_caches = property(_unknown, lambda function, value: None)
    for name in ("best_config", "configs_timings"):
        setattr(autotuner.Autotuner, name, _notice(name))


@contextlib.contextmanager
def _tuned_before(tuner: autotuner.Autotuner, recorder: Recorder | None) -> Iterator[None]:
    """Inside the block, leave out what the tuner resets after its trials, as for a known key."""
    hook = tuner.pre_hook
    if recorder is not None:
        recorder.restored = _restore(tuner)
        tuner.pre_hook = recorder.only_once()(hook)
    try:
        yield
    finally:
        tuner.pre_hook = hook


def _restore(tuner: autotuner.Autotuner) -> list[str] | None:
    """Arguments that the tuner restores after each trial; None if hooks of its own may do so."""
    hooks = [getattr(tuner, f"user_defined_{when}_hook", True) for when in ("pre", "post")]
    if any(hooks) or any(config.pre_hook is not None for config in tuner.configs):
        return None
    return [*tuner.reset_to_zero, *tuner.restore_value]


def _unknown(function: jit.JITFunction) -> object:
    raise Unmodelled("what was compiled of a kernel is not known where kernels are only recorded")


def _notice(name: str) -> property:
    """A property for a result of autotuning. Reading it fixes the launch to the configuration that won."""

    def get(tuner: autotuner.Autotuner) -> Any:
        if f"_{name}" not in tuner.__dict__:
            raise AttributeError(f"'Autotuner' object has no attribute '{name}'")
        if tuner.__dict__.get("_launched"):
            record, operation = tuner.__dict__["_launched"]
            operation["launches"] = [record]
        return tuner.__dict__[f"_{name}"]

    def put(tuner: autotuner.Autotuner, value: object) -> None:
        tuner.__dict__[f"_{name}"] = value

    return property(get, put)


def last_line(error: BaseException, path: str = "") -> str:
    """Exception type and message, with the candidate's own source line if one is on the stack."""
    try:
        text = str(error).strip()[:300].encode("utf-8", "replace").decode()
    except BaseException:
        text = "(no message)"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    where = f" (line {frames[-1].lineno}: {frames[-1].line})" if frames else ""
    return f"{type(error).__name__}: {text}{where}"


def blank(spec: Any) -> Any:
    """Tensors without data, from inputs described by shape, stride and dtype."""
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
    """In the zygote, before any fork: load what torch imports and builds at the first recorded operator."""
    torch._disable_dynamo(lambda: None)()  # imports Dynamo, as some of torch's operators do
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


_HOOK = eval("lambda *given: None", {"__name__": "__main__"})
"""A hook that seems to come from a user's file."""


@contextlib.contextmanager
def with_hooks(called: object) -> Iterator[None]:
    """Hooks on a module and its parts, like a profiler's; raises LeftBehind if those of the module itself do not run. Backward
    hooks are only visible to the candidate: they are added after torch has looked for them."""
    module = called.module if isinstance(called, WithGradients) else called
    assert isinstance(module, torch.nn.Module)
    key, own = next(_HOOKS), vars(module)
    kinds = [name for name in own if name.endswith("_hooks") and isinstance(own[name], dict)]
    ran: list[object] = []
    shown = [name for name in kinds if name not in (_BEFORE, _BEHIND)]

    def show(*given: object) -> None:
        ran.append(_BEFORE)
        for name in shown:
            own[name].setdefault(key, _HOOK)

    def hide(*given: object) -> None:
        ran.append(_BEHIND)
        for name in shown:  # another forward pass would look for them
            own[name].pop(key, None)

    show.__module__ = hide.__module__ = _HOOK.__module__
    forward = [vars(part)[name] for part in torch.nn.Module.modules(module) for name in (_BEFORE, _BEHIND)]
    for hooks in forward:
        hooks[key] = _HOOK
    own[_BEFORE][key], own[_BEHIND][key] = show, hide
    try:
        yield
    finally:
        for hooks in (*forward, *(own[name] for name in kinds)):
            hooks.pop(key, None)
    if missed := {_BEFORE, _BEHIND} - set(ran):
        raise LeftBehind("a call leaves hooks of the module out", ", ".join(sorted(missed)))


def _with_weights_anew(module: torch.nn.Module) -> torch.nn.Module:
    """The module after loading its own checkpoint, with every parameter and buffer replaced by an equal one in new memory, as
    `load_state_dict(assign=True)` does."""
    made: dict[int, Any] = {}
    # A user could not load it either.
    with contextlib.suppress(RuntimeError, TypeError, KeyError, AttributeError):
        module.load_state_dict(module.state_dict())
    for part in module.modules():
        for held in (part._parameters, part._buffers):
            for name, one in held.items():
                if one is None:
                    continue
                if id(one) not in made:
                    again = one.detach().clone()
                    is_parameter = isinstance(one, torch.nn.Parameter)
                    made[id(one)] = torch.nn.Parameter(again, one.requires_grad) if is_parameter else again
                held[name] = made[id(one)]
    return module
