"""What would make a refused loop legal, in one sentence.

Privatize (partial results, a temporary for each iteration, a copy), make updates atomic, factor a reduction (rfactor),
skew a stencil, guard a write that all iterations make, or run dependent statements in loops of their own.
"""

from __future__ import annotations

from tirlower.ir import ForKind, Var
from tirlower.ir.annotations import REDUCTION, UNCHECKED
from tirlower.poly.scop import Access, Loop, Scop
from tirlower.poly.verdict import Witness

__all__ = ["remedy_for", "remedy_for_unknown"]

_ATOMIC = {"sum": "T.atomic_add", "min": "T.atomic_min", "max": "T.atomic_max"}


def remedy_for(scop: Scop, loop: Loop, kind: str, a: Access, b: Access, witness: Witness | None, updates: bool) -> str:
    """The remedy for a dependence between two iterations of a loop.

    ``kind`` is what the loop was to be: ``parallel``, ``vectorized`` or ``bound to`` a thread axis. ``updates`` says that
    both are updates of one reduction.
    """
    name = _name(a)
    if updates:
        return _for_reduction(loop, kind, a)
    if a.data in scop.homes and _written_first(scop, loop, a.data):
        return f"allocate {name} inside the loop {loop.name!r}, so that each iteration has its own"
    if a.is_write and b.is_write and not _varies(scop, loop, a) and not _varies(scop, loop, b):
        return f"let one iteration write {name}, under a guard such as `if {loop.name} == …`, or write it outside of the loop"
    if a.is_write != b.is_write and _indexed(a, loop.var) and _indexed(b, loop.var):
        other = _skewed_against(loop, a, b)
        if other is not None:
            return (
                f"skew {loop.name!r} by the loop {other.name!r}, so that the iterations of one wavefront are independent, "
                "or keep the loop serial"
            )
        if witness is not None and not witness.source.is_write and kind == "parallel":
            return f"read {name} from a copy made before the loop, or keep the loop serial"
    if kind == "parallel":
        return "keep the loop serial, or run the statements that depend on each other in loops of their own"
    return "keep the loop serial, or distribute its statements over loops of their own"


def remedy_for_unknown(kind: str, loop: Loop, a: Access, updates: bool) -> str:
    """The remedy where it is not known whether two iterations meet."""
    stated = f'state what is known with T.assume(…), or mark the loop with annotations={{"{UNCHECKED}": "reason"}}'
    return f"{_for_reduction(loop, kind, a)}; or {stated}" if updates else stated


def _for_reduction(loop: Loop, kind: str, a: Access) -> str:
    reduction = a.update
    assert reduction is not None  # asked about updates only
    atomic = f"update {_name(a)} with {_ATOMIC.get(reduction.op, 'atomic operations')}"
    factored = f"factor {loop.name!r} out of the reduction (rfactor)"
    if kind in ("parallel", "vectorized"):
        private = f'annotate the loop {{"{REDUCTION}": True}} for private partial results combined in order'
        return f"{private}, {factored}, {atomic if kind == 'parallel' else 'or keep the loop serial'}" + (
            ", or keep the loop serial" if kind == "parallel" else ""
        )
    return f"{atomic}, {factored}, or keep the loop serial"


def _name(access: Access) -> str:
    return access.buffer.name if access.buffer is not None else access.data.name


def _written_first(scop: Scop, loop: Loop, data: Var) -> bool:
    return next(a for a in scop.inside(loop) if a.data is data).is_write


def _varies(scop: Scop, loop: Loop, access: Access) -> bool:
    """Whether the element that an access names depends on the loop."""
    return access.indices is None or any(loop.var in scop.space.deps(index) for index in access.indices)


def _indexed(access: Access, var: Var) -> bool:
    """Whether a subscript is an offset of a loop variable."""
    return access.indices is not None and any(var in index.terms for index in access.indices)


def _skewed_against(loop: Loop, a: Access, b: Access) -> Loop | None:
    """The loop around this one by which a stencil of both can be skewed: both subscripts move with it too."""
    for other in reversed(loop.outer):
        if other.kind is ForKind.SERIAL and _indexed(a, other.var) and _indexed(b, other.var):
            return other
    return None
