"""TRL's own trainer over ten samples: its rewards are the local ones. `pytest -m slow tests/adapters/test_trl.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adapters import samples
from kernelwright.adapters import for_trl, grading
from kernelwright.models import place_of


class Watched:
    """`kernel_reward`, and the rewards that it gave."""

    __name__ = "kernel_reward"

    def __init__(self) -> None:
        self.paid: list[float | None] = []

    def __call__(self, *args: Any, **columns: Any) -> list[float | None]:
        self.paid = for_trl.kernel_reward(*args, **columns)
        return self.paid


@pytest.mark.slow
def test_ten_samples_are_paid_as_locally(
    grader: grading.Grader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    import transformers
    import trl
    from datasets import Dataset

    rows, watched = samples.rows(), Watched()
    tokenizer = transformers.AutoTokenizer.from_pretrained(place_of("default"), padding_side="left")
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
    said = {row["task_id"]: text for row, text in zip(rows, samples.answers(rows), strict=True)}
    config = transformers.Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, intermediate_size=16, tie_word_embeddings=True,
    )  # fmt: skip

    def written(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        asked = [next(row["task_id"] for row in rows if row["prompt"] == prompt) for prompt in prompts]
        ids = [tokenizer.encode(said[name], add_special_tokens=False) for name in asked]
        return {
            "prompt_ids": [[5]] * len(ids),
            "completion_ids": ids,
            "logprobs": [[-1.0] * len(one) for one in ids],
        }

    arguments = trl.GRPOConfig(
        output_dir=str(tmp_path), per_device_train_batch_size=20, num_generations=2, max_steps=1, use_cpu=True,
        report_to="none", save_strategy="no", max_completion_length=4096, logging_steps=1, disable_tqdm=True,
    )  # fmt: skip
    trainer = trl.GRPOTrainer(
        model=transformers.AutoModelForCausalLM.from_config(config),
        reward_funcs=watched,  # type: ignore[arg-type]
        args=arguments,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        rollout_func=written,
    )
    trainer.train()
    local = {
        row["task_id"]: grader.grade(grading.read_task(row["task"]), said[row["task_id"]]).reward
        for row in rows
    }
    assert sorted(watched.paid, key=str) == sorted([*local.values(), *local.values()], key=str)
    logged = next(line["reward"] for line in trainer.state.log_history if "reward" in line)
    assert logged == pytest.approx(sum(float(one or 0) for one in local.values()) / 10, abs=1e-3)
