"""Online softmax: a row's maximum and its sum of exponentials in one walk (Milakov and Gimelshein, 2018).

For rows that do not fit in one block: reads the input once less than with a walk for each. Every lane keeps a running maximum, and
a sum that is rescaled when the maximum grows; lanes are combined at the end.
"""

from __future__ import annotations

from kernelwright.synth.primitives import Prim, Unsupported, Val
from kernelwright.synth.program import RowSchedule
from kernelwright.synth.schedules.row import RowPrinter, print_row
from kernelwright.synth.source import Source


def softmax_pair(printer: RowPrinter) -> tuple[Prim, Prim]:
    """The maximum of a row, and the sum of exp(row - maximum). Raises Unsupported if a graph has no such pair."""
    made = printer.emitter.made
    peaks = {prim.out.name: prim for level in printer.levels for prim in level if prim.op == "amax"}
    for level in printer.levels:
        for total in level:
            powers = made.get(total.reads()[0].name)
            exponential = total.op == "sum" and powers and powers.op == "exp"
            gap = made.get(powers.reads()[0].name) if powers and exponential else None
            if gap is None or gap.op != "sub" or not all(isinstance(one, Val) for one in gap.args):
                continue
            peak = peaks.get(gap.args[1].name)
            if peak is not None and peak.reads()[0] == gap.args[0]:
                return peak, total
    raise Unsupported("an online walk without a softmax")


def walk_online(printer: RowPrinter) -> None:
    """One loop that computes both, and passes their values to the printer."""
    peak, total = softmax_pair(printer)
    emitter, root = printer.emitter, printer.emitter.root
    shape = "(ROWS, BLOCK)" if printer.wide else "(BLOCK,)"
    emitter.names |= {"peak_acc", "total_acc", "peak_new"}
    base = printer.open_walk("online")
    term = emitter.cast(printer.operand(peak, base), "float32")
    root.add(f'peak_acc = tl.full({shape}, float("-inf"), tl.float32)')
    root.add(f"total_acc = tl.zeros({shape}, dtype=tl.float32)")
    value = emitter.name("seen")
    emitter.line(f'{value} = tl.where(inside, {term.text}, float("-inf"))')
    emitter.line(f"peak_new = tl.maximum(peak_acc, {value})")
    emitter.line("total_acc *= tl.where(peak_acc == peak_new, 1.0, tl.exp(peak_acc - peak_new))")
    emitter.line(f'total_acc += tl.where({value} == float("-inf"), 0.0, tl.exp({value} - peak_new))')
    emitter.line("peak_acc = peak_new")
    emitter.close_loop()
    keep = f"axis={printer.axis}" + (", keep_dims=True" if printer.wide else "")
    printer.done[peak.out.name] = printer.row_term(peak.out.name, f"tl.max(peak_acc, {keep})", "float32")
    largest = printer.done[peak.out.name].text
    text = f"tl.sum(total_acc * tl.exp(peak_acc - {largest}), {keep})"
    printer.done[total.out.name] = printer.row_term(total.out.name, text, "float32")


def print_any_row(source: Source, schedule: RowSchedule) -> None:
    """Print rows by any kind of passes. Raises Unsupported if they do not fit the graph."""
    print_row(source, schedule, walk_online if schedule.passes == "online" else None)
