"""The state of code generation: one :class:`ModuleState` a module, one :class:`Emitter` an LLVM function.

An emitter knows what each variable is in its function, where errors go, what must be freed on the way out, and where
``break`` and ``continue`` lead. The functions that emit each kind of node stand in the modules beside this one, and are
found through tables that they register in (see :mod:`tirlower.emit.expressions`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

from tirlower.call.errors import ErrorTable
from tirlower.diagnostics import CodegenError, Span
from tirlower.emit.facts import Facts
from tirlower.emit.llvm_text import (
    DOUBLE,
    I1,
    I64,
    NO_ATTACHMENTS,
    Attachments,
    Attribute,
    Block,
    Builder,
    Function,
    FunctionRef,
    Module,
    Type,
    Value,
    array,
    const,
)
from tirlower.emit.machine import Machine
from tirlower.emit.platform import Platform
from tirlower.emit.types import register_type
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Expr, Var
from tirlower.ir.func import PrimFunc

if TYPE_CHECKING:
    from tirlower.ir.stmt import Stmt

__all__ = ["Binding", "Emitter", "FunctionState", "Loop", "ModuleState", "Root"]

Made = TypeVar("Made")

#: stack memory for buffers of one LLVM function, in bytes; what does not fit goes to the heap
STACK_BUDGET: Final = 128 << 10


@dataclass(slots=True)
class Root:
    """Memory that a data pointer stands for: one parameter, or one allocation.

    ``align`` is known of the pointer itself; ``attachments`` are the alias facts of its accesses; ``offset`` says that
    the pointer may stand outside its memory (a parameter with an element offset).
    """

    name: str
    align: int = 1
    attachments: Attachments = NO_ATTACHMENTS
    constant: bool = False
    offset: bool = False


class Binding(NamedTuple):
    """A variable: its value in its own type, and as a 64-bit index where that is known to be cheaper."""

    value: Value
    wide: Value | None = None


@dataclass(slots=True)
class Loop:
    """A loop being emitted: where ``break`` and ``continue`` go, and how many cleanups are its surroundings'."""

    after: Block
    latch: Block
    cleanups: int
    continued: bool = False
    broken: bool = False
    is_task: bool = False
    is_while: bool = False
    #: whether loops stay in it in machine code, and how many names of values more those make that do not
    holds_loop: bool = False
    copied: int = 0
    #: whether its reductions may be done in another order
    reassociates: bool = False
    #: whether it must not be vectorized: see ``masked.py``
    in_order: bool = False
    #: the variables that a ``while`` loop's condition reads
    decide: set[Buffer] = field(default_factory=set)


@dataclass
class ModuleState:
    """What the functions of a module share."""

    module: Module
    machine: Machine
    platform: Platform
    functions: dict[str, PrimFunc]
    callees: dict[str, FunctionRef] = field(default_factory=dict)
    errors: ErrorTable = field(default_factory=ErrorTable)
    #: names of registered external functions, and of those that the process has (in order of use)
    imports: dict[str, None] = field(default_factory=dict)
    process_symbols: dict[str, None] = field(default_factory=dict)
    helpers: dict[Hashable, object] = field(default_factory=dict)
    #: name of a function -> the type of its result
    returns: dict[str, DataType] = field(default_factory=dict)
    #: a kernel whose calls may nest deep, as text -> the function that does its work
    deep: dict[str, FunctionRef] = field(default_factory=dict)
    check_assumptions: bool = False
    num_threads: int = 0

    @property
    def attrs(self) -> list[Attribute]:
        """The attributes of every function that we define."""
        out: list[Attribute] = ["nounwind"]
        if self.machine.is_x86:
            out.append(("prefer-vector-width", str(self.machine.vector_width)))
        return out

    def helper(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Something made once a module, at its first use."""
        if key not in self.helpers:
            self.helpers[key] = make()
        return cast(Made, self.helpers[key])


@dataclass
class FunctionState:
    """What the LLVM functions made from one prim func share."""

    name: str
    func: PrimFunc
    facts: Facts = field(default_factory=Facts)
    roots: dict[Var, Root] = field(default_factory=dict)
    ret_type: DataType | None = None
    outlined: int = 0
    allocates: bool = True
    #: whether the functions have large arrays on the stack, and look whether it has room for them
    checks_stack: bool = False
    #: whether its arrays share no memory, and nothing that it calls could see them: see ``held.py``
    apart: bool = False


class Emitter:
    """Emits the code of one LLVM function."""

    def __init__(
        self,
        state: ModuleState,
        kernel: FunctionState,
        function: Function,
        parent: Emitter | None = None,
    ) -> None:
        self.state: Final = state
        self.kernel: Final = kernel
        self.facts: Final = kernel.facts
        self.machine: Final = state.machine
        self.module: Final = state.module
        self.function: Final = function
        self.parent: Final = parent
        self.b: Final = Builder(function, fast_math=state.machine.operation_flags)
        self.vars: dict[Var, Binding] = {}
        self.err: Value
        self.claim: Value | None = None
        self.ret_slot: Value | None = None
        #: what functions whose calls nest deep hand on: see ``stack.py`` of the host
        self.descent: Value | None = None
        #: what to do on the way out of the function, innermost last; each gets the emitter
        self.cleanups: list[Callable[[Emitter], None]] = []
        self.loops: list[Loop] = []
        self.stack_left = self.lowest = STACK_BUDGET
        self.lane_mask: Value | None = None
        #: whether the condition of an ``if`` in a loop is evaluated
        self.choosing = False
        #: whether parallel loops are launched (inside a task they run in order)
        self.runs_parallel = state.machine.num_threads != 1
        #: buffers whose heap memory was allocated ahead of a loop, by data variable
        self.hoisted: set[Var] = set()
        self.slots: dict[str, Value] = {}
        self._context = (0, 0)
        self.capture: Callable[[Value], Value] | None = None
        self.statement: Stmt | None = None
        #: variables bound to the low bits of something, and how many loops stand around each variable's definition
        self.masked: set[Var] = set()
        self.depths: dict[Var, int] = {}
        #: the operations that integers in loops are computed by: see ``statements.py``
        self.weights: dict[Var, int] = {}
        #: operations (by id; the node keeps it its own) that may be done in another order, and the products in them
        self.reassociable: dict[int, Expr] = {}
        self.contracted: dict[int, Expr] = {}
        #: the elements stored on the way here, in the scopes around, and the loops around each store: see ``held.py``
        self.stored: dict[Hashable, int] = {}
        #: the arrays on the stack that this function has made itself: their bytes, by data variable
        self.arrays: dict[Var, int] = {}
        #: the arrays whose stores go past the caches here, by data variable
        self.streams: frozenset[Var] = parent.streams if parent is not None else frozenset()
        #: those of them that are filled one element behind the other
        self.sequential: frozenset[Var] = parent.sequential if parent is not None else frozenset()
        #: what attributes around loops say of them, by the loop's variable
        self.pragmas: dict[Var, dict[str, object]] = {} if parent is None else parent.pragmas

    # -- variables ---------------------------------------------------------------------------------------------------

    def define(self, var: Var, value: Value, wide: Value | None = None) -> None:
        """Bind a variable."""
        self.vars[var] = Binding(value, wide)
        self.depths[var] = len(self.loops)

    def lookup(self, var: Var, span: Span | None = None) -> Binding:
        """What a variable is here: in a task function, outer values are captured at their first use.

        Raises:
            CodegenError: the variable is not in scope.
        """
        found = self.vars.get(var)
        if found is not None:
            return found
        if self.parent is None or self.capture is None:
            raise CodegenError(
                f"the variable `{var.name}` is used outside of its scope",
                origin="codegen",
                span=span or (self.statement.span if self.statement is not None else None),
                help="run verify_well_formed on the function to find where it should be defined",
            )
        outer = self.parent.lookup(var, span)
        if outer.wide is not None and outer.value.type.kind == "int":
            wide = self.capture(outer.wide)
            value = wide if outer.value.type is I64 else self.capture(outer.value)
            mine = Binding(value, wide)
        else:
            mine = Binding(self.capture(outer.value))
        self.vars[var] = mine
        return mine

    def root(self, data: Var) -> Root:
        """The memory of a data pointer (an unknown one where nothing was stated)."""
        found = self.kernel.roots.get(data)
        if found is None:
            found = self.kernel.roots[data] = Root(data.name)
        return found

    # -- values ------------------------------------------------------------------------------------------------------

    def value(self, expr: Expr) -> Value:
        """Emit an expression; its value."""
        return ENGINE[0](self, expr)

    def index(self, expr: Expr) -> Value:
        """Emit an index expression; its value as an i64."""
        return ENGINE[1](self, expr)

    def type_of(self, dtype: DataType) -> Type:
        """See :func:`~tirlower.emit.types.register_type`."""
        return register_type(dtype)

    # -- errors ------------------------------------------------------------------------------------------------------

    def fail(self, code: int, values: Sequence[Value] = ()) -> None:
        """Record an error and leave the function. The block ends here."""
        self.state.platform.fail(self, code, values)

    def fail_if(self, cond: Value, code: int, values: Sequence[Value] = ()) -> None:
        """Go on where ``cond`` is false; fail where it is true. ``values`` are i64, and dominate this place."""
        if cond.text == "false":
            return
        failed, good = self.function.new_block("fail"), self.function.new_block("good")
        self.b.cond_br(cond, failed, good, likely=False)
        self.b.position_at_end(self.function.place(failed))
        self.fail(code, values)
        self.b.position_at_end(self.function.place(good))

    def leave(self, status: Value) -> None:
        """Return a status, after all cleanups."""
        for cleanup in reversed(self.cleanups):
            cleanup(self)
        self.state.platform.leave(self, status)

    def unwind(self, depth: int) -> None:
        """Emit the cleanups above a depth (they stay in force for other paths)."""
        for cleanup in reversed(self.cleanups[depth:]):
            cleanup(self)

    def recorded(self, value: Value, dtype: DataType) -> tuple[Value, str]:
        """A scalar as an i64 for an error record, and how to read it."""
        t = value.type
        if t.kind == "ptr":
            return self.b.ptrtoint(value), "uint64"
        if t.is_float:
            wide = value if t is DOUBLE else self.b.fpext(value, DOUBLE)
            return self.b.bitcast(wide, I64), "float64"
        if t is I1:
            return self.b.zext(value, I64), "bool"
        if t is I64:
            return value, "uint64" if dtype.is_uint else "int64"
        return (self.b.sext if dtype.is_int else self.b.zext)(value, I64), "int64" if dtype.is_int else "uint64"

    def error(self, message: str, node: object = None, help: str | None = None) -> CodegenError:
        """A CodegenError about a node (or the statement around it)."""
        span = getattr(node, "span", None) or (self.statement.span if self.statement is not None else None)
        where = [f"in function `{self.kernel.name}`"]
        return CodegenError(message, origin="codegen", span=span, notes=where, help=help)

    def state_slot(self, name: str, type: Type, align: int) -> Value:
        """A stack slot of this function, one for each name."""
        found = self.slots.get(name)
        if found is None:
            found = self.slots[name] = self.b.alloca(type, align=align, name=name)
        return found

    @property
    def stack_used(self) -> int:
        """The bytes of arrays on the stack, those of parts of the function too."""
        return STACK_BUDGET - self.lowest

    def context(self, size: int) -> Value:
        """Stack memory of so many bytes for the values that a call of an outlined function takes.

        All calls of the function share one slot, as long as the longest needs: none is in progress beside another.
        """
        words = max(-(-size // 8), 1)
        found = self.slots.get("context")
        prologue = self.function.prologue
        if found is None:
            found = self.slots["context"] = self.b.alloca(array(words, I64), align=8, name="context")
            self._context = (len(prologue) - 1, words)
        place, had = self._context
        if words > had:
            prologue[place] = prologue[place].replace(f"[{had} x i64]", f"[{words} x i64]")
            self._context = (place, words)
        return found

    # -- control -----------------------------------------------------------------------------------------------------

    def new_block(self, name: str) -> Block:
        """A block, not yet placed."""
        return self.function.new_block(name)

    def enter(self, block: Block) -> None:
        """Place a block and go on in it."""
        self.b.position_at_end(self.function.place(block))


def constant(type: Type, value: int | float) -> Value:
    """A constant of an LLVM type; integers wrap."""
    if type.is_int:
        bits = type.scalar.bits
        value = int(value) & ((1 << bits) - 1)
        if value >> (bits - 1) and bits > 1:
            value -= 1 << bits
    return const(type, value)


# The engine installs its two functions here (it needs the class above).
ENGINE: list[Callable[[Emitter, Expr], Value]] = []
