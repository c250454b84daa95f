"""Dims: extents that are known when a graph is called, with the facts that are stated of them.

A dim is an ``ir.Var`` of int64 with a range, a divisor and hints. Shapes hold Python numbers and expressions of such
variables. Two extents are equal, different, or not known to be either: what is not known is checked when the graph is
called, and never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol, TypeAlias

from tirlower.arith import Analyzer, ConstIntBound, ModularSet
from tirlower.graph.core.cases import equal_by_cases, has_cases
from tirlower.graph.errors import GraphError
from tirlower.ir import Expr, IntImm, Node, Range, Var, expr_deep_equal, structural_equal
from tirlower.ir.dtype import INT64, DataType
from tirlower.ir.expr import ExprLike, const
from tirlower.ir.functor import substitute
from tirlower.ir.node import binds, data, node
from tirlower.ir.structural import expr_digest

__all__ = ["Dim", "DimEnv", "Extent", "Shape", "as_extent", "as_shape", "dim", "extent_expr", "proves", "same_extent"]

Extent: TypeAlias = "int | Expr"
"""A number, or an int64 expression of dims."""
Shape: TypeAlias = tuple[Extent, ...]


class Typed(Protocol):
    """What has a shape and a dtype."""

    @property
    def shape(self) -> Shape:
        """The extents."""

    @property
    def dtype(self) -> DataType:
        """What an element is."""


_LARGEST: Final = 2**63 - 1
"""Extents are computed in int64."""
_SAMPLES: Final = ((0,), (1, 2), (3, 1), (5, 9), (2, 4), (7, 6), (100, 50), (4, 1000))
"""Values of dims at which extents that may be equal are compared."""


@node
class Dim(Node):
    """A dim and what is stated of it: ``low <= var <= high``, a multiple of ``multiple_of``; ``hints`` are typical values.

    It stands for its variable in arithmetic: ``B * 4`` is an expression, which may be an extent.
    """

    declares = True
    var: Var = binds()
    low: int = data(default=0)
    high: int | None = data(default=None)
    multiple_of: int = data(default=1)
    hints: tuple[int, ...] = data(default=(), convert=tuple)

    def check(self) -> None:
        """The facts fit together. Raises :class:`GraphError` where they do not."""
        name = self.var.name
        if not name.isidentifier():
            raise GraphError(f"a dim's name is an identifier, got {name!r}")
        if self.low < 0:
            raise GraphError(f"dim {name!r} is an extent: its least value is at least 0, got {self.low}")
        if self.high is not None and self.high < self.low:
            raise GraphError(
                f"dim {name!r} has no value: it is stated between {self.low} and {self.high}",
                help="the least value comes first",
            )
        if self.multiple_of < 1:
            raise GraphError(f"dim {name!r} is a multiple of a positive number, got multiple_of={self.multiple_of}")
        for hint in self.hints:
            if not self.admits(hint):
                raise GraphError(f"the hint {hint} of dim {name!r} is none of its values: {self.facts}")

    @property
    def name(self) -> str:
        """The name."""
        return self.var.name

    @property
    def facts(self) -> str:
        """What is stated of it, as text: ``1 <= B <= 256, a multiple of 8``."""
        upper = "" if self.high is None else f" <= {self.high}"
        multiple = f", a multiple of {self.multiple_of}" if self.multiple_of != 1 else ""
        return f"{self.low} <= {self.name}{upper}{multiple}"

    def admits(self, value: int) -> bool:
        """Whether the facts hold of a number."""
        above = self.high is not None and value > self.high
        return value >= self.low and not above and value % self.multiple_of == 0

    def nearest(self, wanted: int) -> int:
        """The value that is nearest to a number from above, where there is one.

        >>> dim("B", 1, 9, multiple_of=4).nearest(5), dim("B", 1, 9, multiple_of=4).nearest(20)
        (8, 8)
        """
        value = -(-max(wanted, self.low) // self.multiple_of) * self.multiple_of
        return value if self.high is None or value <= self.high else self.high // self.multiple_of * self.multiple_of

    @property
    def least(self) -> int:
        """Its least value.

        >>> dim("B", 1, 256).least, dim("N", 4, multiple_of=3).least, dim("M").least
        (1, 6, 0)
        """
        return self.nearest(self.low)

    @property
    def typical(self) -> int:
        """A value to count at: its first hint, else its largest value, else its least above zero.

        >>> dim("B", 1, 256, hints=(16, 64)).typical, dim("N", 0, 7, multiple_of=3).typical, dim("M").typical
        (16, 6, 1)
        """
        if self.hints:
            return self.hints[0]
        return self.nearest(1 if self.high is None else self.high)

    def as_expr(self) -> Expr:
        """The variable."""
        return self.var

    def __eq__(self, other: object) -> bool:
        """Whether it is the same dim; of a number whether it is its only value, or none of them.

        Raises :class:`GraphError` where it may or may not be that number.
        """
        if not isinstance(other, int):
            return NotImplemented
        if not self.admits(other):
            return False
        if self.low == self.high:
            return True
        raise GraphError(
            f"whether {self.name} == {other} is known only when the graph runs: stated is {self.facts}",
            help="state its range so that it is decided, or write the general case",
        )

    def __hash__(self) -> int:
        return id(self)

    def __add__(self, other: ExprLike) -> Expr:
        return self.var + other

    def __radd__(self, other: ExprLike) -> Expr:
        return self.var.__radd__(other)

    def __sub__(self, other: ExprLike) -> Expr:
        return self.var - other

    def __rsub__(self, other: ExprLike) -> Expr:
        return self.var.__rsub__(other)

    def __mul__(self, other: ExprLike) -> Expr:
        return self.var * other

    def __rmul__(self, other: ExprLike) -> Expr:
        return self.var.__rmul__(other)

    def __floordiv__(self, other: ExprLike) -> Expr:
        return self.var // other

    def __rfloordiv__(self, other: ExprLike) -> Expr:
        return self.var.__rfloordiv__(other)

    def __mod__(self, other: ExprLike) -> Expr:
        return self.var % other

    def __rmod__(self, other: ExprLike) -> Expr:
        return self.var.__rmod__(other)

    def __repr__(self) -> str:
        return f"dim({self.facts})"


def dim(name: str, low: int = 0, high: int | None = None, *, multiple_of: int = 1, hints: Iterable[int] = ()) -> Dim:
    """A dim that graphs may have in their shapes, with its range (ends included), a divisor, and typical values.

    >>> dim("B", 1, 256, multiple_of=2, hints=(2, 64))
    dim(1 <= B <= 256, a multiple of 2)

    Raises :class:`GraphError` for facts that no number fits.
    """
    return Dim(Var(name, INT64, nonneg=True), low, high, multiple_of, tuple(hints))


def as_extent(value: object) -> Extent:
    """A number or an int64 expression from a number, a dim, an expression or a NumPy integer.

    Raises :class:`GraphError` for negative numbers, for those that int64 does not hold, and for what is no integer.
    """
    if hasattr(value, "as_expr"):
        value = value.as_expr()
    if not isinstance(value, Expr):
        index = getattr(value, "__index__", None)
        if index is None or isinstance(value, bool):
            raise GraphError(f"an extent is an integer, a dim or an expression of dims, got {value!r}")
        number = int(index())
        if number < 0:
            raise GraphError(f"an extent is at least 0, got {number}")
        if number > _LARGEST:
            raise GraphError(f"an extent is at most {_LARGEST}, got {number}", help="give smaller extents")
        return number
    if isinstance(value, IntImm):
        return as_extent(value.value)
    if not value.dtype.is_integral or value.dtype.is_bool:
        raise GraphError(f"an extent is an integer, got {value.dtype!s}: {value}")
    return value if value.dtype is INT64 else value.astype("int64")


def as_shape(values: object) -> Shape:
    """A shape from one extent or several."""
    if isinstance(values, (tuple, list)):
        return tuple(as_extent(v) for v in values)
    return (as_extent(values),)


def extent_expr(extent: Extent) -> Expr:
    """An extent as an int64 expression."""
    return extent if isinstance(extent, Expr) else const(extent, INT64)


class DimEnv:
    """The dims of a graph under their names, what is stated of them, and what had to be taken on trust so far.

    ``assumed`` holds the pairs of extents that an operation needs equal and that nothing proves: they are compared when
    the graph is called.
    """

    def __init__(self, dims: Iterable[Dim] = ()) -> None:
        self.analyzer = Analyzer()
        self.dims: dict[str, Dim] = {}
        self.assumed: list[tuple[Expr, Expr]] = []
        self.remembered: dict[object, tuple[object, ...]] = {}
        """What was inferred under these facts (:mod:`tirlower.graph.ops.inference`)."""
        self._notes: list[list[tuple[Expr, Expr]]] = []
        self._by_cases: dict[object, tuple[bool, Expr, Expr]] = {}
        for each in dims:
            self.add(each)

    def add(self, one: Dim) -> None:
        """Bring a dim in. Raises :class:`GraphError` where another dim has its name."""
        known = self.dims.get(one.name)
        if known is not None:
            if known.var is not one.var:
                raise GraphError(
                    f"two dims are named {one.name!r}: {known.facts}, and {one.facts}",
                    help="use one object of tg.dim in all shapes, or another name",
                )
            return
        self._put(one)

    def state(
        self,
        name: str,
        low: int = 0,
        high: int | None = None,
        multiple_of: int = 1,
        hints: Iterable[int] = (),
    ) -> Dim:
        """State the facts of the dim of a name, which may be used already, and give it."""
        known = self.dims.get(name)
        var = Var(name, INT64, nonneg=True) if known is None else known.var
        one = Dim(var, low, high, multiple_of, tuple(hints))
        self._put(one)
        return one

    def first(self, several: Iterable[Dim]) -> None:
        """Let these dims stand before all others, in their order."""
        front = {d.name: d for d in several}
        self.dims = front | {name: d for name, d in self.dims.items() if name not in front}

    def _put(self, one: Dim) -> None:
        self.remembered.clear()
        self._by_cases.clear()
        self.dims[one.name] = one
        if one.high is None:
            self.analyzer.update(one.var, ConstIntBound(one.low, ConstIntBound.POS_INF), override=True)
        else:
            within = Range(const(one.low, INT64), const(one.high - one.low + 1, INT64))
            self.analyzer.bind(one.var, within, allow_override=True)
        if one.multiple_of != 1:
            self.analyzer.update(one.var, ModularSet(one.multiple_of, 0), override=True)

    def __iter__(self) -> Iterator[Dim]:
        return iter(self.dims.values())

    def simplify(self, extent: Extent) -> Extent:
        """An extent in its simplest form; a number where it is one."""
        return extent if isinstance(extent, int) else as_extent(self.analyzer.simplify(extent))

    def equal(self, a: Extent, b: Extent) -> bool | None:
        """Whether two extents are equal; None where neither that nor the contrary can be proved."""
        proved = self._proved(a, b)
        return True if proved is None and self._is_assumed(extent_expr(a), extent_expr(b)) else proved

    def equal_types(self, a: Typed, b: Typed) -> bool:
        """Whether two values or types are of one dtype, and of shapes that are proved equal."""
        alike = a.dtype == b.dtype and len(a.shape) == len(b.shape)
        return alike and all(self.equal(x, y) for x, y in zip(a.shape, b.shape, strict=True))

    def _proved(self, a: Extent, b: Extent) -> bool | None:
        if a is b or (isinstance(a, int) and isinstance(b, int)):
            return a == b
        x, y = extent_expr(a), extent_expr(b)
        if expr_deep_equal(x, y):
            return True
        if self.analyzer.can_prove(x < y) or self.analyzer.can_prove(y < x):
            return False
        return True if self.analyzer.can_prove_equal(x, y) or self._equal_by_cases(x, y) else None

    def _equal_by_cases(self, x: Expr, y: Expr) -> bool:
        """Whether two extents with minima and maxima are equal in every case: slow, so that samples are looked at before."""
        if not has_cases(x, y):
            return False
        key = expr_digest(x), expr_digest(y)
        if key not in self._by_cases:
            agree = all(self._equal_at(x, y, wanted) for wanted in _SAMPLES)
            # The expressions are kept too: a digest names variables by their identity.
            self._by_cases[key] = agree and equal_by_cases(self.analyzer, x, y), x, y
        return self._by_cases[key][0]

    def _equal_at(self, x: Expr, y: Expr, wanted: Sequence[int]) -> bool:
        """Whether extents are equal where the dims, in turn, are near to some numbers."""
        values = {one.var: const(one.nearest(wanted[n % len(wanted)]), INT64) for n, one in enumerate(self)}
        a, b = (self.analyzer.simplify(substitute(e, values)) for e in (x, y))
        return expr_deep_equal(a, b)

    def _is_assumed(self, x: Expr, y: Expr) -> bool:
        return any(structural_equal((x, y), pair) or structural_equal((y, x), pair) for pair in self.assumed)

    def assume(self, a: Extent, b: Extent) -> None:
        """Take two extents for equal, as every call checks; said again, it is noted again by whom it concerns."""
        x, y = extent_expr(a), extent_expr(b)
        if not self._is_assumed(x, y):
            self.assumed.append((x, y))
        for several in self._notes:
            several.append((x, y))

    def assume_all(self, pairs: Iterable[tuple[Expr, Expr]]) -> None:
        """Take pairs of extents for equal."""
        for a, b in pairs:
            self.assume(a, b)

    def same(self, a: Extent, b: Extent, what: str, help: str | None = None) -> Extent:
        """The one extent that two are, or are taken to be (:func:`same_extent`)."""
        equal = self._proved(a, b)
        if equal is False:
            raise GraphError(f"{what}: {a} and {b}", help=help)
        if equal is None:
            self.assume(a, b)
        return b if isinstance(b, int) else a

    @contextmanager
    def noting(self) -> Iterator[list[tuple[Expr, Expr]]]:
        """While entered, the pairs that are taken for equal go into the list that it gives, known ones too."""
        several: list[tuple[Expr, Expr]] = []
        self._notes.append(several)
        try:
            yield several
        finally:
            self._notes.pop()

    @contextmanager
    def inferring(self) -> Iterator[None]:
        """While entered, :func:`same_extent` asks this environment and leaves with it what it could not prove."""
        token = _INFERRING.set(self)
        try:
            yield
        finally:
            _INFERRING.reset(token)


_INFERRING: ContextVar[DimEnv | None] = ContextVar(
    "the dims of the graph whose operation infers its shapes", default=None
)


def proves(condition: Expr) -> bool:
    """Whether a condition follows from what is stated of the dims of the graph whose operation infers its shapes."""
    return (_INFERRING.get() or DimEnv()).analyzer.can_prove(condition)


def same_extent(a: Extent, b: Extent, what: str, help: str | None = None) -> Extent:
    """The one extent that two are, or are taken to be until the call checks it; a number where one is a number.

    Raises :class:`GraphError` with ``what`` (the tensors and axes concerned) and ``help`` where they differ.
    """
    return (_INFERRING.get() or DimEnv()).same(a, b, what, help)
