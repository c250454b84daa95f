"""``A[0:n] = B[0:n]`` where no vector can stand: a loop over the elements, aligned and stretched as NumPy aligns them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tirlower.diagnostics import Span, TirError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.cancel import expr_key, linear_difference
from tirlower.ir.changes import may_change
from tirlower.ir.expr import BufferLoad, Expr, IntImm, as_expr, is_const_int
from tirlower.ir.functor import post_order_visit
from tirlower.ir.stmt import Stmt
from tirlower.script.forms import Sliced

__all__ = ["Elements", "is_elementwise"]

_WRITE_A_LOOP = "write a loop over the elements, in the order that is meant"


def is_elementwise(target: Sliced) -> bool:
    """Whether the slices of a store's target need loops: more than one, not in the last index, no constant length."""
    slices = [axis for axis, part in enumerate(target.indices) if isinstance(part, slice)]
    if not slices or len(target.indices) > len(target.buffer.shape):
        return False
    if slices != [len(target.buffer.shape) - 1]:
        return True
    return not target.is_vector(slices[0])


class Elements:
    """The loops of a slice assignment, and the element of each slice that an iteration works on.

    ``place`` are the target's indices, slices as (start, step); ``lengths`` those of its slices, outermost first.
    """

    __slots__ = ("_bound", "lengths", "place", "target", "vars")

    def __init__(self, target: Sliced) -> None:
        self.target = target
        self.place, self.lengths = _steps(target)
        self.vars: list[Expr] = []
        self._bound: dict[object, Expr] = {}

    def once(self, bind: Callable[[str, Expr], Expr]) -> list[Expr]:
        """Bind in front what of the target's place is read from memory; returns the extents of the loops."""

        def value(name: str, expr: Expr) -> Expr:
            if not may_change(expr):
                return expr
            key = expr_key(expr)
            if key not in self._bound:
                self._bound[key] = bind(name, expr)
            return self._bound[key]

        self.place = [
            (value("start", part[0]), part[1]) if isinstance(part, tuple) else value("index", part)
            for part in self.place
        ]
        return [value("length", length) for length in self.lengths]

    def indices(self) -> tuple[Expr, ...]:
        """The element that an iteration assigns."""
        return _indices(self.place, self.vars)

    def load(self, buffer: Buffer, indices: Sequence[object], span: Span | None) -> BufferLoad:
        """The element of a value's slice, aligned at the last dimensions. Raises :class:`TirError` as NumPy would."""
        value = Sliced(buffer, indices, span)
        place, lengths = _steps(value)
        first = len(self.lengths) - len(lengths)
        if first < 0:
            raise TirError(
                f"{_text(value)} has {len(lengths)} sliced dimensions, {_text(self.target)} has {len(self.lengths)}",
                span=span,
                help="give the others an index",
            )
        elements: list[Expr] = []
        for var, wanted, length in zip(self.vars[first:], self.lengths[first:], lengths, strict=True):
            if is_const_int(length, 1):
                elements.append(build.sub(var, var))
                continue
            if not is_const_int(linear_difference(*build.match_types(wanted, length)), 0):
                raise TirError(
                    f"a slice of {_text(value)} has the length {length}, that of {_text(self.target)} has {wanted}",
                    span=span,
                    help="slices that are assigned have lengths known to be equal; " + _WRITE_A_LOOP,
                )
            elements.append(var)
        place = [
            (self._bound.get(expr_key(part[0]), part[0]), part[1]) if isinstance(part, tuple) else part
            for part in place
        ]
        return BufferLoad(buffer, _indices(place, elements), span=span)

    def check_order(self, body: Sequence[Stmt]) -> None:
        """Raise :class:`TirError` where an element that the body reads may have been assigned by an earlier iteration.

        NumPy reads all of the right side first. Here each element is read where it is used: the same, but for elements
        of the assigned buffer at another place.
        """
        own = [expr_key(index) for index in self.indices()]

        def visit(expr: object) -> None:
            if isinstance(expr, BufferLoad) and expr.buffer.data is self.target.buffer.data:
                if expr.buffer is not self.target.buffer or [expr_key(index) for index in expr.indices] != own:
                    raise TirError(
                        f"{_text(self.target)} is assigned from {expr}, another element of the same buffer",
                        span=expr.span,
                        help=f"{_WRITE_A_LOOP}, or copy the right side to another buffer first",
                    )

        for stmt in body:
            post_order_visit(stmt, visit)


def _steps(value: Sliced) -> tuple[list[Expr | tuple[Expr, Expr]], list[Expr]]:
    """The indices of an access, slices as (start, step), and the lengths of the slices; missing indices are slices."""
    shape = value.buffer.shape
    full = Sliced(value.buffer, [*value.indices, *[slice(None)] * (len(shape) - len(value.indices))], value.span)
    place: list[Expr | tuple[Expr, Expr]] = []
    lengths: list[Expr] = []
    for axis, part in enumerate(full.indices):
        if not isinstance(part, slice):
            place.append(as_expr(part))
            continue
        start, step, length = full.span_of(axis)
        if not isinstance(step, IntImm):
            raise TirError(
                f"the step of the slices of {_text(value)} is no constant: {step}", span=value.span, help=_WRITE_A_LOOP
            )
        negative = full.front(axis) if step.value > 0 else None
        if negative is not None:
            raise TirError(f"a slice of {_text(value)} has a negative end", span=value.span, help=negative)
        place.append((start, step))
        lengths.append(length)
    return place, lengths


def _indices(place: Sequence[Expr | tuple[Expr, Expr]], elements: Sequence[Expr]) -> tuple[Expr, ...]:
    left = iter(elements)
    return tuple(
        build.add(part[0], build.mul(next(left), part[1])) if isinstance(part, tuple) else part for part in place
    )


def _text(value: Sliced) -> str:
    def index(part: object) -> str:
        if not isinstance(part, slice):
            return str(part)
        ends = ["" if end is None else str(end) for end in (part.start, part.stop)]
        return ":".join(ends if part.step is None else [*ends, str(part.step)])

    return f"{value.buffer.name}[{', '.join(index(part) for part in value.indices)}]"
