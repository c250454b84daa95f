"""InferFragment: the shapes and layouts of wmma fragments, as attributes of their buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from tirlower.diagnostics import Span, TransformError
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import Call, IntImm, StringImm, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator, Visitor
from tirlower.ir.op import Op
from tirlower.ir.stmt import AllocBuffer, AttrStmt, Evaluate, Seq, Stmt
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext

__all__ = ["InferFragment"]

ORIGIN = "tir.InferFragment"
SHAPE, LAYOUT = "fragment_shape", "fragment_layout"
_TRANSFERS = (Op.get("tir.tvm_load_matrix_sync"), Op.get("tir.tvm_store_matrix_sync"))
_FILL = Op.get("tir.tvm_fill_fragment")
_PRODUCTS = (Op.get("tir.tvm_mma_sync"), Op.get("tir.tvm_bmma_sync"))
_LAYOUTS = ("row_major", "col_major")


@dataclass
class _Fragment:
    """What is known of the fragments of a buffer: m, n and k of its products, and the layout it is loaded with."""

    shape: tuple[int, int, int]
    layout: str | None = None


def _refuse(data: Var, why: str, span: Span | None, help: str) -> NoReturn:
    raise TransformError(f"the fragments in {data.name!r} {why}", origin=ORIGIN, span=span, help=help)


def _text(shape: tuple[int, int, int]) -> str:
    return ", ".join(map(str, shape))


class _Finder(Visitor):
    """The fragments that are filled, loaded and stored, and the products they take part in."""

    def __init__(self) -> None:
        self.found: dict[Var, _Fragment] = {}
        self.products: list[tuple[Call, Span | None]] = []
        self.known: set[tuple[Var, str]] = set()
        self.at: Span | None = None

    def visit_AttrStmt(self, op: AttrStmt) -> None:
        if isinstance(op.node, Var):
            self.known.add((op.node, op.key))
        self.generic(op)

    def visit_Evaluate(self, op: Evaluate) -> None:
        self.at = op.span
        self.generic(op)

    def visit_Call(self, op: Call) -> None:
        span = op.span or self.at
        if op.op in _PRODUCTS:
            self.products.append((op, span))
        elif op.op in _TRANSFERS:
            layout = op.args[7]
            self._note(op, span, layout.value if isinstance(layout, StringImm) else str(layout))
        elif op.op is _FILL:
            self._note(op, span, None)

    def _note(self, op: Call, span: Span | None, layout: str | None) -> None:
        data = op.args[0]
        if not isinstance(data, Var) or not isinstance(data.type, PointerType):
            raise TransformError(
                f"a fragment is the data of a buffer, got {data}", origin=ORIGIN, span=span, help="pass buffer.data"
            )
        sizes = [arg.value for arg in op.args[1:4] if isinstance(arg, IntImm)]
        if len(sizes) != 3:
            _refuse(data, "have a shape that is no constant", span, "give m, n and k as numbers")
        shape = (sizes[0], sizes[1], sizes[2])
        fragment = self.found.setdefault(data, _Fragment(shape))
        if fragment.shape != shape:
            why = f"have different shapes: {_text(fragment.shape)} and {_text(shape)}"
            _refuse(data, why, span, "use a buffer for each shape")
        # An accumulator has a layout in memory only.
        if layout is None or data.type.scope not in ("wmma.matrix_a", "wmma.matrix_b"):
            return
        if layout not in _LAYOUTS:
            _refuse(data, f"have the layout {layout}", span, "it is 'row_major' or 'col_major'")
        if fragment.layout not in (None, layout):
            why = f"are loaded with different layouts: {fragment.layout} and {layout}"
            _refuse(data, why, span, "use a buffer for each layout")
        fragment.layout = layout

    def check(self) -> None:
        """The operands of a product have one shape. Raises TransformError naming two that differ."""
        for op, span in self.products:
            operands = [arg for arg in op.args[::2] if isinstance(arg, Var) and arg in self.found]
            for data in operands[1:]:
                one, other = self.found[operands[0]].shape, self.found[data].shape
                if one != other:
                    why = f"of shape {_text(one)} are multiplied with {data.name!r} of shape {_text(other)}"
                    _refuse(operands[0], why, span, "load all operands of a product with the same m, n and k")


class _Marker(StmtMutator):
    """Puts the attributes around what follows an allocation."""

    def __init__(self, found: _Finder) -> None:
        self.found = found

    def visit_Seq(self, op: Seq) -> Stmt:
        op = self.generic(op)
        stmts = list(op.stmts)
        for at in range(len(stmts) - 2, -1, -1):
            stmt = stmts[at]
            if isinstance(stmt, AllocBuffer):
                rest = self._marked(stmt, stmts[at + 1 :])
                if rest is not None:
                    stmts[at + 1 :] = [rest]
        return op if len(stmts) == len(op.stmts) and stmts[-1] is op.stmts[-1] else op.with_(stmts=tuple(stmts))

    def _marked(self, alloc: AllocBuffer, rest: list[Stmt]) -> Stmt | None:
        data = alloc.buffer.data
        fragment = self.found.found.get(data)
        if fragment is None or (data, SHAPE) in self.found.known:
            return None
        body = rest[0] if len(rest) == 1 else Seq(tuple(rest))
        made: Stmt = AttrStmt(data, SHAPE, StringImm(_text(fragment.shape)), body, span=alloc.span)
        if fragment.layout is not None:
            made = AttrStmt(data, LAYOUT, StringImm(fragment.layout), made, span=alloc.span)
        return made


class InferFragment(FuncPass):
    """Buffers of ``wmma`` fragments get attributes with the shape and layout of their fragments.

    Around what follows the allocation of a buffer whose fragments are filled, loaded or stored stands
    ``fragment_shape``, the text ``"m, n, k"``, and, for ``wmma.matrix_a`` and ``wmma.matrix_b`` that are loaded,
    ``fragment_layout``, ``"row_major"`` or ``"col_major"``. Code generation declares the fragments by them. Buffers
    that have the attributes keep them.

    Stands behind ThreadSync. Raises :class:`TransformError` where the fragments of a buffer have different shapes or
    layouts, or a shape that is no constant, and where a product has operands of different shapes.

    >>> from tirlower.script import parse
    >>> print(InferFragment()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((256,), "float16"), B: T.Buffer((256,), "float16")):
    ...     for tx in T.thread_binding(32, thread="threadIdx.x"):
    ...         a = T.alloc_buffer((256,), "float16", scope="wmma.matrix_a")
    ...         T.tvm_load_matrix_sync(a.data, 16, 16, 16, 0, A.access_ptr("r"), 16, "col_major")
    ...         T.tvm_store_matrix_sync(a.data, 16, 16, 16, 0, B.access_ptr("w"), 16, "col_major")
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((256,), "float16"), B: T.Buffer((256,), "float16")):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            a = T.alloc_buffer((256,), "float16", scope="wmma.matrix_a")
            with T.attr(a.data, "fragment_layout", "col_major"):
                with T.attr(a.data, "fragment_shape", "16, 16, 16"):
                    T.tvm_load_matrix_sync(a.data, 16, 16, 16, 0, T.tvm_access_ptr(T.type_annotation("float16"), A.data, 0, 256, 1), 16, "col_major")
                    T.tvm_store_matrix_sync(a.data, 16, 16, 16, 0, T.tvm_access_ptr(T.type_annotation("float16"), B.data, 0, 256, 2), 16, "col_major")
    """

    name = ORIGIN
    stage = Stage.FLAT_1D
    needs = (Fact.WHOLE_PROGRAM,)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Mark the fragments of a function."""
        found = _Finder()
        found.visit(func.body)
        found.check()
        return func.with_body(_Marker(found).visit(func.body)) if found.found else func
