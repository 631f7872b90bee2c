"""A few problems with the real judge: kernels printed by the library are accepted, broken ones are not."""

from kernelwright.data import CorpusSettings
from kernelwright.data.decide import ask, decide
from kernelwright.data.problems import problem
from kernelwright.verify import VerifierPool

SETTINGS = CorpusSettings(schedules=2, faults=1, forms=("map", "row", "moves"), most_operators=5)


def test_kernels_are_accepted_and_broken_ones_are_not() -> None:
    with VerifierPool(2, backend="interpret", kept=True) as pool:
        asked = [ask(problem(SETTINGS, number), pool) for number in range(4)]
        decided = [decide(SETTINGS, one) for one in asked]
    assert [refused.verdict.detail for one in decided for refused in one.refused] == []
    assert all(any(pair.kind == "write" and pair.us for pair in one.pairs) for one in decided)
    assert sum(pair.kind == "repair" for one in decided for pair in one.pairs) >= 2
