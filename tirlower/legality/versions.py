"""The versions of a function: one for arrays that share no memory, one for any arrays.

What legality proves and what the passes and LLVM assume holds of arrays that are apart: that a store to one leaves what
was read from another as it was. :func:`apart` gives the module in which that is so: its entry tests each call. A call
that fails the test runs :func:`overlapping`: parallel loops in the order of their iterations, the lanes of vectorized
ones in step, nothing known of memory after a store that may reach it.

The attribute ``tir.noalias`` of each function says which it is, to every pass: True, or False where arrays may overlap.
A function of a module calls the version that its arguments are proved to fit.
"""

from __future__ import annotations

from tirlower.diagnostics import deep_recursion
from tirlower.ir.annotations import NOALIAS, REDUCTION
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Var
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import Mutator, post_order_visit
from tirlower.ir.node import Node
from tirlower.ir.op import GlobalVar, Op
from tirlower.ir.stmt import AllocBuffer, AllocConst, AttrStmt, Bind, Block, For, ForKind, Stmt
from tirlower.poly import Pointers

__all__ = ["apart", "overlapping", "what_calls_need"]

_ADDRESS = Op.get("tir.address_of")
_ACCESS = Op.get("tir.tvm_access_ptr")
_OUT_OF_ORDER = ("software_pipeline_", "rolling_buffer_scope", "double_buffer_scope")
"""Annotations that let reads of an iteration run before the stores of one that comes first."""


def apart(mod: IRModule) -> IRModule:
    """The module for arrays that share no memory (where one of them is written), which calls of it must be given.

    The same module where that makes no difference: where no function has two arrays, one of them written.

    >>> from tirlower.script import parse
    >>> func = parse('''
    ... @T.prim_func
    ... def copy(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    ...     for i in range(8):
    ...         B[i] = A[i]
    ... ''')
    >>> apart(IRModule({"copy": func}))["copy"].attrs[NOALIAS]
    True
    """
    versions = _Versions(mod)
    for key in mod:
        versions.want(key, True)
    return versions.module()


def overlapping(mod: IRModule, name: str) -> IRModule:
    """The function of a module with the symbol ``name``, and those that it calls, for arrays that may overlap."""
    key = next(key for key, func in mod.items() if func.attrs.get("global_symbol") == name)
    versions = _Versions(mod, exported=key)
    versions.want(key, False)
    return versions.module()


def what_calls_need(mod: IRModule) -> tuple[dict[str, tuple[bool, ...]], dict[str, set[str]]]:
    """What calls between the functions of a module ask of them, by key.

    For each function, the pointers that it may write through, of those that it takes; and the functions of which its
    version for arrays that share no memory calls the version for any arrays.
    """
    versions = _Versions(mod)
    any_arrays: dict[str, set[str]] = {}
    for key, func in mod.items():
        calls = _Calls(versions, func, True)
        calls.visit(func.body)
        any_arrays[key] = calls.others
    return {key: versions.writes(key) for key in mod}, any_arrays


class _Versions:
    """The versions of functions that are asked for, and those that they call."""

    def __init__(self, mod: IRModule, exported: str | None = None) -> None:
        self.mod = mod
        self.exported = exported
        self.names: dict[tuple[str, bool], str] = {}
        self.queue: list[tuple[str, bool]] = []
        self.keys = {str(f.attrs["global_symbol"]): key for key, f in mod.items() if "global_symbol" in f.attrs}
        self.keys.update({key: key for key in mod})
        self.written: dict[str, tuple[bool, ...]] = {}
        self.asked: set[str] = set()

    def want(self, key: str, is_apart: bool) -> str:
        """The name of a version, made if need be."""
        if not is_apart and (not _differs(self.writes(key)) or _declared(self.mod[key])):
            is_apart = True  # there is but one
        found = self.names.get((key, is_apart))
        if found is None:
            taken = {*self.mod, *self.names.values()}
            first = key == self.exported if self.exported is not None else is_apart
            found = key if first else _fresh(f"{key}_{'apart' if is_apart else 'overlap'}", taken)
            self.names[key, is_apart] = found
            self.queue.append((key, is_apart))
        return found

    def writes(self, key: str) -> tuple[bool, ...]:
        """For each pointer that a function takes, whether it, or what it calls, may write through it; the others count as
        not written."""
        found = self.written.get(key)
        if found is None:
            func = self.mod[key]
            self.asked.add(key)
            with deep_recursion():
                data = Pointers(func, self._writes_of).changing
            self.asked.discard(key)
            pointers = [p for p in func.params if p.dtype.is_handle]
            found = tuple(p in data or (p in func.buffer_map and func.buffer_map[p].data in data) for p in pointers)
            self.written[key] = found
        return found

    def _writes_of(self, call: Call) -> tuple[bool, ...] | None:
        """The same for what a call names; of those in a circle of calls, what is asked for already is not known."""
        key = self.keys.get(call.op.name)
        return None if key is None or key in self.asked else self.writes(key)

    def module(self) -> IRModule:
        """The functions of the versions asked for, in the order in which they were."""
        made: dict[str, PrimFunc] = {}
        while self.queue:
            key, is_apart = self.queue.pop(0)
            made[self.names[key, is_apart]] = self.version(key, is_apart)
        if len(made) == len(self.mod) and all(made.get(key) is func for key, func in self.mod.items()):
            return self.mod
        return IRModule(made, dict(self.mod.attrs))

    def version(self, key: str, is_apart: bool) -> PrimFunc:
        """A version of one function."""
        func = self.mod[key]
        body = func.body
        if _calls_others(body):
            body = _Calls(self, func, is_apart).visit(body)
        if not is_apart:
            body = _InOrder().visit(body)
        if self.names[key, is_apart] != key:
            func = func.without_attr("global_symbol")
        func = func.with_body(body)
        if not _differs(self.writes(key)) or _declared(func):
            return func
        return func.with_attr(NOALIAS, is_apart and not _bare_pointers(func))


def _fresh(name: str, taken: set[str]) -> str:
    made, n = name, 0
    while made in taken:
        n += 1
        made = f"{name}_{n}"
    return made


def _differs(writes: tuple[bool, ...]) -> bool:
    """Whether two pointers of a function can overlap to any effect."""
    return len(writes) > 1 and any(writes)


def _declared(func: PrimFunc) -> bool:
    return bool(func.attrs.get(NOALIAS))


def _bare_pointers(func: PrimFunc) -> bool:
    """Whether a function takes pointers whose memory has no extent, which no call can test."""
    return any(p.dtype.is_handle and p not in func.buffer_map for p in func.params)


class _Calls(Mutator):
    """Names in each call the version of the callee that its arguments fit."""

    def __init__(self, versions: _Versions, func: PrimFunc, is_apart: bool) -> None:
        self.versions = versions
        self.params = {p: func.buffer_map[p].data if p in func.buffer_map else p for p in func.params}
        self.params.update({buffer.data: buffer.data for buffer in func.buffers})
        self.apart = _declared(func) or (is_apart and not _bare_pointers(func))
        self.local: set[Var] = set()
        self.same: dict[Var, Expr] = {}
        self.others: set[str] = set()
        """The functions of which another version is called than the one that has their name."""

        def look(op: Node) -> None:
            if isinstance(op, (AllocBuffer, AllocConst)):
                self.local.add(op.buffer.data)
            elif isinstance(op, Bind) and op.value.dtype.is_handle:
                self.same[op.var] = op.value
            elif isinstance(op, Block):
                for match in op.match_buffers:
                    self.same[match.buffer.data] = match.source.buffer.data

        post_order_visit(func.body, look)

    def visit_Call(self, op: Call) -> Expr:
        key = self.versions.keys.get(op.op.name) if isinstance(op.op, GlobalVar) else None
        if key is None:
            return op
        name = self.versions.want(key, self._fit(key, op))
        if name == key:
            return op
        self.others.add(key)
        return op.with_(op=GlobalVar(name))

    def _fit(self, key: str, op: Call) -> bool:
        """Whether the arrays of a call share no memory that the callee writes."""
        callee, writes = self.versions.mod[key], self.versions.writes(key)
        places = [
            _Place(self, arg, callee.buffer_map.get(param))
            for param, arg in zip(callee.params, op.args, strict=False)
            if param.dtype.is_handle
        ]
        if len(places) != len(writes):
            return False
        return all(
            self._disjoint(a, b)
            for i, a in enumerate(places)
            for j, b in enumerate(places[i + 1 :], i + 1)
            if writes[i] or writes[j]
        )

    def _disjoint(self, a: _Place, b: _Place) -> bool:
        if a.root is None or b.root is None:
            return False
        if a.root is b.root:
            return a.ends_before(b) or b.ends_before(a)
        return self.apart or a.root in self.local or b.root in self.local


class _Place:
    """Where an argument points: the memory, and the bytes of it that the callee's array has, where they are known."""

    def __init__(self, calls: _Calls, arg: Expr, buffer: Buffer | None) -> None:
        self.root: Var | None = None
        self.start: int | None = 0
        self.size = None if buffer is None else _bytes(buffer)
        while not isinstance(arg, Var) or arg in calls.same:
            if isinstance(arg, Var):
                arg = calls.same[arg]
                if isinstance(arg, Var):
                    self.start = None  # a matched region begins anywhere in its source
            elif isinstance(arg, Call) and arg.op is _ADDRESS and isinstance(arg.args[0], BufferLoad):
                self._move(arg.args[0].buffer, arg.args[0].buffer.offset_of(arg.args[0].indices))
                arg = arg.args[0].buffer.data
            elif isinstance(arg, Call) and arg.op is _ACCESS and isinstance(arg.args[1], Var):
                self._add(arg.args[2], arg.args[0].dtype.bits * arg.args[0].dtype.lanes)
                arg = arg.args[1]
            else:
                return
        if arg in calls.local:
            self.root = arg
        elif arg in calls.params and isinstance(arg.type, PointerType):
            self.root = calls.params[arg]

    def ends_before(self, other: _Place) -> bool:
        """Whether its bytes certainly come before those of another place in the same memory."""
        return (
            self.start is not None
            and self.size is not None
            and other.start is not None
            and self.start + self.size <= other.start
        )

    def _move(self, buffer: Buffer, offset: Expr) -> None:
        self._add(offset, buffer.dtype.bits * buffer.dtype.lanes)

    def _add(self, offset: Expr, bits: int) -> None:
        known = self.start is not None and isinstance(offset, IntImm)
        self.start = self.start + offset.value * -(-bits // 8) if known else None  # type: ignore[attr-defined]


def _bytes(buffer: Buffer) -> int | None:
    if buffer.strides or not all(isinstance(extent, IntImm) for extent in (*buffer.shape, buffer.elem_offset)):
        return None
    size = -(-buffer.dtype.bits * buffer.dtype.lanes // 8)
    for extent in buffer.shape:
        size *= extent.value  # type: ignore[attr-defined]
    return size


def _calls_others(body: Stmt) -> bool:
    found = False

    def look(op: Node) -> None:
        nonlocal found
        found = found or (isinstance(op, Call) and isinstance(op.op, GlobalVar))

    post_order_visit(body, look)
    return found


class _InOrder(Mutator):
    """Loops in the order of the script: parallel ones are serial, and nothing runs ahead."""

    def visit_expr(self, root: Expr) -> Expr:
        return root

    def visit_For(self, op: For) -> Stmt:
        notes = {key: value for key, value in op.annotations.items() if not key.startswith(_OUT_OF_ORDER)}
        kind = op.kind
        if kind is ForKind.PARALLEL or (kind is ForKind.VECTORIZED and notes.get(REDUCTION)):
            # A reduction means what the serial loop computes.
            kind = ForKind.SERIAL
            notes.pop(REDUCTION, None)
        return self.generic(op.with_(kind=kind, annotations=notes))

    def visit_Block(self, op: Block) -> Stmt:
        notes = {key: value for key, value in op.annotations.items() if not key.startswith(_OUT_OF_ORDER)}
        return self.generic(op.with_(annotations=notes))

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        return self.visit(op.body) if op.key.startswith(_OUT_OF_ORDER) else self.generic(op)
