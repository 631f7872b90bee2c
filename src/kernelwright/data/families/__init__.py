"""Families of operators for a corpus of the breadth of KernelBench's levels 1 and 2, and what training needs besides.

    spec.py: what a family draws     epilogue.py: maps on held values    gemm.py, conv.py, along.py: cores
      -> matmul, convolution, pointwise, norms, pooling, reductions, scans, losses, attention, training
      -> tails.py, features.py: what follows a head    compose.py: heads and tails
      -> dress.py, write.py, reference.py: `Model` and `ModelNew` as text
      -> table.py: families by name     sampler.py: drafts for `data synth families=...`

To add a family: write a function from `Draw` to `Design` (operators of the reference, stages of kernels, sizes at full
scale and for the interpreter), and enter it in its module's `FAMILIES`. `benchmarks/families.py OUT --families NAME`
puts its pairs before the judge. Kernels take contiguous tensors, as `get_inputs` makes them.
"""
