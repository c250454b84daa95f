"""A worker's whole life: it enters the roster, waits, takes jobs, helps the launcher, and leaves.

It waits by looking, as long as its *patience* says, and then by sleeping. Patience grows while regions come within
:data:`~tirlower.llvm.parallel.waiting.NAP_MICROSECONDS` of one another, since waking a sleeper costs more than many a
region; it shrinks with each longer silence: a process that calls no kernel does not burn a CPU, and one that calls them
in a row burns no more than it would with regions twice as frequent.
"""

from __future__ import annotations

from typing import Final

from tirlower.emit.llvm_text import I32, I64, PTR, VOID, Builder, null
from tirlower.llvm.parallel import layout as at
from tirlower.llvm.parallel.parts import HASTE, Parts
from tirlower.llvm.parallel.waiting import emit_pause

__all__ = ["define_worker"]

#: Most patience, as a multiple of the pool's SPIN: 2.4 to 7 ms.
_PATIENCE: Final = 8


def define_worker(parts: Parts, name: str) -> None:
    """Define ``void name(i32 generation)``."""
    f = parts.function(name, VOID, [(I32, "generation")])
    entry, arrive, enter, late, idle = (f.block(n) for n in ("entry", "arrive", "enter", "late", "idle"))
    look, claim, spin, pause = (f.block(n) for n in ("look", "claim", "spin", "pause"))
    announce, nap, soon, long, awake = (f.block(n) for n in ("announce", "nap", "soon", "long", "awake"))
    posted, run, ours, others, breath = (f.block(n) for n in ("posted", "run", "ours", "others", "breath"))
    assist, finish, last, rouse = (f.block(n) for n in ("assist", "finish", "last", "rouse"))
    leave, gone = f.block("leave"), f.block("gone")

    b = Builder(f, entry)
    sleepers = b.offset(parts.state, at.SLEEPERS, "sleepers")
    roster = b.offset(parts.state, at.ROSTER, "roster")
    least = parts.load(b, at.SPIN, "monotonic", "least")
    most = b.mul(least, b.i32(_PATIENCE), "most")
    myself = parts.placement.thread_id(b)
    b.br(arrive)
    b.position_at_end(arrive)
    old = b.load(I64, roster, 8, "old", ordering="acquire")
    current = b.trunc(b.lshr(old, b.i64(32)), I32)
    worker = b.trunc(old, I32, "worker")
    mine = b.icmp("eq", current, f.args[0])
    b.cond_br(b.and_(mine, b.icmp("ult", worker, b.i32(at.MAX_THREADS - 1))), enter, late, likely=True)
    b.position_at_end(enter)
    # Nobody posts to a slot before its worker is in the roster, and the last worker took all that was posted to it.
    slot = parts.slot(b, worker)
    post = b.offset(slot, at.SLOT_POST, "post")
    asleep = b.offset(slot, at.SLOT_ASLEEP, "asleep")
    own = {at.SLOT_ASLEEP: b.i32(0), at.SLOT_CPU: b.i32(0), at.SLOT_AVOIDED: b.i32(0), at.SLOT_THREAD: myself}
    for offset, value in own.items():
        b.store(value, b.offset(slot, offset), 4, ordering="monotonic")
    swapped = b.cmpxchg(roster, old, b.add(old, b.i64(1)), "acq_rel", "monotonic")
    thread = b.add(worker, b.i32(1), "thread")
    b.cond_br(b.extract_value(swapped, 1), idle, arrive)

    b.position_at_end(idle)
    patience = b.phi(I32, "patience", [(least, enter)])
    b.br(look)

    b.position_at_end(look)
    mood = b.phi(I32, "mood", [(patience, idle)])
    left = b.phi(I32, "left", [(patience, idle)])
    now = b.load(I32, post, 4, "now", ordering="monotonic")
    b.cond_br(parts.is_posted(b, now), claim, spin)
    b.position_at_end(claim)
    b.cond_br(parts.take(b, slot, now, "acquire"), posted, spin)
    b.position_at_end(spin)
    mood.add(mood, pause)
    left.add(b.sub(left, b.i32(1)), pause)
    b.cond_br(b.icmp("sgt", left, b.i32(0)), pause, announce)
    b.position_at_end(pause)
    emit_pause(b, parts.module.triple)
    b.br(look)

    b.position_at_end(announce)
    b.store(b.i32(1), asleep, 4, ordering="monotonic")
    b.atomicrmw("add", sleepers, b.i32(1), "seq_cst")
    b.fence("seq_cst")
    again = b.load(I32, post, 4, "again", ordering="monotonic")
    b.cond_br(parts.is_posted(b, again), awake, nap)
    b.position_at_end(nap)
    b.call(parts.waiting.nap, [post, again])
    changed = b.icmp("ne", b.load(I32, post, 4, ordering="monotonic"), again)
    b.cond_br(changed, soon, long)
    b.position_at_end(soon)
    more = b.intrinsic("llvm.smin", I32, [b.shl(mood, b.i32(1)), most], [I32])
    b.br(awake)
    b.position_at_end(long)
    less = b.intrinsic("llvm.smax", I32, [b.lshr(mood, b.i32(1)), least], [I32])
    b.call(parts.waiting.wait, [post, again])
    b.br(awake)
    b.position_at_end(awake)
    changed_mood = b.phi(I32, "changed_mood", [(mood, announce), (more, soon), (less, long)])
    b.atomicrmw("sub", sleepers, b.i32(1), "monotonic")
    b.store(b.i32(0), asleep, 4, ordering="monotonic")
    mood.add(changed_mood, awake)
    left.add(changed_mood, awake)
    b.br(look)

    b.position_at_end(posted)
    fn = b.load(PTR, b.offset(slot, at.SLOT_FN), 8, "fn")
    b.cond_br(b.icmp("eq", fn, null()), leave, run, likely=False)
    b.position_at_end(run)
    b.store(parts.placement.current(b), b.offset(slot, at.SLOT_CPU), 4, ordering="monotonic")
    ctx = b.load(PTR, b.offset(slot, at.SLOT_CTX), 8, "ctx")
    end = b.load(I64, b.offset(slot, at.SLOT_END), 8, "end")
    first_end = b.load(I64, b.offset(slot, at.SLOT_FIRST_END), 8, "first_end")
    chunk = b.load(I64, b.offset(slot, at.SLOT_CHUNK), 8, "chunk")
    first = b.offset(parts.state, at.NEXT, "first")
    # With dynamic scheduling all tasks are in the launcher's share.
    b.cond_br(b.icmp("eq", end, first_end), assist, ours)
    b.position_at_end(ours)
    b.call(parts.run_chunks, [fn, ctx, b.offset(slot, at.SLOT_NEXT), end, chunk, thread])
    b.br(others)
    b.position_at_end(others)
    looks = b.phi(I32, "looks", [(b.i32(HASTE), ours)])
    open_ = b.icmp("ult", b.load(I64, first, 8, ordering="monotonic"), first_end)
    b.cond_br(b.and_(open_, b.icmp("sgt", looks, b.i32(0))), breath, assist)
    b.position_at_end(breath)
    emit_pause(b, parts.module.triple)
    looks.add(b.sub(looks, b.i32(1)), breath)
    b.br(others)
    b.position_at_end(assist)
    b.call(parts.run_chunks, [fn, ctx, first, first_end, chunk, thread])
    b.br(finish)

    # After the count the caller may be gone and the next job posted: nothing of this one is touched any more.
    b.position_at_end(finish)
    before = b.atomicrmw("sub", b.offset(parts.state, at.PENDING), b.i32(1), "seq_cst", "before")
    b.cond_br(b.icmp("eq", before, b.i32(1)), last, idle)
    b.position_at_end(last)
    b.cond_br(b.icmp("ne", parts.load(b, at.CALLER_ASLEEP, "seq_cst"), b.i32(0)), rouse, idle)
    b.position_at_end(rouse)
    b.call(parts.waiting.wake, [b.offset(parts.state, at.PENDING)])
    b.br(idle)
    for block in (finish, last, rouse):
        patience.add(mood, block)

    b.position_at_end(leave)
    leaving = b.offset(parts.state, at.LEAVING)
    rest = b.atomicrmw("sub", leaving, b.i32(1), "seq_cst", "rest")
    b.cond_br(b.icmp("eq", rest, b.i32(1)), gone, late)
    b.position_at_end(gone)
    b.call(parts.waiting.wake, [leaving])
    b.br(late)
    Builder(f, late).ret()
