"""Supervised fine-tuning: batches and their order by hand, TRL's loss without its GPU syncs, held-out losses, resuming."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import trl
from functions import pair
from tiny import example, examples, make_recipe

from kernelwright import children
from kernelwright.config import Recipe, SftConfig
from kernelwright.errors import UserError
from kernelwright.runs import RunFolder
from kernelwright.train import train
from kernelwright.train.batches import Collator, Mixture, Rows, tokenize_examples, training_rows
from kernelwright.train.curves import Curves
from kernelwright.train.heldout import HeldOut, held_out
from kernelwright.train.model import compile_layers, load_tokenizer, new_model
from kernelwright.train.sft import on_one_gpu, sft_trainer


def rows_of(lengths: list[int], kinds: list[Any] | None = None) -> Rows:
    """Rows of tokens 1, 2, 3, ...; the first is the prompt."""
    tokens = np.concatenate([np.arange(1, n + 1) for n in lengths]).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return Rows(tokens, starts, np.ones(len(lengths), np.int64), tuple(kinds or ["translate"] * len(lengths)))


def test_a_batch_by_hand() -> None:
    collate = Collator(rows_of([3, 2]), padding=0, multiple=4, mask=True)
    batch = collate([{"row": 1}, {"row": 0}])
    assert batch["input_ids"].tolist() == [[1, 2, 0, 0], [1, 2, 3, 0]]
    assert batch["labels"].tolist() == [[-100, 2, -100, -100], [-100, 2, 3, -100]]
    assert batch["attention_mask"].tolist() == [[1, 1, 0, 0], [1, 1, 1, 0]]


@pytest.mark.parametrize(("longest", "width"), [(3, 4), (5, 6), (7, 7)])
def test_padding_stops_at_the_context(longest: int, width: int) -> None:
    batch = Collator(rows_of([longest]), padding=0, multiple=4, limit=6)([{"row": 0}])
    assert batch["input_ids"].shape == (1, width)


def test_an_epoch_has_every_row_once_in_batches_of_like_length() -> None:
    lengths = np.random.default_rng(1).integers(2, 100, 66).tolist()
    order = list(Mixture(rows_of(lengths), {}, 8, seed=0, epoch=lambda: 0))
    assert sorted(order) == list(range(66))
    batches = [[lengths[row] for row in order[i : i + 8]] for i in range(0, 64, 8)]
    assert max(batches[0]) == max(max(batch) for batch in batches)
    assert np.mean([max(batch) - min(batch) for batch in batches]) < 20


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    rows = rows_of(list(range(2, 26)))
    made = [
        list(Mixture(rows, {}, 2, seed=s, epoch=lambda e=e: e)) for s, e in ((0, 0), (0, 0), (0, 1), (1, 0))
    ]
    assert made[0] == made[1]
    assert made[0] != made[2]
    assert made[0] != made[3]


def test_shares_draw_anew_in_each_epoch() -> None:
    rows = rows_of([2] * 30, ["translate"] * 10 + ["repair"] * 20)
    shares: Any = {"repair": 0.25, "translate": 1.5}
    first, second = (list(Mixture(rows, shares, 4, seed=0, epoch=lambda e=e: e)) for e in (0, 1))
    assert len(first) == 20
    counts = Counter(first)
    assert sum(n for row, n in counts.items() if row < 10) == 15
    assert max(counts.values()) == 2
    assert {row for row in first if row >= 10} != {row for row in second if row >= 10}


def test_nothing_to_train_on_is_one_line(data: Path) -> None:
    recipe = make_recipe(data, sft={"shares": {"translate": 0.0, "improve": 0.0}})
    with pytest.raises(UserError, match=r"widen sft\.kinds"):
        training_rows(
            recipe, load_tokenizer(recipe.data.tokenizer), [e for e in examples() if e.split == "train"]
        )


def test_without_plans_a_completion_is_its_code(data: Path) -> None:
    recipe = make_recipe(data, sft={"plans": False})
    tokenizer = load_tokenizer(recipe.data.tokenizer)
    rows = tokenize_examples(recipe, tokenizer, examples()[:1])
    said = tokenizer.decode(rows.tokens[rows.prompt_lengths[0] :], skip_special_tokens=True)
    assert said.strip() == f"```python\n{examples()[0].code.strip()}\n```"


def test_of_a_slow_kernel_the_code_is_learned_given_its_plan(data: Path) -> None:
    recipe = make_recipe(data, model={"context": 4096}, sft={"near": 1.1})
    tokenizer = load_tokenizer(recipe.data.tokenizer)
    fast, slow = (pair(us=us, best_us=10.0) for us in (10.0, 12.0))
    rows = tokenize_examples(recipe, tokenizer, [fast, slow])
    taught = [
        tokenizer.decode(rows.tokens[start + asked : end])
        for start, end, asked in zip(rows.starts, rows.starts[1:], rows.prompt_lengths, strict=False)
    ]
    assert taught[0].startswith("<plan>")
    assert taught[0].endswith(taught[1])
    assert taught[1].lstrip().startswith("```python")


def test_where_plans_are_all_that_is_said_slow_kernels_are_left_out(data: Path) -> None:
    recipe = make_recipe(data, model={"context": 4096}, sft={"near": 1.1}, data={"answer": "plan"})
    tokenizer = load_tokenizer(recipe.data.tokenizer)
    assert len(tokenize_examples(recipe, tokenizer, [pair(us=us, best_us=10.0) for us in (10.0, 12.0)])) == 1


def test_many_examples_are_tokenised_by_all_cores(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same rows, and without changing the run's random state."""
    recipe = make_recipe(data)
    tokenizer = load_tokenizer(recipe.data.tokenizer)
    one = tokenize_examples(recipe, tokenizer, examples() * 100)
    monkeypatch.setattr(children, "MANY", 10)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    torch.manual_seed(0)
    two = tokenize_examples(recipe, tokenizer, examples() * 100)
    after = torch.rand(1)
    torch.manual_seed(0)
    assert torch.rand(1) == after
    assert (one.tokens == two.tokens).all()
    assert (one.starts == two.starts).all()
    assert (one.prompt_lengths.tolist(), one.kinds) == (two.prompt_lengths.tolist(), two.kinds)


def trainer_of(recipe: Recipe, home: Path) -> Any:
    tokenizer = load_tokenizer(recipe.data.tokenizer)
    rows = training_rows(recipe, tokenizer, [e for e in examples() if e.split == "train"])
    model = new_model(recipe.model, tokenizer, 0)
    return sft_trainer(recipe, model, tokenizer, rows, Curves(RunFolder(home), "sft", quiet=True))


def test_the_loss_is_trls_with_its_mask_and_the_metrics_too(data: Path, tmp_path: Path) -> None:
    trainer = trainer_of(make_recipe(data), tmp_path)
    collate = trainer.data_collator
    masked = Collator(collate.rows, collate.padding, mask=True)
    slots = [{"row": row} for row in range(5)]
    loss = trainer.compute_loss(trainer.model, collate(slots), num_items_in_batch=torch.tensor(7.0))
    theirs = trl.SFTTrainer.compute_loss(
        trainer, trainer.model, masked(slots), num_items_in_batch=torch.tensor(7.0)
    )
    torch.testing.assert_close(loss, theirs)
    expected = {name: values[0] for name, values in trainer._metrics["train"].items()}
    logs = {"loss": 1.0}
    trainer.log(logs)
    assert logs["entropy"] == pytest.approx(expected["entropy"], rel=1e-5)
    assert logs["mean_token_accuracy"] == pytest.approx(expected["mean_token_accuracy"])
    assert curve(tmp_path)[0]["tokens"] == masked(slots)["attention_mask"].sum()


def test_compiled_layers_keep_their_names(data: Path, tmp_path: Path) -> None:
    model = trainer_of(make_recipe(data), tmp_path).model
    names = list(model.state_dict())
    compile_layers(model)
    assert all(layer._compiled_call_impl is not None for layer in model.model.layers)
    assert model._compiled_call_impl is None
    assert list(model.state_dict()) == names


def test_the_validation_split_is_held_out_with_its_graphs() -> None:
    train = [example("a", "correct", "p"), example("b", "correct", "p")]
    validation = [
        example("b", "correct", "q", split="validation"),
        example("c", "correct", "p", split="validation"),
    ]
    kept, held = held_out(SftConfig(), train, validation)
    assert [e.graph for e in kept] == ["a"]
    assert sorted(e.graph for e in held) == ["b", "c"]
    assert len(held_out(SftConfig(eval_examples=1), train, validation)[1]) == 1
    assert held_out(SftConfig(eval_every=0), train, validation) == (train, [])


def test_a_small_validation_split_is_filled_up_with_whole_graphs() -> None:
    train = [example(name, said, "p") for name in "abcdefghij" for said in ("correct 1", "correct 2")]
    kept, held = held_out(SftConfig(eval_share=0.25), train, [])
    assert (len(kept), len(held)) == (16, 4)
    assert not {e.graph for e in kept} & {e.graph for e in held}
    assert held_out(SftConfig(eval_share=0.05), train, []) == (train, [])
    few = [example("z", "correct", "p", split="validation")]
    assert len(held_out(SftConfig(eval_share=0.25), train, few)[1]) == 5
    assert len(held_out(SftConfig(eval_share=0.25, eval_examples=1), train, few)[0]) == 20


def test_held_out_losses_by_kind(data: Path, tmp_path: Path) -> None:
    """Compared with the mean cross-entropy of stock logits over each kind's trained tokens."""
    recipe = make_recipe(data)
    trainer = trainer_of(recipe, tmp_path)
    tokenizer, model = trainer.processing_class, trainer.model
    rows = tokenize_examples(recipe, tokenizer, examples())
    collate = Collator(rows, tokenizer.pad_token_id)
    made = HeldOut(collate, 1, 2, trainer.curves, trainer.accelerator).losses(model.train())
    assert model.training
    sums: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for row, kind in enumerate(rows.kinds):
        batch = collate([{"row": row}])
        logits = model(input_ids=batch["input_ids"]).logits[0, :-1]
        labels = batch["labels"][0, 1:]
        sums[kind] += torch.nn.functional.cross_entropy(
            logits, labels, ignore_index=-100, reduction="sum"
        ).item()
        counts[kind] += int((labels != -100).sum())
    assert set(made) == {"heldout_loss", "heldout_loss_translate", "heldout_loss_improve"}
    for kind in ("translate", "improve"):
        assert made[f"heldout_loss_{kind}"] == pytest.approx(sums[kind] / counts[kind], rel=1e-4)
    assert made["heldout_loss"] == pytest.approx(sums.total() / counts.total(), rel=1e-4)


def curve(out: Path) -> list[dict[str, Any]]:
    lines = RunFolder(out).lines("curves.jsonl")
    for line in lines:
        del line["seconds"]
    return lines


def test_lines_end_with_logs_evaluations_checkpoints_and_the_last_step(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run stopped in between resumes to the same lines, even in the middle of an epoch over a random share."""
    recipe = make_recipe(
        data,
        stages=["sft"],
        sft={
            "steps": 14,
            "log_every": 4,
            "eval_every": 5,
            "save_every": 7,
            "batch": 2,
            "shares": {"translate": 0.75},
        },
    )
    train(recipe, tmp_path / "whole", quiet=True)
    lines = curve(tmp_path / "whole")
    assert [line["step"] for line in lines] == [4, 5, 7, 8, 10, 12, 14]
    assert [line["step"] for line in lines if "heldout_loss" in line] == [5, 10, 14]
    assert all(line["tokens"] > 0 for line in lines)

    losses = HeldOut.losses

    def stop(self: HeldOut, model: Any) -> dict[str, float]:
        if len(RunFolder(tmp_path / "run").lines("curves.jsonl")) == 4:
            raise KeyboardInterrupt
        return losses(self, model)

    monkeypatch.setattr(HeldOut, "losses", stop)
    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "run", quiet=True)
    monkeypatch.undo()
    train(recipe, tmp_path / "run", resume=True, quiet=True)
    assert curve(tmp_path / "run") == lines


class TwoGpus:
    """Like TRL's settings without a launcher, where the GPUs are counted when the device is requested."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    @property
    def device(self) -> torch.device:
        self._n_gpu = 2 if self.kind == "cuda" else 0
        return torch.device(self.kind)


def test_without_a_launcher_one_gpu_is_trained_on() -> None:
    assert on_one_gpu(TwoGpus("cuda"))._n_gpu == 1
    assert on_one_gpu(TwoGpus("cpu"))._n_gpu == 0
