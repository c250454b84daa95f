"""What part of a buffer an iteration touches: its elements as an isl set, its box, and the extents of that box."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TypeAlias

from tirlower.diagnostics import TirError
from tirlower.ir import Buffer, Expr, For, PrimFunc, Range, Var, While
from tirlower.ir.cancel import linear_difference
from tirlower.ir.expr import IntImm, const
from tirlower.ir.functor import substitute
from tirlower.ir.query import each
from tirlower.poly.boxes import Boxes
from tirlower.poly.constraint_system import BOTH, SINK, System, TooManyCases
from tirlower.poly.extract import extract
from tirlower.poly.forms import single
from tirlower.poly.from_isl import expression_of
from tirlower.poly.isl import default_solver, isl
from tirlower.poly.scop import Access, Loop, Scop
from tirlower.poly.to_isl import distinct_names, parameters, set_of

__all__ = ["Footprint", "footprint", "times"]


class Footprint:
    """The elements of a buffer that accesses touch, as a function of sizes and of the loops held fixed.

    ``elements`` is an isl Set whose dimensions are the buffer's and whose parameters are the function's sizes and
    scalars, then the fixed loop variables; ``exact`` is False where it covers more than is certainly touched.
    """

    def __init__(self, scop: Scop, buffer: Buffer, fixed: Sequence[Loop], accesses: Sequence[Access]) -> None:
        self.scop = scop
        self.buffer = buffer
        self.fixed = tuple(fixed)
        self.accesses = tuple(accesses)
        self.exact = all(scop.exact(access) for access in accesses)

    @cached_property
    def elements(self) -> isl.Set:
        """The set (see the class). Raises ImportError without islpy, and :class:`TirError` for conditions of too many cases."""
        result = self._of(self.accesses[0])
        for access in self.accesses[1:]:
            result = result.union(self._of(access))
        return result.coalesce()

    def _of(self, access: Access) -> isl.Set:
        scop = self.scop
        system = System(scop.space, frozenset(scop.space.iterated))
        for condition in (*scop.context, *access.conditions, *(c for loop in access.loops for c in loop.conditions)):
            system.add(condition, BOTH)
        keys = []
        for n, extent in enumerate(access.extents or ()):
            axis = Var(f"e{n}")
            scop.space.iterated.add(axis)
            keys.append((SINK, axis))
            system.column(axis, SINK)
            if access.indices is not None:
                system.add_same(access.indices[n], single(axis))
            elif extent.is_constant:
                system.add_before(single(axis), extent)
        try:
            return set_of(scop, system, keys, fixed=[loop.var for loop in self.fixed])
        except TooManyCases as error:
            raise TirError(
                f"the conditions around {access.text} have too many cases",
                origin="poly.footprint",
                help="say with T.assume(…) what holds of the sizes",
            ) from error

    @cached_property
    def _rectangle(self) -> list[tuple[Expr, int]] | None:
        """Where each subscript starts and how many follow, which takes no isl where the loops inside run a number of times, under
        conditions that are none of theirs, and something is touched whenever they hold; None elsewhere."""
        fixed, boxes = {loop.var for loop in self.fixed}, Boxes(self.scop)
        shared = set.intersection(*({id(one) for one in access.conditions} for access in self.accesses))
        sure = [
            all(times(loop) for loop in access.loops if loop.var not in fixed)
            and shared.issuperset(map(id, access.conditions))
            for access in self.accesses
        ]
        found: list[tuple[Expr, int]] = []
        for spans in zip(*(_spans(access, fixed, boxes) for access in self.accesses), strict=False):
            certain = [span for span, one in zip(spans, sure, strict=True) if one]
            _, first, low, _ = min(certain or spans, key=lambda span: span[1])
            end = max(start + width for _, start, _, width in certain or spans)
            if not certain or any(s[0] != spans[0][0] or s[1] < first or s[1] + s[3] > end for s in spans):
                return None  # what may not happen goes further
            found.append((low, end - first))
        return found or None

    @cached_property
    def extents(self) -> tuple[int | None, ...]:
        """For each dimension the greatest number of indices from the least to the greatest touched; None where it has
        no bound. A buffer of this shape holds what one iteration needs."""
        if self._rectangle is not None:
            return tuple(width for _, width in self._rectangle)
        found: list[int | None] = []
        for width in self._widths:
            value = width.max_val() if not width.is_empty() else None
            found.append(value.to_python() + 1 if value is not None and value.is_int() else None)
        return tuple(found)

    @property
    def steady(self) -> tuple[bool, ...]:
        """For each dimension whether that number is the same wherever something is touched."""
        return (
            (True,) * len(self._rectangle)
            if self._rectangle is not None
            else tuple(
                extent is not None and width.min_val().to_python() == extent - 1
                for width, extent in zip(self._widths, self.extents, strict=True)
            )
        )

    @cached_property
    def _widths(self) -> list[isl.PwAff]:
        axes = range(self.elements.n_dim())
        return [self.elements.dim_max(axis).sub(self.elements.dim_min(axis)) for axis in axes]

    def exceeds(self, other: Footprint) -> bool:
        """Whether it certainly has elements, for some sizes at least, that another one of the same buffer has not; False where
        isl does not tell soon."""
        if not self.exact:
            return False
        with default_solver().limited():
            try:
                return not self.elements.is_subset(other.elements)
            except isl.Error:
                return False

    @cached_property
    def lexmin(self) -> isl.PwMultiAff:
        """The first element touched, as an isl PwMultiAff of the parameters."""
        return self.elements.lexmin_pw_multi_aff()

    @cached_property
    def lexmax(self) -> isl.PwMultiAff:
        """The last element touched."""
        return self.elements.lexmax_pw_multi_aff()

    @cached_property
    def box(self) -> tuple[Range, ...]:
        """The smallest range of each dimension around what is touched, in terms of sizes and fixed loops.

        Raises :class:`TirError` where a dimension has no bounds.
        """
        if self._rectangle is not None:
            return tuple(Range(low, const(width, low.dtype)) for low, width in self._rectangle)
        ranges = []
        for axis in range(self.elements.n_dim()):
            try:
                low, high = self.elements.dim_min(axis), self.elements.dim_max(axis)
                least, most = self._expr(low), self._expr(high)
            except isl.Error as error:
                raise TirError(
                    f"dimension {axis} of buffer {self.buffer.name!r} is touched without bounds",
                    origin="poly.footprint",
                    help="bound the subscript with T.assume(…)",
                ) from error
            ranges.append(Range(least, linear_difference(most, least, plus=1)))
        return tuple(ranges)

    def _expr(self, piecewise: isl.PwAff) -> Expr:
        """An isl piecewise affine function as an expression."""
        variables = [*parameters(self.scop), *(loop.var for loop in self.fixed)]
        names = dict(zip(distinct_names(variables), variables, strict=True))
        return expression_of(piecewise, isl.Set.universe(self.elements.params().get_space()), names)


_Span: TypeAlias = tuple[object, int, Expr, int]
"""Where a subscript starts: as a form without its number (its key), that number, as an expression; and how many follow."""


def _spans(access: Access, fixed: set[Var], boxes: Boxes) -> list[_Span]:
    """Those of an access; none where one of them is not known."""
    own = {loop.var: loop for loop in access.loops if loop.var not in fixed}
    starts: dict[Var, Expr] = {var: loop.node.min for var, loop in own.items() if isinstance(loop.node, For)}
    spans: list[_Span] = []
    held = [form for one in access.conditions for form in one.forms()]
    held += [loop.start for loop in own.values()]  # those that another one moves touch no rectangle
    for form, index in zip(access.indices or (), getattr(access.node, "indices", ()), strict=False):
        width, rest = 1, form
        for var in own.keys() & form.terms.keys():
            factor, loop = form.terms[var], own[var]
            if factor < 0 or loop.overflows or not times(loop):
                return []
            width += factor * (times(loop) - 1)
            rest = rest.without(var).plus(loop.start, factor)
        low = substitute(index, starts)
        named = all(var in fixed or var in boxes.scop.space.ranges for var in each(Var, low))
        if not (named and all(boxes.is_free(dim, fixed) for form in (rest, *held) for dim in form.terms)):
            return []
        spans.append((rest.shifted(-rest.const).key, rest.const, low, width))
    return spans


def times(loop: Loop) -> int:
    """How often a loop runs, where that is a number; else 0."""
    extent = getattr(loop.node, "extent", None)
    return max(extent.value, 0) if isinstance(extent, IntImm) else 0


def footprint(
    func: PrimFunc | Scop,
    buffer: Buffer | str,
    at: For | While | Var | str | Loop | None = None,
    *,
    reads: bool = True,
    writes: bool = True,
) -> Footprint:
    """What one iteration of the loop ``at`` (of the function, without it) touches of a buffer.

    The loop's variable and those around it are parameters of the result. ``reads`` and ``writes`` choose the accesses.
    Raises :class:`TirError` where none of them is of that buffer.

    >>> from tirlower.script import parse
    >>> found = footprint(parse('''
    ... @T.prim_func
    ... def blur(A: T.Buffer((34,), "int32"), B: T.Buffer((32,), "int32")):
    ...     for io, ii in T.grid(4, 8):
    ...         B[io * 8 + ii] = A[io * 8 + ii] + A[io * 8 + ii + 2]
    ... '''), "A", at="io")
    >>> found.extents, found.box
    ((10,), (Range(io * 8, io * 8 + 10),))
    """
    scop = extract(func)
    fixed: tuple[Loop, ...] = () if at is None else scop.loop(at).nest
    inside = scop.accesses if at is None else scop.inside(fixed[-1])
    found = [
        access
        for access in inside
        if access.buffer is not None
        and (access.buffer is buffer or access.buffer.name == buffer)
        and (writes if access.is_write else reads)
    ]
    if not found:
        name = buffer if isinstance(buffer, str) else buffer.name
        raise TirError(
            f"no such access of a buffer {name!r} "
            + (f"in the loop {fixed[-1].name!r}" if fixed else "in the function"),
            origin="poly.footprint",
            help=f"accessed are: {', '.join(dict.fromkeys(a.buffer.name for a in inside if a.buffer is not None))}",
        )
    first = found[0].buffer
    assert first is not None  # chosen above
    return Footprint(scop, first, fixed, found)
