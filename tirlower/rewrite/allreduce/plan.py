"""How the threads of a block reduce: who takes part, and whether warps can do it by shuffles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tirlower.diagnostics import Span, TransformError
from tirlower.ir import build
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Expr, IntImm, Var, const
from tirlower.ir.stmt import For
from tirlower.machine.target import Target

__all__ = ["Team", "team_of", "warps_reduce"]

_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
_SHUFFLES = ("cuda", "nvptx", "rocm", "metal")


@dataclass(frozen=True)
class Team:
    """The threads of a block as groups that each reduce.

    ``index`` is a thread's place in its group of ``extent``; ``group`` the number of its group, of ``groups``;
    ``contiguous`` says that a group's threads follow each other.
    """

    index: Expr
    extent: int
    group: Expr
    groups: int
    contiguous: bool


def team_of(axes: Mapping[str, For], reduced: Sequence[Expr], span: Span | None) -> Team:
    """The groups for a reduction over some thread variables.

    Raises TransformError for a variable that is no thread index here, and for an extent that is not constant.
    """
    found: set[str] = set()
    for var in reduced:
        tags = [tag for tag, loop in axes.items() if loop.loop_var is var and tag in _AXES]
        if not isinstance(var, Var) or not tags:
            raise TransformError(
                f"the reduction is over {var}, which is no thread index here",
                origin="LowerThreadAllreduce",
                span=span,
                help="name the variables of threadIdx loops around the call",
            )
        found.add(tags[0])
    index: list[tuple[For, int]] = []
    group: list[tuple[For, int]] = []
    contiguous = True
    for tag in _AXES:
        loop = axes.get(tag)
        if loop is None:
            continue
        if not isinstance(loop.extent, IntImm):
            raise TransformError(
                f"the extent {loop.extent} of {tag} is not constant, and a reduction over threads needs it",
                origin="LowerThreadAllreduce",
                span=loop.span or span,
                help="split the loop by a constant and bind the inner one",
            )
        extent = loop.extent.value
        if tag in found:
            contiguous = contiguous and (extent == 1 or all(size == 1 for _, size in group))
            index.append((loop, extent))
        else:
            group.append((loop, extent))
    place, extent = _flat(index)
    number, groups = _flat(group)
    return Team(place, extent, number, groups, contiguous)


def _flat(axes: Sequence[tuple[For, int]]) -> tuple[Expr, int]:
    """The index over some axes, the first one fastest, and its extent."""
    index: Expr = const(0)
    total = 1
    for loop, extent in axes:
        mine = build.cast("int32", build.sub(loop.loop_var, loop.min))
        index = build.add(index, build.mul(mine, const(total)))
        total *= extent
    return index, total


def warps_reduce(target: Target, team: Team, types: Sequence[DataType]) -> bool:
    """Whether warps reduce by shuffles: within a warp, or warps first and then one over their results."""
    warp = int(target.get("thread_warp_size", 1))
    kind = target.kind
    if kind not in _SHUFFLES or not team.contiguous or team.extent == 1 or warp == 1:
        return False
    for dtype in types:
        if dtype.is_vector or not (str(dtype) == "float16" or dtype.bits in (32, 64)):
            return False
        if kind == "rocm" and dtype.bits != 32:
            return False
    if kind == "rocm":
        return team.extent == warp
    most = int(target.get("max_num_threads", -1))
    if warp % team.extent == 0:
        return True
    if most != -1 and most <= warp * warp and team.extent % warp == 0:
        return True
    return team.groups == 1 and team.extent <= warp
