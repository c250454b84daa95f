"""``materialize``: what has a name gets memory of its own."""

from __future__ import annotations

from tirlower.diagnostics import BadArgument
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import BufferLoad, const
from tirlower.ir.functor import substitute
from tirlower.ir.path import Path
from tirlower.ir.query import each, mentions
from tirlower.ir.stmt import AllocBuffer, Bind, Block, BufferStore, For, Seq, Stmt
from tirlower.poly.affine import limits_of
from tirlower.schedule.handles import Handle
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.lookups import function_of
from tirlower.schedule.places import own_name
from tirlower.schedule.sites import Change, Edit, Forward, Site
from tirlower.schedule.step import Step

__all__ = ["MATERIALIZE", "binding"]


def binding(step: Step) -> tuple[Site, Seq, int, Bind]:
    """The one binding of the name: its sequence with its place, and its number there."""
    name, at = str(step["name"]), step["at"]
    site = step.site(at) if isinstance(at, Handle) else Site(function_of(step.state), ("body",))
    root = Path(site.steps).chain(step.func(site))[-1]
    assert isinstance(root, Stmt)
    found = [(way, one) for way, one in step.facts.inside(root) if isinstance(one, Bind) and one.var.name == name]
    if len(found) != 1:
        raise BadArgument(
            f"{len(found)} bindings of the name {name!r}", help="say in which loop with at=" if found else ""
        )
    [(way, bind)] = found
    steps = (*site.steps, *way[:-2])  # it stands in a sequence, by a number
    seq, number = Path(steps).chain(step.func(site))[-1], way[-1]
    assert isinstance(seq, Seq) and isinstance(number, int)
    return Site(site.func, steps), seq, number, bind


def _rewrite(step: Step) -> Change:
    site, seq, number, bind = binding(step)
    rest = seq.stmts[number + 1 :]
    if not bind.var.dtype.is_scalar or bind.var.dtype.is_handle:
        step.refuse(f"{bind.var.name} has the type {bind.var.dtype}: an element of memory has none such", bind)
    if not bind.var.dtype.is_float and not _fits(step, site, bind):
        step.refuse(f"{bind.value} may not fit {bind.var.dtype}: as an index it is exact, and memory wraps", bind)
    shapes = [
        part
        for one in each((For, AllocBuffer, Block), *rest)
        for part in (
            (one.min, one.extent) if isinstance(one, For)
            else one.buffer.shape if isinstance(one, AllocBuffer)
            else (*one.iters, *one.reads, *one.writes, *one.match_buffers)
        )
    ]  # fmt: skip
    if any(mentions(part, (bind.var,)) for part in shapes):
        step.refuse(f"a loop, a shape or a block is stated with {bind.var.name}", bind)
    buffer = Buffer(
        own_name(step.facts, step.func(site), bind.var.name, bind.var), (const(1),), bind.var.dtype, scope="local"
    )
    first = (const(0),)
    load = {bind.var: BufferLoad(buffer, first)}
    forward = Forward()
    forward.end(bind)
    made: list[Stmt] = []
    for one in rest:
        new = substitute(one, load)
        forward.like(one, new)
        made.append(new)
    new = Seq((*seq.stmts[:number], AllocBuffer(buffer), BufferStore(buffer, bind.value, first), *made))
    forward.keep(seq, new)
    return Change(Edit(site, new), forward, relabel={})


def _fits(step: Step, site: Site, bind: Bind) -> bool:
    """Whether an integer is proved to be one of its type."""
    bound = step.analyzer(site).const_int_bound(bind.value)
    low, high = limits_of(bind.var.dtype)
    return low <= bound.min_value and bound.max_value <= high


MATERIALIZE = Kind(
    "Materialize",
    "materialize",
    (Slot("name", Takes.STRING, attr=True), Slot("at", Takes.PLACE, default=None)),
    _rewrite,
    """Store a value that has a name in memory of its own, an element, and load it where the name stood. The opposite
    of ``bind_expr``: ``expand`` may give it a dimension then, so that statements which share the value part from each other.
    The memory has the name, with a number where other memory has it.

    ``at``: in a loop or block, where there are several of the name. Refused where a loop's bounds, a shape or a block are stated
    with it, and for integers that are not proved to fit their type: as indices they are exact.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
    ...     for i in range(8):
    ...         x = A[i] + T.float32(1)
    ...         C[i] = x * x
    ... '''))
    >>> sch.materialize("x")
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")):
        for i in range(8):
            x = T.alloc_buffer((1,), scope="local")
            x[0] = A[i] + T.float32(1)
            C[i] = x[0] * x[0]
    """,
    tvm=False,
)
