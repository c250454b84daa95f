"""The polyhedral view of a function: loops, statements, accesses; and its isl objects, made when asked for.

A :class:`Scop` is made by :func:`tirlower.poly.extract`. Its parts are plain Python: forms and conditions over the
loop variables. ``domains``, ``reads``, ``writes`` and ``schedule`` give the same as isl unions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from tirlower.diagnostics import Label, TirError
from tirlower.ir import (
    Bind,
    BlockIter,
    Buffer,
    BufferLoad,
    BufferStore,
    Evaluate,
    Expr,
    For,
    ForKind,
    PrimFunc,
    Stmt,
    Var,
    While,
)
from tirlower.ir.query import statements
from tirlower.poly import to_isl
from tirlower.poly.affine import Space
from tirlower.poly.conditions import Condition
from tirlower.poly.forms import Form
from tirlower.poly.isl import isl
from tirlower.poly.pointers import Pointers
from tirlower.poly.reductions import Reduction

if TYPE_CHECKING:
    from tirlower.poly.layouts import Layout

__all__ = ["Access", "Loop", "Scop", "Statement", "of_one_reduction", "updates_of_one"]


class Loop:
    """A loop around statements.

    ``var`` is its variable (one of its own for a while loop); ``start`` and ``extent`` its bounds as forms;
    ``conditions`` what they say about the variable; ``order`` its place in the text; ``leaves`` the statements that
    leave it early, ``continues`` those that end an iteration of it; ``regular`` says that its iterations are known exactly;
    ``overflows`` that its variable may leave its type; ``given`` is how many conditions stand around it.
    """

    __slots__ = (
        "conditions",
        "continues",
        "extent",
        "given",
        "leaves",
        "node",
        "order",
        "outer",
        "overflows",
        "regular",
        "start",
        "var",
    )

    def __init__(
        self,
        node: For | While,
        var: Var,
        start: Form,
        extent: Form | None,
        conditions: tuple[Condition, ...],
        outer: tuple[Loop, ...],
        order: int,
    ) -> None:
        self.node = node
        self.var = var
        self.start = start
        self.extent = extent
        self.conditions = conditions
        self.outer = outer
        self.order = order
        self.regular = isinstance(node, For)
        self.overflows = False
        self.given = 0
        self.leaves: list[Stmt] = []
        self.continues: list[Stmt] = []

    @property
    def name(self) -> str:
        """The variable's name."""
        return self.var.name

    @property
    def kind(self) -> ForKind:
        """How its iterations run."""
        return self.node.kind if isinstance(self.node, For) else ForKind.SERIAL

    @property
    def tag(self) -> str:
        """The thread axis, or nothing."""
        return (self.node.thread_tag or "") if isinstance(self.node, For) else ""

    @property
    def nest(self) -> tuple[Loop, ...]:
        """The loops around it, outermost first, and itself."""
        return (*self.outer, self)

    def __repr__(self) -> str:
        return f"<loop {self.name}>"


class Statement:
    """A statement that accesses memory, with the loops around it and its place in the text.

    ``starts`` says that it is the init of a block, which belongs to the reduction but comes before its updates.
    """

    __slots__ = ("accesses", "conditions", "loops", "node", "order", "reduction", "starts")

    def __init__(self, node: Stmt, loops: tuple[Loop, ...], conditions: tuple[Condition, ...], order: int) -> None:
        self.node = node
        self.loops = loops
        self.conditions = conditions
        self.order = order
        self.accesses: list[Access] = []
        self.reduction: Reduction | None = None
        self.starts = False

    @property
    def name(self) -> str:
        """Its name in isl objects."""
        return f"S{self.order}"

    def __repr__(self) -> str:
        return f"<{self.name} {type(self.node).__name__}>"


class Access:
    """A read or write of elements of a buffer by a statement.

    ``indices`` are the subscripts as forms (None where the access is of a pointer); ``coordinates`` what is compared
    to tell elements apart: subscripts, or an address where a buffer is seen through different views; ``digits`` what a
    flattened subscript was taken apart into, ``stride`` the stride of the first, after an offset
    ``base``; ``extents`` the buffer's shape. ``conditions`` guard it within its loops. ``must`` says that it happens in every instance; ``atomic`` names an atomic update.
    """

    __slots__ = (
        "atomic",
        "base",
        "buffer",
        "conditions",
        "coordinates",
        "data",
        "digits",
        "extents",
        "indices",
        "is_write",
        "layout",
        "must",
        "node",
        "phase",
        "site",
        "statement",
        "stride",
    )

    def __init__(
        self,
        statement: Statement,
        node: BufferLoad | BufferStore | Expr,
        buffer: Buffer | None,
        data: Var,
        indices: tuple[Form, ...] | None,
        is_write: bool,
        conditions: tuple[Condition, ...],
        must: bool,
    ) -> None:
        self.statement = statement
        self.node = node
        self.buffer = buffer
        self.data = data
        self.indices = indices
        self.is_write = is_write
        self.conditions = conditions
        self.must = must
        self.phase = 1 if is_write else 0
        self.atomic = ""
        self.coordinates: tuple[Form, ...] = indices or ()
        self.digits: tuple[Form, ...] | None = None
        self.extents: tuple[Form, ...] | None = None
        self.stride: Form | None = None
        self.base = 0
        self.site: tuple[Buffer, tuple[Form, ...]] | None = None
        self.layout: Layout | None = None

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops around it, outermost first."""
        return self.statement.loops

    @property
    def order(self) -> int:
        """Its place in the text."""
        return self.statement.order

    @property
    def guards(self) -> tuple[Condition, ...]:
        """The conditions inside of its outermost loop: those around that one hold for the whole nest, or of nothing in it."""
        return self.conditions[self.loops[0].given :] if self.loops else self.conditions

    @property
    def regular(self) -> bool:
        """Whether it certainly happens in each instance of its domain, to the elements that its forms name."""
        return self.must and all(loop.regular for loop in self.statement.loops)

    @property
    def update(self) -> Reduction | None:
        """The reduction of which this access is the read or the write of the accumulator; what else its statement reads
        is none of it, nor is what an init reads."""
        found = self.statement.reduction
        if found is None or self.buffer is not found.buffer or (self.statement.starts and not self.is_write):
            return None
        return found

    @property
    def text(self) -> str:
        """The access as the script writes it."""
        if isinstance(self.node, BufferStore):
            return f"{self.node.buffer.name}[{', '.join(map(str, self.node.indices))}]"
        return str(self.node)

    def __repr__(self) -> str:
        return f"<{'write' if self.is_write else 'read'} {self.text} in {self.statement.name}>"


def of_one_reduction(a: Access, b: Access) -> bool:
    """Whether two accesses belong to one reduction: to its updates, or to what a block's init sets before them."""
    one, other = a.update, b.update
    return one is not None and other is not None and one.op == other.op and one.buffer is other.buffer


def updates_of_one(a: Access, b: Access) -> bool:
    """Whether two accesses belong to updates of one reduction, whose order alone they could change.

    An init is no update: what has been added before it is lost.
    """
    return of_one_reduction(a, b) and not (a.statement.starts or b.statement.starts)


class Scop:
    """The loops, statements and accesses of a function.

    ``space`` owns the forms; ``context`` holds what is known of the parameters; ``homes`` maps data variables that
    are allocated inside to the loops around the allocation; ``planned`` are those that a block allocates, which move
    to where they are used; ``irregular`` says why the function may end early, if it may. ``fixtures`` are the allocations, assertions
    and jumps, each with its place in the text and the loops around it, ``idle_jumps`` the breaks and continues that never
    happen, ``asserted`` the conditions of the assertions. ``pointers`` knows the memory behind data variables. ``stated_strides`` are the parameters whose strides are a call's; ``nested_strides`` those of them, with
    their accesses, of which it is taken for granted that two subscripts never name one element. ``reaches`` are
    how far from 0 index arithmetic gets that may leave 64 bits, in float64: it is taken for granted that they are less.
    """

    again: Callable[[PrimFunc], Scop]
    """Extracts another function as this one was."""

    def __init__(self, func: PrimFunc, space: Space, pointers: Pointers) -> None:
        self.func = func
        self.space = space
        self.pointers = pointers
        self.loops: list[Loop] = []
        self.statements: list[Statement] = []
        self.accesses: list[Access] = []
        self.context: list[Condition] = []
        self.homes: dict[Var, tuple[Loop, ...]] = {}
        self.planned: set[Var] = set()
        self.scopes: dict[Var, str] = {}
        self.fixtures: list[tuple[int, tuple[Loop, ...], Stmt]] = []
        self.idle_jumps: list[tuple[Loop, Evaluate]] = []
        self.asserted: list[tuple[int, tuple[Loop, ...], Condition]] = []
        self.barriers: list[tuple[int, tuple[Loop, ...], str]] = []
        self.stated_strides: set[Buffer] = set()
        self.nested_strides: dict[Buffer, list[Access]] = {}
        self.reaches: tuple[Expr, ...] = ()
        self.irregular = ""
        self._inside: dict[Loop, list[Access]] | None = None

    def loop(self, which: For | While | Var | str | Loop) -> Loop:
        """The loop given as its node, variable or name.

        Raises :class:`TirError` where the function has none such, or several of a name.
        """
        if isinstance(which, (Loop, For, While)):
            # A loop of another extraction of the same function is known by its node.
            found = self._by_node.get(id(which.node if isinstance(which, Loop) else which), [])
        elif isinstance(which, Var):
            found = [loop for loop in self.loops if loop.var is which]
        else:
            found = [loop for loop in self.loops if loop.name == which]
        if len(found) == 1:
            return found[0]
        what = (
            which
            if isinstance(which, str)
            else which.name
            if isinstance(which, Var)
            else getattr(getattr(which, "loop_var", None), "name", "while")
        )
        if not found:
            raise TirError(
                f"function {self.func.name!r} has no loop {what!r}",
                origin="poly",
                help=f"its loops are: {', '.join(dict.fromkeys(loop.name for loop in self.loops)) or 'none'}",
            )
        raise TirError(
            f"function {self.func.name!r} has {len(found)} loops named {what!r}",
            origin="poly",
            labels=[Label(loop.node.span, "one of them", primary=n == 0) for n, loop in enumerate(found)],
            help="give the loop as its For node",
        )

    @cached_property
    def _by_node(self) -> dict[int, list[Loop]]:
        found: dict[int, list[Loop]] = {}
        for loop in self.loops:
            found.setdefault(id(loop.node), []).append(loop)
        return found

    def inside(self, loop: Loop) -> list[Access]:
        """The accesses within a loop, in the order of the text."""
        if self._inside is None:
            self._inside = {each: [] for each in self.loops}
            for access in self.accesses:
                for each in access.loops:
                    self._inside[each].append(access)
        return self._inside[loop]

    def exact(self, access: Access) -> bool:
        """Whether an access is known exactly: its domain, its elements, and that it happens."""
        if self.irregular or not access.regular:
            return False
        forms: Iterable[Form] = access.coordinates
        return (
            all(getattr(dim, "exact", True) for lin in forms for dim in lin.terms)
            and all(condition.is_exact for condition in access.conditions)
            and all(condition.is_exact for loop in access.loops for condition in loop.conditions)
        )

    @cached_property
    def names(self) -> tuple[BlockIter | Bind, ...]:
        """What gives variables the values that they stand for, iterators of blocks and bindings, in the order of the text."""
        found = statements(self.func.body)
        return tuple(op for op in found if isinstance(op, (BlockIter, Bind)) and op.value is not None)

    # isl objects

    @cached_property
    def domains(self) -> isl.UnionSet:
        """The instances of the statements: an isl UnionSet. Raises ImportError without islpy."""
        return to_isl.domains(self)

    @cached_property
    def reads(self) -> isl.UnionMap:
        """Statement instances to the elements that they read: an isl UnionMap."""
        return to_isl.accesses(self, write=False)

    @cached_property
    def writes(self) -> isl.UnionMap:
        """Statement instances to the elements that they write: an isl UnionMap."""
        return to_isl.accesses(self, write=True)

    @cached_property
    def schedule(self) -> isl.UnionMap:
        """Statement instances to their time in the order of the text: an isl UnionMap."""
        return to_isl.schedule(self)
