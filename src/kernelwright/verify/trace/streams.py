"""The order of work on simulated CUDA streams: vector clocks, advanced by work, waits, events and synchronisation.

Work on a side stream must wait for the caller's stream, which makes the inputs, and the caller's stream must wait for
it before the call ends. Epochs only grow, so an event of an earlier call orders nothing in this one.

Not detected: two unordered streams that use one tensor within a call, if both are waited for at its end.
"""

from __future__ import annotations

import random

Clock = dict[int, int]
"""By stream number, the epoch up to which its work is known to be done."""


class Streams:
    """The streams of one process, by number."""

    def __init__(self) -> None:
        self.entered: list[int | None] = []
        """Streams made current by contexts, the innermost last; None for a context that changes nothing."""
        self.stops = 0
        """How often the host has waited since the call began."""
        self.other = 0
        """Number of the caller's stream if it is not the default one."""
        self._base = self._inputs = 0
        self._early = False
        self._clocks: dict[int, Clock] = {}
        self._host: Clock = {}
        self._dice = random.SystemRandom()

    def current(self) -> int:
        """The number of the current stream."""
        return next((stream for stream in reversed(self.entered) if stream is not None), self._base)

    def begin(self, base: int) -> None:
        """A call begins on stream `base`, ordered after all earlier work."""
        self.entered, self._base, self._early, self.stops = [], base, False, 0
        self.synchronize()
        self._inputs = self._finish(base)

    def work(self) -> None:
        """The current stream gets work."""
        stream = self.current()
        self._early |= self.clock(stream).get(self._base, 0) < self._inputs
        self._finish(stream)

    def fault(self) -> str:
        """What is wrong with the order of the call that ends here, or an empty string."""
        if self._early:
            return "a side stream is given work before it waits for the stream on which the inputs are made"
        if self._unknown(self.clock(self._base)):
            return "a side stream is given work that the caller's stream never waits for"
        return ""

    def clock(self, stream: int | None) -> Clock:
        """What is done before any later work of the stream (None: the current one)."""
        found = self._clocks.setdefault(self.current() if stream is None else stream, {})
        _join(found, self._host)
        return found

    def wait(self, stream: int | None, known: Clock) -> None:
        """Later work of the stream (None: the current one) waits for what is in `known`."""
        _join(self.clock(stream), known)

    def synchronize(self, known: Clock | None = None) -> None:
        """The host waits for `known`, or for all streams."""
        for clock in [known] if known is not None else list(self._clocks.values()):
            _join(self._host, clock)

    def stop_for(self, known: Clock | None = None) -> None:
        """`synchronize`, called by the candidate: its next launch finds the device idle."""
        self.stops += 1
        self.synchronize(known)

    def query(self, known: Clock) -> bool:
        """Whether `known` is done: at random, unless the host has waited for it."""
        open_ = any(self._host.get(stream, 0) < epoch for stream, epoch in known.items())
        if open_ and self._dice.random() < 0.5:
            return False
        self.synchronize(known)
        return True

    def _finish(self, stream: int) -> int:
        clock = self.clock(stream)
        clock[stream] = clock.get(stream, 0) + 1
        return clock[stream]

    def _unknown(self, clock: Clock) -> bool:
        return any(clock.get(stream, 0) < own.get(stream, 0) for stream, own in self._clocks.items())


def _join(clock: Clock, other: Clock) -> None:
    """Add what `other` knows to `clock`."""
    for stream, epoch in other.items():
        clock[stream] = max(epoch, clock.get(stream, 0))


STREAMS = Streams()
"""Streams of this process, which judges one candidate."""
