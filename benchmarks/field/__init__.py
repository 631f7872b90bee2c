"""The field suite: submodules of popular packages, harvested at run time; none of their code is kept here.

For measurement only, named before any was run: `transformers`, `torchvision`, `monai`, `open_clip`. Their failures are
counted by cause (stage and type of error), never read: no message of theirs is kept in a report. Failures of the other
packages may be read and their causes fixed.

Install the packages beside torch, in a folder of their own, without their dependencies (some would replace torch):

    pip install --no-deps --target FOLDER torchvision==0.28.0 timm diffusers open_clip_torch monai x-transformers \\
        vit-pytorch segmentation-models-pytorch conformer mambapy rtdl-revisiting-models perceiver-pytorch \\
        torch-geometric einops einx loguru torch-einops-utils frozendict ftfy wcwidth pillow requests \\
        importlib_metadata zipp charset-normalizer urllib3 certifi pyparsing
    python benchmarks/field.py capture --site FOLDER

(torchvision 0.28 belongs to torch 2.13; on a CPU build of torch its own operators do not load, and are not needed.)

sources/     models by package: configurations as published, shrunk only in depth, random weights
measure.py   one harvested module through a stage of the pipeline, as a row
whole.py     stages `groups` and `whole`
graphs.py    stage `graphs`: modules as tasks that travel
clock.py     those on a GPU, and the table
intervals.py exact intervals of shares
cause.py     causes of failures, in words that reveal nothing about the module
worker.py    one model in a process of its own, a row per line
report.py    rows to the table
"""
