"""Graphs: a forward or backward pass as typed SSA over ATen operators, and tools for them.

types.py      the noun: `Graph`, `Node`, `Argument`, frozen and hashable, JSON in and out
operators.py  the set of operators: kinds, which are never decomposed, numerics
sizes.py      sizes as expressions over symbols
submodules.py a model's submodules with the arguments of their own calls
capture.py    any module or function to graphs: torch.export, then Dynamo
normalise.py  exported programs and fx graphs to `Graph`; simplify.py brings equivalent forms to one
fx.py         `Graph` to fx
execute.py    runs a graph by ATen calls alone, in its own dtypes or in fp64; recast.py changes its dtype
agree.py      compares a graph with its module; until they agree it is no reference
structure.py  what a graph computes regardless of sizes and spelling, as a digest
shrink.py     free sizes as symbols, and small values for them; dims.py and shape_rules.py find which are free
draws.py      how to draw each argument; task.py prints a task in function form; text.py the form that models read
"""

from kernelwright.graph.types import Argument, Graph, Node, Operand, Ref, TensorType, Value

__all__ = ["Argument", "Graph", "Node", "Operand", "Ref", "TensorType", "Value"]
