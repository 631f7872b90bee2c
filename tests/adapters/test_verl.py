"""verl's own reward manager over ten samples. Run by `make adapters`, in an environment of its own."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

verl = pytest.importorskip("verl")

import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402
from verl.trainer.ppo.reward import load_reward_manager  # noqa: E402

from adapters import samples  # noqa: E402
from kernelwright.adapters import for_verl, grading  # noqa: E402
from kernelwright.errors import InfrastructureError  # noqa: E402
from kernelwright.models import place_of  # noqa: E402

ADAPTER = {"path": str(Path(for_verl.__file__)), "name": "compute_score"}


def score(texts: list[str]) -> list[dict[str, Any]]:
    """verl's scores of an answer to each row of the adapter's data files."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(place_of("default"))
    manager = {"source": "register", "name": "naive"}
    config = OmegaConf.create({"reward": {"custom_reward_function": ADAPTER, "reward_manager": manager}})

    async def run() -> list[dict[str, Any]]:
        made, found = load_reward_manager(config, tokenizer), []
        for row, text in zip(for_verl.rows("wright/" + ",".join(samples.NAMES)), texts, strict=True):
            ids = torch.tensor([tokenizer.encode(text, add_special_tokens=False)])
            columns = {
                name: np.array([row[name]], dtype=object)
                for name in ("data_source", "reward_model", "extra_info")
            }
            batch = {"responses": ids, "attention_mask": torch.ones_like(ids)}
            found.append(await made.run_single(verl.DataProto.from_dict(tensors=batch, non_tensors=columns)))
        return found

    return asyncio.run(run())


def test_ten_samples_are_paid_as_locally(grader: grading.Grader) -> None:
    rows = samples.rows()
    texts = samples.answers(rows)
    for row, text, paid in zip(rows, texts, score(texts), strict=True):
        local = grader.grade(grading.read_task(row["task"]), text)
        assert paid["reward_score"] == local.reward
        assert paid["reward_extra_info"]["correct"] == local.metrics()["correct"]


def test_a_dead_judge_stops_it(dead: None) -> None:
    with pytest.raises(InfrastructureError, match="no fair verdict"):
        score(["x"] * 10)
