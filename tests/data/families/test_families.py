"""Families of operators: what they draw, what is written of it, and what the judge says."""

from __future__ import annotations

import ast
import itertools
import math
import os
import random
import re
from collections import Counter
from pathlib import Path

import pytest
import torch
from judges import FakeJudge

from kernelwright import shapes
from kernelwright.data import CorpusConfig, build, plans
from kernelwright.data.corpus import drafts
from kernelwright.data.families.spec import Draw, Family
from kernelwright.data.families.table import CATEGORIES, FAMILIES, chosen, pair
from kernelwright.data.families.write import Pair
from kernelwright.errors import UserError
from kernelwright.records import Candidate
from kernelwright.tasks import lowered
from kernelwright.tasks.form import check_reference, check_shapes
from kernelwright.verify import VerifierPool

LEVEL_1 = {
    *("matmul", "convolution", "activation", "norm", "pooling", "reduction", "scan", "loss", "attention"),
}
"""Categories of KernelBench's first level; the second is made of fusions."""
HEARD = ("activation", "matmul_transposed_b", "conv2d_strided", "sum_over", "cumsum_exclusive", "add_rmsnorm")
"""Families that the quick tests put before the judge."""
SMALL = {
    "train_graphs": 0,
    "validation_graphs": 0,
    "heldout_graphs": 0,
    "practice_graphs": 0,
    "golds": 0,
    "vocab_size": 600,
    "max_tokens": 0,
    "families": "all",
    "family_train": 12,
    "family_validation": 1,
    "family_heldout": 2,
    "family_practice": 3,
    "family_improve": 0.5,
    "family_repair": 0.5,
}


def drawn(family: Family, number: int = 0) -> Pair:
    length = family.levels[number % len(family.levels)]
    return pair(
        family, f"{family.name}:{number}", f"{family.name}:{number}:kernel", length, slow=number % 5 == 4
    )


def config(**fields: object) -> CorpusConfig:
    return CorpusConfig.parse({**SMALL, **fields})


def test_there_are_sixty_families_of_every_category() -> None:
    assert len(FAMILIES) >= 60
    assert set(CATEGORIES) == {*LEVEL_1, "training", "fusion", "layout"}
    assert all(count >= 5 for count in Counter(f.category for f in FAMILIES.values()).values())
    assert {level for family in FAMILIES.values() for level in family.levels} >= {1, 2, 3, 4, 5}


def test_every_family_writes_a_task_and_a_kernel_with_a_true_plan() -> None:
    for family in FAMILIES.values():
        made = drawn(family)
        check_shapes(made.task, family.name)
        check_reference(made.task.source, family.name)
        ast.parse(made.code)
        assert plans.problems(plans.plan(made.code), made.code) == []
        assert made.operators >= family.levels[0], family.name
        assert max(map(len, made.code.splitlines())) < 140, family.name
        sizes = made.task.shapes
        assert set(sizes["small"]) == set(sizes["small_odd"]) <= set(shapes.constants(made.task.source))


@pytest.mark.parametrize(
    ("family", "said"),
    [
        ("attention_full", r"for base in range\(0, dim, BLOCK_E\)"),
        ("hinge_loss", r"target_ptr \+ offs % n"),
        ("mse_loss", r"target_ptr \+ offs // n"),
        ("cosine_loss", r"target_ptr \+ cols"),
        ("l1mean", r"tl\.sum\(.*tl\.abs\(x\).*\) / n"),
    ],
)
def test_rarer_forms_are_drawn(family: str, said: str) -> None:
    """Heads too wide to hold, targets of fewer elements than predictions, norms by the mean."""
    assert any(re.search(said, pair(FAMILIES[family], str(seed), "k").code) for seed in range(40))


def test_heads_are_walked_exactly_where_they_are_wide() -> None:
    for seed in range(40):
        made = pair(FAMILIES["attention_causal"], str(seed), "k")
        head = list(shapes.constants(made.task.source).values())[-1]
        assert ("BLOCK_E" in made.code) == (head > 128), made.task.source
        blocks = head / (128 if made.task.dtype == "float32" else 256)
        assert ("scores_kernel" in made.code) == (blocks >= 4), made.task.source


def test_few_channels_are_taken_one_by_one_and_more_by_products() -> None:
    found = set()
    for seed in range(30):
        made = pair(FAMILIES["conv2d"], str(seed), "k")
        (channels,) = re.findall(r"weight: \[\d+, (\d+)", lowered(made.task)) or ["0"]
        if channels != "0":  # float32
            found.add((int(channels) <= 8, "tl.dot" in made.code))
    assert found == {(True, False), (False, True)}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("head", ["linear_chain", "conv2d_chain", "input_chain"])
def test_what_an_operator_takes_stands_above_it_where_it_is_lowered(head: str, seed: int) -> None:
    above: set[str] = set()
    text = lowered(pair(FAMILIES[head], str(seed), "k", operators=6).task)
    for value, arguments in re.findall(r"^(?:(h\d+) = |return )(.*)", text, re.MULTILINE):
        assert above.issuperset(re.findall(r"(?<![\w.])h\d+\b", arguments)), text
        above.add(value)
    assert above


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_reference_runs_at_its_small_sizes(category: str) -> None:
    for family in chosen([category]):
        task = drawn(family, 1).task
        for sizes in task.shapes.values():
            scope: dict[str, object] = {}
            exec(shapes.apply_shape(task.source, sizes), scope)
            with torch.no_grad():
                out = scope["Model"](*scope["get_init_inputs"]())(*scope["get_inputs"]())  # type: ignore[operator]
            for tensor in out if isinstance(out, tuple) else (out,):
                assert tensor.numel() > 0, task.source
                assert torch.isfinite(tensor.double()).all(), task.source


def test_the_task_hangs_on_its_own_seed_and_the_kernel_on_both() -> None:
    family = FAMILIES["matmul_rectangular"]
    first, second = pair(family, "a", "k1"), pair(family, "a", "k2")
    assert first.task == second.task
    assert first.code != second.code
    assert pair(family, "a", "k1") == first
    assert pair(family, "b", "k1").task != first.task


def test_one_function_has_one_digest_whatever_its_sizes_names_and_precision() -> None:
    made = [pair(FAMILIES["softmax"], str(seed), "k") for seed in range(20)]
    assert len({one.task.source for one in made}) > 15
    assert len({one.graph for one in made}) == 2, "over the last dimension and over another"
    assert len({one.task.dtype for one in made}) > 1
    assert pair(FAMILIES["matmul_square"], "a", "k").graph == pair(FAMILIES["matmul_tall"], "b", "k").graph


def test_references_come_in_many_styles() -> None:
    sources = [pair(FAMILIES["linear_fusion"], str(seed), "k", 4).task.source for seed in range(60)]
    for style in (
        "nn.Module",
        '"""',
        ": torch.Tensor",
        "super(Model",
        "F.",
        "h1 = ",
        "dtype=torch.float16",
    ):
        assert any(style in source for source in sources), style
    assert any('"""' not in source for source in sources)
    names = {next(iter(shapes.constants(source))) for source in sources}
    assert len(names) >= 3


def test_tensors_beyond_32_bits_get_64_bit_offsets() -> None:
    found = 0
    for seed in range(60):
        made = pair(FAMILIES["activation"], str(seed), "k")
        # A constructor's argument may be a constant, too.
        named = re.findall(
            r"\w+", made.task.source.partition("def get_inputs")[2].partition("def get_init_inputs")[0]
        )
        sizes = shapes.constants(made.task.source)
        elements = math.prod(size for name, size in sizes.items() if name in named)
        assert ("int64" in made.code) == (elements > 2**31), made.task.source
        found += elements > 2**31
    assert found


@pytest.mark.parametrize("lie", ["7 loads", "reads w; exp; writes out", "tiles of 7", "64-bit offsets"])
def test_a_plan_that_is_not_of_its_code_is_found_out(lie: str) -> None:
    code = next(
        made.code
        for seed in itertools.count()
        if "int64" not in (made := pair(FAMILIES["activation"], str(seed), "k")).code
    )
    assert plans.problems(lie, code)
    assert plans.problems("I like this kernel", code) == []


def test_unknown_families_are_named_with_what_is_meant() -> None:
    with pytest.raises(UserError, match=r"unknown family 'matmull'.*did you mean matmul"):
        config(families="matmull")
    assert {family.category for family in chosen(["scan", "matvec"])} == {"scan", "matmul"}


# -- drafts -------------------------------------------------------------------------------------------------


def test_drafts_are_decided_by_the_config_and_split_by_graph_and_size() -> None:
    examples = list(drafts(config()))
    few = {"family_train": 2, "family_heldout": 0}
    assert list(drafts(config(**few))) == list(drafts(config(**few)))
    assert list(drafts(config(**few))) != list(drafts(config(**few, seed=1)))
    kinds = Counter(example.kind for example in examples)
    assert kinds["translate"] == 15
    assert kinds["improve"] > 2
    assert kinds["repair"] > 2
    graphs = {
        split: {e.graph for e in examples if e.split == split} for split in ("train", "validation", "heldout")
    }
    assert all(graphs.values())
    assert graphs["train"].isdisjoint(graphs["heldout"] | graphs["validation"])
    assert all(e.task.difficulty > 1 for e in examples if e.split != "train")
    assert len({e.task.family for e in examples}) > 2


def test_without_families_nothing_is_added() -> None:
    fields = {"train_graphs": 3, "validation_graphs": 1, "heldout_graphs": 1, "golds": 2}
    plain = list(drafts(CorpusConfig.parse(fields)))
    more = list(
        drafts(
            CorpusConfig.parse({**fields, "families": "scan,fusion", "family_train": 3, "family_heldout": 1})
        )
    )
    assert {e.teacher for e in plain} == {"library", "gold"}
    assert more[: len(plain)] == plain
    assert {e.teacher for e in more[len(plain) :]} == {"families"}


def test_families_without_fusions_have_nothing_to_hold_out() -> None:
    with pytest.raises(UserError, match="set family_heldout=0"):
        list(drafts(config(families="scan")))
    assert (
        len(list(drafts(config(families="scan", family_heldout=0, family_validation=0, family_train=2)))) >= 2
    )


def test_a_corpus_of_families_is_built_like_any_other(tmp_path: Path) -> None:
    card = build(config(), tmp_path, FakeJudge())
    assert card["teachers"].keys() == {"families"}
    assert card["splits"]["heldout"] > 0
    assert 0 < card["practice"] <= 3


# -- before the judge ---------------------------------------------------------------------------------------


def heard(families: list[Family], number: int) -> dict[str, str]:
    """Family -> why its pair was refused."""
    pairs = [drawn(family, number) for family in families]
    random.Random(0).shuffle(pairs)
    with VerifierPool(2, deadline_s=60.0) as pool:
        verdicts = pool.verify_many([(made.task, Candidate(code=made.code)) for made in pairs])
    return {v.task_id: f"{v.outcome.value}: {v.detail}" for v in verdicts if not v.correct}


def test_a_few_families_are_correct() -> None:
    assert heard([FAMILIES[name] for name in HEARD], 0) == {}


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.skipif("SWEEP" not in os.environ, reason="hours on two cores; set SWEEP=1")
@pytest.mark.parametrize("category", CATEGORIES)
def test_every_family_is_correct(category: str) -> None:
    for number in range(2):
        assert heard(list(chosen([category])), number) == {}


def test_a_draw_keeps_the_constants_that_its_kernel_names() -> None:
    draw = Draw("a", "b")
    names = {draw.tile("BLOCK", (64,)) for _ in range(20)}
    assert names == {"64", "BLOCK"}
    assert draw.constants == {"BLOCK": 64}
