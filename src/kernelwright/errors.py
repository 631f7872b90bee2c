"""The two kinds of error that cross floors: the user's and the machine's.

A bad rollout is neither: it is data, and travels inside a `Verdict`.
"""

import difflib
from collections.abc import Iterable

ENDS = "it ends the program (sys.exit, argparse): put that under `if __name__ == '__main__'`"
"""Said of a file of the user's that raises SystemExit when it is executed."""


class UserError(Exception):
    """Something the user can mend. The message is one line: what, where, valid values, the mend."""


class InfrastructureError(Exception):
    """The judge itself failed (a dead zygote, a full disk, a lost GPU). Never the candidate's failure."""


def one_line(said: BaseException | str, most: int = 200) -> str:
    """What an exception or a text says, without line breaks, cut off; an exception's class where it says nothing."""
    text = " ".join(str(said).split())[:most]
    return text if text or isinstance(said, str) else type(said).__name__


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` (did you mean relu?)` for `rleu`, or nothing where no known name is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""
