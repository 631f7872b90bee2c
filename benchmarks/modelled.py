"""The compiler and the cost model for trusted code: what a printed kernel needs on a target, and its modelled time, without verification."""

from __future__ import annotations

from kernelwright.graph.types import Graph
from kernelwright.hardware import Target
from kernelwright.hardware import target as sheet_of
from kernelwright.verify.cost import crosscompile
from kernelwright.verify.cost.model import total_cost
from kernelwright.verify.interpret.clock import NoFit, launches_of
from kernelwright.verify.interpret.device import summarise

ASSEMBLER_S = 20.0


def modelled_microseconds(
    code: str, graph: Graph, target: Target, *, assembler_s: float = ASSEMBLER_S
) -> float:
    """Modelled microseconds of one call at the graph's hinted sizes. Raises NoFit."""
    launches = launches_of(code, graph, target)
    binaries = {}
    done: dict[str, str] = {}
    for launch in launches:
        name = launch.function.__name__
        identity = f"{launch.signature}|{launch.constexprs}|{launch.options}|{launch.divisible}"
        if done.get(name) == identity:
            continue
        done[name] = identity
        try:
            binary = crosscompile.assemble(crosscompile.to_assembly(launch, target), target, assembler_s)
        except crosscompile.CompileError as error:
            raise NoFit(f"{name}: {error}") from None
        if binary.occupancy == 0.0:
            raise NoFit(
                f"{name}: {binary.shared_bytes} bytes shared, {binary.registers} registers do not fit"
            )
        binaries[name] = binary
    works = [summarise(launch) for launch in launches]
    return 1e3 * total_cost(works, binaries, target, 1e-6).ms


def rehearse(code: str, graph: Graph) -> str:
    """One line: the resources that the binaries need on an H200, or why they cannot be had."""
    sheet = sheet_of("h200")
    try:
        launches = launches_of(code, graph, sheet)
        binaries = [crosscompile.assemble(crosscompile.to_assembly(one, sheet), sheet) for one in launches]
    except (NoFit, crosscompile.CompileError) as error:
        return f"does not compile: {error}"
    return "; ".join(
        f"{one.registers} registers, {one.spills} spilt, {one.shared_bytes} shared" for one in binaries
    )
