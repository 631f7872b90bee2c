"""The command line: runs a command and reports errors as one line and an exit code.

    0 done (verify: accepted)              1 verify: rejected; optimize: nothing verified
    2 bad usage or unreadable input        3 the judge or the machine failed        130 stopped by Ctrl-C

Only this file knows exit codes for errors; commands raise. A traceback means a bug and also exits with 3, so that no bug is
read as a rejection.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence

ACCEPTED, REJECTED, USAGE, INFRASTRUCTURE, INTERRUPTED = 0, 1, 2, 3, 130
RESUMABLE = ("train", "eval")
"""Commands that resume if called again with --resume."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (`sys.argv[1:]` by default) and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)

    def command() -> int:
        # Imported inside, so that a Ctrl-C during the import also prints one line.
        from kernelwright.cli.app import run

        return run(arguments)

    return guarded(command, _how_to_go_on(arguments))


def guarded(command: Callable[[], int], how_to_go_on: str) -> int:
    """The exit code of `command`; an error it raises is printed in one line on stderr.

    The first Ctrl-C stops the command and waits for its cleanup; a second one ends the process at once. A library may swallow
    the first (torch's own imports do) and continue half-loaded: errors after it are therefore reported as a stop.
    """
    stopped = False

    def end(*_: object) -> None:
        _say(f"stopped; {how_to_go_on}")
        os._exit(INTERRUPTED)

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True
        signal.signal(signal.SIGINT, end)
        raise KeyboardInterrupt

    def run() -> int:
        try:
            return command()
        except BaseException as error:
            if stopped:
                raise KeyboardInterrupt from error
            raise

    before = signal.signal(signal.SIGINT, stop)
    try:
        code = _catch(run)
    except KeyboardInterrupt:
        _say(f"stopped; {how_to_go_on}")
        return INTERRUPTED
    # After a Ctrl-C the handler stays, so that another can cut short Python's own waits at exit.
    signal.signal(signal.SIGINT, before)
    return code


def _catch(command: Callable[[], int]) -> int:
    from kernelwright.errors import InfrastructureError, UserError

    if not sys.warnoptions:
        # Deprecations in libraries do not concern the user.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        # Read when torch is imported, here and in children.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    try:
        for stream in (sys.stdout, sys.stderr):
            # Kernels and messages may contain characters that the terminal's encoding lacks.
            getattr(stream, "reconfigure", lambda **_: None)(errors="backslashreplace")
        code = command()
        sys.stdout.flush()
        return code
    except UserError as error:
        _say(str(error))
        return USAGE
    except InfrastructureError as error:
        _say(str(error))
        return INFRASTRUCTURE
    except BrokenPipeError:
        # The reader of our output is gone (`| head`), so there is nobody to report to.
        _drop_stdout()
        return INFRASTRUCTURE
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return _bug()
        _drop_stdout()
        _say(
            f"{error.filename or 'output'} cannot be written: the disk is full; free some space and try again"
        )
        return USAGE
    except KeyboardInterrupt:
        raise
    except BaseException:
        return _bug()


def _bug() -> int:
    import traceback

    traceback.print_exc()
    return INFRASTRUCTURE


def _drop_stdout() -> None:
    """Discard buffered output, about which Python would complain at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(message: str) -> None:
    """Print one line on stderr."""
    print(f"kernelwright: {' '.join(message.split())}", file=sys.stderr, flush=True)


def _how_to_go_on(arguments: Sequence[str]) -> str:
    import shlex

    command = arguments[0] if arguments else ""
    if command == "data":
        return f"go on with: kernelwright {shlex.join(arguments)}"
    if command not in RESUMABLE:
        return "nothing half-written is left behind"
    resumed = arguments if "--resume" in arguments else [*arguments, "--resume"]
    return f"go on with: kernelwright {shlex.join(resumed)}"
