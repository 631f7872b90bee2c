"""How a program instance ends other than at its last line, and what a kernel's body can raise under the interpreter."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from kernelwright.verify.interpret.full_size import Unsure
from kernelwright.verify.interpret.memory import OutOfBounds
from kernelwright.verify.interpret.races import Race


class Unsupported(Exception):
    """The interpreter cannot run this kernel. Not the candidate's failure."""


class Unpriced(Unsupported):
    """It could, but nobody knows what that costs on a GPU."""


class Stuck(Exception):
    """Programs wait for one another for ever."""


class KernelError(Exception):
    """A kernel raised while it ran."""


class Enough(Exception):
    """A modelled program instance has shown enough."""


@contextlib.contextmanager
def kernel_errors() -> Iterator[None]:
    """Sorts what a kernel's body can raise under the interpreter."""
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
