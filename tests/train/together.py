"""One of the processes of a shared run: `python together.py DATA OUT`, under the variables of a launcher."""

import sys
from pathlib import Path

from fakes import ReadJudge
from tiny import make_recipe

from kernelwright.config import Recipe
from kernelwright.train import train

TESTS = Path(__file__).parents[1]


def recipe_of(data: Path) -> Recipe:
    return make_recipe(
        data,
        stages=["sft", "frontend"],
        frontend={"steps": 2, "save_every": 1, "refill": 1},
    )


if __name__ == "__main__":
    train(recipe_of(Path(sys.argv[1])), sys.argv[2], resume=True, verifier=ReadJudge(), quiet=True)
