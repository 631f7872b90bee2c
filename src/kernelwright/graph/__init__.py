"""Graphs: a forward or backward pass as typed SSA over ATen operators, and what is done with them.

types.py      the noun: `Graph`, `Node`, `Argument`, frozen and hashable, JSON in and out
execute.py    runs a graph by ATen calls alone, in its own dtypes or in fp64
"""

from kernelwright.graph.types import Argument, Graph, Node, Operand, Ref, TensorType, Value

__all__ = ["Argument", "Graph", "Node", "Operand", "Ref", "TensorType", "Value"]
