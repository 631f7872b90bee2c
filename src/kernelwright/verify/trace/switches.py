"""Process settings that a candidate's Python can query, drawn anew for each call.

Two kinds. Questions to torch that reveal who calls (a compiler, an exporter, anomaly detection) are answered yes only in
calls of a `way` of their own (`ways.py`): a candidate that acts differently there must be right there. Settings that only
people notice (terminals, log levels, warnings) are drawn for each call and restored: all calls must launch the same.

Not guaranteed: settings in no table, such as levels of torch's loggers.
"""

from __future__ import annotations

import contextlib
import io
import logging
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from kernelwright.verify.trace.ways import ANOMALIES, COMPILED, EXPORTED

QUESTIONS: list[tuple[object, str, tuple[str, ...]]] = [
    (torch.compiler, "is_compiling", (COMPILED, EXPORTED)),
    (torch.compiler, "is_dynamo_compiling", (COMPILED, EXPORTED)),
    (torch.compiler, "is_exporting", (EXPORTED,)),
    (torch.jit, "is_tracing", (EXPORTED,)),
    (torch.jit, "is_scripting", (EXPORTED,)),
    (torch, "is_anomaly_enabled", (ANOMALIES,)),
]
"""Functions, by owner and name, and the ways to call a module in which they return True."""
_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR)
_FILTERS = ("default", "always", "ignore", "once")
_LISTENER = logging.NullHandler()


def answers(way: Callable[[], str]) -> list[tuple[object, str, Callable[..., object]]]:
    """Replacements for the questions: torch itself gets the true answer, others that of the current `way`."""

    def answer(original: Callable[..., Any], ways: tuple[str, ...]) -> Callable[..., object]:
        def asked(*args: object) -> object:
            own = str(sys._getframe(1).f_globals.get("__name__")).partition(".")[0] == "torch"
            return bool(original(*args)) or (not own and way() in ways)

        return asked

    return [(owner, name, answer(getattr(owner, name), ways)) for owner, name, ways in QUESTIONS]


def _foreign(logger: logging.Logger) -> bool:
    """Whether a logger is neither torch's nor the judge's."""
    return logger.name.partition(".")[0] not in ("torch", "triton", "kernelwright")


class _Terminal(io.FileIO):
    """A stream that nobody reads; `terminal` decides whether it claims to be one."""

    terminal = False

    def isatty(self) -> bool:
        return type(self).terminal


_Terminal.__name__ = _Terminal.__qualname__ = "FileIO"
_Terminal.__module__ = "_io"
_STREAMS: list[io.TextIOWrapper] = []
"""The replacements of this process's stdout and stderr."""


def hide_streams() -> None:
    """For the life of this process, discard what is printed; whether the streams look like terminals can be set."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        raw = _Terminal(number, "w", closefd=False)
        raw.name = f"<{name}>"
        made = io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace")
        made.mode = "w"  # type: ignore[misc]
        setattr(sys, name, made)
        _STREAMS.append(made)


@contextlib.contextmanager
def pose(dice: random.Random) -> Iterator[None]:
    """Draw a state for each setting that only people notice; restored on exit."""
    root, enabled = logging.root, torch._C._get_cudnn_enabled()
    before = root.level, root.manager.disable, torch.is_warn_always_enabled()
    _Terminal.terminal = dice.random() < 0.5
    for stream in _STREAMS:
        stream.reconfigure(line_buffering=_Terminal.terminal)
    root.level, root.manager.disable = dice.choice(_LEVELS), dice.choice((0, 0, logging.CRITICAL))
    root.manager._clear_cache()  # type: ignore[attr-defined]
    named = [
        one for one in root.manager.loggerDict.values() if isinstance(one, logging.Logger) and _foreign(one)
    ]
    levels = [one.level for one in named]
    for one in named:
        one.level = dice.choice((logging.NOTSET, *_LEVELS))
    listened = dice.random() < 0.5
    if listened:
        root.handlers.append(_LISTENER)
    torch._C._set_warnAlways(dice.random() < 0.5)
    torch._C._set_cudnn_enabled(dice.random() < 0.5)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(dice.choice(_FILTERS))  # type: ignore[arg-type]
            yield
    finally:
        root.level, root.manager.disable, always = before
        for one, level in zip(named, levels, strict=True):
            one.level = level
        root.manager._clear_cache()  # type: ignore[attr-defined]
        if listened and _LISTENER in root.handlers:
            root.handlers.remove(_LISTENER)
        torch._C._set_warnAlways(always)
        torch._C._set_cudnn_enabled(enabled)
