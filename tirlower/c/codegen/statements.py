"""Statements as C text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from tirlower.c.codegen.arithmetic import INDEX, arithmetic
from tirlower.c.codegen.calls import to_bits
from tirlower.c.codegen.expressions import at_lane, begin, define_as, for_lanes, index_of, value_of
from tirlower.c.codegen.indices import is_narrow
from tirlower.c.codegen.memory import allocate, constant, place_of, store_lane
from tirlower.c.codegen.state import FunctionState, Loop
from tirlower.c.codegen.values import UNARY, Kind, Value, int_literal, kind_of, type_range, value_type
from tirlower.call.errors import MAX_ERROR_VALUES, escape_template
from tirlower.diagnostics import RuntimeAssertError
from tirlower.ir.expr import Add, BufferLoad, Call, Expr, IntImm, StringImm, Var, is_const_int
from tirlower.ir.failure_message import failure_of
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.op import Op
from tirlower.ir.stmt import (
    AllocBuffer,
    AllocConst,
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

__all__ = ["write_scope"]

_RET: Final = Op.get("tir.ret")
_THREAD_RETURN: Final = Op.get("tir.thread_return")
_JUMPS: Final = {Op.get("tir.break_loop"): "break", Op.get("tir.continue_loop"): "continue"}


def write_scope(state: FunctionState, stmt: Stmt) -> bool:
    """Write a statement that is the whole of its scope; whether what follows it is reached."""
    depth = len(state.cleanups)
    reached = _write(state, stmt)
    if reached:
        state.unwind(depth)
    del state.cleanups[depth:]
    return reached


def _write(state: FunctionState, stmt: Stmt) -> bool:
    handler = _STATEMENTS.get(stmt.__class__)
    if handler is None:
        raise state.error(f"{type(stmt).__name__} is no statement that C text can be made of", stmt)
    outer, state.span = state.span, stmt.span or state.span
    reached = handler(state, stmt)
    state.span = outer
    return reached is not False


def _seq(state: FunctionState, op: Seq) -> bool:
    # What a Seq inside of another allocates lives as long as what the outer one does: names are given once.
    return all(_write(state, stmt) for stmt in op.stmts)


# -- stores ----------------------------------------------------------------------------------------------------------


def _store(state: FunctionState, op: BufferStore) -> None:
    predicate = None if op.predicate is None or is_const_int(op.predicate, 1) else op.predicate
    if predicate is not None and is_const_int(predicate, 0):
        return
    begin(state, op.value, predicate, *op.indices)
    lanes = op.value.dtype.lanes
    if lanes > 1 or op.value.dtype.scalable:
        _store_lanes(state, op, predicate)
        return
    if predicate is not None:
        with state.block(f"if ({_predicate(state, op, predicate).text})"):
            _store_one(state, op)
        return
    _store_one(state, op)


def _store_one(state: FunctionState, op: BufferStore) -> None:
    outer = state.lane
    if op.indices and op.indices[-1].dtype.is_vector:
        state.lane = int_literal(0, Kind.I32)
    before, at = state.effects, len(state.lines)
    place = place_of(state, op.buffer, op.indices)
    middle = len(state.lines)
    value = value_of(state, op.value)
    if state.effects != before and len(state.lines) > middle:
        behind, state.lines = state.lines[middle:], state.lines[:middle]
        place = state.spill(place)
        state.lines += behind
    assert at <= middle
    store_lane(state, op.buffer, place, value)
    state.lane = outer


def _predicate(state: FunctionState, op: BufferStore, predicate: Expr) -> Value:
    if not predicate.dtype.is_vector:
        return value_of(state, predicate)
    lane = state.lane or int_literal(0, Kind.I32)
    group = op.buffer.dtype.lanes
    if predicate.dtype.lanes * group == op.value.dtype.lanes and group > 1:
        from_lane = lane.constant
        lane = (
            int_literal(from_lane // group, Kind.I32)
            if from_lane is not None
            else Value(f"{lane.text} / {group}", Kind.I32, UNARY, 0, lane.high // group, 1)
        )
    return at_lane(state, lane, predicate)


def _loads(roots: list[Expr | None]) -> bool:
    found = False

    def look(node: Expr) -> None:
        nonlocal found
        found = found or node.__class__ is BufferLoad or (node.__class__ is Call)

    for root in roots:
        if root is not None:
            pre_order_visit(root, look)
    return found


def _store_lanes(state: FunctionState, op: BufferStore, predicate: Expr | None) -> None:
    """All lanes are computed before the first is stored, unless none of them reads memory."""
    dtype = op.value.dtype
    roots = [op.value, predicate, *op.indices]

    def put(value: Callable[[], Value], place: Callable[[], Value], taken: Callable[[], Value] | None) -> None:
        if taken is None:
            store_lane(state, op.buffer, place(), value())
            return
        with state.block(f"if ({taken().text})"):
            store_lane(state, op.buffer, place(), value())

    def given() -> Value:
        return value_of(state, op.value)

    def where() -> Value:
        return place_of(state, op.buffer, op.indices)

    def active() -> Value:
        assert predicate is not None
        return _predicate(state, op, predicate)

    if not _loads(roots):
        for_lanes(state, dtype, roots, lambda: put(given, where, None if predicate is None else active))
        return
    element = dtype.element
    with state.block(""):
        values, places, flags = state.fresh("values"), state.fresh("places"), state.fresh("flags")
        in_index = _loads([predicate, *op.indices])
        state.line(f"{value_type(element)} {values}[{dtype.lanes}];")
        if in_index:
            state.line(f"int64_t {places}[{dtype.lanes}];")
            if predicate is not None:
                state.line(f"bool {flags}[{dtype.lanes}];")

        def compute() -> None:
            lane = state.lane
            assert lane is not None
            if in_index and predicate is not None:
                state.line(f"{flags}[{lane.text}] = {active().text};")
                state.line(f"{values}[{lane.text}] = 0;")
                state.line(f"{places}[{lane.text}] = 0;")
                with state.block(f"if ({flags}[{lane.text}])"):
                    state.line(f"{places}[{lane.text}] = {where().text};")
                    state.line(f"{values}[{lane.text}] = {given().text};")
                return
            if in_index:
                state.line(f"{places}[{lane.text}] = {where().text};")
            state.line(f"{values}[{lane.text}] = {given().text};")

        def held(name: str, kind: Kind, low: int = 0, high: int = 0) -> Callable[[], Value]:
            return lambda: Value(f"{name}[{state.lane.text}]", kind, low=low, high=high)  # type: ignore[union-attr]

        for_lanes(state, dtype, roots, compute)
        value = held(values, kind_of(element), *type_range(element))
        taken = None if predicate is None else held(flags, Kind.I32, 0, 1) if in_index else active
        place = held(places, Kind.I64, *type_range(INDEX)) if in_index else where
        for_lanes(state, dtype, [] if in_index else [predicate, *op.indices], lambda: put(value, place, taken))


# -- control ---------------------------------------------------------------------------------------------------------


def _evaluate(state: FunctionState, op: Evaluate) -> bool | None:
    value = op.value
    if value.__class__ is not Call:
        if isinstance(value, (IntImm, StringImm, Var)):
            return None
    elif value.op is _RET or value.op is _THREAD_RETURN:
        _return(state, value)
        return False
    elif isinstance(value.op, Op) and value.op in _JUMPS:
        _jump(state, _JUMPS[value.op], value)
        return False
    begin(state, value)
    if value.dtype.is_vector:
        for_lanes(state, value.dtype, [value], lambda: state.line(f"(void){value_of(state, value).inside(UNARY)};"))
        return None
    made = value_of(state, value)
    if made.depth:
        state.line(f"(void){made.inside(UNARY)};")
    return None


def _jump(state: FunctionState, word: str, op: Call) -> None:
    if not state.loops:
        raise state.error(f"`{word}` outside of a loop", op, "only serial and while loops can be left")
    loop = state.loops[-1]
    if word == "break" and loop.parallel:
        raise state.error("`break` cannot leave a parallel loop", op, "make the loop serial")
    state.unwind(loop.cleanups)
    state.line(f"{word};")


def _return(state: FunctionState, op: Call) -> None:
    if any(loop.parallel for loop in state.loops):
        raise state.error("a return from inside a parallel loop", op, "store the result, and return behind the loop")
    if op.args and state.returns is not None:
        (value,) = op.args
        if value.dtype is not state.returns:
            raise state.error(f"`{state.name}` returns {state.returns!s} elsewhere, and {value.dtype!s} here", op)
        begin(state, value)
        state.line(f"*ret = {to_bits(state, value_of(state, value), value.dtype).text};")
    state.leave("0")


def _bind(state: FunctionState, op: Bind) -> None:
    begin(state, op.value)
    define_as(state, op.var, op.value)


def _if(state: FunctionState, op: IfThenElse) -> bool | None:
    if is_const_int(op.condition):
        taken = op.then_case if op.condition.value else op.else_case  # type: ignore[attr-defined]
        if taken is None:
            return None
        with state.block(""):
            return write_scope(state, taken)
    begin(state, op.condition)
    condition = value_of(state, op.condition)
    reached = op.else_case is None
    with state.block(f"if ({condition.text})", "}" if op.else_case is None else "} else {"):
        reached |= write_scope(state, op.then_case)
    if op.else_case is not None:
        state.indent += 1
        known, state.memo = state.memo, dict(state.memo)
        reached |= write_scope(state, op.else_case)
        state.memo = known
        state.indent -= 1
        state.line("}")
    return reached


def _for(state: FunctionState, op: For) -> None:
    if op.kind is ForKind.THREAD_BINDING:
        raise state.error(
            f"the loop over {op.thread_tag or 'threads'} is run by threads of a GPU",
            op,
            "build for a GPU target, or make the loop serial",
        )
    if op.kind is ForKind.VECTORIZED:
        raise state.error("a vectorized loop was not lowered", op, "run ExpandLanes, or use tirlower.build")
    begin(state, op.min, op.extent)
    low, extent = index_of(state, op.min), index_of(state, op.extent)
    if extent.high <= 0:
        return
    stop = arithmetic(state, Add, INDEX, low, extent)
    if stop.constant is None:
        stop = state.spill(stop, hint="stop")
    dtype = op.loop_var.dtype
    least, most = type_range(dtype)
    first, last = max(low.low, least), min(stop.high - 1, most)
    name = state.fresh(op.loop_var.name)
    own = kind_of(dtype)
    fits = (least <= low.low and stop.high <= most and own.signed and stop.kind is own) or (
        stop.constant is not None and least <= low.low and stop.high <= min(most, (1 << 31) - 1) and own.signed
    )
    counter = name if fits else state.fresh(f"{op.loop_var.name}_at")
    ctype = value_type(dtype) if fits else "int64_t"
    with state.block(f"for ({ctype} {counter} = {low.text}; {counter} < {stop.text}; ++{counter})"):
        if not fits:
            state.line(f"const {value_type(dtype)} {name} = ({value_type(dtype)}){counter};")
        state.define(op.loop_var, Value(name, own, low=first, high=max(last, first)))
        state.loops.append(Loop(len(state.cleanups), op.kind is ForKind.PARALLEL))
        write_scope(state, op.body)
        state.loops.pop()


def _while(state: FunctionState, op: While) -> None:
    # As an endless loop that is left: C takes a loop whose condition is no constant, and which does nothing else, to end.
    with state.block("while (1)"):
        begin(state, op.condition)
        condition = value_of(state, op.condition)
        with state.block(f"if (!{condition.inside(UNARY)})"):
            state.line("break;")
        state.loops.append(Loop(len(state.cleanups)))
        write_scope(state, op.body)
        state.loops.pop()


def _assert(state: FunctionState, op: Assert) -> None:
    if is_const_int(op.condition, 1):
        return
    kind, template, shown = _message(state, op)
    begin(state, op.condition)
    condition = value_of(state, op.condition)
    with state.block(f"if (!{condition.inside(UNARY)})"):
        begin(state, *shown)
        # An index past its type is shown as the number that it is.
        values = [((index_of if is_narrow(one) else value_of)(state, one), one.dtype) for one in shown]
        state.fail(kind, template, values, op.span)


def _message(state: FunctionState, op: Assert) -> tuple[type[Exception], str, list[Expr]]:
    """The exception class, the template, and the expressions whose values it formats."""
    stated = failure_of(op.message)
    if stated is not None:
        return stated[0], stated[1], list(stated[2][:MAX_ERROR_VALUES])
    text = op.message.value if isinstance(op.message, StringImm) else str(op.message)
    variables: dict[Var, None] = {}

    def look(node: Expr) -> None:
        if node.__class__ is Var and node.dtype.is_scalar and not node.dtype.is_handle and not node.dtype.is_bool:
            if node.dtype.is_integral or node.dtype.code == "float":
                variables[node] = None

    pre_order_visit(op.condition, look)
    shown = [var for var in variables if var in state.vars][:4]
    template = escape_template(text)
    if shown:
        pairs = [f"{escape_template(var.name)} = {{{i}}}" for i, var in enumerate(shown)]
        template += f" ({', '.join(pairs)})"
    return RuntimeAssertError, template, list(shown)


def _block(state: FunctionState, op: Block) -> None:
    raise state.error(
        f"the block {op.name!r} was not lowered",
        op,
        "run ConvertBlocksToOpaque and LowerOpaqueBlock before code generation, or use tirlower.build",
    )


def _decl(state: FunctionState, op: DeclBuffer) -> None:
    state.lookup(op.buffer.data, op.span)


def _attr(state: FunctionState, op: AttrStmt) -> bool:
    return write_scope(state, op.body)


_STATEMENTS: Final = cast(
    "dict[type, Callable[[FunctionState, Stmt], bool | None]]",
    {
        Seq: _seq,
        For: _for,
        While: _while,
        IfThenElse: _if,
        BufferStore: _store,
        Bind: _bind,
        AllocBuffer: allocate,
        AllocConst: constant,
        DeclBuffer: _decl,
        Evaluate: _evaluate,
        Assert: _assert,
        AttrStmt: _attr,
        Block: _block,
    },
)
