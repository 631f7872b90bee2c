"""One process of a shared run: `python together.py DATA OUT [sft]`, with a launcher's environment variables."""

import sys
from pathlib import Path

from fakes import ReadJudge
from tiny import make_recipe

from kernelwright.config import Recipe
from kernelwright.train import train

TESTS = Path(__file__).parents[1]


def recipe_of(data: Path, *, stages: str = "sft frontend") -> Recipe:
    if stages == "sft":
        # Four translations are a whole batch, so that no process is short of a row.
        sft = {"steps": 6, "kinds": ["translate"], "eval_every": 3, "log_every": 2}
        return make_recipe(data, stages=["sft"], sft=sft)
    if stages == "kevin":
        # Kevin's settings except sizes: turns are rows, later ones see no earlier thought, and are compared across the prompt.
        rl = {"turns": 3, "history": "answers", "gamma": 0.4, "compare": "prompt", "credit": "uniform"}
        rl |= {"reward": "kevin", "loss": "dr_grpo", "epsilon_high": 0.28, "max_grad_norm": 0.05}
        return make_recipe(
            data,
            stages=["sft", "frontend"],
            model={"context": 512},
            frontend={"steps": 2, "save_every": 1, **rl},
        )
    return make_recipe(
        data,
        stages=["sft", "frontend"],
        frontend={"steps": 2, "save_every": 1, "refill": 1},
    )


if __name__ == "__main__":
    recipe = recipe_of(Path(sys.argv[1]), stages=" ".join(sys.argv[3:]))
    train(recipe, sys.argv[2], resume=True, verifier=ReadJudge(), quiet=True)
