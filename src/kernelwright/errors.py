"""The two kinds of error that cross floors: the user's and the machine's.

A bad rollout is neither: it is data, and travels inside a `Verdict`.
"""


class UserError(Exception):
    """Something the user can mend. The message is one line: what, where, valid values, the mend."""


class InfrastructureError(Exception):
    """The judge itself failed (a dead zygote, a full disk, a lost GPU). Never the candidate's failure."""
