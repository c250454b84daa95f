"""``non_temporal``: stores that go past the caches, for what nobody reads soon."""

from __future__ import annotations

from tirlower.analysis.streamed import streamed
from tirlower.diagnostics import BadArgument
from tirlower.ir.annotations import NONTEMPORAL
from tirlower.ir.expr import IntImm
from tirlower.ir.stmt import For
from tirlower.machine.processor import Processor
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.memory.staging import buffer_named, no_pointers
from tirlower.schedule.places import allocation_of, reading
from tirlower.schedule.sites import Change, Edit, Forward
from tirlower.schedule.step import Step

__all__ = ["NON_TEMPORAL"]

_MODES = ("store",)


def _loop(step: Step) -> For:
    """The loop, whose stores to the buffer may go past the caches."""
    handle = step.handle("where")
    loop, site = step.loop(handle), step.site(handle)
    func = step.func(site)
    if step["mode"] not in _MODES:
        raise BadArgument(f"mode= is {' or '.join(map(repr, _MODES))}, got {step['mode']!r}")
    buffer = buffer_named(step, func, step["buffer"], site.steps)
    no_pointers(step, func, buffer, ("body",))
    if allocation_of(step.facts, func, buffer) is not None:
        step.refuse(f"{buffer.name} is memory of the function itself, which is read again", loop)
    if buffer.data not in streamed(loop, [buffer.data]):
        step.refuse(f"the loop `{loop.loop_var.name}` does not only store to {buffer.name}", loop)
    readers = reading(step.facts, func, buffer)
    if readers:
        step.refuse(f"{buffer.name} is read again under the same function: it would come from memory", readers[0][1])
    size = buffer.dtype.bits // 8
    for extent in buffer.shape:
        size = size * extent.value if isinstance(extent, IntImm) else 0
    if 0 < size <= Processor.l2:  # the usual one: what is said is the same on every machine
        step.notes.append(
            f"{buffer.name} has {size} bytes, and fits into a cache: whoever reads it next may want it there"
        )
    return loop


def _check(step: Step) -> Verdict:
    _loop(step)
    return PROVED


def _rewrite(step: Step) -> Change:
    loop = _loop(step)
    step.notes[:] = dict.fromkeys(step.notes)
    made, forward = loop.with_(annotations={**loop.annotations, NONTEMPORAL: True}), Forward()
    forward.keep(loop, made)
    return Change(Edit(step.site(step.handle("where")), made), forward)


NON_TEMPORAL = Kind(
    "NonTemporal",
    "non_temporal",
    (
        Slot("where", Takes.LOOP),
        Slot("buffer", Takes.MEMORY, attr=True),
        Slot("mode", Takes.STRING, default="store", attr=True),
    ),
    _rewrite,
    """Let the stores of a loop to an array of the caller go past the caches (``tir.non_temporal``), for what is not read again soon.

    Refused for a buffer that the function reads too, or that the loop does more with than to fill it. The report says so where all of it would fit
    into a cache. Stores to other arrays that the loop only fills go the same way.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((1048576,), "float32"), C: T.Buffer((1048576,), "float32")):
    ...     for i in range(1048576):
    ...         C[i] = A[i] * T.float32(2)
    ... '''))
    >>> sch.non_temporal("i", "C")
    >>> dict(sch.get(sch.loop("i")).annotations)
    {'tir.nontemporal': True}
    """,
    check=_check,
    tvm=False,
)
