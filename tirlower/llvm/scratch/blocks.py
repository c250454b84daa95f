"""The blocks in LLVM IR: a table of some, each empty, idle or used.

A word for each block says which; who changes it by a compare-and-exchange from *empty* or *idle* to *used* owns the
block's size and address until it stores another word, with release. So there is no lock, and nothing that a thread that
is stopped or a fork can leave locked: at worst a child has blocks that nobody gives back.
"""

from __future__ import annotations

from typing import Final

from tirlower.emit.llvm_text import (
    I8,
    I32,
    I64,
    PTR,
    VOID,
    Builder,
    Function,
    FunctionRef,
    Module,
    Value,
    array,
    null,
    zero,
)

__all__ = ["EXPORTS", "FREE", "GIVE", "LARGE", "LIMIT", "TAKE", "blocks_module"]

#: ptr (i64 align, i64 bytes)
TAKE: Final = "tirlower_scratch_take"
#: void (ptr)
GIVE: Final = "tirlower_scratch_give"
#: i64 (): frees what is idle; how many bytes those were
FREE: Final = "tirlower_scratch_free"
#: i64 (i64): the most idle bytes from now on; what it was before
LIMIT: Final = "tirlower_scratch_limit"
EXPORTS: Final = (TAKE, GIVE, FREE, LIMIT)

#: Bytes from which blocks are kept: below, the C library does.
LARGE: Final = 1 << 20
#: What blocks are aligned to, and multiples of: a large page of x86-64, and of AArch64 with pages of 4 KiB.
_PAGE: Final = 2 << 20
_BLOCKS: Final = 64
_EMPTY, _IDLE, _USED = 0, 1, 2
# A block: its word, the address, the bytes. Each on a line of its own.
_ENTRY: Final = 64
_POINTER: Final = 8
_SIZE: Final = 16
#: Bytes before what is small, which hold the address that the C library gave.
_BEFORE: Final = 8
_MADV_FREE: Final = 8
_MADV_HUGEPAGE: Final = 14


def blocks_module(triple: str, data_layout: str = "") -> Module:
    """The functions as an LLVM module for a target triple. Its state is the module's own memory."""
    return _Blocks(Module("tirlower_scratch", triple, data_layout)).module


class _Blocks:
    """The module under construction."""

    def __init__(self, module: Module) -> None:
        self.module = module
        table = array(_ENTRY * _BLOCKS, I8)
        self._table = module.global_variable("blocks", table, zero(table), align=_ENTRY, linkage="internal")
        self._idle_bytes = module.global_variable("idle_bytes", I64, zero(I64), align=64, linkage="internal")
        self._limit = module.global_variable("limit", I64, zero(I64), align=64, linkage="internal")
        self._allocate = module.declare("aligned_alloc", PTR, [I64, I64])
        self._small = module.declare("malloc", PTR, [I64])
        self._release = module.declare("free", VOID, [PTR])
        self._advise: FunctionRef | None = None
        if "linux" in module.triple:
            self._advise = module.declare("madvise", I32, [PTR, I64, I32])
        self._free_idle = self._define_free()
        self._reuse = self._define_reuse()
        self._new = self._define_new()
        self._define_take()
        self._define_give()
        self._define_limit()

    # -- a block -------------------------------------------------------------------------------------------------------

    def _entry(self, b: Builder, index: Value) -> Value:
        return b.gep(array(_ENTRY, I8), self._table, index, name="entry")

    def _own(self, b: Builder, entry: Value, before: int) -> Value:
        """Whether a block that was empty, or idle, is now the caller's."""
        swapped = b.cmpxchg(entry, b.i32(before), b.i32(_USED), "acquire", "monotonic")
        return b.extract_value(swapped, 1)

    def _disown(self, b: Builder, entry: Value, word: int) -> None:
        b.store(b.i32(word), entry, 4, ordering="release")

    def _size(self, b: Builder, entry: Value) -> Value:
        return b.load(I64, b.offset(entry, _SIZE), 8, "size", ordering="monotonic")

    def _pointer(self, b: Builder, entry: Value) -> Value:
        return b.load(PTR, b.offset(entry, _POINTER), 8, "pointer", ordering="monotonic")

    def _hold(self, b: Builder, entry: Value, pointer: Value, size: Value) -> None:
        b.store(size, b.offset(entry, _SIZE), 8, ordering="monotonic")
        b.store(pointer, b.offset(entry, _POINTER), 8, ordering="monotonic")

    def _empty(self, b: Builder, entry: Value) -> None:
        """Free the block of an entry that is the caller's."""
        pointer = self._pointer(b, entry)
        self._hold(b, entry, null(), b.i64(0))
        b.call(self._release, [pointer])
        self._disown(b, entry, _EMPTY)

    def _tell(self, b: Builder, pointer: Value, size: Value, advice: int) -> None:
        if self._advise is not None:
            b.call(self._advise, [pointer, size, b.i32(advice)])

    # -- functions -----------------------------------------------------------------------------------------------------

    def _define_free(self) -> Function:
        f = self.module.function(FREE, I64, attrs=("nounwind",))
        b = Builder(f, f.block("entry"))
        total = b.alloca(I64, name="total")
        b.store(b.i64(0), total)
        with b.for_range(b.i64(0), b.i64(_BLOCKS), nonempty=True) as index:
            entry = self._entry(b, index)
            idle = b.icmp("eq", b.load(I32, entry, 4, ordering="monotonic"), b.i32(_IDLE))
            with b.if_then(idle), b.if_then(self._own(b, entry, _IDLE)):
                size = self._size(b, entry)
                b.atomicrmw("sub", self._idle_bytes, size)
                b.store(b.add(b.load(I64, total), size), total)
                self._empty(b, entry)
        b.ret(b.load(I64, total))
        return f

    def _define_reuse(self) -> Function:
        """``ptr (i64 bytes)``: an idle block of so many bytes and at most twice as many, or null."""
        f = self.module.function("reuse", PTR, [(I64, "bytes")], attrs=("nounwind",), linkage="internal")
        (wanted,) = f.args
        b = Builder(f, f.block("entry"))
        with b.for_range(b.i64(0), b.i64(_BLOCKS), nonempty=True) as index:
            entry = self._entry(b, index)
            idle = b.icmp("eq", b.load(I32, entry, 4, ordering="monotonic"), b.i32(_IDLE))
            with b.if_then(b.and_(idle, self._fits(b, entry, wanted))), b.if_then(self._own(b, entry, _IDLE)):
                # Another thread may have freed the block meanwhile, and left a smaller one.
                with b.if_then(self._fits(b, entry, wanted)):
                    b.atomicrmw("sub", self._idle_bytes, self._size(b, entry))
                    b.ret(self._pointer(b, entry))
                self._disown(b, entry, _IDLE)
        b.ret(null())
        return f

    def _fits(self, b: Builder, entry: Value, wanted: Value) -> Value:
        size = self._size(b, entry)
        return b.and_(b.icmp("uge", size, wanted), b.icmp("ule", b.lshr(size, b.i64(1)), wanted))

    def _define_new(self) -> Function:
        """``ptr (i64 bytes)``: a new block, kept in the table where that has room; null where there is no memory."""
        f = self.module.function("new", PTR, [(I64, "bytes")], attrs=("nounwind",), linkage="internal")
        (size,) = f.args
        fill, got, again, none, made = (f.block(n) for n in ("fill", "got", "again", "none", "made"))
        b = Builder(f, fill)
        first = b.call(self._allocate, [b.i64(_PAGE), size], "first")
        b.cond_br(b.icmp("ne", first, null()), made, again, likely=True)
        b.position_at_end(again)
        b.call(self._free_idle, [])
        second = b.call(self._allocate, [b.i64(_PAGE), size], "second")
        b.cond_br(b.icmp("ne", second, null()), made, none, likely=True)
        b.position_at_end(made)
        pointer = b.phi(PTR, "pointer", [(first, fill), (second, again)])
        self._tell(b, pointer, size, _MADV_HUGEPAGE)
        with b.for_range(b.i64(0), b.i64(_BLOCKS), nonempty=True) as index:
            entry = self._entry(b, index)
            empty = b.icmp("eq", b.load(I32, entry, 4, ordering="monotonic"), b.i32(_EMPTY))
            with b.if_then(empty), b.if_then(self._own(b, entry, _EMPTY)):
                self._hold(b, entry, pointer, size)
                b.ret(pointer)
        b.br(got)
        Builder(f, got).ret(pointer)
        Builder(f, none).ret(null())
        return f

    def _define_take(self) -> None:
        f = self.module.function(TAKE, PTR, [(I64, "align"), (I64, "bytes")], attrs=("nounwind",))
        align, size = f.args
        entry, other, ours, plain, small, filled, none, search, make, found = (
            f.block(n)
            for n in ("entry", "other", "ours", "plain", "small", "filled", "none", "search", "make", "found")
        )
        b = Builder(f, entry)
        large = b.icmp("uge", size, b.i64(LARGE))
        b.cond_br(b.or_(large, b.icmp("uge", align, b.i64(_PAGE))), other, small)
        # The C library finds memory of no alignment far sooner. What it gave stands before what is taken from it, which is
        # never at the beginning of a page: there only blocks are, and what the library aligned to pages.
        b.position_at_end(small)
        whole = b.add(b.add(size, b.shl(align, b.i64(1))), b.i64(_BEFORE))
        base = b.call(self._small, [whole], "base")
        b.cond_br(b.icmp("ne", base, null()), filled, none, likely=True)
        b.position_at_end(none)
        b.ret(null())
        b.position_at_end(filled)
        address = b.ptrtoint(base)
        first = b.and_(b.add(b.add(address, align), b.i64(_BEFORE - 1)), b.neg(align), "first")
        begins = b.icmp("eq", b.and_(first, b.i64(_PAGE - 1)), b.i64(0))
        place = b.select(begins, b.add(first, align), first)
        taken = b.offset(base, b.sub(place, address), "taken")
        b.store(base, b.offset(taken, -_BEFORE), 8)
        b.ret(taken)
        b.position_at_end(other)
        # What is too large for anybody to have is left to the C library, which says so.
        possible = b.icmp("ult", size, b.i64(1 << 62))
        b.cond_br(b.and_(b.and_(large, possible), b.icmp("ule", align, b.i64(_PAGE))), ours, plain)
        b.position_at_end(plain)
        b.ret(b.call(self._allocate, [align, size], "plain"))
        b.position_at_end(ours)
        whole = b.and_(b.add(size, b.i64(_PAGE - 1)), b.i64(-_PAGE), "whole")
        b.br(search)
        b.position_at_end(search)
        kept = b.call(self._reuse, [whole], "kept")
        b.cond_br(b.icmp("ne", kept, null()), found, make)
        b.position_at_end(found)
        b.ret(kept)
        b.position_at_end(make)
        b.ret(b.call(self._new, [whole], "made"))

    def _define_give(self) -> None:
        f = self.module.function(GIVE, VOID, [(PTR, "pointer")], attrs=("nounwind",))
        (pointer,) = f.args
        entry, small, page, look, plain = (f.block(n) for n in ("entry", "small", "page", "look", "plain"))
        b = Builder(f, entry)
        within = b.and_(b.ptrtoint(pointer), b.i64(_PAGE - 1))
        b.cond_br(b.icmp("eq", within, b.i64(0)), page, small)
        b.position_at_end(small)
        b.call(self._release, [b.load(PTR, b.offset(pointer, -_BEFORE), 8, "base")])
        b.ret()
        b.position_at_end(page)
        b.cond_br(b.icmp("ne", pointer, null()), look, plain)
        b.position_at_end(look)
        with b.for_range(b.i64(0), b.i64(_BLOCKS), nonempty=True) as index:
            block = self._entry(b, index)
            with b.if_then(b.icmp("eq", self._pointer(b, block), pointer)):
                size = self._size(b, block)
                before = b.atomicrmw("add", self._idle_bytes, size, name="before")
                limit = b.load(I64, self._limit, 8, "limit", ordering="monotonic")
                with b.if_then(b.icmp("ugt", b.add(before, size), limit)):
                    b.atomicrmw("sub", self._idle_bytes, size)
                    self._empty(b, block)
                    b.ret()
                self._tell(b, pointer, size, _MADV_FREE)
                self._disown(b, block, _IDLE)
                b.ret()
        b.br(plain)
        b.position_at_end(plain)
        b.call(self._release, [pointer])
        b.ret()

    def _define_limit(self) -> None:
        f = self.module.function(LIMIT, I64, [(I64, "bytes")], attrs=("nounwind",))
        b = Builder(f, f.block("entry"))
        b.ret(b.atomicrmw("xchg", self._limit, f.args[0], name="before"))
