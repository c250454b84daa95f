"""Block forms: ``T.block``, its axes, regions, predicate, annotations and initialisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from tirlower.diagnostics import ScriptError, Span, TirError
from tirlower.ir import build
from tirlower.ir.block_builder import Domain
from tirlower.ir.buffer import BufferRegion, IterKind, IterVar, Range
from tirlower.ir.expr import Expr, ExprLike, Var, as_expr, const
from tirlower.ir.regions import block_access_regions
from tirlower.ir.stmt import Block, BlockIter, Stmt
from tirlower.script.builder import BlockState, Builder
from tirlower.script.forms import Frame, as_region, is_number
from tirlower.script.scope import active

__all__ = ["axis", "block", "block_attr", "implicit_root", "init", "reads", "where", "writes"]


class _BlockFrame(Frame):
    __slots__ = ("name", "state")
    what = "T.block"

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    @property
    def runs(self) -> str:
        """Under a predicate, perhaps."""
        return "always" if self.state.predicate is None else "perhaps"

    def begin(self, builder: Builder, name: str | None) -> None:
        builder.need_function(self.what).has_block = True
        self.state = BlockState(self.name)
        builder.open(self.state)

    def end(self, builder: Builder) -> None:
        state = self.state
        body = builder.close()
        made = Block(
            state.name,
            tuple(state.iters),
            True if state.predicate is None else state.predicate,  # type: ignore[arg-type]
            state.reads,  # type: ignore[arg-type]  # None until inferred below
            state.writes,  # type: ignore[arg-type]
            state.init,
            tuple(state.matches),
            state.annotations,
            body,
            span=self.span,
        )
        if state.reads is None or state.writes is None:
            made = _infer(made, builder, self.span)
        if builder.flow is not None and (state.reads is not None or state.writes is not None):
            made = _with_variables(made, builder)
        builder.emit(made)


def _infer(made: Block, builder: Builder, span: Span | None) -> Block:
    func = builder.need_function("T.block")
    found = block_access_regions(made, func.data_buffers)
    if found.opaque:
        names = ", ".join(sorted(buffer.name for buffer in found.opaque))
        missing = " and ".join(
            name for name, value in (("T.reads", made.reads), ("T.writes", made.writes)) if value is None
        )
        raise ScriptError(
            f"block {made.name!r} uses {names} through its data pointer, so what it accesses cannot be inferred",
            span=span,
            help=f"state {missing} in the block",
        )
    if made.reads is None:
        made = made.with_(reads=found.reads)
    return made.with_(writes=found.writes) if made.writes is None else made


def _with_variables(made: Block, builder: Builder) -> Block:
    """Regions that a script states speak of its buffers: those of its variables are added to them."""
    assert builder.flow is not None
    own = {variable.buffer for variable in builder.flow.variables}
    if not own:
        return made
    found = block_access_regions(made, builder.need_function("T.block").data_buffers)

    def added(stated: Sequence[BufferRegion], all_of: Sequence[BufferRegion]) -> tuple[BufferRegion, ...]:
        known = {region.buffer for region in stated}
        return (*stated, *[r for r in all_of if r.buffer in own and r.buffer not in known])

    return made.with_(reads=added(made.reads, found.reads), writes=added(made.writes, found.writes))


def block(name: str = "", no_realize: bool = False, **_: object) -> Frame:
    """A block: ``with T.block("C"):``. Missing reads and writes are inferred at its end."""
    return _BlockFrame(str(name))


class _InitFrame(Frame):
    __slots__ = ("block",)
    what = "T.init"

    @property
    def runs(self) -> str:
        """In the first step of the reduction."""
        return "perhaps"

    def begin(self, builder: Builder, name: str | None) -> None:
        self.block = builder.need_block("T.init()")
        if self.block.init is not None:
            raise TirError(f"block {self.block.name!r} has an init already")
        builder.open()

    def end(self, builder: Builder) -> None:
        self.block.init = builder.close()


def init() -> Frame:
    """The initialisation of a reduction block: ``with T.init():``."""
    return _InitFrame()


def where(predicate: ExprLike, *choices: object) -> None:
    """The condition under which an instance of the block exists. Raises :class:`TirError` where it has one."""
    if choices:
        raise TirError(
            "T.where(condition) is the condition of a block, and takes nothing else",
            help="choose by T.if_then_else(condition, yes, no), or by T.Select, which evaluates both",
        )
    state = active("T.where").need_block("T.where")
    _only_once("T.where", state, state.predicate, "join the conditions: T.where(T.And(a, b))")
    state.predicate = build.as_bool(predicate)


def _only_once(what: str, state: BlockState, before: object, help: str) -> None:
    if before is not None:
        raise TirError(f"block {state.name!r} has two {what}", help=help)


def _regions(args: Sequence[object], what: str) -> list[BufferRegion]:
    flat: list[object] = []
    for arg in args:
        flat += arg if isinstance(arg, (list, tuple)) else [arg]
    return [as_region(arg, what) for arg in flat]


def reads(*regions: object) -> None:
    """The regions that the block reads; none at all when there is no argument."""
    state = active("T.reads").need_block("T.reads")
    _only_once("T.reads", state, state.reads, "state all regions in one")
    state.reads = _regions(regions, "T.reads")


def writes(*regions: object) -> None:
    """The regions that the block writes; none at all when there is no argument."""
    state = active("T.writes").need_block("T.writes")
    _only_once("T.writes", state, state.writes, "state all regions in one")
    state.writes = _regions(regions, "T.writes")


def block_attr(attrs: Mapping[str, object]) -> None:
    """Annotations of the block."""
    state = active("T.block_attr").need_block("T.block_attr")
    if not isinstance(attrs, Mapping):
        raise TirError(f"T.block_attr takes a dictionary, got {type(attrs).__name__}")
    _only_once("T.block_attr", state, state.annotations or None, "put all annotations into one dictionary")
    state.annotations.update(attrs)


def _domain(dom: Domain, binding: ExprLike | None) -> Range:
    """The domain of an axis: an extent, a pair (start, stop) or a Range; a literal takes the binding's dtype."""
    like = None
    if isinstance(binding, (Expr, IterVar)) and as_expr(binding).dtype.is_integral:
        like = as_expr(binding)

    def bound(value: ExprLike) -> Expr:
        if isinstance(value, bool) or not isinstance(value, int):
            return as_expr(value)
        return as_expr(value) if like is None else const(value, like.dtype)

    if isinstance(dom, Range):
        return dom
    if isinstance(dom, (tuple, list)):
        if len(dom) != 2:
            raise TirError(f"the domain of an axis is an extent or a pair (start, stop), got {dom!r}")
        start, stop = build.match_types(bound(dom[0]), bound(dom[1]))
        return Range(start, build.sub(stop, start))
    extent = bound(dom)
    if not extent.dtype.is_integral:
        raise TirError(f"the extent of an axis is an integer, got {extent.dtype!s}: {extent}", span=extent.span)
    return Range(const(0, extent.dtype), extent)


def _add_axis(what: str, kind: IterKind, dom: Domain, binding: ExprLike | None) -> Var:
    builder = active(what)
    state = builder.need_block(what)
    domain = _domain(dom, binding)
    var = Var("", domain.extent.dtype, span=builder.here())
    value: Expr | None = None
    if binding is not None:
        value = const(binding, var.dtype) if is_number(binding) else as_expr(binding)
        if not value.dtype.is_integral:
            raise TirError(f"the binding of an axis is an integer, got {value.dtype!s}: {value}", span=value.span)
        if value.dtype is not var.dtype:
            value = build.cast(var.dtype, value)
    state.iters.append(BlockIter(var, domain, kind, value, span=builder.here()))
    return var


Binding: TypeAlias = Expr | IterVar
_KINDS = {"S": IterKind.SPATIAL, "R": IterKind.REDUCE, "O": IterKind.OPAQUE, "C": IterKind.SCAN}


class _Axis:
    """``T.axis``: the iterators of a block."""

    def spatial(self, dom: Domain, binding: ExprLike | None = None, dtype: object = None) -> Var:
        """An iterator whose instances are independent."""
        return _add_axis("T.axis.spatial", IterKind.SPATIAL, dom, binding)

    def reduce(self, dom: Domain, binding: ExprLike | None = None, dtype: object = None) -> Var:
        """An iterator over which the block reduces."""
        return _add_axis("T.axis.reduce", IterKind.REDUCE, dom, binding)

    def scan(self, dom: Domain, binding: ExprLike | None = None, dtype: object = None) -> Var:
        """An iterator whose instances run in order."""
        return _add_axis("T.axis.scan", IterKind.SCAN, dom, binding)

    def opaque(self, dom: Domain, binding: ExprLike | None = None, dtype: object = None) -> Var:
        """An iterator of which nothing is known."""
        return _add_axis("T.axis.opaque", IterKind.OPAQUE, dom, binding)

    S = spatial
    R = reduce

    def remap(
        self, kinds: str, bindings: Binding | list[Binding] | tuple[Binding, ...], dtype: object = None
    ) -> Var | list[Var]:
        """Iterators bound to loops one by one, each with its loop's range: ``T.axis.remap("SSR", [i, j, k])``.

        Returns a list of variables, or the variable when there is one.
        """
        builder = active("T.axis.remap")
        func = builder.need_function("T.axis.remap")
        values = list(bindings) if isinstance(bindings, (list, tuple)) else [bindings]
        if len(kinds) != len(values):
            raise TirError(f"T.axis.remap has {len(kinds)} kinds {kinds!r} for {len(values)} loops")
        made: list[Var] = []
        for letter, value in zip(kinds, values, strict=True):
            kind = _KINDS.get(letter)
            if kind is None:
                raise TirError(
                    f"T.axis.remap knows the kinds S (spatial) and R (reduce), got {letter!r} in {kinds!r}",
                    help="use T.axis.scan or T.axis.opaque for other axes",
                )
            var = value.var if isinstance(value, IterVar) else value
            domain = func.loops.get(var) if isinstance(var, Var) else None
            if domain is None:
                raise TirError(
                    f"T.axis.remap binds loop variables, got {value}",
                    help="use T.axis.spatial(extent, value) to bind an expression",
                )
            iterator = Var("", var.dtype, span=builder.here())
            builder.need_block("T.axis.remap").iters.append(BlockIter(iterator, domain, kind, var, span=builder.here()))
            made.append(iterator)
        return made[0] if len(made) == 1 else made

    def __repr__(self) -> str:
        return "T.axis"


axis = _Axis()


def implicit_root(body: Stmt) -> bool:
    """Whether a function's body that contains blocks needs the root block around it."""
    return not (isinstance(body, Block) and not body.iters)
