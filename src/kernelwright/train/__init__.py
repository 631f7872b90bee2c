"""Training: sft -> frontend -> midend -> backend, each stage starting from the checkpoint of the one before.

    from kernelwright.train import train
    train(load_recipe("recipes/laptop.toml"), "runs/laptop")

`stages.py` runs the stages of a recipe in a run folder; `sft.py` and `segments.py` are the two trainers on TRL;
`advantages.py` is the arithmetic of credit, pure; `prompts.py` makes prompts of examples and tasks;
`checkpoints.py` makes saving atomic; `curves.py` writes what a step did.
"""

from kernelwright.train.stages import train, train_stage

__all__ = ["train", "train_stage"]
