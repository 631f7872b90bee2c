"""The two kinds of error that cross module boundaries: the user's and the machine's.

A bad rollout is neither: it is data, inside a `Verdict`.
"""

import difflib
from collections.abc import Iterable

ENDS = "it ends the program (sys.exit, argparse): put that under `if __name__ == '__main__'`"
"""Explains a SystemExit raised by a user's file when it is executed."""


class UserError(Exception):
    """An error that the user can fix. The message is one line: what, where, valid values, the fix."""


class InfrastructureError(Exception):
    """The judge itself failed (a dead zygote, a full disk, a lost GPU). Never counted against the candidate."""


def one_line(said: BaseException | str, most: int = 200) -> str:
    """The text of an exception, or a text, on one line of at most `most` characters; the class of an exception without text."""
    text = " ".join(str(said).split())[:most]
    return text if text or isinstance(said, str) else type(said).__name__


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean relu?)` for `rleu`; empty if no known name is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""
