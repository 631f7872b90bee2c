"""`torch.compile(model, backend="kernelwright")`: Inductor, with verified kernels where they are faster.

        model = torch.compile(model, backend="kernelwright")                              # kernels of the cache and compiler rung
        model = torch.compile(model, backend="kernelwright", options={"search": 60})      # searches for a minute while compiling
        model = torch.compile(model, backend="kernelwright", mode="reduce-overhead")      # with CUDA graphs

Dynamo and AOTAutograd make forward and backward graphs, as for Inductor. Each is cut into groups in several ways
(`graph/neighbours.py`); a group whose verified kernel beats Inductor's becomes a custom operator, and Inductor compiles the
rest. On a GPU, the spliced graph is then timed against Inductor's, and the faster one is kept.

        backend.py     the backend: options, calls to Inductor
        splice.py      replaces groups of an fx graph by operators
        gradients.py   splits a convolution's gradients
        grouping.py    chooses groups if several cuts have kernels
        operators.py   a verified kernel as an operator of torch.library
        inline.py      its launches, inside Inductor's own wrapper
        compiling.py   compilations with and without our kernels, and the fastest
        race.py        times the spliced graph against Inductor's

Never raises for a graph that it cannot improve: Inductor compiles that graph alone.
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
