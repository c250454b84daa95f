"""Where forms write to: the statements of the scope at hand, the function at hand, and what it has declared.

The parser derives from :class:`Builder`; forms (``T.alloc_buffer``, ``T.reads`` …) find it through
:func:`tirlower.script.scope.active`. A declaration is a plain statement; a region without ``with`` (``T.attr(…)`` on a
line of its own) takes the rest of its scope as its body.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

import numpy as np

from tirlower.diagnostics import Span, TirError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion, IterVar, MatchBufferRegion, Range
from tirlower.ir.buffer import decl_buffer as make_buffer
from tirlower.ir.cancel import expr_key
from tirlower.ir.data import may_be_data
from tirlower.ir.dtype import INT32, Array, DataType, PointerType
from tirlower.ir.expr import Call, Expr, ExprLike, IntImm, Var, as_expr, const
from tirlower.ir.functor import substitute
from tirlower.ir.op import Op
from tirlower.ir.stmt import (
    AllocBuffer,
    AllocConst,
    Bind,
    BlockIter,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    Seq,
    Stmt,
    declares,
)
from tirlower.script.elementwise import Elements
from tirlower.script.forms import Sliced, is_number, is_unnamed
from tirlower.script.rebind import Rebinding, Variable
from tirlower.script.scope import Names
from tirlower.script.weak import Weak, default_float

__all__ = ["BlockState", "Builder", "FunctionState", "Level", "body_of"]


class BlockState:
    """The header of the block being parsed."""

    __slots__ = ("annotations", "init", "iters", "matches", "name", "predicate", "reads", "writes")

    def __init__(self, name: str) -> None:
        self.name = name
        self.iters: list[BlockIter] = []
        self.predicate: Expr | None = None
        self.reads: list[BufferRegion] | None = None
        self.writes: list[BufferRegion] | None = None
        self.init: Stmt | None = None
        self.matches: list[MatchBufferRegion] = []
        self.annotations: dict[str, object] = {}


class FunctionState:
    """What is known of the function being parsed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.params: list[Var] = []
        self.buffer_map: dict[Var, Buffer] = {}
        self.attrs: dict[str, object] = {}
        self.thread_vars: dict[str, Var] = {}
        self.open_threads: list[str] = []
        self.loops: dict[Var, Range] = {}
        self.data: set[Var] = set()
        """Variables bound to what may be data."""
        self.data_buffers: dict[Var, Buffer] = {}
        self.unclaimed: dict[Var, Buffer] = {}
        """Buffers of classic allocations that no declaration has taken over yet, by data variable."""
        self.claimed: set[int] = set()
        """Identities of claimed buffers that wait for the name of the declaration."""
        self.has_block = False
        self.symbols: dict[str, Var] = {}
        """The symbolic dimensions that were named by strings."""
        self.declared: dict[str, DataType] = {}
        """The types of the symbols that the body declares, as in ``n = T.int64()``."""
        self.ret_type: DataType | None = None
        """The type of the value that the function is stated to return."""
        self.tables: dict[int, tuple[Array, Buffer]] = {}
        """The constants made of captured arrays, with the arrays, by their identity."""
        self.start = 0
        """The depth of the scope that is the function's body."""

    def may_be_data(self, expr: Expr) -> bool:
        """Whether an integer may be data, as far as it is known where it stands."""
        return may_be_data(expr, self.params, self.buffer_map.values(), self.data)


class Level:
    """A scope that is being filled: its statements, and the regions that wait for the rest of it."""

    __slots__ = ("block", "out", "waiting")

    def __init__(self, block: BlockState | None) -> None:
        self.out: list[Stmt] = []
        self.waiting: list[tuple[list[Stmt], Callable[[Stmt], Stmt]]] = []
        self.block = block


def body_of(stmts: Sequence[Stmt]) -> Stmt:
    """Statements as one, exactly as they were written: none is ``Evaluate(0)``, one stands alone."""
    if not stmts:
        return Evaluate(IntImm(DataType("int32"), 0))
    return stmts[0] if len(stmts) == 1 else Seq(tuple(stmts))


class Builder:
    """Collects statements scope by scope (see the module's docstring)."""

    def __init__(self) -> None:
        self.names = Names()
        self.func: FunctionState | None = None
        self._levels: list[Level] = [Level(None)]
        self.ifs: list[dict[str, Stmt]] = []
        """The arms of each ``T.If`` that is open, by their words."""
        self.current: ast.AST | None = None
        """The statement that is being parsed."""
        self._defined: dict[Buffer, ast.AST | None] = {}
        """The statements that defined buffers under names."""
        self.kernel: list[Stmt] | None = None
        """The statements in front of the thread loops at hand, where there are any."""
        self.kernel_number = object()
        """Which kernel of the function that is."""
        self.flow: Rebinding | None = None
        """What names are bound anew in the function at hand, where some may be."""
        self.elements: Elements | None = None
        """The loops of the slice assignment whose right side is parsed."""

    # Places

    def here(self) -> Span | None:
        """The span of the statement being built."""
        return None

    # Symbols

    def symbolic(self, text: str) -> object:
        """The value of a symbolic dimension given as a string: a variable of the function, made at its first use."""
        known = self.names.table.get(text)
        if known is None:
            declared = self.func.declared if self.func is not None else {}
            known = Var(text, declared.get(text, INT32), span=self.here())
            if self.func is not None:
                self.func.symbols[text] = known
                if self.flow is not None and self.current is not None:
                    self.flow.assign(self.current, text, "a symbol", known, self.here())
            # Dimensions are the function's own: they are seen after the scope that first names them, too.
            self.names.set_outermost(text, known)
        return known

    # Scopes

    def open(self, block: BlockState | None = None) -> None:
        """Enter a scope of names and statements; with a block state, it is that block's own body."""
        self._levels.append(Level(block))
        self.names.push()
        if self.flow is not None:
            self.flow.open()

    def close(self) -> Stmt:
        """Leave the scope; its statements as one."""
        return body_of(self._close())

    def close_seq(self) -> Seq:
        """Leave the scope; its statements as a Seq, however many they are."""
        return Seq(tuple(self._close()))

    def close_scope(self) -> Stmt:
        """Leave the scope; its statements as one that keeps what it declares to itself."""
        stmts = self._close()
        made = Seq(tuple(stmts))
        return made if declares(made) else body_of(stmts)

    def _close(self) -> list[Stmt]:
        self.names.pop()
        if self.flow is not None:
            self.flow.close()
        level = self._levels.pop()
        stmts = level.out
        for before, wrap in reversed(level.waiting):
            before.append(wrap(body_of(stmts)))
            stmts = before
        return stmts

    def emit(self, stmt: Stmt, span: Span | None = None) -> None:
        """Add a statement to the scope at hand."""
        if stmt.span is None:
            stmt.span = span if span is not None else self.here()
        if isinstance(stmt, Bind) and self.func is not None and self.func.may_be_data(stmt.value):
            self.func.data.add(stmt.var)
        self._levels[-1].out.append(stmt)

    def enclose_rest(self, wrap: Callable[[Stmt], Stmt]) -> None:
        """Make the rest of the scope at hand the body of a statement that ``wrap`` makes."""
        level = self._levels[-1]
        level.waiting.append((level.out, wrap))
        level.out = []

    @property
    def block(self) -> BlockState | None:
        """The block whose own body is being filled (not that of a loop inside it)."""
        return self._levels[-1].block

    def need_block(self, what: str) -> BlockState:
        """The block at hand. Raises :class:`TirError` when ``what`` does not stand directly in one."""
        found = self.block
        if found is None:
            raise TirError(
                f"{what} stands directly in a block, not outside one or in a loop inside it",
                help='open one with `with T.block("name"):`',
            )
        return found

    def need_function(self, what: str) -> FunctionState:
        """The function at hand. Raises :class:`TirError` outside one."""
        if self.func is None:
            raise TirError(f"{what} has a meaning only inside a prim_func")
        return self.func

    # Statements that several forms share

    def bind(self, name: str, value: object, var: Var | None = None) -> Var:
        """Emit ``var = value`` and return the variable (a new one of the value's type without ``var``)."""
        if var is None:
            expr = const(value, default_float(value)) if value.__class__ is float else as_expr(value)
            kind: DataType | PointerType = expr.dtype
            if expr.dtype.is_handle:
                kind = expr.type if isinstance(expr, Var) else kind
            if expr.dtype == "void":
                raise TirError(f"{name!r} cannot be bound to a call without a value: {expr}", span=expr.span)
            var = Var(name, kind, span=self.here())
        else:
            if not var.name:
                var.name = name
            expr = self.convert(value, var.dtype, f"the variable {var.name!r}")
        self.emit(Bind(var, expr))
        return var

    def convert(self, value: object, wanted: DataType, what: str) -> Expr:
        """A value for something of a dtype: literals take it, integers and floats are converted within reason.

        Raises :class:`TirError` where the value would be cut (a float for an integer) or the kinds do not mix.
        """
        if isinstance(value, Expr) and value.dtype is wanted:
            return value
        if isinstance(value, Weak) and wanted.element.is_float:
            value = value.at(wanted)
        if is_number(value):
            element = wanted.element
            if isinstance(value, float) and element.is_integral:
                raise TirError(f"{what} takes {wanted!s}, got the float {value}", help="use T.Cast, or an integer")
            if not element.is_handle:
                need_fit(value, element, what)
                return const(value, wanted)
        expr = as_expr(value)
        have = expr.dtype
        if have is wanted:
            return expr
        if have.element is wanted.element or have.lanes not in (1, wanted.lanes):
            return expr  # lanes are settled by the node, which broadcasts or refuses
        if isinstance(expr, Call) and expr.op is Op.find("tir.undef"):
            return Call(expr.op, (), wanted, span=expr.span)
        source, target = have.element, wanted.element
        both_numbers = not (source.is_handle or target.is_handle or source.is_custom or target.is_custom)
        if both_numbers and not (source.is_float and target.is_integral):
            return build.cast(target.with_lanes(have.lanes, have.scalable), expr, span=expr.span)
        raise TirError(
            f"{what} takes {wanted!s}, got {have!s}: {expr}",
            span=expr.span,
            help=f"convert the value with T.Cast({str(wanted)!r}, …)",
        )

    def _kinds(self) -> list[DataType]:
        """The types of the parameters of the function, those of their elements for buffers."""
        if self.func is None:
            return []
        buffers = self.func.buffer_map
        return [buffers[p].dtype.element if p in buffers else p.dtype.element for p in self.func.params]

    def wide_floats(self) -> bool:
        """Whether a float that meets none is float64: all floats among the parameters of the function are."""
        return {kind.bits for kind in self._kinds() if kind.is_float} == {64}

    def wide_ints(self) -> bool:
        """Whether a variable that holds integer literals alone is int64: all integers among the parameters are."""
        return {kind.bits for kind in self._kinds() if kind.is_int} == {64}

    # Variables

    def allocate_variables(self, variables: Sequence[Variable]) -> None:
        """Emit the allocations of variables."""
        for variable in variables:
            variable.buffer = make_buffer((1,), str(variable.dtype), variable.name, scope="local")
            variable.threads = tuple(self.need_function("a variable").open_threads)
            variable.on_host = self.kernel is None
            variable.of_kernel = None
            self.allocate(variable.buffer)

    def assign_variable(self, variable: Variable, value: object) -> None:
        """Emit an assignment of a variable, and take note of the type of what it is given."""
        assert self.flow is not None
        if variable.buffer is None:
            self.allocate_variables(self.flow.due())
        assert variable.buffer is not None, f"the variable {variable.name!r} is assigned outside its scope"
        inside = self.need_function("a variable").open_threads[len(variable.threads) :]
        if inside:
            # Memory of the scope local would be each thread's own here, which is not what the text says.
            raise TirError(
                f"the variable {variable.name!r} lives outside the thread loop over {inside[0]!r} and is assigned by its "
                "threads",
                help="bind it inside the thread loop, or store the result of each thread in a buffer",
            )
        variable.evidence.add(value)
        self.emit(
            BufferStore(
                variable.buffer, self.convert(value, variable.dtype, f"the variable {variable.name!r}"), (as_expr(0),)
            )
        )
        variable.touched.update(self._levels)

    def kernel_value(self, variable: Variable) -> Expr:
        """The value of a variable of the host in a kernel, which no thread changes: bound in front of the kernel."""
        assert self.kernel is not None
        if variable.of_kernel is None or variable.of_kernel[0] is not self.kernel_number:
            load = variable.load(self.here())
            var = Var(variable.name, load.dtype, span=self.here())
            bind = Bind(var, load)
            bind.span = self.here()
            self.kernel.append(bind)
            variable.of_kernel = (self.kernel_number, var)
        return variable.of_kernel[1]

    def variable_value(self, variable: Variable, header: bool) -> Expr:
        """The value that a variable has here, bound in front; of a block's header, in front of the block.

        Raises :class:`TirError` where the block has assigned the variable before its header.
        """
        if self.kernel is not None and variable.on_host:
            return self.kernel_value(variable)
        load = variable.load(self.here())
        var = Var(variable.name, load.dtype, span=self.here())
        bind = Bind(var, load)
        if not header or self.block is None:
            self.emit(bind)
            return var
        level = self._levels[-1]
        if level in variable.touched:
            raise TirError(
                f"the variable {variable.name!r} is assigned in the block {level.block.name!r} before the block's "  # type: ignore[union-attr]
                "header reads it",
                help="let T.axis, T.where, T.reads and T.writes stand first, or assign it before the block",
            )
        bind.span = self.here()
        self._levels[-2].out.append(bind)
        return var

    def store_indices(self, buffer: Buffer, indices: Sequence[object]) -> tuple[tuple[Expr, ...], DataType]:
        """The indices of a store as expressions, and the dtype of the value that it takes."""
        if len(indices) != len(buffer.shape):
            raise TirError(
                f"buffer {buffer.name!r} has {len(buffer.shape)} dimensions, the store has {len(indices)} indices"
            )
        for index in indices:
            if index.__class__ is slice:
                indices = Sliced(buffer, indices, self.here()).vector_indices()
                break
        exprs = tuple([i if isinstance(i, Expr) else as_expr(i) for i in indices])
        wanted = buffer.dtype
        if exprs and not exprs[-1].dtype.is_scalar:
            last = exprs[-1].dtype
            wanted = wanted.with_lanes(wanted.lanes * last.lanes, wanted.scalable or last.scalable)
        return exprs, wanted

    def store(self, buffer: Buffer, indices: Sequence[object], value: object, predicate: object = None) -> None:
        """Emit ``buffer[indices] = value``."""
        exprs, wanted = self.store_indices(buffer, indices)
        value = self.convert(value, wanted, f"buffer {buffer.name!r}")
        mask = None if predicate is None else as_expr(predicate)
        self.emit(BufferStore(buffer, value, exprs, mask))

    # Threads

    def thread_var(self, tag: str, dtype: DataType, name: str) -> Var:
        """The variable of a thread axis: one for each tag in a function; nested virtual threads have their own."""
        func = self.need_function("a thread axis")
        known = func.thread_vars.get(tag)
        if known is not None and known.dtype is dtype and not (tag.startswith("vthread") and tag in func.open_threads):
            return known
        var = Var(name or tag.replace(".", "_"), dtype, span=self.here())
        func.thread_vars.setdefault(tag, var)
        return var

    def open_thread(self, tag: str, in_front: int) -> None:
        """A loop over a thread axis begins; it stands ``in_front`` levels above the scope at hand."""
        func = self.need_function("a thread axis")
        if self.kernel is None and not tag.startswith("vthread"):
            self.kernel = self._levels[-1 - in_front].out
            self.kernel_number = object()
        func.open_threads.append(tag)

    def close_thread(self, tag: str) -> None:
        """The loop ends."""
        func = self.need_function("a thread axis")
        func.open_threads.remove(tag)
        if all(tag.startswith("vthread") for tag in func.open_threads):
            self.kernel = None

    def thread_loop(self, var: Var, tag: str, extent: ExprLike, annotations: dict[str, object] | None = None) -> None:
        """Make the rest of the scope the body of a loop over a thread axis."""
        func = self.need_function("a thread axis")
        shared = self.thread_var(tag, var.dtype, var.name)
        size = build.cast(shared.dtype, extent)
        span = self.here()
        func.loops[shared] = Range.from_extent(size)
        self.open_thread(tag, in_front=0)

        def wrap(body: Stmt) -> Stmt:
            self.close_thread(tag)
            if shared is not var:
                body = substitute(body, {var: shared})
            start = const(0, shared.dtype)
            return For(shared, start, size, ForKind.THREAD_BINDING, tag, annotations or {}, body, span=span)

        self.enclose_rest(wrap)

    # Buffers

    def allocate(
        self,
        buffer: Buffer,
        condition: object = True,
        annotations: dict[str, object] | None = None,
        claimable: bool = False,
    ) -> None:
        """Emit an allocation; ``claimable`` lets the first matching declaration take over the buffer."""
        self.emit(AllocBuffer(buffer, as_expr(condition), annotations or {}))
        self.know_buffer(buffer)
        if claimable and self.func is not None:
            self.func.unclaimed[buffer.data] = buffer

    def table(self, array: Array, name: str) -> Buffer:
        """A captured NumPy array as a constant at the head of the function: a copy of what it holds now."""
        func = self.need_function("an array of the Python scope")
        known = func.tables.get(id(array))
        if known is None:
            data = np.ascontiguousarray(array)
            if data.dtype.kind not in "biufV" or not data.size:
                raise TirError(
                    f"the array {name!r} of dtype {data.dtype} and shape {data.shape} is no table of numbers"
                )
            plain = name if name.isidentifier() else "table"
            buffer = Buffer(plain, data.shape, DataType.from_numpy(data.dtype))
            self._levels[func.start].out.insert(0, AllocConst(buffer, data.copy()))
            self.know_buffer(buffer)
            known = func.tables[id(array)] = (array, buffer)
        return known[1]

    def know_buffer(self, buffer: Buffer) -> None:
        """Remember which buffer a data variable belongs to (the first one)."""
        if self.func is not None:
            self.func.data_buffers.setdefault(buffer.data, buffer)

    def claim(self, buffer: Buffer, name: str | None) -> Buffer | None:
        """The allocated buffer that a declaration on the data of ``T.allocate`` stands for, if it matches.

        The allocation is a form of this same script that nothing has used by its buffer yet, so what the
        declaration adds (name, alignment, axis separators) is written into it.
        """
        if self.func is None:
            return None
        owner = self.func.unclaimed.get(buffer.data)
        if owner is None or not buffer.is_compact or buffer.dtype is not owner.dtype:
            return None
        if [expr_key(e) for e in buffer.shape] != [expr_key(e) for e in owner.shape]:
            return None
        del self.func.unclaimed[buffer.data]
        if name:
            owner.name = name
        else:
            self.func.claimed.add(id(owner))
        owner.align = buffer.align
        owner.offset_factor = buffer.offset_factor
        owner.axis_separators = buffer.axis_separators
        owner.buffer_type = buffer.buffer_type
        return owner

    # Naming

    def take_name(self, value: object, name: str) -> None:
        """Give the name of an assignment's target to what waits for one."""
        if is_unnamed(value):
            value.name = name
        elif isinstance(value, IterVar):
            if not value.var.name:
                value.var.name = name
        elif isinstance(value, Buffer):
            if not value.name:
                name_buffer(value, name)
            elif self.func is not None and id(value) in self.func.claimed:
                self.func.claimed.discard(id(value))
                value.name = name


def name_buffer(buffer: Buffer, name: str) -> None:
    """Name a buffer that was made without one, and the variables made for it."""
    buffer.name = name
    if not buffer.data.name:
        buffer.data.name = name
    for part in (buffer.elem_offset, *buffer.strides):
        if isinstance(part, Var) and part.name.startswith("_"):
            part.name = name + part.name


def need_fit(value: int | float, element: DataType, what: str) -> None:
    """Raise :class:`TirError` where a literal is none of a type's values, or rounds from a finite number to infinity."""
    if element.is_float and not element.holds(value):
        raise TirError(
            f"{what}: the value {value} does not fit in {element!s}",
            help=f"a larger number is infinity there: write T.{element!s}('inf') for that"
            if element.bits >= 8
            else f"its greatest value is {element.max_value}",
        )
    if element.is_integral and not element.is_bool and not element.min_value <= value <= element.max_value:
        raise TirError(
            f"{what}: the value {value} does not fit in {element!s}",
            help=f"{element!s} holds {element.min_value} to {element.max_value}",
        )
