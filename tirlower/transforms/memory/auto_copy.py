"""LowerAutoCopy: blocks marked as copies become vectorized copy loops, which the threads of a kernel share."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.analysis.uniformity import Uniformity
from tirlower.ir.buffer import Range, pointer_dtype
from tirlower.ir.dtype import INT32
from tirlower.ir.expr import BufferLoad, Expr, IntImm, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator, substitute
from tirlower.ir.query import has, mentions, statements
from tirlower.ir.stmt import Block, Evaluate, For, ForKind, IfThenElse, Seq, Stmt, While
from tirlower.rewrite.auto_copy.form import (
    AUTO_COPY,
    LOCAL_STAGE,
    ORIGIN,
    PADDING,
    VECTOR_BYTES,
    WARP_EXECUTION,
    Axis,
    Copy,
    Order,
    annotated_number,
    conditional,
    is_no,
    refuse,
    taken_apart,
)
from tirlower.rewrite.auto_copy.fragments import FragmentCopies, is_fragment
from tirlower.rewrite.auto_copy.padding import Conflicts, padded
from tirlower.rewrite.auto_copy.threads import ThreadCopies
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.loop_nests import nest, strips
from tirlower.rewrite.scalar_overflow import analyzer_of

__all__ = ["LowerAutoCopy"]

_OWN = (AUTO_COPY, VECTOR_BYTES, LOCAL_STAGE, PADDING, WARP_EXECUTION)
_LANES = 32
_AXES = ("threadIdx.z", "threadIdx.y", "threadIdx.x")


class _Lowerer(StmtMutator):
    def __init__(self, func: PrimFunc, conflicts: Conflicts) -> None:
        self.func = func
        self.analyzer, _ = analyzer_of(func)
        self.order = Order(self.analyzer)
        self.conflicts = conflicts
        self.threads: list[For] = []
        self.divergent = 0
        self._uniform: Uniformity | None = None
        self.lanes = 1
        self.warps = any(isinstance(op, Block) and _asks(op, WARP_EXECUTION) for op in statements(func.body))
        """Whether some block is done by warps: then threadIdx.x has 32 lanes, also where no loop over them stands."""
        self.implicit: For | None = None
        """The loop over the lanes of a warp that the copy at hand has no other one for."""
        self.shared = ThreadCopies(self.order, conflicts)
        self.fragments = FragmentCopies(self.order, conflicts, self._share)

    @property
    def uniform(self) -> Uniformity:
        if self._uniform is None:
            self._uniform = Uniformity(self.func.body)
        return self._uniform

    def visit_For(self, op: For) -> Stmt:
        bound = op.kind is ForKind.THREAD_BINDING
        parted = not bound and bool(self.threads) and self.uniform.diverges(op)
        self.analyzer.bind(op.loop_var, Range(op.min, op.extent), allow_override=True)
        if bound:
            self.threads.append(op)
        self.divergent += parted
        made: Stmt = op.with_(body=self.visit(op.body))
        self.divergent -= parted
        if bound:
            self.threads.pop()
        return made

    def visit_While(self, op: While) -> Stmt:
        parted = bool(self.threads) and self.uniform.diverges(op)
        self.divergent += parted
        made: Stmt = self.generic(op)
        self.divergent -= parted
        return made

    def visit_IfThenElse(self, op: IfThenElse) -> Stmt:
        parted = bool(self.threads) and self.uniform.varies(op.condition)
        self.divergent += parted
        made: Stmt = self.generic(op)
        self.divergent -= parted
        return made

    def visit_Block(self, op: Block) -> Stmt:
        marked = op.annotations.get(AUTO_COPY)
        parted = bool(self.threads) and not is_const_int(op.predicate, 1) and self.uniform.varies(op.predicate)
        if marked is None or is_no(marked):
            self.divergent += parted
            made: Stmt = op.with_(body=self.visit(op.body))
            self.divergent -= parted
            return made
        if op.iters or op.init is not None or op.match_buffers:
            refuse(op, "it has iterators, an init or matched buffers", "run ConvertBlocksToOpaque and LowerMatchBuffer")
        if not op.reads or len(op.writes) != 1:
            refuse(
                op, f"it reads {len(op.reads)} and writes {len(op.writes)} regions", "a copy reads and writes one each"
            )
        copy = taken_apart(op)
        if len(op.reads) > 1 and not copy.operands():
            refuse(op, f"it reads {len(op.reads)} and writes 1 regions", "a copy reads and writes one each")
        element = pointer_dtype(op.reads[0].buffer.dtype)
        size = annotated_number(op, VECTOR_BYTES, 1, 1, "give the bytes of a vector, such as 16")
        lanes = max(size * 8 // element.bits, 1) if element.is_scalar else 1
        kept = {key: v for key, v in op.annotations.items() if key not in _OWN}
        for buffer in (copy.store.buffer, copy.load.buffer):
            if PADDING in op.annotations and buffer.scope.startswith("shared"):
                self.conflicts.given[buffer] = annotated_number(op, PADDING, 0, 0, "give a number of elements")
        body = self._body(op, copy, lanes, bool(self.divergent or parted))
        if self.implicit is not None and mentions(body, {self.implicit.loop_var}):
            body = self.implicit.with_(body=body)
        self.implicit = None
        return op.with_(annotations=kept, body=body)

    def _body(self, op: Block, copy: Copy, lanes: int, parted: bool) -> Stmt:
        axes = self._axes(op)
        if is_fragment(copy.store.buffer) or is_fragment(copy.load.buffer):
            if parted:
                refuse(op, "the threads of a warp may pass it differently", "move it out of the condition or loop")
            self.lanes = lanes
            made = self.fragments.lower(op, copy, axes)
            if self.implicit is None:
                return made
            # All lanes of the warp come by, whether they are told apart or not.
            made, self.implicit = self.implicit.with_(body=made), None
            return made
        variables = copy.variables()
        free = [axis for axis in axes if axis.loop.loop_var not in variables]
        known = {axis.loop.loop_var for axis in axes} | {loop.loop_var for loop in copy.loops}
        same = not parted and not any(self.uniform.varies(var) for var in variables - known) if axes else False
        if same and self._reads_alike(copy) and self.shared.can_share(copy, free):
            return self.shared.lower(op, copy, free, lanes)
        return self._lowered(copy, lanes) if lanes > 1 else op.body

    def _reads_alike(self, copy: Copy) -> bool:
        """Whether conditions and indices, the threads' numbers apart, are the same for all threads: a read of their own
        memory is not."""
        others = [index for load in copy.operands() for index in load.indices]
        return not any(
            _reads_own(part) for part in (*copy.conditions, *copy.store.indices, *copy.load.indices, *others)
        )

    def _share(self, op: Block, copy: Copy, axes: Sequence[Axis]) -> Stmt:
        return self.shared.lower(op.with_(annotations={}), copy, axes, self.lanes)

    def _axes(self, op: Block) -> list[Axis]:
        """The axes of threads around a copy, the fastest last."""
        found: dict[str, For] = {}
        for loop in self.threads:
            tag = str(loop.thread_tag)
            if tag in _AXES:
                found[tag] = loop
        axes: list[Axis] = []
        stride = 1
        if self.warps and _AXES[-1] not in found:
            lane = Var("threadIdx_x", INT32)
            self.implicit = For(
                lane, const(0), const(_LANES), ForKind.THREAD_BINDING, _AXES[-1], {}, Evaluate(const(0)), span=op.span
            )
            self.analyzer.bind(lane, Range(const(0), const(_LANES)))
            found[_AXES[-1]] = self.implicit
        for tag in reversed(_AXES):
            if tag not in found:
                continue
            extent = found[tag].extent
            if not isinstance(extent, IntImm):
                refuse(
                    op, f"the number of threads along {tag} is no constant: {extent}", "bind a constant number of them"
                )
            axes.insert(0, Axis(found[tag], extent.value, stride))
            stride *= extent.value
        return axes

    # On one thread: which loop is to be the vector

    def _lowered(self, copy: Copy, lanes: int) -> Stmt:
        loops = self._coalesced(copy)
        if (
            not loops
            or loops[-1].kind is not ForKind.SERIAL
            or loops[-1].annotations
            or not self._distinct(copy, loops[-1])
        ):
            return nest(loops, conditional(copy))
        return nest(loops[:-1], self._split(loops[-1], conditional(copy), lanes))

    def _coalesced(self, copy: Copy) -> list[For]:
        """The loops in order, that along neighbouring elements innermost."""
        loops = copy.loops
        if len(loops) < 2 or any(op.kind is not ForKind.SERIAL or op.annotations for op in loops):
            return loops
        written = [self.order.unit(loop.loop_var, copy.store.indices) for loop in loops]
        read = [self.order.unit(loop.loop_var, copy.load.indices) for loop in loops]
        if written[-1] or not any(written) or not self._free_order(copy):
            return loops
        best = max(range(len(loops)), key=lambda at: (written[at], read[at], at))
        return [*loops[:best], *loops[best + 1 :], loops[best]]

    def _free_order(self, copy: Copy) -> bool:
        """Whether the loops may be interchanged."""
        return self.order.independent(copy.loops) and self.order.axes(copy.loops, copy.store.indices) is not None

    def _distinct(self, copy: Copy, loop: For) -> bool:
        """Whether the iterations of a loop write different elements."""
        steps = [self.order.moved(loop.loop_var, index) for index in copy.store.indices]
        return any(isinstance(step, IntImm) and step.value for step in steps)

    def _split(self, loop: For, body: Stmt, lanes: int) -> Stmt:
        """Vectors of ``lanes`` elements, and a serial loop for the rest."""
        name = loop.loop_var.name
        names = (f"{name}_0", f"{name}_1", name)
        whole, strip, rest = strips(loop.with_(body=body), lanes, names, self.analyzer.simplify)
        done: list[Stmt] = []
        if not is_const_int(whole.extent, 0):
            vector = strip.with_(kind=ForKind.VECTORIZED)
            one = is_const_int(whole.extent, 1)
            done.append(substitute(vector, {whole.loop_var: whole.min}) if one else whole.with_(body=vector))
        if not is_const_int(rest.extent, 0):
            done.append(rest)
        return done[0] if len(done) == 1 else Seq(tuple(done))


def _asks(op: Block, key: str) -> bool:
    """Whether a block's annotation says yes."""
    value = op.annotations.get(key)
    return value is not None and not is_no(value)


def _reads_own(root: Expr) -> bool:
    """Whether an expression reads memory: of a thread's own, or that another thread may write first."""
    return has(BufferLoad, root)


class LowerAutoCopy(FuncPass):
    """Blocks annotated ``auto_copy`` become copy loops with vectors of ``vector_bytes`` bytes, shared by the threads.

    Such a block reads one region, writes one, and its body is a nest of loops around one store of an element of another
    buffer (converted, or under conditions, or not). Outside of kernels the loop along neighbouring elements of the
    destination becomes the innermost one where the order is free, and is split by the ``vector_bytes`` of the source's
    elements (default 1, so no split): a vectorized loop, and a serial one for a rest.

    In a kernel, a copy between global and shared memory that mentions some thread axes is shared by the threads along
    the other ones: neighbouring threads copy neighbouring vectors of global memory, in turns. It must be reached by all
    threads alike, and write each element once; else each thread makes all of it, as written. ``local_stage`` puts all
    loads of a thread into registers before it stores to shared memory. The rows of shared memory become longer where
    that lets the threads of a warp meet in fewer banks (by a quarter at most), or by ``padding`` elements where the
    block says so; not where it is used through pointers, or its blocks have a ``permuted_layout``, which
    InjectPermutedLayout swizzles. A barrier behind the copy is ThreadSync's affair.

    A copy between shared memory and ``wmma`` fragments becomes ``tvm_load_matrix_sync`` and ``tvm_store_matrix_sync``
    of tiles of 16 by 16; fragments are numbered by rows of tiles. One from an accumulator to global memory goes through
    shared memory, 16 rows at a time. Rows of shared memory that tiles are loaded from become longer by the same rule.

    A value may be computed from the element that is copied (of the first region that the block reads) and from other
    ones, element by element. Where a block of the function is annotated ``warp_execution``, threadIdx.x has 32 lanes:
    copies that no loop over it encloses get one.

    All these annotations are gone afterwards. Needs ConvertBlocksToOpaque; stands before LowerOpaqueBlock, which drops
    the annotations. Raises :class:`TransformError` for a marked block with iterators, with several regions read or
    written, or whose body is no such copy; for fragments that are not copied in whole tiles by whole warps; and for a
    padding that cannot be. TIR's shares every copy, takes its threads by binding the axes again, and pads all buffers.

    >>> from tirlower.script import parse
    >>> print(LowerAutoCopy()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8, 18), "float32"), B: T.Buffer((8, 18), "float32")):
    ...     with T.block("copy"):
    ...         T.reads(A[0:8, 0:18])
    ...         T.writes(B[0:8, 0:18])
    ...         T.block_attr({"auto_copy": 1, "vector_bytes": 32})
    ...         for j, i in T.grid(18, 8):
    ...             B[i, j] = A[i, j]
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((8, 18), "float32"), B: T.Buffer((8, 18), "float32")):
        with T.block("copy"):
            T.reads(A[0:8, 0:18])
            T.writes(B[0:8, 0:18])
            for i in range(8):
                for j_0 in range(2):
                    for j_1 in T.vectorized(8):
                        B[i, j_0 * 8 + j_1] = A[i, j_0 * 8 + j_1]
                for j in range(2):
                    B[i, 16 + j] = A[i, 16 + j]

    A transposition by 32 threads:

    >>> print(LowerAutoCopy()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((16, 32), "float32"), B: T.Buffer((32, 16), "float32")):
    ...     for tx in T.thread_binding(32, thread="threadIdx.x"):
    ...         s = T.alloc_buffer((16, 32), "float32", scope="shared")
    ...         with T.block("load"):
    ...             T.block_attr({"auto_copy": 1, "vector_bytes": 16})
    ...             for i, j in T.grid(16, 32):
    ...                 s[i, j] = A[i, j]
    ...         with T.block("store"):
    ...             T.block_attr({"auto_copy": 1, "vector_bytes": 16})
    ...             for i, j in T.grid(16, 32):
    ...                 B[j, i] = s[i, j]
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((16, 32), "float32"), B: T.Buffer((32, 16), "float32")):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            s = T.alloc_buffer((16, 36), scope="shared")
            with T.block("load"):
                T.reads(A[0:16, 0:32])
                T.writes(s[0:16, 0:32])
                for turn in range(4):
                    for lane in T.vectorized(4):
                        s[turn * 4 + tx // 8, tx % 8 * 4 + lane] = A[turn * 4 + tx // 8, tx % 8 * 4 + lane]
            with T.block("store"):
                T.reads(s[0:16, 0:32])
                T.writes(B[0:32, 0:16])
                for turn in range(16):
                    B[turn * 2 + tx // 16, tx % 16] = s[tx % 16, turn * 2 + tx // 16]
    """

    name = ORIGIN
    stage = Stage.OPAQUE
    needs = (Fact.AXES_APART,)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Lower the marked copies of a function."""
        conflicts = Conflicts()
        body = _Lowerer(func, conflicts).visit(func.body)
        padding = conflicts.choose(func)
        if padding:
            # The strides of what was generated are those of the longer rows: once more, with these.
            wider = padded(func, padding)
            body = _Lowerer(wider, Conflicts()).visit(wider.body)
        return func.with_body(body)
