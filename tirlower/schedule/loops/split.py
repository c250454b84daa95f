"""``split``: a loop becomes a nest of loops with the same iterations in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from tirlower.arith import Analyzer
from tirlower.diagnostics import BadArgument
from tirlower.ir import build
from tirlower.ir.data import may_be_data
from tirlower.ir.expr import Expr, IntImm, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.query import each
from tirlower.ir.stmt import Block, For, ForKind, Stmt
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.rewrite import loop_nests
from tirlower.schedule.annotations import shared_out
from tirlower.schedule.bindings import forward_predicated, predicated, with_simple_bindings
from tirlower.schedule.expressions import expression, names_at
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.loops.bounds import bounds_stay
from tirlower.schedule.sites import Change, Edit, Forward
from tirlower.schedule.step import Step

__all__ = ["SPLIT", "factors_of"]


def factors_of(step: Step, dtype: str) -> list[Expr | None]:
    """The factors of a step as expressions; None for the one that is inferred."""
    given, site = step["factors"], step.site(step.handle("loop"))
    assert isinstance(given, (list, tuple))
    found: list[Expr | None] = []
    for factor in given:
        value = step.number(factor)
        if isinstance(value, str):
            value = expression(value, names_at(step.func(site), site.steps))
            value = value.value if isinstance(value, IntImm) else value
        if value is None or value == -1:
            found.append(None)
        elif isinstance(value, int):
            if value <= 0:
                raise BadArgument(f"All the constant factors are required to be positive, got {value}")
            if value >> 31 and dtype == "int32":
                raise BadArgument(f"the factor {value} does not fit the loop's type {dtype}")
            found.append(const(value, dtype))
        else:
            assert isinstance(value, Expr)
            found.append(build.cast(dtype, value))
    if not found:
        raise BadArgument("a loop is split by one factor at least")
    if found.count(None) > 1:
        raise BadArgument("at most one factor is None: it is what the others leave")
    return found


def _check(step: Step) -> Verdict:
    loop = step.loop(step.handle("loop"))
    if loop.kind is ForKind.THREAD_BINDING:
        step.refuse(f"the loop is bound to {loop.thread_tag}", loop, "bind after splitting")
    if step.facts.leaves(loop):
        step.refuse("a statement leaves the loop early, which would leave the inner loop alone", loop)
    bounds_stay(step, [loop])
    factors, dtype = factors_of(step, str(loop.loop_var.dtype)), loop.loop_var.dtype
    names = step["names"]
    assert names is None or isinstance(names, (list, tuple))
    if names is not None and len(names) != len(factors):
        raise BadArgument(f"{len(factors)} factors make as many loops, got {len(names)} names")
    analyzer = step.analyzer(step.site(step.handle("loop")))
    known = [factor for factor in factors if factor is not None]
    for factor in known:
        if not isinstance(factor, IntImm) and not analyzer.can_prove(build.ge(factor, const(1, dtype))):
            step.refuse(f"the factor {factor} is not known to be positive", loop, "state it with T.assume(…)")
    product = reduce(build.mul, known, const(1, dtype))
    _fits(step, loop, product, analyzer, inferred=None in factors)
    exact = build.eq(build.floormod(loop.extent, product), 0) if None in factors else build.eq(loop.extent, product)
    if step["disable_predication"] and not analyzer.can_prove(exact):
        wanted = f"a multiple of {product}" if None in factors else f"{product}"
        reason = f"the extent {loop.extent} is not known to be {wanted}"
        if step.policy.unchecked or not step.policy.enable_check:
            return Verdict("unknown", reason)
        step.refuse(
            reason,
            loop,
            "leave disable_predication=False: the iterations that there are not are then left out by a condition",
        )
    return PROVED


def _fits(step: Step, loop: For, product: Expr, analyzer: Analyzer, inferred: bool) -> None:
    """Refuse factors that do not reach the extent, or whose loops would count past the type of the loop."""
    most = (1 << (loop.loop_var.dtype.bits - 1)) - 1
    reach = analyzer.const_int_bound(build.cast("int64", product)).max_value
    longest = analyzer.const_int_bound(build.cast("int64", loop.extent)).max_value
    if not inferred:
        if not analyzer.can_prove(build.ge(product, loop.extent)):
            raise BadArgument(
                f"The product of factors is not larger than or equal to the extent of loop `{loop.loop_var.name}`: "
                f"{product} < {loop.extent}",
                help="let one factor be None",
            )
    elif isinstance(loop.extent, IntImm) and reach + longest > most:
        raise BadArgument(
            f"the factors {product} and the extent {loop.extent} do not fit {loop.loop_var.dtype} together"
        )
    if reach > most:
        raise BadArgument(f"the product of the factors, {product}, does not fit {loop.loop_var.dtype}")


def _wraps(step: Step, loop: For, factors: Sequence[Expr | None], func: PrimFunc, analyzer: Analyzer) -> bool:
    """Whether the extent is a number of the caller's, or from memory, which may come near the end of its type."""
    dtype = loop.extent.dtype
    if isinstance(loop.extent, IntImm) or not may_be_data(loop.extent, func.params, func.buffers):
        return False
    known = reduce(build.mul, [factor for factor in factors if factor is not None], const(1, dtype))
    ends = (analyzer.const_int_bound(build.cast("int64", each)).max_value for each in (loop.extent, known))
    return sum(ends) > dtype.max_value


def _rewrite(step: Step) -> Change:
    handle = step.handle("loop")
    loop, site = step.loop(handle), step.site(handle)
    factors, names = factors_of(step, str(loop.loop_var.dtype)), step["names"]
    assert names is None or isinstance(names, (list, tuple))
    bodies: list[Stmt] = []

    def guard(body: Stmt, condition: Expr) -> Stmt:
        if step["disable_predication"]:
            return body
        bodies.append(predicated(body, condition))
        return bodies[-1]

    analyzer = step.analyzer(site)
    wraps = _wraps(step, loop, factors, step.func(site), analyzer)
    made = loop_nests.split(loop, factors, analyzer, [str(name) for name in names or ()], guard, wraps)
    parts: list[For] = []
    inner: Stmt = made
    for _ in factors:
        assert isinstance(inner, For)
        parts.append(inner)
        inner = inner.body
    annotations = shared_out(loop, parts)
    made = loop_nests.nest([part.with_(annotations=own) for part, own in zip(parts, annotations, strict=True)], inner)
    simple: Stmt = made
    if any(True for _ in each(Block, loop)):
        simple = with_simple_bindings(made, step.ranges(site), step.analyzer(site), bool(step["preserve_unit_iters"]))
    loops: list[Stmt] = []
    body: Stmt = simple
    for _ in factors:
        assert isinstance(body, For)
        loops.append(body)
        body = body.body
    forward = Forward()
    if bodies:
        forward_predicated(forward, loop.body, body)
    else:
        forward.like(loop.body, body)
    forward.end(loop, *loops)
    value, stride = loop.min, const(1, loop.loop_var.dtype)
    for one in reversed(loops):
        assert isinstance(one, For)
        value, stride = build.add(value, build.mul(one.loop_var, stride)), build.mul(stride, one.extent)
    return Change(Edit(site, simple), forward, tuple(loops), relabel={loop.loop_var: value})


SPLIT = Kind(
    "Split",
    "split",
    (
        Slot("loop", Takes.LOOP),
        Slot("factors", Takes.FACTOR, many=True),
        Slot("preserve_unit_iters", Takes.FLAG, default=True, attr=True),
        Slot("disable_predication", Takes.FLAG, default=False, attr=True),
        Slot("names", Takes.NAMES, default=None, many=False, extra=True),
    ),
    _rewrite,
    """Split a loop into a nest of loops with the same iterations in the same order; always legal.

    ``factors``: how often each of the new loops runs, the outermost first; one of them may be None, and is what the
    others leave. Where the product is not the extent, a condition leaves out what is too much: in the predicates of
    blocks, else in an ``if``. ``preserve_unit_iters=False`` takes loops of one iteration out of bindings;
    ``disable_predication=True`` is taken where no condition is needed, or on your word. ``names``: of the new loops, instead of ``i_0``,
    ``i_1`` …. Returns the new loops.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((10,), "int32")):
    ...     for i in range(10):
    ...         A[i] = i
    ... '''))
    >>> i_0, i_1 = sch.split(sch.loop("i"), [None, 4])
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((10,), "int32")):
        for i_0, i_1 in T.grid(3, 4):
            if i_0 * 4 + i_1 < 10:
                A[i_0 * 4 + i_1] = i_0 * 4 + i_1
    """,
    check=_check,
    returns="many",
)
