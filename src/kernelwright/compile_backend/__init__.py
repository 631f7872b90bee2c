"""`torch.compile(model, backend="kernelwright")`: Inductor, with verified kernels where those are faster.

    model = torch.compile(model, backend="kernelwright")                              # what cache and compiler rung have
    model = torch.compile(model, backend="kernelwright", options={"search": 60})      # searches for a minute while compiling
    model = torch.compile(model, backend="kernelwright", mode="reduce-overhead")      # with CUDA graphs

Dynamo and AOTAutograd make forward and backward graphs, as for Inductor. Each is cut into groups in several ways
(`graph/neighbours.py`); a group for which a verified kernel beats Inductor's becomes a custom operator, all the rest is Inductor's own. Where
there is a GPU the stitched graph is then timed against Inductor's, and the faster one is kept.

    backend.py     the backend: options, what is asked of Inductor
    splice.py      groups of an fx graph out, operators in
    gradients.py   a convolution's gradients one by one
    grouping.py    which groups that is, where several cuts have kernels
    operators.py   a verified kernel as an operator of torch.library
    inline.py      its launches, for Inductor's own wrapper
    compiling.py   compilations with our kernels and without, and the fastest
    race.py        the stitched graph against Inductor's

Never raises for a graph that it cannot improve: then the graph is Inductor's.
"""

from kernelwright.compile_backend.backend import (
    Choice,
    KernelSource,
    Report,
    kernelwright_backend,
    last_report,
    use_source,
)

__all__ = ["Choice", "KernelSource", "Report", "kernelwright_backend", "last_report", "use_source"]
