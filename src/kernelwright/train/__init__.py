"""Training: sft -> frontend -> midend -> backend, each stage starting from the previous one's checkpoint.

    from kernelwright.train import train
    train(load_recipe("recipes/laptop.toml"), "runs/laptop")

`stages.py` runs a recipe's stages in a run folder; `sft.py` and `segments.py` are the two trainers, on TRL;
`advantages.py` computes advantages (pure functions); `prompts.py` makes prompts from examples and tasks;
`checkpoints.py` saves atomically; `curves.py` logs each step.
"""

from kernelwright.train.stages import train, train_stage

__all__ = ["train", "train_stage"]
