"""The noun `Program`: a graph with a schedule, that is, typed decisions that a printer turns into Triton.

Each loop nest has a record of its decisions with their legal values; combinations that no target can run are rejected when the
record is made. A program need not be fast, and a nest need not fit the graph (`stages.nest_of`).
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from kernelwright.graph.types import Graph
from kernelwright.hardware import TARGETS

Power = Literal[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]
Warps = Literal[1, 2, 4, 8, 16]
Stages = Annotated[int, Field(ge=1, le=8)]
Precision = Literal["ieee", "tf32", "tf32x3"]
_SHARED = max(sheet.shared_per_block for sheet in TARGETS.values())
_MOST_VALUES = 256
"""Most values of a tile per thread."""


class Decisions(BaseModel):
    """Base of all schedules: frozen, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def fits(self, itemsize: int, shared_per_block: int = _SHARED) -> bool:
        """Whether operands with that many bytes per element fit in a target's shared memory."""
        return True


def _tile_fits(elements: int, warps: int, what: str) -> None:
    if elements > _MOST_VALUES * 32 * warps:
        raise ValueError(f"{what} of {elements} elements are over {_MOST_VALUES} a thread with {warps} warps")


class MapSchedule(Decisions):
    """Every output element independently: `map  rows 1  block 1024  warps 4`."""

    nest: Literal["map"] = "map"
    rows: Power = 1
    """Rows of the last dimension in a tile, `block` elements of each, so that no element's place is divided; 1: elements in order."""
    block: Power = 1024
    warps: Warps = 4

    @model_validator(mode="after")
    def _legal(self) -> Self:
        _tile_fits(self.rows * self.block, self.warps, "a block")
        return self


class RowSchedule(Decisions):
    """Reductions over rows, with maps before and after.

    one_pass: a row is one block. loop: the row is walked once for each level of dependent reductions. online: a running maximum and
    a rescaled sum share one walk (Milakov and Gimelshein, 2018). split: separate programs reduce parts of a row, and a second
    kernel combines the parts.
    """

    nest: Literal["row"] = "row"
    passes: Literal["one_pass", "loop", "online", "split"] = "one_pass"
    rows: Power = 1
    block: Power = 1024
    """Elements of a row per tile; `one_pass` uses the next power of two of the row's length instead."""
    split: Annotated[int, Field(ge=1, le=4096)] = 1
    """Programs that share a row."""
    warps: Warps = 4
    stages: Stages = 2

    @model_validator(mode="after")
    def _legal(self) -> Self:
        if (self.split > 1) != (self.passes == "split"):
            raise ValueError("split(n) with n over 1 goes with passes split, and only with it")
        if self.passes != "one_pass":
            _tile_fits(self.block * self.rows, self.warps, "tiles")
        return self


class TileDecisions(Decisions):
    """Decisions about the tiles of one or several matrix products."""

    nest: str
    tile: tuple[Power, Power, Power] = (128, 128, 64)
    """Rows, columns, and steps along the contraction."""
    group: Annotated[int, Field(ge=1, le=64)] = 8
    """Rows of tiles that are processed together, so that their operands stay in L2; 1: row by row."""
    stages: Stages = 3
    warps: Warps = 8
    loads: Literal["pointer", "descriptor"] = "pointer"
    persistent: bool = False
    flat: bool = False
    """For persistent programs: fuse the loops over tiles and along the contraction, so that a tile's first loads overlap with the
    end of the previous tile."""
    split_k: Annotated[int, Field(ge=1, le=64)] = 1
    epilogue: Literal[1, 2, 4] = 1
    """Pieces, along the columns, in which a tile is finished and stored."""
    precision: Precision = "ieee"
    """Precision of float32 operands."""

    @property
    def side_by_side(self) -> int:
        """Number of products that a program accumulates at once."""
        return 1

    @model_validator(mode="after")
    def _tiles(self) -> Self:
        m, n, k = self.tile
        if min(m, n, k) < 16:
            raise ValueError("a tile of a product is at least 16 each way")
        _tile_fits(m * n * self.side_by_side, self.warps, "accumulators")
        if self.split_k > 1 and self.persistent:
            raise ValueError("split_k and persistent exclude each other")
        if self.flat and not self.persistent:
            raise ValueError("only persistent programs have a loop over tiles that can be flat")
        if n // self.epilogue < 16:
            raise ValueError("pieces of an epilogue are at least 16 columns")
        if not self.fits(2):
            raise ValueError(
                f"{self.stages} stages of {m}x{n * self.side_by_side}x{k} need more shared memory than any target has"
            )
        return self

    def fits(self, itemsize: int, shared_per_block: int = _SHARED) -> bool:
        m, n, k = self.tile
        stored = m * n // self.epilogue * itemsize if self.loads == "descriptor" and self.split_k == 1 else 0
        operands = self.stages * (m + n * self.side_by_side) * k * itemsize
        # Results wait for their store in shared memory; in persistent programs, besides the next tile's operands.
        return (operands + stored if self.persistent else max(operands, stored)) <= shared_per_block


class ProductSchedule(TileDecisions):
    """Tiles of a matrix product with its epilogue."""

    nest: Literal["product"] = "product"


class JoinedSchedule(TileDecisions):
    """Products of one left operand with equal shapes in one kernel, such as gate and up of an MLP. A program accumulates the
    same tile of each."""

    nest: Literal["joined"] = "joined"
    products: Annotated[int, Field(ge=2, le=4)] = 2

    @property
    def side_by_side(self) -> int:
        return self.products

    @model_validator(mode="after")
    def _join(self) -> Self:
        if self.split_k > 1:
            raise ValueError("products that are joined are not split along the contraction")
        return self


class ConvolutionSchedule(Decisions):
    """Convolutions: `implicit` treats taps and channels as one contraction, `direct` sums taps for one channel at a time."""

    nest: Literal["convolution"] = "convolution"
    algorithm: Literal["implicit", "direct"] = "implicit"
    layout: Literal["nchw", "nhwc"] = "nchw"
    """Layout in which the input is read; `nhwc` converts it first if the graph has the other."""
    tile: tuple[Power, Power, Power] = (128, 64, 32)
    """Output places, output channels, input channels."""
    group: Annotated[int, Field(ge=1, le=64)] = 1
    stages: Stages = 3
    warps: Warps = 4
    loads: Literal["pointer", "descriptor"] = "pointer"
    """With descriptors, one tap of a tile is one box of the input, filled with zeros outside."""
    box: tuple[Power, Power] = (1, 1)
    """Rows and columns of an image in a tile whose loads are descriptors; the rest of its places are further images."""
    precision: Precision = "tf32"

    @model_validator(mode="after")
    def _legal(self) -> Self:
        m, n, k = self.tile
        if self.loads == "descriptor" and (self.algorithm != "implicit" or m % (self.box[0] * self.box[1])):
            raise ValueError(
                "descriptors go with algorithm implicit and a box that divides the tile's places"
            )
        if self.loads == "pointer" and self.box != (1, 1):
            raise ValueError("only tiles whose loads are descriptors are boxes")
        if self.loads == "descriptor" and max(m, n, k) > 256:
            raise ValueError("a descriptor moves at most 256 elements each way")
        if self.algorithm == "implicit":
            if min(m, n, k) < 16:
                raise ValueError("a tile of an implicit product is at least 16 each way")
            if not self.fits(2):
                raise ValueError(
                    f"{self.stages} stages of {m}x{n}x{k} need more shared memory than any target has"
                )
        elif self.layout == "nhwc":
            raise ValueError("direct convolutions read nchw")
        _tile_fits(m * (n if self.algorithm == "implicit" else 1), self.warps, "accumulators")
        return self

    def fits(self, itemsize: int, shared_per_block: int = _SHARED) -> bool:
        m, n, k = self.tile
        return self.algorithm == "direct" or self.stages * (m + n) * k * itemsize <= shared_per_block


class DepthwiseSchedule(Decisions):
    """Depthwise convolutions: `nest depthwise  algorithm strip  tile 28x4  warps 4`.

    patch: a thread holds all its outputs. strip: it holds as many rows of them as the kernel is high. weights: the weights'
    gradient, with `tile[0]` programs per channel and `tile[1]` places of a row at a time.
    """

    nest: Literal["depthwise"] = "depthwise"
    algorithm: Literal["patch", "strip", "weights"] = "strip"
    tile: tuple[Annotated[int, Field(ge=1, le=256)], Literal[1, 2, 4, 8]] = (28, 4)
    """Rows and columns of outputs per thread; with `weights`, programs per channel and columns."""
    warps: Warps = 4

    @model_validator(mode="after")
    def _legal(self) -> Self:
        if self.algorithm == "patch" and self.tile[0] * self.tile[1] > 32:
            raise ValueError("a thread holds 32 outputs at most")
        return self


class AttentionSchedule(Decisions):
    """softmax(q k') v with a running maximum (Dao et al., 2022)."""

    nest: Literal["attention"] = "attention"
    tile: tuple[Power, Power] = (128, 64)
    """Queries and keys."""
    stages: Stages = 3
    warps: Warps = 8
    loads: Literal["pointer", "descriptor"] = "pointer"
    first: Literal["short", "long", "heads"] = "short"
    """Which queries begin: the first ones of a head, whose loops are short under a causal mask; the last ones, so that no long loop
    is left at the end; or the last ones of all heads."""
    precision: Precision = "ieee"

    @model_validator(mode="after")
    def _legal(self) -> Self:
        if min(self.tile) < 16:
            raise ValueError("a tile of attention is at least 16 each way")
        _tile_fits(self.tile[0] * self.tile[1], self.warps, "scores")
        return self


class ScanSchedule(Decisions):
    """Running sums and products along a row."""

    nest: Literal["scan"] = "scan"
    rows: Power = 1
    block: Power = 1024
    warps: Warps = 4

    @model_validator(mode="after")
    def _legal(self) -> Self:
        _tile_fits(self.rows * self.block, self.warps, "tiles")
        return self


class TransposeSchedule(Decisions):
    """Maps whose inputs are contiguous along another dimension than the output: square tiles."""

    nest: Literal["transpose"] = "transpose"
    tile: tuple[Power, Power] = (64, 64)
    warps: Warps = 4

    @model_validator(mode="after")
    def _legal(self) -> Self:
        _tile_fits(self.tile[0] * self.tile[1], self.warps, "tiles")
        return self


Schedule = Annotated[
    MapSchedule | RowSchedule | ProductSchedule | JoinedSchedule | ConvolutionSchedule | DepthwiseSchedule | AttentionSchedule | ScanSchedule
    | TransposeSchedule,
    Field(discriminator="nest"),
]  # fmt: skip


class Program(Decisions):
    """A graph with a schedule: `Program(graph=graph, schedule=ProductSchedule(tile=(128, 256, 64)))`."""

    graph: Graph
    schedule: Schedule
