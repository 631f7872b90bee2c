"""The process of one shard (`shards.py` starts it): a pool that takes requests over a connection."""

from __future__ import annotations

import contextlib
import functools
import pickle
import sys
import threading
from concurrent.futures import CancelledError, Future
from multiprocessing.connection import Connection

from kernelwright.records import Verdict
from kernelwright.verify.pool import VerifierPool


def _portable(error: Exception) -> Exception:
    """The error itself, or a RuntimeError with its text if it cannot be pickled (a task may raise its own classes)."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def main(fd: int) -> None:
    """Answer requests until the pool closes the connection."""
    connection, lock = Connection(fd), threading.Lock()
    pool = VerifierPool(backend="interpret", **connection.recv())

    waiting: dict[int, Future[Verdict]] = {}

    def tell(number: int, future: Future[Verdict]) -> None:
        waiting.pop(number, None)
        try:
            answer: tuple[object, ...] = (number, future.result(), None)
        except CancelledError:
            return
        except Exception as error:
            answer = (number, None, _portable(error))
        with lock, contextlib.suppress(OSError):
            connection.send(answer)

    with contextlib.suppress(EOFError, OSError):
        while True:
            number, task, candidate = connection.recv()
            if task is None:
                if (future := waiting.get(number)) is not None:
                    future.cancel()
                continue
            if candidate is None:
                pool.prepare(task)
                continue
            waiting[number] = future = pool.submit(task, candidate)
            future.add_done_callback(functools.partial(tell, number))
    pool.close(abort=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
