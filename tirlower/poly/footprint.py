"""What part of a buffer an iteration touches: its elements as an isl set, its box, and the extents of that box."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from tirlower.diagnostics import TirError
from tirlower.ir import Buffer, Expr, For, PrimFunc, Range, Var, While
from tirlower.ir.cancel import linear_difference
from tirlower.poly.constraint_system import BOTH, SINK, System, TooManyCases
from tirlower.poly.extract import extract
from tirlower.poly.forms import single
from tirlower.poly.from_isl import expression_of
from tirlower.poly.isl import default_solver, isl
from tirlower.poly.scop import Access, Loop, Scop
from tirlower.poly.to_isl import distinct_names, parameters, set_of

__all__ = ["Footprint", "footprint"]


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
    def extents(self) -> tuple[int | None, ...]:
        """For each dimension the greatest number of indices from the least to the greatest touched; None where it has
        no bound. A buffer of this shape holds what one iteration needs."""
        found: list[int | None] = []
        for width in self._widths:
            value = width.max_val() if not width.is_empty() else None
            found.append(value.to_python() + 1 if value is not None and value.is_int() else None)
        return tuple(found)

    @property
    def steady(self) -> tuple[bool, ...]:
        """For each dimension whether that number is the same wherever something is touched."""
        return tuple(
            extent is not None and width.min_val().to_python() == extent - 1
            for width, extent in zip(self._widths, self.extents, strict=True)
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
    ((10,), (Range(8 * io, 8 * io + 10),))
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
