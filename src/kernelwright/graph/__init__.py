"""Graphs: a forward or backward pass as typed SSA over ATen operators, and what is done with them.

types.py      the noun: `Graph`, `Node`, `Argument`, frozen and hashable, JSON in and out
operators.py  the set of operators: kinds, what stays whole, numerics
sizes.py      sizes as expressions over symbols
submodules.py a model's submodules with the arguments of their own calls
capture.py    any module or function to graphs: torch.export, then Dynamo
normalise.py  exported programs and fx graphs to `Graph`; simplify.py writes what can be said in several ways in one
fx.py         `Graph` to fx
execute.py    runs a graph by ATen calls alone, in its own dtypes or in fp64; recast.py puts it in another dtype
agree.py      a graph is a reference only after it agreed with its module
structure.py  what a graph computes whatever its sizes and spelling, as a digest
shrink.py     free sizes as symbols, and small values for them; dims.py and shape_rules.py find which are free
draws.py      how each argument is drawn; task.py prints a task in function form; text.py the form that models read
"""

from kernelwright.graph.types import Argument, Graph, Node, Operand, Ref, TensorType, Value

__all__ = ["Argument", "Graph", "Node", "Operand", "Ref", "TensorType", "Value"]
