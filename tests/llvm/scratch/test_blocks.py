"""Blocks of scratch memory: kept, found again, never given to two, freed where memory is short."""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from tirlower.emit.compile import CompileOptions, emit_assembly
from tirlower.llvm.jit import engine
from tirlower.llvm.scratch.blocks import EXPORTS, FREE, GIVE, LARGE, LIMIT, TAKE, blocks_module
from tirlower.machine import cpu as host

MB = 1 << 20


class Blocks:
    """A table of blocks of its own."""

    def __init__(self, limit: int = 1 << 30) -> None:
        code = engine().compile_object(blocks_module(host.triple(), host.data_layout()).text())
        self._linked = engine().link(code.object, EXPORTS)
        i64, pointer = ctypes.c_int64, ctypes.c_void_p
        self.take_ = ctypes.CFUNCTYPE(pointer, i64, i64)(self._linked[TAKE])
        self.give = ctypes.CFUNCTYPE(None, pointer)(self._linked[GIVE])
        self.free = ctypes.CFUNCTYPE(i64)(self._linked[FREE])
        self.limit = ctypes.CFUNCTYPE(i64, i64)(self._linked[LIMIT])
        self.limit(limit)

    def take(self, size: int, align: int = 64) -> int:
        found = self.take_(align, size)
        assert found, size
        assert found % align == 0
        return int(found)


@pytest.fixture
def blocks():
    made = Blocks()
    yield made
    made.free()


def test_what_is_given_back_is_found_again(blocks):
    first = blocks.take(5 * MB)
    ctypes.memset(first, 7, 5 * MB)
    blocks.give(first)
    assert blocks.take(4 * MB) == first
    other = blocks.take(4 * MB)
    assert other != first
    blocks.give(first)
    blocks.give(other)
    assert blocks.free() == (6 + 4) * MB  # in pages of 2 MB
    assert blocks.free() == 0


def test_a_block_serves_what_takes_half_of_it_at_least(blocks):
    first = blocks.take(32 * MB)
    blocks.give(first)
    small = blocks.take(13 * MB)
    assert small != first
    assert blocks.take(16 * MB) == first
    blocks.give(small)
    blocks.give(first)


def test_small_memory_is_the_c_library_s(blocks):
    places = [blocks.take(size) for size in (64, 4096, LARGE - 64)]
    for place in places:
        blocks.give(place)
    blocks.give(None)
    assert blocks.free() == 0


@pytest.mark.parametrize("align", [64, 4096, 2 * MB, 4 * MB])
def test_alignment(blocks, align):
    place = blocks.take(8 * MB, align)
    blocks.give(place)


@pytest.mark.parametrize("align", [8, 64, 4096, MB, 2 * MB, 4 * MB])
def test_small_memory_of_any_alignment(blocks, align):
    """All of it may be written, and where a page begins there are blocks alone."""
    places = []
    for size in (1, 63, 64, 1000, LARGE - 1, 1, 4096):
        place = blocks.take(size, align)
        assert align >= 2 * MB or place % (2 * MB) != 0
        ctypes.memset(place, 0xFF, size)
        places.append((place, size))
    for (one, size), (other, _) in itertools.pairwise(sorted(places)):
        assert one + size <= other
    for place, _ in places:
        blocks.give(place)
    assert blocks.free() == 0


def test_what_exceeds_the_limit_is_freed():
    blocks = Blocks(10 * MB)
    places = [blocks.take(4 * MB) for _ in range(4)]
    for place in places:
        blocks.give(place)
    assert blocks.free() == 8 * MB
    assert blocks.limit(0) == 10 * MB
    blocks.give(blocks.take(4 * MB))
    assert blocks.free() == 0


def test_more_blocks_than_the_table_has(blocks):
    places = [blocks.take(2 * MB) for _ in range(100)]
    assert len(set(places)) == 100
    for place in places:
        blocks.give(place)
    assert 0 < blocks.free() <= 200 * MB
    assert blocks.free() == 0


def test_impossible_sizes_give_null(blocks):
    kept = blocks.take(4 * MB)
    blocks.give(kept)
    for size in (1 << 50, (1 << 62) - 64, 1 << 62):
        assert not blocks.take_(64, size)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="bounds the address space")
def test_idle_blocks_are_freed_where_memory_is_short():
    import resource

    blocks = Blocks()
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 400 * MB, before[1]))
    try:
        blocks.give(blocks.take(250 * MB))
        place = blocks.take_(64, 300 * MB)
        assert place
        blocks.give(place)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert blocks.free() == 300 * MB


def test_threads_never_share_a_block(blocks):
    problems: list[object] = []

    def work(mark: int) -> None:
        rng = np.random.default_rng(mark)
        for size in rng.integers(MB, 6 * MB, 300):
            place = blocks.take(int(size))
            words = np.ctypeslib.as_array((ctypes.c_int64 * 4).from_address(place))
            end = np.ctypeslib.as_array((ctypes.c_int64 * 4).from_address(place + int(size) // 8 * 8 - 32))
            for _ in range(20):
                words[:] = mark
                end[:] = mark
                if (words != mark).any() or (end != mark).any():
                    problems.append((mark, size))
            if size % 37 == 0:
                blocks.free()
            blocks.give(place)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert problems == []
    blocks.free()
    assert blocks.free() == 0


@pytest.mark.parametrize(
    ("triple", "word"), [("aarch64-unknown-linux-gnu", "madvise"), ("arm64-apple-darwin23", "aligned_alloc")]
)
def test_other_systems(triple, word):
    assembly = emit_assembly(blocks_module(triple).text(), CompileOptions(triple=triple, pipeline="none"))
    assert word in assembly and ("madvise" in assembly) == ("linux" in triple)
