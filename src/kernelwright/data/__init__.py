"""The data engine: operator graphs and golds in, verified PyTorch-Triton pairs out.

    graph -> Model source (source.py) + kernel (library.py) + plan (launches.py, plans.py) -> drafts (pairs.py, golds.py)
          -> verdicts (validate.py) -> split (split.py) -> tokenizer, examples and card (build.py)

    from kernelwright.data import CorpusConfig, build
    with VerifierPool(2) as pool:
        card = build(CorpusConfig.of(recipe.data, recipe.seed), run / "data", pool)

`build` does all of it and resumes; `synth`, `validate` and `finish` are its steps for the command line.
"""

from kernelwright.data.build import build, finish
from kernelwright.data.config import CorpusConfig
from kernelwright.data.corpus import Progress, synth
from kernelwright.data.validate import Rejected, validate

__all__ = ["CorpusConfig", "Progress", "Rejected", "build", "finish", "synth", "validate"]
