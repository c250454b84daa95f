"""An imperative builder, for programs that generate IR from Python without a script.

>>> ib = IRBuilder()
>>> with ib.func("scale"):
...     n = ib.scalar_param("n", "int32")
...     A = ib.buffer_ptr(ib.buffer_param("A", (n, 16), "float32"))
...     with ib.for_range(0, n, name="i", kind="parallel") as i:
...         with ib.for_range(0, 16, name="j") as j:
...             with ib.if_(i < j):
...                 A[i, j] = A[i, j] * 2.0
...             with ib.else_():
...                 A[i, j] = 0.0
>>> func = ib.get()
>>> func.name, [p.name for p in func.params], type(func.body).__name__, func.body.kind.name
('scale', ['n', 'A'], 'For', 'PARALLEL')

A ``with`` block is a scope; statements go into the innermost one. Loads are expressions (``A[i, j]``), stores are
``ib.store(A, value, (i, j))`` or, through ``buffer_ptr``, assignments.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Unpack

from tirlower.diagnostics import TirError
from tirlower.ir import build
from tirlower.ir.block_builder import BlockBuilder
from tirlower.ir.buffer import Buffer, BufferOptions, BufferRegion, Index, IterVar, LayoutOptions, Shape, decl_buffer
from tirlower.ir.dtype import HANDLE, DataType, PointerType
from tirlower.ir.expr import BufferLoad, Call, Expr, ExprLike, Var, as_expr, const
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.op import Op
from tirlower.ir.stmt import (
    AllocBuffer,
    Assert,
    AttrStmt,
    Bind,
    Block,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Seq,
    Stmt,
    While,
)

__all__ = ["BufferPtr", "IRBuilder"]


class BufferPtr:
    """A buffer that is read and written like an array: ``ptr[i, j] = ptr[j, i] + 1``."""

    __slots__ = ("_builder", "buffer")

    def __init__(self, builder: IRBuilder, buffer: Buffer) -> None:
        self._builder = builder
        self.buffer = buffer

    def __getitem__(self, indices: Index | tuple[Index, ...]) -> Expr | BufferRegion:
        """A load (or a region, for slices), as ``buffer[indices]``."""
        return self.buffer[indices]

    def __setitem__(self, indices: Index | tuple[Index, ...], value: ExprLike) -> None:
        """Emit a store."""
        self._builder.store(self.buffer, value, indices if isinstance(indices, tuple) else (indices,))


class _Func:
    """The function being built."""

    def __init__(
        self,
        name: str,
        private: bool,
        ret_type: DataType | PointerType | str | None,
        attrs: Mapping[str, object] | None,
    ) -> None:
        self.name = name
        self.ret_type = ret_type
        self.attrs: dict[str, object] = {} if private else {"global_symbol": name}
        self.attrs.update(attrs or {})
        self.params: list[Var] = []
        self.buffer_map: dict[Var, Buffer] = {}
        self.thread_vars: dict[str, Var] = {}
        self.has_block = False


class IRBuilder:
    """Builds statements and functions one call at a time (see the module's docstring).

    Raises :class:`TirError` where a call does not fit its place: a parameter outside a function, an ``else_`` that
    follows no ``if_``, a ``get`` inside an open scope.
    """

    def __init__(self) -> None:
        self._scopes: list[list[Stmt]] = [[]]
        self._func: _Func | None = None
        self._built: dict[str, PrimFunc] = {}

    # Scopes

    def emit(self, stmt: Stmt | Expr) -> None:
        """Add a statement to the scope at hand; an expression is evaluated."""
        if not isinstance(stmt, (Stmt, Expr)):
            raise TirError(f"emit takes a statement or an expression, got {type(stmt).__name__}")
        self._scopes[-1].append(stmt if isinstance(stmt, Stmt) else Evaluate(stmt))

    def _close(self) -> Stmt:
        return _one(self._scopes.pop())

    @contextlib.contextmanager
    def _scope(self) -> Iterator[list[Stmt]]:
        """A scope that is dropped when its body raises."""
        depth = len(self._scopes)
        self._scopes.append([])
        try:
            yield self._scopes[-1]
        except BaseException:
            del self._scopes[depth:]
            raise

    def _need_func(self, what: str) -> _Func:
        if self._func is None:
            raise TirError(f"{what} has a meaning only inside a function", help="open one: with ib.func(name):")
        return self._func

    # Functions

    @contextlib.contextmanager
    def func(
        self,
        name: str,
        ret_type: DataType | PointerType | str | None = None,
        private: bool = False,
        attrs: Mapping[str, object] | None = None,
    ) -> Iterator[IRBuilder]:
        """A function; its ``global_symbol`` is its name unless it is private. ``get`` returns it when it is done."""
        if self._func is not None or len(self._scopes) > 1:
            raise TirError(f"function {name!r} cannot stand inside another function or scope")
        if name in self._built:
            raise TirError(f"a function {name!r} is built already")
        state = self._func = _Func(name, private, ret_type, attrs)
        try:
            with self._scope():
                yield self
                body = self._close()
        finally:
            self._func = None
        if state.has_block and not (isinstance(body, Block) and not body.iters):
            body = Block("root", (), True, (), (), None, (), {}, body)  # type: ignore[arg-type]
        given = state.ret_type
        dtype = given if isinstance(given, PointerType) else DataType("void" if given is None else given)
        self._built[name] = PrimFunc(tuple(state.params), state.buffer_map, dtype, state.attrs, body)

    def scalar_param(self, name: str, dtype: DataType | str = "int32", nonneg: bool = False) -> Var:
        """A scalar (or handle) parameter of the function."""
        var = Var(name, DataType(dtype), nonneg)
        self._need_func("a parameter").params.append(var)
        return var

    def buffer_param(
        self, name: str | Buffer, shape: Shape = (), dtype: DataType | str = "float32", **options: Unpack[BufferOptions]
    ) -> Buffer:
        """A buffer parameter: a handle, and the buffer that it stands for (an existing one, or as ``decl_buffer``).

        Variables of the shape that are no parameters (``ib.symbol``) are bound by the buffer's extents.
        """
        buffer = name if isinstance(name, Buffer) else decl_buffer(shape, dtype, name, **options)
        func = self._need_func("a parameter")
        handle = Var(buffer.name, HANDLE)
        func.params.append(handle)
        func.buffer_map[handle] = buffer
        return buffer

    def symbol(self, name: str, dtype: DataType | str = "int32") -> Var:
        """A symbolic dimension for the shapes of buffer parameters."""
        return Var(name, DataType(dtype), nonneg=True)

    def func_attr(self, attrs: Mapping[str, object]) -> None:
        """Add attributes to the function."""
        self._need_func("an attribute").attrs.update(attrs)

    def ret(self, value: ExprLike | None = None) -> None:
        """Return from the function."""
        args = () if value is None else (as_expr(value),)
        dtype = args[0].dtype if args else DataType("void")
        self.emit(Evaluate(Call(Op.get("tir.ret"), args, dtype)))

    # Control

    @contextlib.contextmanager
    def for_range(
        self,
        begin: ExprLike,
        end: ExprLike,
        name: str = "i",
        dtype: DataType | str | None = None,
        kind: ForKind | str = "serial",
        thread_tag: str | None = None,
        annotations: Mapping[str, object] | None = None,
    ) -> Iterator[Var]:
        """A loop from ``begin`` up to, not including, ``end``; its variable has the wider of their dtypes."""
        first, last = build.match_types(*build.operands(begin, end))
        if dtype is not None:
            first, last = build.cast(dtype, first), build.cast(dtype, last)
        var = Var(name, first.dtype)
        with self._scope():
            yield var
            body = self._close()
        extent = build.sub(last, first)
        self.emit(For(var, first, extent, ForKind.of(kind), thread_tag, dict(annotations or {}), body))

    @contextlib.contextmanager
    def thread(self, tag: str, extent: ExprLike, name: str | None = None) -> Iterator[Var]:
        """A loop over a thread axis (``threadIdx.x`` ...); the loops of one axis in a function share a variable."""
        size = as_expr(extent)
        func = self._need_func("a thread axis")
        var = func.thread_vars.get(tag)
        if var is None:
            var = func.thread_vars[tag] = Var(name or tag.replace(".", "_"), size.dtype)
        with self._scope():
            yield var
            body = self._close()
        size = build.cast(var.dtype, size)
        self.emit(For(var, const(0, var.dtype), size, ForKind.THREAD_BINDING, tag, {}, body))

    @contextlib.contextmanager
    def if_(self, condition: ExprLike) -> Iterator[None]:
        """The statements that run where the condition holds."""
        test = as_expr(condition)
        with self._scope():
            yield
            body = self._close()
        self.emit(IfThenElse(test, body))

    @contextlib.contextmanager
    def else_(self) -> Iterator[None]:
        """The statements that run where the condition of the ``if_`` just before does not hold."""
        scope = self._scopes[-1]
        before = scope[-1] if scope else None
        if not isinstance(before, IfThenElse) or before.else_case is not None:
            raise TirError("else_ follows an if_ directly, in the same scope")
        with self._scope():
            yield
            body = self._close()
        scope[-1] = before.with_(else_case=body)

    @contextlib.contextmanager
    def while_(self, condition: ExprLike) -> Iterator[None]:
        """The statements that run as long as the condition holds."""
        test = as_expr(condition)
        with self._scope():
            yield
            body = self._close()
        self.emit(While(test, body))

    @contextlib.contextmanager
    def attr(self, node: object, key: str, value: ExprLike) -> Iterator[None]:
        """A region with an attribute."""
        with self._scope():
            yield
            body = self._close()
        self.emit(AttrStmt(node, key, as_expr(value), body))

    def scope_attr(self, node: object, attr_key: str, value: ExprLike) -> None:
        """An attribute for the rest of the scope, as in ``tvm.tir.ir_builder``.

        Of a thread axis (an :class:`IterVar` of a tag) and its ``thread_extent`` or ``virtual_thread`` it is the axis' loop.

        >>> from tirlower.ir import IterVar
        >>> ib, tx = IRBuilder(), IterVar((0, 8), "tx", IterVar.ThreadIndex, "threadIdx.x")
        >>> A = ib.allocate("int32", 8, name="A", scope="local")
        >>> ib.scope_attr(tx, "thread_extent", 8)
        >>> A[0] = tx.var
        >>> print(ib.get())
        A = T.alloc_buffer((8,), "int32", scope="local")
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            A[0] = tx
        """
        number = as_expr(value)
        if isinstance(node, IterVar) and node.thread_tag and attr_key in ("thread_extent", "virtual_thread"):
            axis, zero = node.var, const(0, node.var.dtype)
            extent = build.cast(axis.dtype, number)
            self.emit(For(axis, zero, extent, ForKind.THREAD_BINDING, node.thread_tag, {}, _REST))
        else:
            self.emit(AttrStmt(node, attr_key, number, _REST))

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """A scope of its own: what is declared inside ends with it."""
        with self._scope():
            yield
            stmts = tuple(_closed(self._scopes.pop()))
        self.emit(Seq(stmts))

    @contextlib.contextmanager
    def block(self, name: str = "block") -> Iterator[BlockBuilder]:
        """A block; its header is stated through the object that the ``with`` gives.

        >>> ib = IRBuilder()
        >>> with ib.func("row_sum"):
        ...     A, B = ib.buffer_param("A", (4, 8)), ib.buffer_param("B", (4,))
        ...     with ib.for_range(0, 4) as i, ib.for_range(0, 8, name="k") as k:
        ...         with ib.block("sum") as block:
        ...             vi, vk = block.spatial(4, i), block.reduce(8, k)
        ...             with block.init():
        ...                 ib.store(B, 0.0, [vi])
        ...             ib.store(B, B[vi] + A[vi, vk], [vi])
        >>> made = ib.get().body.body.body.body
        >>> [r.buffer.name for r in made.reads], [r.buffer.name for r in made.writes]
        (['A'], ['B'])
        """
        if self._func is not None:
            self._func.has_block = True
        state = BlockBuilder(self, name)
        with self._scope():
            yield state
            body = self._close()
        self.emit(state.finish(body))

    # The words of ``tvm.tir.ir_builder``
    if_scope, else_scope, while_loop, new_scope = if_, else_, while_, scope

    # Statements

    def alloc(
        self,
        shape: Shape,
        dtype: DataType | str = "float32",
        scope: str = "global",
        name: str = "buf",
        **options: Unpack[LayoutOptions],
    ) -> Buffer:
        """Memory for the rest of the scope."""
        buffer = decl_buffer(shape, dtype, name, scope=scope, **options)
        self.emit(AllocBuffer(buffer))
        return buffer

    def allocate(
        self,
        dtype: DataType | str,
        shape: Shape,
        name: str = "buf",
        axis_separators: Sequence[int] | None = None,
        scope: str = "global",
    ) -> BufferPtr:
        """Memory for the rest of the scope, read and written like an array, with its arguments in TIR's order."""
        separators = tuple(axis_separators or ())
        return self.buffer_ptr(self.alloc(shape, dtype, scope, name, axis_separators=separators))

    def likely(self, condition: ExprLike) -> Expr:
        """A condition that usually holds."""
        return build.likely(condition)

    def decl(self, buffer: Buffer) -> Buffer:
        """A view of another buffer's data for the rest of the scope."""
        self.emit(DeclBuffer(buffer))
        return buffer

    def let(self, name: str, value: ExprLike, dtype: DataType | str | None = None) -> Var:
        """A variable with a value, for the rest of the scope."""
        expr = as_expr(value) if dtype is None else _as(value, DataType(dtype), f"the variable {name!r}")
        kind = expr.type if isinstance(expr, Var) else expr.dtype
        var = Var(name, kind)
        self.emit(Bind(var, expr))
        return var

    def store(
        self,
        buffer: Buffer | BufferPtr,
        value: ExprLike,
        indices: Index | list[Index] | tuple[Index, ...],
        predicate: Expr | None = None,
    ) -> None:
        """``buffer[indices] = value``; numbers take the buffer's dtype, and so do integers and narrower floats.

        A slice of constant length as the last index is a vector store. Raises :class:`TirError` for a float stored
        in an integer buffer.
        """
        target = buffer.buffer if isinstance(buffer, BufferPtr) else buffer
        at: tuple[Index, ...] = tuple(indices) if isinstance(indices, (list, tuple)) else (indices,)
        place = target[at]
        if not isinstance(place, BufferLoad):
            raise TirError(f"a store to buffer {target.name!r} names one element or vector, got {indices!r}")
        self.emit(BufferStore(target, _as(value, place.dtype, f"buffer {target.name!r}"), place.indices, predicate))

    def evaluate(self, value: ExprLike) -> None:
        """Evaluate an expression for its effects."""
        self.emit(Evaluate(as_expr(value)))

    def assert_(self, condition: ExprLike, message: str) -> None:
        """Stop with the message where the condition does not hold."""
        self.emit(Assert(as_expr(condition), as_expr(message)))

    def buffer_ptr(self, buffer: Buffer) -> BufferPtr:
        """The buffer with assignment as stores."""
        return BufferPtr(self, buffer)

    # Results

    def get(self) -> PrimFunc | Stmt:
        """The function built, or, where none was, the statements as one.

        Raises :class:`TirError` inside an open scope, and where several functions were built (see ``module``).
        """
        if len(self._scopes) > 1:
            raise TirError("get stands outside all `with` blocks of the builder")
        if not self._built:
            return _one(self._scopes[0])
        if self._scopes[0]:
            raise TirError("there are statements outside the function", help="move them into it")
        if len(self._built) > 1:
            raise TirError(f"several functions were built: {', '.join(self._built)}", help="use module()")
        return next(iter(self._built.values()))

    def module(self) -> IRModule:
        """A module of all functions built."""
        if len(self._scopes) > 1:
            raise TirError("module stands outside all `with` blocks of the builder")
        return IRModule(self._built)


_REST = Evaluate(as_expr(0))
"""Stands for what follows in the scope, till the scope is closed."""


def _closed(stmts: list[Stmt]) -> list[Stmt]:
    """The statements of a scope, each attribute for the rest of it around what follows."""
    for at, stmt in enumerate(stmts):
        if isinstance(stmt, (AttrStmt, For)) and stmt.body is _REST:
            return [*stmts[:at], stmt.with_(body=_one(stmts[at + 1 :]))]
    return stmts


def _one(stmts: list[Stmt]) -> Stmt:
    stmts = _closed(stmts)
    if not stmts:
        return Evaluate(as_expr(0))
    return stmts[0] if len(stmts) == 1 else Seq(tuple(stmts))


def _as(value: ExprLike, wanted: DataType, what: str) -> Expr:
    """A value for something of a dtype; converted unless that would cut a float."""
    if isinstance(value, (bool, int, float)):
        if isinstance(value, float) and wanted.is_integral:
            raise TirError(f"{what} takes {wanted!s}, got the float {value}", help="convert it with cast")
        return const(value, wanted)
    expr = as_expr(value)
    have, element = expr.dtype.element, wanted.element
    if expr.dtype is wanted or have is element:
        return build.cast(wanted, expr) if expr.dtype.is_scalar else expr
    if element.is_handle or have.is_handle or (have.is_float and element.is_integral):
        raise TirError(f"{what} takes {wanted!s}, got {expr.dtype!s}: {expr}", help="convert it with cast")
    return build.cast(wanted, expr)
