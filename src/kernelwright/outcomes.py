"""Every way a candidate can end, in the order of the verifier's funnel.

`Outcome` is the finest grain; `Category` folds it to the failure taxonomy of the Toronto report
(format, invalid import, compile, run-time, wrong result), with `cheating`, `limit`, `unproven`, `unsupported` and
`infrastructure` beside it, which that report does not tell apart.
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
    """The stages of the funnel, cheapest first. The first failure stops the descent."""

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
    """How a candidate ended. Members stand in funnel order; `correct` is the only acceptance."""

    # parse
    EMPTY_COMPLETION = "empty_completion"
    """The policy said nothing."""
    TRUNCATED = "truncated"
    """The completion hit its token budget before the code was whole."""
    NO_CODE = "no_code"
    """No Python code could be found in the completion."""
    SYNTAX_ERROR = "syntax_error"
    """The code does not parse as Python."""
    # static
    NO_ENTRY = "no_entry"
    """There is no class `ModelNew`."""
    NOT_TRITON = "not_triton"
    """No `@triton.jit` kernel is defined, or none is ever launched in the code."""
    FORBIDDEN_IMPORT = "forbidden_import"
    """An import that reaches outside torch, triton and pure Python helpers (os, ctypes, subprocess, ...)."""
    FORBIDDEN_CODE = "forbidden_code"
    """A construct that only serves to reach the judge (exec, frame walks, patching of modules, ...)."""
    # load
    INVALID_IMPORT = "invalid_import"
    """An import that does not exist here (the Toronto report's largest class)."""
    LOAD_ERROR = "load_error"
    """Executing the module's top level raised."""
    CONSTRUCTOR_ERROR = "constructor_error"
    """`ModelNew(*get_init_inputs())` raised."""
    # compile
    COMPILE_ERROR = "compile_error"
    """Triton's compiler refused a launched kernel for the target."""
    OUT_OF_RESOURCES = "out_of_resources"
    """A kernel compiles but cannot be launched on the target (shared memory, registers, threads)."""
    # run
    RUNTIME_ERROR = "runtime_error"
    """`forward` or a kernel raised."""
    OUT_OF_BOUNDS = "out_of_bounds"
    """A kernel read or wrote outside the storage its pointer came from."""
    TIMEOUT = "timeout"
    """A time limit passed."""
    OUT_OF_MEMORY = "out_of_memory"
    """A memory limit was hit."""
    EARLY_EXIT = "early_exit"
    """The worker ended, or fell silent, before it had answered."""
    MALFORMED_RESULT = "malformed_result"
    """The worker's answer is not in the protocol's form."""
    TAMPERING = "tampering"
    """Torch, Triton, the interpreter or the clock were found changed after the candidate ran."""
    # compare
    WRONG_STRUCTURE = "wrong_structure"
    """Not the same number or nesting of output tensors."""
    WRONG_SHAPE = "wrong_shape"
    """An output has another shape, broadcastable or not."""
    WRONG_DTYPE = "wrong_dtype"
    """An output has another dtype."""
    INPUT_MUTATED = "input_mutated"
    """An input was changed although the reference leaves it alone."""
    OUTPUT_ALIASED = "output_aliased"
    """An output shares memory with an input although the reference's does not."""
    UNWRITTEN = "unwritten"
    """Part of an output still holds the poison that fresh memory is filled with."""
    NON_FINITE = "non_finite"
    """NaN or Inf where the oracle has none."""
    WRONG_VALUE = "wrong_value"
    """A value lies outside the tolerance on the reference's own input distribution."""
    WRONG_ON_DISTRIBUTION = "wrong_on_distribution"
    """Right on the task's own inputs, wrong on scaled or negated ones."""
    WRONG_ON_SHAPE = "wrong_on_shape"
    """Right on one shape set, wrong on another (boundary shapes among them)."""
    LOW_PRECISION = "low_precision"
    """Close, but with more error than an honest kernel of that precision makes."""
    # causality
    KERNEL_NOT_LAUNCHED = "kernel_not_launched"
    """No kernel of the candidate ran."""
    TORCH_COMPUTE = "torch_compute"
    """Compute was done by torch outside the candidate's kernels, beyond what the task's policy allows."""
    DECOY_KERNEL = "decoy_kernel"
    """With the candidate's kernels turned into no-ops the output stays right."""
    # determinism, state
    STATEFUL = "stateful"
    """A second call, on other inputs, answers wrongly (replay, caches, call counters)."""
    NONDETERMINISTIC = "nondeterministic"
    """Two runs on the same inputs differ by more than the tolerance."""
    # timing
    TIMING_FORGED = "timing_forged"
    """The claimed time lies below what the outside clock or the roofline allows."""
    # end
    MIGRATED = "migrated"
    """Right once names that PyTorch has removed were rewritten, where that was asked for; as it was written, it does not
    import."""
    UNPROVEN = "unproven"
    """Nothing was found wrong, but part of what it does could not be checked: no acceptance, and no accusation."""
    CORRECT = "correct"
    """Accepted."""
    UNSUPPORTED = "unsupported"
    """This backend cannot run the kernel (for example inline assembly). Not the candidate's failure."""
    INFRASTRUCTURE_ERROR = "infrastructure_error"
    """The judge failed. Not the candidate's failure."""

    @property
    def category(self) -> Category:
        return _CATEGORY[self]

    @property
    def accepted(self) -> bool:
        return self is Outcome.CORRECT

    @property
    def judged(self) -> bool:
        """False when the candidate got no fair verdict, so that no reward may be computed from it."""
        return self not in (Outcome.UNSUPPORTED, Outcome.INFRASTRUCTURE_ERROR)

    @property
    def compiled(self) -> bool:
        """True when the candidate got past the compile gate (whatever came later)."""
        order = list(Outcome)
        return self.judged and order.index(self) > order.index(Outcome.OUT_OF_RESOURCES)

    @property
    def well_formed(self) -> bool:
        """True when the completion held parseable Python with a `ModelNew` and a Triton kernel."""
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
