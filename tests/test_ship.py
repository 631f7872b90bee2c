"""Ship: a checkpoint becomes the package's model, with a card from its run's files; `default` names it."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest
import torch
from judges import FakeJudge

from kernelwright import policy as policies
from kernelwright.cli import main
from kernelwright.cli import ship as shipping
from kernelwright.data import CorpusSettings, build
from kernelwright.errors import UserError
from kernelwright.outcomes import Outcome
from kernelwright.policy import load_policy
from kernelwright.records import Message, Prompt
from kernelwright.search.model import card_operators


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("secret")
    settings = CorpusSettings(graphs=4, practice=1, schedules=1, faults=0, forms=("map",), vocab_size=600)
    build(settings, folder, FakeJudge(lambda _: Outcome.CORRECT))
    return folder


@pytest.fixture(scope="module")
def run(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with a tiny model, made without training."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from kernelwright.data.tokenizer import train_tokenizer

    folder = tmp_path_factory.mktemp("run")
    checkpoint = folder / "stages" / "frontend" / "checkpoint"
    tokenizer = train_tokenizer(["import torch\n"] * 4, 300)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=1, head_dim=8,
        num_attention_heads=2, num_key_value_heads=1, tie_word_embeddings=True, max_position_embeddings=64,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    Qwen3ForCausalLM(config).save_pretrained(checkpoint)
    tokenizer.save_pretrained(checkpoint)
    (folder / "eval" / "frontend").mkdir(parents=True)
    recipe = {
        "name": "tiny",
        "seed": 3,
        "stages": ["sft", "frontend"],
        "sft": {"steps": 17, "shares": {"repair": 0.5}},
    }
    files = {
        "config.json": recipe | {"data": {"examples": str(corpus / "examples.jsonl"), "variants": 7}},
        "environment.json": {"machine": {"cpus": 2, "processor": "A"}, "versions": {"torch": "2.13.0"}},
        "seconds.json": {"sft": 90.0, "frontend": 30.0},
        "eval/frontend/config.json": {"temperature": 1.0, "protocol": "strict", "precision": "bf16"},
        "eval/frontend/metrics.json": {
            "tasks": 4, "samples": 8, "correct_rate": 0.625, "pass_at_k": {"1": 0.5, "2": 0.75}, "timing": "modelled", "suites": {"heldout": {}},
            "correct_rate_ci": [0.5, 0.75],
            "speedup": {"eager": {"geometric_mean": 1.5, "ci": [1.25, 1.75]}, "faster": {"geometric_mean": 1.2, "ci": None}},
            "operators": {"gelu": [5, 8], "erf": [1, 4], "tan": [1, 1]},
        },
    }  # fmt: skip
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value))
    return folder


@pytest.fixture(scope="module")
def shipped(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("package") / "default"
    assert main(["ship", str(run), "-o", str(out), "--hardware", "one H200"]) == 0
    return out


def test_the_folder_is_whole_and_in_bfloat16(shipped: Path) -> None:
    from safetensors.torch import load_file

    names = {path.name for path in shipped.iterdir()}
    assert {"model.safetensors", "config.json", "tokenizer.json", "MODEL_CARD.md"} <= names
    tensors = load_file(shipped / "model.safetensors")
    assert {str(tensor.dtype) for tensor in tensors.values()} == {"torch.bfloat16"}
    assert "lm_head.weight" not in tensors


def test_a_mixture_of_two_models_ships(run: Path, shipped: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    began = tmp_path / "began"
    shutil.copytree(shipped, began)
    save_file({name: tensor + 1 for name, tensor in load_file(began / "model.safetensors").items()},
              began / "model.safetensors", metadata={"format": "pt"})  # fmt: skip
    run = Path(shutil.copytree(run, tmp_path / "run"))
    recipe = json.loads((run / "config.json").read_text())
    (run / "config.json").write_text(json.dumps(recipe | {"model": {"base": "lay/elsewhere/then"}}))
    (began / "BEGAN_WITH.md").write_text("# An earlier one\n")
    out = tmp_path / "mixed"
    assert main(["ship", str(run), "-o", str(out), "--mix-with", str(began), "--share", "0.25"]) == 0
    made, one, two = (load_file(folder / "model.safetensors") for folder in (out, shipped, began))
    for name, tensor in made.items():
        mixed = 0.25 * one[name].float() + 0.75 * two[name].float()
        assert torch.allclose(tensor.float(), mixed, atol=1e-2), name
    earlier = (began / "MODEL_CARD.md").read_text() + "\n# An earlier one\n"
    assert (out / "BEGAN_WITH.md").read_text() == earlier
    card = (out / "MODEL_CARD.md").read_text()
    assert "25% of what training ended with and 75% of the weights" in card
    digest = hashlib.sha256((began / "model.safetensors").read_bytes()).hexdigest()[:16]
    assert f"| training began with | weights of sha256 `{digest}` |" in card


def test_models_of_other_sizes_or_tokens_are_not_mixed(shipped: Path, run: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    sizes, tokens = tmp_path / "sizes", tmp_path / "tokens"
    for folder in (sizes, tokens):
        shutil.copytree(shipped, folder)
    weights = load_file(sizes / "model.safetensors")
    weights.popitem()
    save_file(weights, sizes / "model.safetensors", metadata={"format": "pt"})
    words = json.loads((tokens / "tokenizer.json").read_text())
    words["model"]["vocab"]["never"] = 299
    (tokens / "tokenizer.json").write_text(json.dumps(words))
    for folder, fault in ((sizes, "sizes"), (tokens, "tokens")):
        with pytest.raises(UserError, match=fault):
            shipping.ship(str(run), tmp_path / "out", mix_with=str(folder))
    assert not (tmp_path / "out").exists()


def test_the_card_quotes_the_run(shipped: Path) -> None:
    card = (shipped / "MODEL_CARD.md").read_text()
    for fact in (
        "# Kernelwright tiny",
        "Stages sft, frontend with seed 3",
        "steps = 17",
        "shares = { repair = 0.5 }",
        "variants = 7",
        "one H200. torch 2.13.0",
        "| all | 2.0 |",
        "| held-out tasks, frontend: heldout | 4 | 8 | 1.0 | strict, bf16 | 62.5% [50.0%, 75.0%] | @1 50%, @2 75% "
        "| 1.50× [1.25, 1.75] modelled | 1.20× modelled |",
        "It reads the\ngraph of a PyTorch module",
        "## Limits",
    ):
        assert fact in card, fact
    assert "/secret" not in card


def test_the_card_says_what_the_corpus_says_of_itself(shipped: Path, corpus: Path) -> None:
    card, made = (shipped / "MODEL_CARD.md").read_text(), json.loads((corpus / "card.json").read_text())
    assert f"{made['pairs']} pairs of {made['graphs']} graphs" in card
    assert f"- Precisions: {next(iter(made['precisions']))} " in card
    assert "- Benchmarks: it was compared with none" in card


def test_a_stage_before_the_last_ships_with_its_own_figures_alone(run: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(run, tmp_path / "run"))
    (run / "stages" / "frontend").rename(run / "stages" / "sft")
    card = shipping.ship(str(run / "stages/sft/checkpoint"), tmp_path / "out").read_text()
    assert "Stages sft with seed 3" in card
    assert "frontend" not in card
    assert card_operators(tmp_path / "out") == set()


def test_the_card_lists_what_is_written_right_and_the_ladder_reads_it(shipped: Path) -> None:
    assert card_operators(shipped) == {"gelu"}  # erf is mostly wrong, and one sample tells nothing


def test_default_is_what_was_shipped(shipped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "DEFAULT_FOLDER", shipped)
    policy = load_policy("default")
    assert policy.name == "default"
    from kernelwright.search.asks import style_of

    assert style_of(policy) == "compact"
    prompt = Prompt(
        task_id="t", agent="frontend", messages=(Message(role="user", content="x"),), max_tokens=4
    )
    [[completion]] = policy.generate([prompt], temperature=0.0)
    assert completion.policy == "default"


def test_without_weights_default_is_one_line_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(policies, "DEFAULT_FOLDER", tmp_path / "none")
    monkeypatch.chdir(tmp_path)
    for command in (["eval", "-s", "wright/relu"],):  # optimize asks the compiler and the library first
        assert main(command) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "kernelwright train recipes/default_model.toml" in said
        assert "-p" in said


def test_a_checkpoint_outside_a_run_says_that_little_is_known(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run / "stages/frontend/checkpoint", tmp_path / "model")
    card = shipping.ship(str(tmp_path / "model"), tmp_path / "out").read_text()
    assert "its recipe is not known" in card
    assert "holds no evaluation" in card


@pytest.mark.parametrize(
    ("break_it", "said"),
    [
        (lambda folder: (folder / "model.safetensors").unlink(), "holds no weights"),
        (lambda folder: (folder / "config.json").rename(folder / "adapter_config.json"), "holds an adapter"),
        (
            lambda folder: (
                (folder / "tokenizer.json").unlink() or (folder / "tokenizer_config.json").unlink()
            ),
            "no model",
        ),
    ],
    ids=["no weights", "adapter", "no tokenizer"],
)
def test_what_cannot_be_shipped_is_one_line(run: Path, tmp_path: Path, break_it, said: str) -> None:  # type: ignore[no-untyped-def]
    shutil.copytree(run / "stages/frontend/checkpoint", tmp_path / "model")
    break_it(tmp_path / "model")
    with pytest.raises(UserError, match=said):
        shipping.ship(str(tmp_path / "model"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_weights_beyond_the_limit_are_refused(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "MOST", 1000)
    with pytest.raises(UserError, match="at most 32 MiB"):
        shipping.ship(str(run), tmp_path / "out")


def test_an_evaluation_that_is_none_is_one_line(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no evaluation"):
        shipping.ship(str(run), tmp_path / "out", [tmp_path])
