"""One of two processes that shard a model by FSDP2, on the CPU: `python sharded.py DATA OUT [lora]`.

accelerate shards models on accelerators only. Here its state pretends that these are, and the rest is its own code.
"""

import os
import sys
from pathlib import Path
from typing import Any

import accelerate.state
import torch
from accelerate.utils import DistributedType
from fakes import ReadJudge
from tiny import make_recipe

from kernelwright.config import Recipe
from kernelwright.train import train
from kernelwright.train.checkpoints import is_sharded

SETTINGS = {
    "ACCELERATE_USE_FSDP": "true",
    "FSDP_VERSION": "2",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    "FSDP_STATE_DICT_TYPE": "FULL_STATE_DICT",
    "FSDP_RESHARD_AFTER_FORWARD": "true",
}


def recipe_of(data: Path, lora: bool) -> Recipe:
    rl = {"steps": 2, "prompts": 2, "save_every": 1, "updates": 1, "epochs": 1, "samples": 4}
    return make_recipe(
        data,
        stages=["sft", "frontend", "midend"],
        sft={"steps": 16, "save_every": 8, "eval_every": 8, "eval_share": 0.3, "log_every": 8},
        frontend=rl,
        midend=rl,
        lora={"rank": 4 if lora else 0},
    )


def log_probs(model: Any) -> torch.Tensor:
    """Log-probabilities of every next token at twenty positions."""
    model.eval()
    with torch.no_grad():
        logits = model(input_ids=torch.arange(5, 25)[None]).logits
    return logits.log_softmax(-1)


def split_on_the_cpu() -> None:
    state: Any = accelerate.state.AcceleratorState
    start = state.__init__

    def init(self: Any, *args: Any, fsdp_plugin: Any = None, **kwargs: Any) -> None:
        start(self, *args, fsdp_plugin=fsdp_plugin, **kwargs)
        self.fsdp_plugin = fsdp_plugin or self.__dict__.get("fsdp_plugin")
        if self.fsdp_plugin is not None:
            self.distributed_type = DistributedType.FSDP

    state.__init__ = init


def main(data: str, out: str, lora: bool) -> None:
    os.environ.update(SETTINGS)
    split_on_the_cpu()
    from kernelwright.train import grpo, sft

    fit = sft.fit

    def watched(trainer: Any, *args: Any) -> Any:
        """`fit`, then record the trained model's output while it is sharded."""
        trained = fit(trainer, *args)
        assert is_sharded(trained)
        said = log_probs(trained)
        if os.environ["RANK"] == "0":
            torch.save(said, Path(out) / "said.pt")
        return trained

    sft.fit = grpo.fit = watched
    train(recipe_of(Path(data), lora), out, resume=True, verifier=ReadJudge(), quiet=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], "lora" in sys.argv)
