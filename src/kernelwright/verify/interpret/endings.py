"""How a program instance may end early, and what a kernel's body can raise under the interpreter."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from kernelwright.verify.interpret.full_size import Unsure
from kernelwright.verify.interpret.memory import OutOfBounds
from kernelwright.verify.interpret.races import Race


class Unsupported(Exception):
    """The interpreter cannot run this kernel; that is not the candidate's failure."""


class Unpriced(Unsupported):
    """The interpreter could run it, but its cost on a GPU is unknown."""


class Stuck(Exception):
    """Programs wait for each other for ever."""


class KernelError(Exception):
    """A kernel raised an exception."""


class Enough(Exception):
    """A modelled program instance has been followed far enough."""


@contextlib.contextmanager
def kernel_errors() -> Iterator[None]:
    """Map what a kernel's body can raise under the interpreter to the exceptions above."""
    try:
        with np.errstate(all="ignore"):
            yield
    except (OutOfBounds, Unsupported, Race, Unsure, Enough, Stuck, MemoryError):
        raise
    except NotImplementedError as error:
        raise Unsupported(str(error) or "an operation that the interpreter lacks") from error
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        if isinstance(cause, (OutOfBounds, Unsupported, Race, Unsure, Enough, Stuck)):
            raise cause from None
        raise KernelError(f"{type(cause).__name__}: {cause}") from cause
