"""DefaultGPUSchedule: thread bindings for functions without any."""

from __future__ import annotations

from tirlower.analysis.purity import side_effect
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import IterKind, Range
from tirlower.ir.dtype import INT32, INT64, DataType
from tirlower.ir.expr import Call, Expr, IntImm, Var, const, is_const_int
from tirlower.ir.failure_message import failure
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator, pre_order_visit
from tirlower.ir.node import Node
from tirlower.ir.op import GlobalVar, Op, Purity
from tirlower.ir.query import mentions, nodes, statements
from tirlower.ir.splice import jumps_out, returns
from tirlower.ir.stmt import (
    AllocBuffer,
    Assert,
    Block,
    BlockIter,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    Seq,
    Stmt,
    While,
)
from tirlower.ir.structural import structural_equal
from tirlower.machine.target import Target
from tirlower.poly import Scop, extract, is_parallel
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.fact_mutator import know_shapes
from tirlower.rewrite.loop_nests import bind, fuse, nest, nested, split
from tirlower.rewrite.scalar_overflow import analyzer_of, scalars_wrap
from tirlower.rewrite.touched_regions import relaxed_by_scope

__all__ = ["DefaultGPUSchedule"]

SCHEDULED = "tir.is_scheduled"
"""The attribute of functions that have their thread bindings."""
MAX_BLOCKS = 256
"""The number of blocks over which larger or symbolic extents are spread; each then has a loop of its own."""
_HOST_CALLS = frozenset(
    Op.get(f"tir.{name}")
    for name in ("tvm_call_packed", "tvm_call_cpacked", "tvm_call_packed_lowered", "tvm_call_cpacked_lowered")
)


def _is_host_call(op: Node) -> bool:
    return isinstance(op, Call) and (isinstance(op.op, GlobalVar) or op.op in _HOST_CALLS)


def _on_device(op: Stmt) -> bool:
    """Whether a statement can run on a device as a whole: no thread loop is in it, nothing leaves it or calls the host."""
    return not (returns(op) or jumps_out(op)) and not any(
        _is_host_call(part) or (isinstance(part, For) and part.kind is ForKind.THREAD_BINDING) for part in nodes(op)
    )


def _uses(op: Stmt, data: Var) -> bool:
    """Whether a statement reads or writes the memory of a data variable."""
    return any(part is data or getattr(getattr(part, "buffer", None), "data", None) is data for part in nodes(op))


def _shares(op: Stmt) -> bool:
    """Whether a statement allocates memory that the threads of a block would share: each iteration has its own, and so
    is a block."""
    scopes = {part.buffer.scope for part in statements(op) if isinstance(part, AllocBuffer)} - {"global"}
    return any(relaxed_by_scope(scope, "threadIdx.x") for scope in scopes)


def _is_leaf(block: Block) -> bool:
    """Whether a block holds no loop and no other block, and does something."""
    inside = [op for op in statements(block) if op is not block]
    if any(isinstance(op, (Block, For, While, AllocBuffer)) for op in inside):
        return False
    return any(isinstance(op, (BufferStore, Evaluate)) for op in inside)


def _reads_others(block: Block) -> bool:
    """Whether a block reads elements of a buffer that it writes elsewhere: its instances are then not independent."""
    for write in block.writes:
        for read in block.reads:
            if read.buffer.data is write.buffer.data and not structural_equal(read, write):
                return True
    return False


class _Scheduler(StmtMutator):
    """Walks the statements that the host runs; each loop nest among them becomes a kernel."""

    def __init__(self, func: PrimFunc, threads: int) -> None:
        self.func = func
        self.threads = threads
        self.scop: Scop | None = None
        self.axes: dict[tuple[str, DataType], Var] = {}
        pre_order_visit(func.body, self.note_axis)

    def note_axis(self, op: Node) -> bool:
        """The loops of one axis in a function share their variable."""
        if isinstance(op, For) and op.kind is ForKind.THREAD_BINDING:
            self.axes.setdefault((str(op.thread_tag), op.loop_var.dtype), op.loop_var)
        return not isinstance(op, Expr)

    # ------------------------------------------------------------ what becomes a kernel

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        return self.alone(op)

    def visit_Seq(self, op: Seq) -> Stmt:
        """Statements that share a scalar of the scope ``local`` are one kernel: such memory does not outlive one."""
        for at, stmt in enumerate(op.stmts):
            if not (isinstance(stmt, AllocBuffer) and stmt.buffer.scope == "local"):
                continue
            last = max((k for k, other in enumerate(op.stmts) if _uses(other, stmt.buffer.data)), default=at)
            inside = [other.buffer.data for other in op.stmts[at:last] if isinstance(other, AllocBuffer)]
            # What is allocated between must end there too.
            while any(_uses(other, data) for data in inside for other in op.stmts[last + 1 :]):
                last = max(k for k, other in enumerate(op.stmts) if any(_uses(other, data) for data in inside))
                inside = [other.buffer.data for other in op.stmts[at:last] if isinstance(other, AllocBuffer)]
            group = Seq(op.stmts[at : last + 1], span=op.span)
            if last == at or not _on_device(group):
                continue
            head, rest = op.stmts[:at], op.stmts[last + 1 :]
            made: list[Stmt] = [self.visit(other) for other in head]
            made.append(self.alone(group))
            if rest:
                tail = self.visit(Seq(rest, span=op.span))
                made += tail.stmts if isinstance(tail, Seq) else [tail]
            return op.with_(stmts=tuple(made)) if len(made) > 1 else made[0]
        return self.generic(op)

    def visit_While(self, op: While) -> Stmt:
        return self.alone(op)

    def visit_Block(self, op: Block) -> Stmt:
        if op.iters or op.init is not None:
            return self.alone(op)
        if _is_leaf(op):
            unit = BlockIter(Var("vu", INT32), Range(const(0), const(1)), IterKind.SPATIAL, const(0))
            made = self.alone(op.with_(iters=(unit,)))
            return made if isinstance(made, For) else op
        return self.generic(op)

    def visit_For(self, op: For) -> Stmt:
        if op.kind is ForKind.THREAD_BINDING:
            return op
        if not _on_device(op):
            return self.generic(op) if not jumps_out(op.body) else op
        chain = self.chain(op)
        leaf = chain[-1].body
        chosen = self.by_block(chain, leaf) if isinstance(leaf, Block) else None
        if chosen is None:
            chosen = self.by_dependence(chain)
        if chosen:
            return self.spread(chain, chosen)
        if self.parallel_below(op):
            # The loop orders what is inside, so that it stays with the host: a kernel for each iteration.
            return op.with_(body=self.visit(op.body))
        return self.alone(op)

    def parallel_below(self, op: For) -> bool:
        """Whether a loop inside can be bound, and nothing between needs the memory of one thread."""
        found, stack = False, list(reversed(list(op.children())))
        while stack:
            part = stack.pop()
            if isinstance(part, AllocBuffer) and part.buffer.scope != "global":
                return False
            if isinstance(part, For):
                found = found or self.parallel(part)
            elif not isinstance(part, Expr):
                stack += reversed(list(part.children()))
        return found

    def chain(self, op: For) -> list[For]:
        """The loops that stand directly in each other."""
        return [op, *nested(op.body, self.plain)[0]]

    @staticmethod
    def plain(op: For) -> bool:
        """A loop whose iterations may be given to threads as far as its kind goes."""
        return op.kind in (ForKind.SERIAL, ForKind.PARALLEL) and not op.annotations and not jumps_out(op.body)

    def by_block(self, chain: list[For], leaf: Block) -> list[For] | None:
        """The loops that are the spatial iterators of a block, where every loop is one of its iterators; else None."""
        kinds = {it.value: it.kind for it in leaf.iters if isinstance(it.value, Var)}
        if len(kinds) != len([it for it in leaf.iters if not isinstance(it.value, IntImm)]):
            return None
        variables = {loop.loop_var for loop in chain}
        if not variables <= set(kinds) or not all(self.plain(loop) for loop in chain):
            return None
        if any(kind not in (IterKind.SPATIAL, IterKind.REDUCE) for kind in kinds.values()):
            return None
        if any(mentions(bound, variables) for loop in chain for bound in (loop.min, loop.extent)):
            return None
        if _reads_others(leaf):
            return None
        return [loop for loop in chain if kinds[loop.loop_var] is IterKind.SPATIAL]

    def by_dependence(self, chain: list[For]) -> list[For]:
        """The outer loops whose iterations are proved independent, and whose extents do not depend on each other."""
        chosen: list[For] = []
        for loop in chain:
            variables = {outer.loop_var for outer in chosen}
            if not self.plain(loop) or mentions(loop.min, variables) or mentions(loop.extent, variables):
                break
            if not self.parallel(loop):
                break
            chosen.append(loop)
        return chosen

    def parallel(self, loop: For) -> bool:
        """Whether a loop's iterations are independent."""
        if self.scop is None:
            self.scop = extract(self.func)
        return is_parallel(self.scop, loop).proved

    # ------------------------------------------------------------ kernels

    def alone(self, op: Stmt) -> Stmt:
        """A statement as a kernel of one thread."""
        if not _on_device(op):
            return op
        return self.launch("u_fused", const(1), const(1), INT32, op, op)

    def axis(self, tag: str, dtype: DataType, name: str) -> Var:
        """The variable of an axis."""
        return self.axes.setdefault((tag, dtype), Var(name, dtype))

    def launch(self, name: str, blocks: Expr, threads: Expr, dtype: DataType, body: Stmt, site: Stmt) -> Stmt:
        """A body in loops over ``blockIdx.x`` and ``threadIdx.x``."""
        for tag, extent, part in (("threadIdx.x", threads, "_1"), ("blockIdx.x", blocks, "_0")):
            var = self.axis(tag, dtype, name + part)
            body = bind(For(var, const(0, dtype), extent, ForKind.SERIAL, None, {}, body, span=site.span), tag)
        return body

    def spread(self, chain: list[For], chosen: list[For]) -> Stmt:
        """The chosen loops fused, split and bound; the others inside, in their order."""
        product = 1
        for loop in chosen:
            product = product * loop.extent.value if isinstance(loop.extent, IntImm) and product else 0
        if any(is_const_int(loop.extent, 0) for loop in chosen):
            return chain[0]
        wide = any(loop.loop_var.dtype.bits > 32 for loop in chosen) or product + MAX_BLOCKS * self.threads >= 1 << 31
        fits: Assert | None = None
        if not wide and not product and scalars_wrap():
            wide = any(side_effect(loop.extent) is not Purity.PURE for loop in chosen)
            fits = None if wide else self.fits(chosen)
        dtype = INT64 if wide else INT32
        analyzer, _ = analyzer_of(self.func)
        know_shapes(analyzer, self.func)
        rest = nest([loop for loop in chain if loop not in chosen], chain[-1].body)
        fused = fuse(chosen, rest, analyzer, dtype).with_(kind=ForKind.SERIAL)
        name = fused.loop_var.name
        most = 1 if _shares(chosen[-1]) else self.threads
        threads = const(min(product, most) if product else most, dtype)
        many = not product or product > most * MAX_BLOCKS
        factors = (None, MAX_BLOCKS, threads) if many else (None, threads)
        names: list[str | Var] = [f"{name}_2"] if many else []
        names += [self.axis("blockIdx.x", dtype, f"{name}_0"), self.axis("threadIdx.x", dtype, f"{name}_1")]
        *rounds, block, thread = nested(split(fused, factors, analyzer, names))[0][: len(names)]
        made = nest([bind(block, "blockIdx.x"), bind(thread, "threadIdx.x"), *rounds], thread.body)
        return made if fits is None else Seq((fits, made))

    def fits(self, chosen: list[For]) -> Assert:
        """The host refuses symbolic extents whose fused index would leave int32, rounded up to whole turns of threads."""
        most = const((1 << 31) - MAX_BLOCKS * self.threads, "int64")
        count: Expr = const(1, "int64")
        within: Expr = const(True, "bool")
        for loop in chosen:
            count = build.mul(count, build.max_(build.cast("int64", loop.extent), const(0, "int64")))
            # One after the other: the product of two numbers of 31 bits does not leave int64.
            within = build.logical_and(within, build.le(count, most))
        names = ", ".join(loop.loop_var.name for loop in chosen)
        sizes = " x ".join(f"{{{at}}}" for at in range(len(chosen)))
        text = f"the loops over {names} have {sizes} iterations, which int32 cannot count together; give their extents as int64"
        return Assert(within, failure("OverflowError", text, *(loop.extent for loop in chosen)), span=chosen[0].span)


def _is_device_function(func: PrimFunc, target: Target) -> bool:
    """Whether kernels call the function: private, bound to the device alone, and of the statements of one thread."""
    if target.host is not None or "global_symbol" in func.attrs:
        return False
    return not any(isinstance(op, Block) for op in statements(func.body))


class DefaultGPUSchedule(FuncPass):
    """Each loop nest of a function for a GPU is bound to blocks and threads, where it is not yet.

    The loops whose iterations are independent are fused and split: into ``blockIdx.x`` and ``threadIdx.x`` with as many
    threads as the target has (``max_num_threads``) or the extents need; where that is more than 256 blocks, or is not
    constant, over 256 blocks, each thread with a loop of its own inside. A guard is added where the extents are not
    divided evenly. Independent are the spatial iterators of a block, which move out of its reductions, and loops
    that are proved to be: TIR's takes blocks only, and fails on other programs. Iterations with memory that the threads of
    a block would share become blocks of one thread. A nest without any such loop becomes a kernel of one thread; where a
    loop inside of it is independent, the outer ones stay with the host.

    Functions with the attribute ``tir.is_scheduled``, or for a target that is no GPU, stay; the others get the
    attribute. Nests with thread loops stay, and so does what calls functions of the host. The target is the function's,
    or the current one: :class:`TransformError` where there is none.

    >>> from tirlower.script import parse
    >>> print(DefaultGPUSchedule()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((30, 100), "float32")):
    ...     T.func_attr({"target": T.target("cuda")})
    ...     for i, j in T.grid(30, 100):
    ...         A[i, j] = T.float32(1)
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((30, 100), "float32")):
        T.func_attr({"target": T.target({"kind": "cuda"}), "tir.is_scheduled": True})
        for i_j_fused_0 in T.thread_binding(3, thread="blockIdx.x"):
            for i_j_fused_1 in T.thread_binding(1024, thread="threadIdx.x"):
                if i_j_fused_0 * 1024 + i_j_fused_1 < 3000:
                    A[(i_j_fused_0 * 1024 + i_j_fused_1) // 100, (i_j_fused_0 * 1024 + i_j_fused_1) % 100] = T.float32(1)
    """

    name = "tir.DefaultGPUSchedule"
    stage = Stage.BLOCK
    needs = (Fact.INITS, Fact.ITERATORS)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Schedule a function."""
        if func.attrs.get(SCHEDULED):
            return func
        bound = func.attrs.get("target") or Target.current()
        if bound is None:
            raise TransformError(
                f"function {func.name!r} has no attribute 'target', and no target is current",
                span=func.span,
                help='run BindTarget first, or use `with Target("nvptx"):`',
            )
        target = Target(bound)
        if not target.is_gpu or _is_device_function(func, target):
            return func
        threads = target.get("max_num_threads", 0) or target.get("max_threads_per_block", 0) or 256
        body = _Scheduler(func, threads).visit(func.body)
        if isinstance(func.body, Block) and not isinstance(body, Block):
            body = Block("root", (), const(True, "bool"), (), (), None, (), {}, body)
        return func.with_body(body).with_attr(SCHEDULED, True)
