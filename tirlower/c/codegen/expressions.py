"""Expressions as C text, with statements in front where an operand may fail, has an effect, or is used more than once.

A node is a value in its own type, where data wraps, or an index, in exact 64-bit arithmetic: the arithmetic of loop
variables and sizes does not overflow, by the rules of the language. A vector is never whole: its nodes are evaluated for
one lane, ``state.lane``, which is the counter of a loop or a number. What is evaluated on one side of a choice only is
captured, so that a failure or an effect in it stays there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, TypeVar, cast

from tirlower.c.codegen.arithmetic import INDEX, arithmetic, compare, convert, divide, extremum, wrapped
from tirlower.c.codegen.indices import IF, composes, is_data, is_narrow, widened
from tirlower.c.codegen.state import Array, FunctionState
from tirlower.c.codegen.values import (
    CHOICE,
    EQUAL,
    LOGIC_AND,
    LOGIC_OR,
    UNARY,
    Kind,
    Value,
    float_literal,
    in_range,
    int_literal,
    kind_of,
    type_range,
    value_type,
)
from tirlower.ir.data import SAME
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    CompareOp,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
    Var,
)
from tirlower.ir.op import GlobalVar, Op, Purity

__all__ = ["CALLS", "begin", "call_rule", "chosen", "for_lanes", "index_of", "needs_numbers", "operands", "value_of"]

_DEEPEST: Final = 12
"""Text nested deeper than this goes into a constant of its own: compilers take only so many parentheses."""

_RANGES: Final = (Add, Sub, Mul)
_DIVISIONS: Final = (Div, Mod, FloorDiv, FloorMod)

E = TypeVar("E", bound=Expr)
Rule = Callable[[FunctionState, Call], Value]
NodeRule = Callable[[FunctionState, E], Value]
CALLS: Final[dict[Op | type, Rule]] = {}
"""How the calls of each operation are written; under ``GlobalVar``, those of the module's functions."""


def call_rule(*names: str | type) -> Callable[[Rule], Rule]:
    """Register the text of a call of operations."""

    def register(rule: Rule) -> Rule:
        CALLS.update({Op.get(f"tir.{name}") if isinstance(name, str) else name: rule for name in names})
        return rule

    return register


def begin(state: FunctionState, *roots: Expr | None) -> None:
    """Forget what was computed, as memory may have changed, and count the uses of what follows."""
    state.memo = {}
    uses: dict[int, int] = {}
    stack: list[Expr] = [root for root in roots if root is not None]
    while stack:
        op = stack.pop()
        count = uses.get(id(op), 0)
        uses[id(op)] = count + 1
        if not count and not op.is_leaf:
            stack += op.children()
    state.uses = uses


# -- values ----------------------------------------------------------------------------------------------------------


def value_of(state: FunctionState, op: Expr) -> Value:
    """A scalar's value, or that of a vector in the current lane."""
    if op.is_leaf:
        return _leaf(state, op)
    key: Hashable = id(op)
    if op.dtype.is_vector:
        if state.lane is None:
            raise state.error(f"a vector where a scalar stands: {op}", op)
        key = (id(op), state.lane.text)
    known = state.memo.get(key)
    if known is not None:
        return known
    rule = _RULES.get(op.__class__)
    if rule is None:
        raise state.error(f"{type(op).__name__} is no expression that C text can be made of", op)
    made = rule(state, op)
    return _kept(state, key, made, op.dtype.element if op.dtype.is_vector else op.dtype, state.uses.get(id(op), 0))


def _kept(state: FunctionState, key: Hashable, made: Value, dtype: DataType | None, uses: int) -> Value:
    if dtype is not None and dtype.code == "void":
        return made
    if made.depth > _DEEPEST or (uses > 1 and made.depth > 0):
        made = state.spill(made, dtype)
    if uses > 1:
        state.memo[key] = made
    return made


def operands(state: FunctionState, ops: Iterable[Expr]) -> list[Value]:
    """The values of operands, in order: what is computed before an effect is computed before it in C too."""
    found: list[tuple[Value, DataType]] = []
    for op in ops:
        before, place = state.effects, len(state.lines)
        value = value_of(state, op)
        if state.effects != before:
            behind, state.lines = state.lines[place:], state.lines[:place]
            found = [(state.spill(old, kind), kind) for old, kind in found]
            state.lines += behind
        found.append((value, op.dtype.element))
    return [value for value, _ in found]


def _leaf(state: FunctionState, op: Expr) -> Value:
    if isinstance(op, IntImm):
        return int_literal(op.value, kind_of(op.dtype))
    if isinstance(op, FloatImm):
        if op.dtype.is_custom:
            raise state.error(f"a constant of the custom type {op.dtype!s}", op, "run LowerCustomDatatypes")
        return float_literal(op.value, op.dtype)
    if isinstance(op, StringImm):
        text = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in op.value.encode())
        return Value(f'(void *)"{text}"', Kind.POINTER, UNARY)
    assert isinstance(op, Var)  # there are no other leaves
    found = state.lookup(op, op.span)
    if isinstance(found, Array):
        if state.lane is None:
            raise state.error(f"the vector `{op.name}` where a scalar stands", op)
        low, high = type_range(found.dtype.element)
        return Value(f"{found.name}[{state.lane.text}]", kind_of(found.dtype.element), low=low, high=high)
    return found


def _arithmetic(state: FunctionState, op: BinaryOp) -> Value:
    kind = op.dtype.element
    if not (kind.is_integral or kind.is_float):
        raise state.error(f"{type(op).__name__} has no meaning on {kind!s}: {op}", op, "convert the operands first")
    cls = op.__class__
    if cls not in _RANGES and is_narrow(op) and not is_data(state, op):
        # What the last 32 bits of indices do not decide is computed on the indices.
        parts = [index_of(state, part) for part in (op.a, op.b)]
        if not all(in_range(part.low, part.high, Kind.I32) for part in parts):
            return wrapped(state, index_of(state, op), kind)
    a, b = operands(state, (op.a, op.b))
    if cls in _DIVISIONS:
        return divide(state, cls, kind, a, b, op.span)
    if cls in (Min, Max):
        return extremum(state, cls, kind, a, b)
    return arithmetic(state, cls, kind, a, b)


def _compare(state: FunctionState, op: CompareOp) -> Value:
    """Indices that may leave 32 bits are compared as numbers: what is proved of them under the condition are these."""
    if not (is_narrow(op.a) and not (is_data(state, op.a) and is_data(state, op.b))):
        a, b = operands(state, (op.a, op.b))
        return compare(op.__class__, a, b)
    a, b = (value_of(state, x) if is_data(state, x) else index_of(state, x) for x in (op.a, op.b))
    return compare(op.__class__, a, b)


def _captured(state: FunctionState, compute: Callable[[], Value]) -> tuple[list[str], Value]:
    """The lines that a value needs in front of it, one level deeper, and the value."""
    outer, known = state.capture(), state.memo
    state.memo = dict(known)
    state.indent += 1
    value = compute()
    state.indent -= 1
    lines, state.lines, state.memo = state.lines, outer, known
    return lines, value


def chosen(
    state: FunctionState, condition: Value, dtype: DataType, then: Callable[[], Value], other: Callable[[], Value]
) -> Value:
    """The one or the other value, of which only that is computed."""
    if condition.constant is not None:
        return then() if condition.constant else other()
    arms = [_captured(state, then), _captured(state, other)]
    a, b = arms[0][1], arms[1][1]
    low, high = min(a.low, b.low), max(a.high, b.high)
    if not arms[0][0] and not arms[1][0]:
        kind = a.kind if a.kind is b.kind else Kind.I64
        text = f"{condition.inside(CHOICE + 1)} ? {a.inside(CHOICE + 1)} : {b.inside(CHOICE + 1)}"
        return Value(text, kind, CHOICE, low, high, 1 + max(a.depth, b.depth))
    made = Value(state.fresh("t"), kind_of(dtype), low=low, high=high)
    ctype = value_type(dtype)
    state.line(f"{ctype}{'' if ctype.endswith('*') else ' '}{made.text};")
    state.line(f"if ({condition.text}) {{")
    for position, (lines, value) in enumerate(arms):
        if position:
            state.line("} else {")
        state.lines += lines
        state.line(f"    {made.text} = {value.text};")
    state.line("}")
    return made


def _logic(state: FunctionState, op: And | Or) -> Value:
    both = op.__class__ is And
    a = value_of(state, op.a)
    lines, b = _captured(state, lambda: value_of(state, op.b))
    if not lines:
        sign, rank = ("&&", LOGIC_AND) if both else ("||", LOGIC_OR)
        text = f"{a.inside(EQUAL)} {sign} {b.inside(EQUAL)}"
        return Value(text, Kind.I32, rank, 0, 1, 1 + max(a.depth, b.depth))
    name = state.fresh("t")
    state.line(f"bool {name} = {a.text};")
    state.line(f"if ({'' if both else '!'}{name}) {{")
    state.lines += lines
    state.line(f"    {name} = {b.text};")
    state.line("}")
    return Value(name, Kind.I32, low=0, high=1)


def _not(state: FunctionState, op: Not) -> Value:
    a = value_of(state, op.a)
    return Value(f"!{a.inside(UNARY)}", Kind.I32, UNARY, 0, 1, a.depth + 1)


def _select(state: FunctionState, op: Select) -> Value:
    condition, a, b = operands(state, (op.condition, op.true_value, op.false_value))
    return chosen(state, condition, op.dtype.element, lambda: a, lambda: b)


def _cast(state: FunctionState, op: Cast) -> Value:
    if op.dtype.is_custom or op.value.dtype.is_custom:
        raise state.error(f"a conversion of a custom type: {op}", op, "run LowerCustomDatatypes")
    if op.dtype.is_int and op.dtype.bits == 64 and is_narrow(op.value) and not is_data(state, op.value):
        return index_of(state, op.value)
    return convert(state, value_of(state, op.value), op.value.dtype, op.dtype)


def _let(state: FunctionState, op: Let) -> Value:
    define_as(state, op.var, op.value)
    return value_of(state, op.body)


def define_as(state: FunctionState, var: Var, value: Expr) -> None:
    """Let a variable be a value from here on."""
    dtype = var.dtype
    data = is_data(state, value)
    if data:
        state.data.add(var)
    if dtype.is_vector:
        name = state.fresh(var.name)
        state.line(f"{value_type(dtype.element)} {name}[{dtype.lanes}];")
        for_lanes(state, dtype, [value], lambda: state.line(f"{name}[{_lane(state)}] = {value_of(state, value).text};"))
        state.define(var, Array(name, dtype))
        return
    indexed = dtype.is_integral and not data and dtype.bits >= 32
    exact = index_of(state, value) if indexed and dtype.is_int else None
    if exact is not None and not in_range(exact.low, exact.high, Kind.I32) and dtype.bits == 32:
        name = state.fresh(var.name)
        state.line(f"const int64_t {name} = {exact.text};")
        wide = Value(name, Kind.I64, low=exact.low, high=exact.high)
        state.define(var, wrapped(state, wide, dtype))
        state.wide[var] = wide
        return
    made = value_of(state, value)
    if indexed:
        made = _exact_name(state, var, value, made)
    else:
        ctype = value_type(dtype)
        name = state.fresh(var.name)
        state.line(f"{ctype}{'' if ctype.endswith('*') else ' '}{name} = {made.text};")
        made = Value(name, kind_of(dtype), low=made.low, high=made.high)
    state.define(var, made)


def _exact_name(state: FunctionState, var: Var, value: Expr, made: Value) -> Value:
    ctype = value_type(var.dtype)
    name = state.fresh(var.name)
    state.line(f"const {ctype} {name} = {made.text};")
    return Value(name, kind_of(var.dtype), low=made.low, high=made.high)


def _call(state: FunctionState, op: Call) -> Value:
    callee = op.op
    if not isinstance(callee, Op):
        state.effects += 1
        return CALLS[GlobalVar](state, op)
    if callee is IF:
        condition = value_of(state, op.args[0])
        then, other = op.args[1], op.args[2]
        return chosen(state, condition, op.dtype.element, lambda: value_of(state, then), lambda: value_of(state, other))
    if callee in SAME:
        return value_of(state, op.args[0])
    rule = CALLS.get(callee)
    if rule is None:
        raise state.error(f"{callee.name} has no form in portable C", op, _remedy(callee))
    made = rule(state, op)
    if callee.purity >= Purity.WRITES:
        state.effects += 1
    return made


def _remedy(op: Op) -> str:
    short = op.short
    if short.startswith(("ptx_", "mma_", "tvm_warp", "tvm_load_matrix", "tvm_store_matrix", "tvm_mma", "tvm_fill")):
        return "it is an operation of GPU threads: build for a GPU target"
    if short in ("tvm_storage_sync", "tvm_thread_allreduce"):
        return "it synchronises GPU threads: build for a GPU target, or lower the thread loops to serial ones"
    if short.startswith("call_llvm"):
        return "build for the target 'llvm', or call a C function by T.call_extern"
    return "build for the target 'llvm'"


# -- lanes -----------------------------------------------------------------------------------------------------------


def _lane(state: FunctionState) -> str:
    assert state.lane is not None
    return state.lane.text


def needs_numbers(roots: Sequence[Expr | None]) -> bool:
    """Whether lanes are picked from vectors by a position that must be known when the text is written."""
    stack: list[Expr] = [root for root in roots if root is not None]
    seen: set[int] = set()
    while stack:
        op = stack.pop()
        if id(op) in seen:
            continue
        seen.add(id(op))
        if op.__class__ is Shuffle or (op.__class__ is Call and getattr(op.op, "short", "") in _BY_NUMBER):
            return True
        stack += op.children()
    return False


_BY_NUMBER: Final = frozenset(("vectorcombine", "reinterpret"))


def for_lanes(state: FunctionState, dtype: DataType, roots: Sequence[Expr | None], body: Callable[[], None]) -> None:
    """Write ``body`` for each lane of a vector type: in a loop, or, where positions must be known, one after another."""
    if dtype.scalable:
        raise state.error(f"portable C has no scalable vectors, such as {dtype!s}", None, "use a fixed number of lanes")
    outer = state.lane
    count = dtype.lanes
    if needs_numbers(roots) or count == 1:
        for lane in range(count):
            state.lane = int_literal(lane, Kind.I32)
            with state.block(""):
                body()
    else:
        name = state.fresh("lane")
        state.lane = Value(name, Kind.I32, low=0, high=count - 1)
        with state.block(f"for (int32_t {name} = 0; {name} < {count}; ++{name})"):
            body()
    state.lane = outer


def at_lane(state: FunctionState, lane: Value, op: Expr, index: bool = False) -> Value:
    """A vector's value (or index) in some lane."""
    outer = state.lane
    state.lane = lane
    made = index_of(state, op) if index else value_of(state, op)
    state.lane = outer
    return made


def lane_arithmetic(state: FunctionState, cls: type, a: Value, b: int) -> Value:
    """The position of another lane: a number where the first is one."""
    if a.constant is not None:
        known: dict[type, int] = {
            Add: a.constant + b,
            Div: a.constant // b if b else 0,
            Mod: a.constant % b if b else 0,
        }
        return int_literal(known[cls], Kind.I32)
    other = int_literal(b, Kind.I32)
    return divide(state, cls, INDEX, a, other) if cls is not Add else arithmetic(state, Add, INDEX, a, other)


def _ramp(state: FunctionState, op: Ramp) -> Value:
    lane = state.lane
    assert lane is not None
    base, stride = operands(state, (op.base, op.stride))
    kind = op.dtype.element
    step = lane if kind_of(kind).signed else wrapped_lane(lane, kind)
    return arithmetic(state, Add, kind, base, arithmetic(state, Mul, kind, step, stride))


def wrapped_lane(lane: Value, kind: DataType) -> Value:
    """A lane's number in an unsigned kind."""
    return int_literal(lane.constant, kind_of(kind)) if lane.constant is not None else lane.cast(kind_of(kind))


def _broadcast(state: FunctionState, op: Broadcast) -> Value:
    inner = op.value.dtype
    if not inner.is_vector:
        return value_of(state, op.value)
    assert state.lane is not None
    return at_lane(state, lane_arithmetic(state, Mod, state.lane, inner.lanes), op.value)


def _shuffle(state: FunctionState, op: Shuffle) -> Value:
    if op.dtype.is_vector:
        assert state.lane is not None and state.lane.constant is not None
        wanted = op.indices[state.lane.constant]
    else:
        (wanted,) = op.indices
    lanes = [(vector, lane) for vector in op.vectors for lane in range(vector.dtype.lanes)]

    def pick(position: int) -> Value:
        vector, lane = lanes[position]
        if not vector.dtype.is_vector:
            return value_of(state, vector)
        return at_lane(state, int_literal(lane, Kind.I32), vector)

    if isinstance(wanted, IntImm):
        return pick(wanted.value)
    kind = op.dtype.element
    name = state.fresh("lanes")
    at = state.spill(index_of(state, wanted))
    values = [pick(position).text for position in range(len(lanes))]
    state.line(f"const {value_type(kind)} {name}[{len(lanes)}] = {{{', '.join(values)}}};")
    low, high = type_range(kind)
    return Value(f"{name}[{at.text}]", kind_of(kind), low=low, high=high)


# -- indices ---------------------------------------------------------------------------------------------------------


def index_of(state: FunctionState, op: Expr) -> Value:
    """An integer in signed 64-bit arithmetic (C text of either signed kind), in the current lane."""
    key = ("index", id(op), state.lane.text if op.dtype.is_vector and state.lane is not None else "")
    known = state.memo.get(key)
    if known is not None:
        return known
    cls, kind = op.__class__, op.dtype.element
    if cls is Ramp and not is_data(state, op):
        assert state.lane is not None
        base, stride = index_of(state, op.base), index_of(state, op.stride)  # type: ignore[attr-defined]
        made = arithmetic(state, Add, INDEX, base, arithmetic(state, Mul, INDEX, state.lane, stride))
    elif cls is Broadcast and not op.value.dtype.is_vector:  # type: ignore[attr-defined]
        made = index_of(state, op.value)  # type: ignore[attr-defined]
    elif kind.is_int and kind.bits >= 32 and cls in (*_RANGES, *_DIVISIONS, Min, Max) and not is_data(state, op):
        a, b = index_of(state, op.a), index_of(state, op.b)  # type: ignore[attr-defined]
        if cls in _RANGES:
            made = arithmetic(state, cls, INDEX, a, b)
        elif cls in _DIVISIONS:
            made = divide(state, cls, INDEX, a, b, op.span)
        else:
            made = extremum(state, cls, INDEX, a, b)
    elif cls is Var and op in state.wide:
        made = state.wide[op]
    elif composes(op) and kind.is_int and not is_data(state, op):
        made = value_of(state, widened(op) if kind.bits == 32 else op)
    elif cls is Cast and _only_widens(op) and not is_data(state, op):  # type: ignore[arg-type]
        made = index_of(state, op.value)  # type: ignore[attr-defined]
    else:
        made = value_of(state, op)
        if not op.dtype.is_integral:
            raise state.error(f"an index is an integer, got {op.dtype!s}: {op}", op)
        if not made.kind.signed:
            made = made.cast(Kind.I64)
            if not in_range(made.low, made.high, Kind.I64):
                made = Value(made.text, Kind.I64, made.rank, *type_range(INDEX), made.depth)
    return _kept(state, key, made, None, state.uses.get(id(op), 0))


def _only_widens(op: Cast) -> bool:
    """Whether a conversion between signed integers changes no value."""
    source, kind = op.value.dtype.element, op.dtype.element
    return kind.is_int and source.is_int and source.bits <= kind.bits


#: node class -> its text; each is called with nodes of its class
_RULES: Final = cast(
    "dict[type, NodeRule[Expr]]",
    {
        **dict.fromkeys((*_RANGES, *_DIVISIONS, Min, Max), _arithmetic),
        **dict.fromkeys((EQ, NE, LT, LE, GT, GE), _compare),
        And: _logic,
        Or: _logic,
        Not: _not,
        Select: _select,
        Cast: _cast,
        Let: _let,
        Call: _call,
        Ramp: _ramp,
        Broadcast: _broadcast,
        Shuffle: _shuffle,
    },
)


def node_rule(kind: type[E], rule: NodeRule[E]) -> None:
    """Register the text of a further kind of nodes."""
    _RULES[kind] = cast("NodeRule[Expr]", rule)
