"""What is ordered after what on pretended streams: vector clocks, moved by work, waits, events and synchronisation.

Whoever works on a stream of its own must have it wait for the caller's, where the inputs are made, and must have the
caller's wait for it before the call ends. Epochs only grow, so an event of a former call orders nothing of this one.

Not told: two streams that use one tensor within a call with nothing between, where both are waited for in the end.
"""

from __future__ import annotations

import random

Clock = dict[int, int]
"""By the number of a stream, how much of its work is known to be done."""


class Streams:
    """The streams of one process, by number."""

    def __init__(self) -> None:
        self.entered: list[int | None] = []
        """The streams that contexts have made current, the innermost last; None for one that changes nothing."""
        self.stops = 0
        """How often the host has waited since a call began."""
        self.other = 0
        """The caller's, where it is not the default one."""
        self._base = self._inputs = 0
        self._early = False
        self._clocks: dict[int, Clock] = {}
        self._host: Clock = {}
        self._dice = random.SystemRandom()

    def current(self) -> int:
        """The number of the stream that work is given to."""
        return next((stream for stream in reversed(self.entered) if stream is not None), self._base)

    def begin(self, base: int) -> None:
        """A call begins, on the stream `base`, behind whatever was done before it."""
        self.entered, self._base, self._early, self.stops = [], base, False, 0
        self.synchronize()
        self._inputs = self._finish(base)

    def work(self) -> None:
        """The current stream is given something to do."""
        stream = self.current()
        self._early |= self.clock(stream).get(self._base, 0) < self._inputs
        self._finish(stream)

    def fault(self) -> str:
        """What is wrong with the order of a call that ends here; empty where nothing is."""
        if self._early:
            return "a side stream is given work before it waits for the stream on which the inputs are made"
        if self._unknown(self.clock(self._base)):
            return "a side stream is given work that the caller's stream never waits for"
        return ""

    def clock(self, stream: int | None) -> Clock:
        """What is done before whatever the stream (None: the current one) is given from now on."""
        found = self._clocks.setdefault(self.current() if stream is None else stream, {})
        _join(found, self._host)
        return found

    def wait(self, stream: int | None, known: Clock) -> None:
        """A stream (None: the current one) goes on behind what is known there."""
        _join(self.clock(stream), known)

    def synchronize(self, known: Clock | None = None) -> None:
        """The host waits for that, or for all streams."""
        for clock in [known] if known is not None else list(self._clocks.values()):
            _join(self._host, clock)

    def stop_for(self, known: Clock | None = None) -> None:
        """As `synchronize`, by a candidate: what is launched next comes to a device that stands still."""
        self.stops += 1
        self.synchronize(known)

    def query(self, known: Clock) -> bool:
        """Whether that is done: as likely as not, where nobody has waited for it."""
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
    """`clock` knows what both know."""
    for stream, epoch in other.items():
        clock[stream] = max(epoch, clock.get(stream, 0))


STREAMS = Streams()
"""Of this process, which judges one candidate."""
