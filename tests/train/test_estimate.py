"""The dry run: figures that can be checked by hand, and recipes that cannot fit."""

import json
from pathlib import Path
from typing import Any

import pytest
from tiny import examples, make_recipe

from kernelwright.cli.app import run
from kernelwright.config import Recipe, load_recipe
from kernelwright.errors import UserError
from kernelwright.records import write_jsonl
from kernelwright.train import estimate as module
from kernelwright.train.batches import tokenize_examples
from kernelwright.train.estimate import Device, check_fits, estimate
from kernelwright.train.model import load_tokenizer

FOLDER = Path(__file__).parents[2] / "recipes"


def shipped(name: str, *overrides: str) -> Recipe:
    return load_recipe(FOLDER / f"{name}.toml", overrides)


def test_fsdp_splits_what_is_held(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = make_recipe(data)
    whole = estimate(recipe, tmp_path, "h200").stages[0].memory
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert estimate(recipe, tmp_path, "h200").stages[0].memory["optimizer"] == whole["optimizer"]
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    split = estimate(recipe, tmp_path, "h200").stages[0].memory
    for name in ("weights", "gradients", "optimizer"):
        assert split[name] == whole[name] // 2


def test_kevin_fits_the_machine_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert estimate(shipped("kevin"), tmp_path, "h200").problems
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    assert not estimate(shipped("kevin"), tmp_path, "h200").problems


def test_a_tiny_models_memory_by_hand(data: Path, tmp_path: Path) -> None:
    made = estimate(make_recipe(data), tmp_path, "h200")
    assert made.model.weights == made.model.trained
    frontend = next(stage for stage in made.stages if stage.stage == "frontend")
    assert frontend.memory["weights"] == frontend.memory["gradients"] == 4 * made.model.weights
    assert frontend.memory["optimizer"] == 8 * made.model.weights
    # 8 samples at once, keys and values of every layer and key head, 4 bytes per number.
    recipe = make_recipe(data)
    sizes = recipe.model
    cache = 8 * sizes.context * sizes.layers * 2 * sizes.kv_heads * sizes.head_dim * 4
    assert frontend.memory["KV cache"] == cache
    assert (frontend.steps, frontend.samples, frontend.generated_tokens) == (4, 32, 32 * 48)
    assert "5 train, 1 validation, 1 heldout" in made.data


def test_toronto_at_4_x_1024_takes_what_was_measured(tmp_path: Path) -> None:
    """24 GB on an H200 at 4 x 1024 tokens, without the weights that the generator merges adapters into."""
    made = estimate(shipped("toronto", "model.context=1024", "frontend.max_tokens=1000"), tmp_path, "h200")
    memory = made.stages[0].memory
    assert made.stages[0].bytes - memory["generator"] - memory["KV cache"] == pytest.approx(24e9, rel=0.2)
    assert made.stages[0].memory["generator"] == pytest.approx(16.4e9, rel=0.01)
    assert made.problems == ()


def test_muon_keeps_one_moment_of_a_matrix(tmp_path: Path) -> None:
    made = estimate(shipped("default_model", "data.examples="), tmp_path, "h200")
    rest = made.model.trained - made.model.matrices
    assert made.stages[0].memory["optimizer"] == 4 * (made.model.matrices + 2 * rest)
    assert rest < made.model.matrices / 5


def test_checkpointing_and_smaller_minibatches_save_memory(tmp_path: Path) -> None:
    def activations(*overrides: str) -> int:
        return estimate(shipped("toronto", *overrides), tmp_path, "h200").stages[0].memory["activations"]

    full = activations("model.gradient_checkpointing=false")
    assert activations("frontend.minibatch=1") * 4 == activations() < full / 2


def test_a_recipe_that_does_not_fit_says_what_to_change(tmp_path: Path) -> None:
    made = estimate(shipped("kevin"), tmp_path, "h100")
    [problem] = made.problems
    assert "frontend needs" in problem
    assert "80 GB of h100: set lora.rank" in problem


def test_an_unknown_device_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="h200"):
        estimate(shipped("laptop"), tmp_path, "tpu")


def test_training_refuses_what_cannot_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "device_named", lambda on: Device("a small GPU", int(8e9)))
    check_fits(shipped("default_model"), "sft")
    with pytest.raises(UserError, match=r"weights 16.6 GB.*the 8 GB of a small GPU") as error:
        check_fits(shipped("toronto"), "frontend")
    assert "\n" not in str(error.value)


def test_a_base_that_is_not_known_here_is_not_guessed_at() -> None:
    check_fits(shipped("toronto", "model.base=no/such"), "frontend")


def test_the_command_spends_nothing(tmp_path: Path, capsys: Any) -> None:
    arguments = ["train", str(FOLDER / "laptop.toml"), "--dry-run", "--out", str(tmp_path / "run")]
    assert run([*arguments, "--on", "h200"]) == 0
    said = capsys.readouterr().out
    for word in (
        " k weights",
        "random weights",
        "to be made",
        "frontend",
        "an epoch of SFT",
        "cost",
        "assumed",
    ):
        assert word in said
    assert not (tmp_path / "run").exists()
    assert run(["train", str(FOLDER / "kevin.toml"), "--dry-run", "--on", "h100"]) == 1
    assert "does not fit" in capsys.readouterr().out


def test_examples_that_are_there_are_counted(data: Path, tmp_path: Path) -> None:
    lines = (data / "examples.jsonl").read_text().splitlines()
    trained = sum(json.loads(line)["split"] == "train" for line in lines)
    made = estimate(make_recipe(data, sft={"steps": 0, "epochs": 3.0}), tmp_path, "here")
    assert made.stages[0].steps == 3 * -(-trained // 4)


def test_an_epochs_tokens_are_measured_and_shares_count(data: Path, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(str(data / "tokenizer"))
    recipe = make_recipe(data, sft={"steps": 0, "shares": {"improve": 0.0}})
    lengths = tokenize_examples(recipe, tokenizer, [e for e in examples() if e.split == "train"]).lengths[:4]
    epoch = estimate(recipe, tmp_path, "here").stages[0].epoch
    assert epoch is not None
    assert (epoch.examples, epoch.measured) == ({"translate": 4, "improve": 0}, True)
    assert epoch.tokens == pytest.approx(lengths.sum())


def test_without_a_tokenizer_an_example_is_as_long_as_it_may_be(tmp_path: Path) -> None:
    epoch = estimate(shipped("laptop"), tmp_path, "h200").stages[0].epoch
    assert epoch is not None
    assert (epoch.measured, epoch.length) == (False, shipped("laptop").data.max_tokens)


def test_reinforcement_alone_needs_no_examples(tmp_path: Path, capsys: Any) -> None:
    tasks = [example.task for example in examples()]
    write_jsonl(tmp_path / "tasks.jsonl", tasks)
    said = (f"data.tasks={tmp_path / 'tasks.jsonl'}", f"data.examples={tmp_path / 'none.jsonl'}")
    command = ["train", str(FOLDER / "laptop.toml"), "--dry-run", 'stages=["frontend"]', *said]
    assert run(command) == 0
    assert f"{len(tasks)} tasks to practise on" in capsys.readouterr().out
    with pytest.raises(UserError, match="no examples at"):
        run([*command, 'stages=["sft"]'])
