"""Products of matrices by OpenBLAS, from the wheel ``scipy-openblas32``: a model of how a library is made a backend.

It takes float32 and float64 products: of matrices, of stacks of them, of a stack and a matrix; transposed operands by flags;
what is added to a product (a residual, a bias) is put into the result first, and the product is added by ``beta``. The
kernel is a prim func that calls ``cblas_?gemm`` by ``T.call_extern``: no Python runs in a call. How many threads the library
uses is its own setting (``OPENBLAS_NUM_THREADS``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from tirlower.graph.backends.registry import Backend, register_backend
from tirlower.graph.core.dims import DimEnv, Extent, extent_expr
from tirlower.graph.core.nodes import Graph, Op, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.patterns.build import is_op, wildcard
from tirlower.graph.patterns.fusion import FusionPattern, PatternCheckContext
from tirlower.graph.patterns.nodes import DFPattern
from tirlower.graph.patterns.subjects import equal_shapes
from tirlower.ir import Buffer, BufferLoad, Call, Evaluate, Expr, IRBuilder, PrimFunc, StringImm, Var, build
from tirlower.ir.constants import const
from tirlower.ir.dtype import DataType
from tirlower.ir.functor import substitute
from tirlower.ir.op import Op as Operation
from tirlower.llvm.codegen.symbols import register_symbol

__all__ = ["backend", "codegen", "library", "patterns"]

GEMM = {"float32": "scipy_cblas_sgemm", "float64": "scipy_cblas_dgemm"}
ROW_MAJOR, PLAIN, TRANSPOSED = 101, 111, 112
LARGEST = 2**31 - 1
"""OpenBLAS of this wheel counts in 32 bits."""


def library() -> ctypes.CDLL:
    """The library of the wheel. Raises :class:`GraphError` where it is not installed."""
    try:
        import scipy_openblas32
    except ImportError:
        raise GraphError(
            "the backend 'openblas' needs the package scipy-openblas32", help="pip install 'tirlower[openblas]'"
        ) from None
    folder = Path(scipy_openblas32.get_lib_dir())
    found = sorted(p for p in folder.glob("*scipy_openblas*") if p.suffix in (".so", ".dylib", ".dll"))
    if not found:
        raise GraphError(f"the package scipy-openblas32 has no library in {folder}")
    return ctypes.CDLL(str(found[0]))


def backend() -> Backend:
    """The backend, its library loaded and its functions known to programs."""
    found = library()
    for symbol in GEMM.values():
        register_symbol(symbol, getattr(found, symbol))
    return register_backend("openblas", patterns(), codegen, escape="reject")


def patterns() -> list[FusionPattern]:
    """What it takes: a product and what is added to it, then products alone."""
    made = []
    for added in (True, False):
        a, b = wildcard(), wildcard()
        turned_a, turned_b = is_op("transpose")(a), is_op("transpose")(b)
        left, right = turned_a | a, turned_b | b
        product: DFPattern = is_op("matmul")(left, right)
        whole = is_op("add")(product, wildcard()) if added else product
        names = {"product": product, "turned_a": turned_a, "turned_b": turned_b}
        made.append(FusionPattern("openblas.matmul_add" if added else "openblas.matmul", whole, names, _check))
    return made


def _check(context: PatternCheckContext) -> bool:
    product = context.annotated["product"]
    turned = [context.annotated[n] for n in ("turned_a", "turned_b") if n in context.annotated]
    env = DimEnv(context.graph.dims)
    return all(_swaps_last(v) for v in turned) and _product(product, context.matched, env) is not None


def _swaps_last(value: Value) -> bool:
    """Whether a transposition exchanges the last two axes alone."""
    assert isinstance(value.node, Op)
    rank = len(value.shape)
    axes = value.node.attrs.get("axes")
    order = tuple(range(rank))[::-1] if axes is None else tuple(a % rank for a in cast("tuple[int, ...]", axes))
    return order == (*range(rank - 2), rank - 1, rank - 2)


@dataclass(frozen=True)
class Product:
    """``c = a @ b (+ added)``: a call of the library for each of ``batch``, on matrices ``rows x inner`` and ``inner x columns``."""

    a: Value
    b: Value
    turned: tuple[bool, bool]
    batch: tuple[Extent, ...]
    rows: Extent
    columns: Extent
    inner: Extent
    stacked: bool
    """Whether ``b`` has the batch too."""
    added: Value | None


def _product(product: Value, result: Value, env: DimEnv) -> Product | None:
    """What a match is to the library; None where it does not take it."""
    node = product.node
    assert isinstance(node, Op)
    if product.dtype not in GEMM or not env.equal_types(result, product):
        return None
    a, b = node.inputs
    if {v.dtype for v in (a, b)} != {product.dtype} or len(a.shape) < 2 or len(b.shape) < 2:
        return None
    added = None
    if result is not product:
        assert isinstance(result.node, Op)
        others = [v for v in result.node.inputs if v is not product]
        if len(others) != 1 or others[0].dtype != product.dtype:
            return None
        added = others[0]
    turned = _turned(a), _turned(b)
    batch, (rows, inner), columns = a.shape[:-2], a.shape[-2:], b.shape[-1]
    stacked = len(b.shape) > 2
    if stacked and not equal_shapes(batch, b.shape[:-2], env):
        return None
    if not stacked and not turned[0]:  # one product of all rows
        for extent in batch:
            rows = env.simplify(extent_expr(extent) * rows)
        batch = ()
    limits = [extent_expr(e) <= LARGEST for e in (rows, columns, inner)]
    if not all(env.analyzer.can_prove(limit) for limit in limits):
        return None
    return Product(
        a.node.inputs[0] if turned[0] and isinstance(a.node, Op) else a,
        b.node.inputs[0] if turned[1] and isinstance(b.node, Op) else b,
        turned,
        batch,
        rows,
        columns,
        inner,
        stacked,
        added,
    )


def _turned(value: Value) -> bool:
    return isinstance(value.node, Op) and value.node.name == "transpose"


def codegen(graph: Graph, attrs: Mapping[str, object]) -> PrimFunc | None:
    """The prim func of a composite; None where it is not taken after all."""
    result = graph.results[0]
    product = next(n.results[0] for n in graph.ops if n.name == "matmul")
    found = _product(product, result, DimEnv(graph.dims))
    return None if found is None else _Kernel(graph, found).func()


class _Kernel:
    """The prim func of a product."""

    def __init__(self, graph: Graph, product: Product) -> None:
        self.graph = graph
        self.product = product
        self.ib = IRBuilder()

    def func(self) -> PrimFunc:
        """Operands, the result, dims."""
        product = self.product
        result = self.graph.results[0]
        with self.ib.func(self.graph.name, attrs={"tir.noalias": True}):
            held = {v: self.ib.buffer_param(Buffer(v.name, v.extents, v.dtype)) for v in self.graph.params}
            out = self.ib.buffer_param(Buffer("out", result.extents, result.dtype))
            if product.added is not None:
                self._copy(held[product.added], out)
            with ExitStack() as stack:
                at = [self._loop(stack, extent) for extent in product.batch]
                self._gemm(held[product.a], held[product.b], out, at)
        made = self.ib.module()[self.graph.name]
        own = {d.var: Var(d.var.name, d.var.type, d.var.nonneg) for d in self.graph.dims}
        renamed = cast(PrimFunc, substitute(made, own))
        return renamed.with_(params=(*renamed.params, *own.values()))

    def _loop(self, stack: ExitStack, extent: Extent) -> Expr:
        return stack.enter_context(self.ib.for_range(const(0, "int64"), extent_expr(extent)))

    def _copy(self, source: Buffer, out: Buffer) -> None:
        """Put what is added into the result, spread over it."""
        with ExitStack() as stack:
            at = [self._loop(stack, extent) for extent in self.graph.results[0].shape]
            behind = at[len(at) - len(source.shape) :]
            where = [
                const(0, "int64") if _is_one(extent) else index
                for extent, index in zip(source.shape, behind, strict=True)
            ]
            self.ib.store(out, BufferLoad(source, tuple(where)), tuple(at))

    def _gemm(self, a: Buffer, b: Buffer, out: Buffer, at: Sequence[Expr]) -> None:
        product = self.product
        one = const(1, "int64")
        rows, columns, inner = (extent_expr(e) for e in (product.rows, product.columns, product.inner))
        # The library asks for rows of at least one element, also of matrices without any.
        steps = (
            build.max_(rows if product.turned[0] else inner, one),
            build.max_(inner if product.turned[1] else columns, one),
            build.max_(columns, one),
        )
        lda, ldb, ldc = (build.cast("int32", s) for s in steps)
        flags = [const(TRANSPOSED if t else PLAIN, "int32") for t in product.turned]
        sizes = [build.cast("int32", e) for e in (rows, columns, inner)]
        alpha = const(1.0, out.dtype)
        beta = const(0.0 if product.added is None else 1.0, out.dtype)
        args = (
            StringImm(GEMM[out.dtype]),
            const(ROW_MAJOR, "int32"),
            *flags,
            *sizes,
            alpha,
            self._start(a, at),
            lda,
            self._start(b, at if product.stacked else ()),
            ldb,
            beta,
            self._start(out, at, "rw" if product.added is not None else "w"),
            ldc,
        )
        self.ib.emit(Evaluate(Call(Operation.get("tir.call_extern"), args, DataType("void"))))

    def _start(self, buffer: Buffer, at: Sequence[Expr], mask: str = "r") -> Expr:
        """A pointer to the matrix of a place in the batch."""
        offset: Expr = const(0, "int64")
        for index, extent in zip(at, buffer.shape, strict=False):
            offset = offset * extent + index
        for extent in buffer.shape[len(at) :] if at else ():
            offset = offset * extent
        return buffer.access_ptr(mask, offset=offset)


def _is_one(extent: Expr) -> bool:
    return bool(getattr(extent, "value", None) == 1)
