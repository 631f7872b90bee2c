"""Every way a candidate can end, in the order of the verifier's funnel.

`Outcome` is the finest level; `Category` groups outcomes by the failure taxonomy of the Toronto report (format, invalid
import, compile, run-time, wrong result), plus `cheating`, `limit`, `unproven`, `unsupported` and `infrastructure`, which
that report does not distinguish.
"""

from enum import StrEnum


class Category(StrEnum):
    """The coarse classes that reports count."""

    FORMAT = "format"
    CHEATING = "cheating"
    INVALID_IMPORT = "invalid_import"
    COMPILE = "compile"
    RUNTIME = "runtime"
    LIMIT = "limit"
    WRONG_RESULT = "wrong_result"
    UNPROVEN = "unproven"
    CORRECT = "correct"
    UNSUPPORTED = "unsupported"
    INFRASTRUCTURE = "infrastructure"


class Gate(StrEnum):
    """The stages of the funnel, cheapest first. A candidate stops at its first failure."""

    PARSE = "parse"
    STATIC = "static"
    LOAD = "load"
    TRACE = "trace"
    COMPILE = "compile"
    SMALL = "small_shapes"
    FULL = "full_shapes"
    CAUSALITY = "causality"
    DETERMINISM = "determinism"
    TIMING = "timing"


class Outcome(StrEnum):
    """How a candidate ended. Members are in funnel order; `correct` is the only acceptance."""

    # parse
    EMPTY_COMPLETION = "empty_completion"
    """The completion was empty."""
    TRUNCATED = "truncated"
    """The completion reached its token limit before the code was complete."""
    NO_CODE = "no_code"
    """No Python code could be found in the completion."""
    SYNTAX_ERROR = "syntax_error"
    """The code does not parse as Python."""
    # static
    NO_ENTRY = "no_entry"
    """There is no class `ModelNew`."""
    NOT_TRITON = "not_triton"
    """No `@triton.jit` kernel is defined, or the code never launches one."""
    FORBIDDEN_IMPORT = "forbidden_import"
    """An import that reaches outside torch, triton and pure Python helpers (os, ctypes, subprocess, ...)."""
    FORBIDDEN_CODE = "forbidden_code"
    """A construct whose only use is to attack the judge (exec, frame walks, patching of modules, ...)."""
    # load
    INVALID_IMPORT = "invalid_import"
    """An import that does not exist here (the largest class in the Toronto report)."""
    LOAD_ERROR = "load_error"
    """Executing the module's top level raised."""
    CONSTRUCTOR_ERROR = "constructor_error"
    """`ModelNew(*get_init_inputs())` raised."""
    # compile
    COMPILE_ERROR = "compile_error"
    """Triton's compiler rejected a launched kernel for the target."""
    OUT_OF_RESOURCES = "out_of_resources"
    """A kernel compiles but cannot be launched on the target (shared memory, registers, threads)."""
    # run
    RUNTIME_ERROR = "runtime_error"
    """`forward` or a kernel raised."""
    OUT_OF_BOUNDS = "out_of_bounds"
    """A kernel read or wrote outside the storage that its pointer came from."""
    TIMEOUT = "timeout"
    """A time limit was exceeded."""
    OUT_OF_MEMORY = "out_of_memory"
    """A memory limit was exceeded."""
    EARLY_EXIT = "early_exit"
    """The worker exited or stopped responding before it answered."""
    MALFORMED_RESULT = "malformed_result"
    """The worker's answer violates the protocol."""
    TAMPERING = "tampering"
    """Torch, Triton, the interpreter or the clock had been modified after the candidate ran."""
    # compare
    WRONG_STRUCTURE = "wrong_structure"
    """The number or nesting of output tensors differs."""
    WRONG_SHAPE = "wrong_shape"
    """An output's shape differs, broadcastable or not."""
    WRONG_DTYPE = "wrong_dtype"
    """An output's dtype differs."""
    INPUT_MUTATED = "input_mutated"
    """An input was changed that the reference does not change."""
    OUTPUT_ALIASED = "output_aliased"
    """An output shares memory with an input, unlike the reference's."""
    UNWRITTEN = "unwritten"
    """Part of an output still has the poison value of fresh memory."""
    NON_FINITE = "non_finite"
    """NaN or Inf where the oracle has finite values."""
    WRONG_VALUE = "wrong_value"
    """A value is outside the tolerance on the task's own input distribution."""
    WRONG_ON_DISTRIBUTION = "wrong_on_distribution"
    """Correct on the task's own inputs, wrong on scaled or negated ones."""
    WRONG_ON_SHAPE = "wrong_on_shape"
    """Correct on one shape set, wrong on another (including boundary shapes)."""
    LOW_PRECISION = "low_precision"
    """Close, but with a larger error than an honest kernel of that precision."""
    # causality
    KERNEL_NOT_LAUNCHED = "kernel_not_launched"
    """No kernel of the candidate ran."""
    TORCH_COMPUTE = "torch_compute"
    """Torch computed outside the candidate's kernels, beyond what the task's policy allows."""
    DECOY_KERNEL = "decoy_kernel"
    """The output stays correct when the candidate's kernels are replaced by no-ops."""
    # determinism, state
    STATEFUL = "stateful"
    """A second call, on other inputs, is wrong (replay, caches, call counters)."""
    NONDETERMINISTIC = "nondeterministic"
    """Two runs on the same inputs differ by more than the tolerance."""
    # timing
    TIMING_FORGED = "timing_forged"
    """The claimed time is below what the external clock or the roofline allows."""
    # end
    MIGRATED = "migrated"
    """Correct after removed names of PyTorch were rewritten, if that was requested; as written, it does not import."""
    UNPROVEN = "unproven"
    """Nothing was found wrong, but part of it could not be checked: neither an acceptance nor an accusation."""
    CORRECT = "correct"
    """Accepted."""
    UNSUPPORTED = "unsupported"
    """This backend cannot run the kernel (for example inline assembly). Not the candidate's fault."""
    INFRASTRUCTURE_ERROR = "infrastructure_error"
    """The judge failed. Not the candidate's fault."""

    @property
    def category(self) -> Category:
        return _CATEGORY[self]

    @property
    def accepted(self) -> bool:
        return self is Outcome.CORRECT

    @property
    def judged(self) -> bool:
        """False if the candidate got no fair verdict, so that no reward may be computed from it."""
        return self not in (Outcome.UNSUPPORTED, Outcome.INFRASTRUCTURE_ERROR)

    @property
    def compiled(self) -> bool:
        """True if the candidate passed the compile gate, whatever happened later."""
        order = list(Outcome)
        return self.judged and order.index(self) > order.index(Outcome.OUT_OF_RESOURCES)

    @property
    def well_formed(self) -> bool:
        """True if the completion contained parseable Python with a `ModelNew` and a Triton kernel."""
        order = list(Outcome)
        return self.judged and order.index(self) > order.index(Outcome.NOT_TRITON)


_O, _C = Outcome, Category
_CATEGORY: dict[Outcome, Category] = {
    **dict.fromkeys(
        (_O.EMPTY_COMPLETION, _O.TRUNCATED, _O.NO_CODE, _O.SYNTAX_ERROR, _O.NO_ENTRY, _O.NOT_TRITON),
        _C.FORMAT,
    ),
    **dict.fromkeys(
        (
            _O.FORBIDDEN_IMPORT, _O.FORBIDDEN_CODE, _O.EARLY_EXIT, _O.MALFORMED_RESULT, _O.TAMPERING,
            _O.INPUT_MUTATED, _O.OUTPUT_ALIASED, _O.KERNEL_NOT_LAUNCHED, _O.TORCH_COMPUTE, _O.DECOY_KERNEL,
            _O.STATEFUL, _O.TIMING_FORGED,
        ),
        _C.CHEATING,
    ),
    **dict.fromkeys((_O.INVALID_IMPORT, _O.MIGRATED), _C.INVALID_IMPORT),
    **dict.fromkeys((_O.COMPILE_ERROR, _O.OUT_OF_RESOURCES), _C.COMPILE),
    **dict.fromkeys((_O.LOAD_ERROR, _O.CONSTRUCTOR_ERROR, _O.RUNTIME_ERROR, _O.OUT_OF_BOUNDS), _C.RUNTIME),
    **dict.fromkeys((_O.TIMEOUT, _O.OUT_OF_MEMORY), _C.LIMIT),
    **dict.fromkeys(
        (
            _O.WRONG_STRUCTURE, _O.WRONG_SHAPE, _O.WRONG_DTYPE, _O.UNWRITTEN, _O.NON_FINITE, _O.WRONG_VALUE,
            _O.WRONG_ON_DISTRIBUTION, _O.WRONG_ON_SHAPE, _O.LOW_PRECISION, _O.NONDETERMINISTIC,
        ),
        _C.WRONG_RESULT,
    ),
    _O.UNPROVEN: _C.UNPROVEN,
    _O.CORRECT: _C.CORRECT,
    _O.UNSUPPORTED: _C.UNSUPPORTED,
    _O.INFRASTRUCTURE_ERROR: _C.INFRASTRUCTURE,
}  # fmt: skip
assert set(_CATEGORY) == set(Outcome)
