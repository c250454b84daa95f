"""Fresh binders: a copied statement gets variables and buffers of its own."""

from __future__ import annotations

from collections.abc import Mapping

from tirlower.diagnostics import deep_recursion
from tirlower.ir.binding import buffer_variables
from tirlower.ir.buffer import Buffer, MatchBufferRegion
from tirlower.ir.expr import Expr, Let, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Kept, Substituter
from tirlower.ir.stmt import AllocBuffer, AllocConst, Block, For, ForKind, Stmt

__all__ = ["copy_var", "refresh_binders", "renew_defs"]


def copy_var(var: Var, name: str | None = None) -> Var:
    """A new variable of the same type."""
    return Var(var.name if name is None else name, var.type, var.nonneg, span=var.span)


class _Refresher(Substituter):
    """Every definition inside is replaced by a new one; what is free stays, or is replaced by a value."""

    def __init__(self, values: Mapping[Var, Expr]) -> None:
        super().__init__(values)
        self.defined: dict[Buffer, Buffer] = {}
        self.uses: dict[Var, list[Buffer]] = {}

    def map_buffer(self, buffer: Buffer) -> Buffer:
        """The new buffer of a definition; else the buffer with its variables renamed."""
        known = self.defined.get(buffer)
        if known is not None:
            return known
        if buffer not in self.buffers:
            for var in buffer_variables(buffer):
                self.uses.setdefault(var, []).append(buffer)
        return super().map_buffer(buffer)

    def map_var_def(self, var: Var) -> Var:
        known = self.vmap.get(var)
        if known is None:
            known = copy_var(var)
            self.vmap[var] = known
            # A buffer seen before its shape or data was renamed would be stale.
            for buffer in self.uses.pop(var, ()):
                self.buffers.pop(buffer, None)
        return known  # type: ignore[return-value]

    def renewed(self, var: Var) -> Var:
        """The new variable of one that the function defines."""
        new = self.map_var_def(var)
        assert isinstance(new, Var)
        return new

    def map_buffer_def(self, buffer: Buffer) -> Buffer:
        known = self.defined.get(buffer)
        if known is None:
            # A definition is always a new object, also when none of its parts changed.
            changed = self.map_buffer(buffer)
            known = changed if changed is not buffer else Buffer(*[getattr(buffer, f.name) for f in buffer.fields])
            self.defined[buffer] = known
        return known

    def enter_Let(self, op: Let) -> None:
        """The variable is new before the body, which mentions it, is rewritten."""
        self.map_var_def(op.var)

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        self.map_var_def(op.buffer.data)
        return self.generic(op)

    def visit_AllocConst(self, op: AllocConst) -> Stmt:
        self.map_var_def(op.buffer.data)
        return self.generic(op)

    def visit_For(self, op: For) -> Stmt:
        if op.kind is ForKind.THREAD_BINDING and not (op.thread_tag or "").startswith("vthread"):
            # The loops of one thread axis share their variable.
            return op.map_children(self.visit)
        return self.generic(op)

    def visit_Block(self, op: Block) -> Stmt:
        """What a block defines is in scope in its init too, which comes before the body."""
        for it in op.iters:
            self.map_var_def(it.var)
        for match in op.match_buffers:
            self._define_match(match)
        for buffer in op.alloc_buffers:
            self.map_var_def(buffer.data)
            self.map_buffer_def(buffer)
        return self.generic(op)

    def _define_match(self, match: MatchBufferRegion) -> None:
        """A matched buffer defines its data, and the variables that stand bare as its strides, offset or extents.

        An extent that is the very extent of the region is the variable around it.
        """
        buffer = match.buffer
        extents = {part.extent for part in match.source.region}
        for part in (buffer.data, *buffer.strides, buffer.elem_offset, *buffer.shape):
            if isinstance(part, Var) and part not in extents:
                self.map_var_def(part)
        self.map_buffer_def(buffer)


def refresh_binders(stmt: Kept, values: Mapping[Var, Expr] | None = None) -> Kept:
    """A copy of a statement (or expression) in which every variable and buffer defined inside is new; free variables with a
    value are replaced by it, as :func:`~tirlower.ir.functor.substitute` does.

    A pass that places a body twice refreshes the copies, so that each definition stays unique. The variables of
    thread loops are shared by all loops of their axis and stay.
    """
    with deep_recursion():
        return _Refresher(values or {}).visit(stmt)


def renew_defs(func: PrimFunc) -> PrimFunc:
    """A copy of a function that shares no definition with it: its parameters, buffers and variables are new.

    >>> from tirlower.ir import Evaluate, structural_equal
    >>> n = Var("n")
    >>> func = PrimFunc((n,), {}, None, {}, Evaluate(n + 1))
    >>> copy = renew_defs(func)
    >>> structural_equal(copy, func), copy.params[0] is n
    (True, False)
    """
    worker = _Refresher({})
    params = tuple([worker.renewed(param) for param in func.params])
    for buffer in func.buffer_map.values():
        for var in buffer_variables(buffer):
            worker.map_var_def(var)
    buffers = {
        worker.renewed(param): worker.map_buffer_def(func.buffer_map[param])
        for param in func.params
        if param in func.buffer_map
    }
    with deep_recursion():
        body = worker.visit(func.body)
    attrs = {key: worker.map_attr(value) for key, value in func.attrs.items()}
    return func.with_(params=params, buffer_map=buffers, attrs=attrs, body=body)
