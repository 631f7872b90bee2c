"""Thirty modules written for the measure of issue 24, before the compiler and the library had seen any of them.

They are a held-back measure: written as an engineer would for a model, not after what the pipeline can do, half of
them in bfloat16. A failure may be read and its cause mended; a module may not be changed to make it pass.
`MODULES` is the registry; `python benchmarks/own.py` measures them.

attention.py   rotary grouped-query, ALiBi, shifted windows, pooling by latents, bucketed relative positions
blocks.py      SwiGLU, GeGLU, gated RMS norm, layer scale with drop path, FiLM, token shift, soft mixture of experts
vision.py      squeeze-excite, patches, bilinear decoder, pixel shuffle, blur pooling, normaliser-free convolution
sequence.py    GRU, state-space chunks, CRF recursion, short convolution with state, weight-normalised audio stack
heads.py       focal, Huber and contrastive losses, Fourier features, cosine classifier, masked pooling, int8 linear
"""

from own_modules import attention, blocks, heads, sequence, vision  # noqa: F401
from own_modules.registry import Entry, entries

MODULES: tuple[Entry, ...] = entries()

__all__ = ["MODULES", "Entry"]
