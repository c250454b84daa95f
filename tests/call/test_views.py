from __future__ import annotations

import numpy as np

from tirlower.call.host_arrays import view_of
from tirlower.call.views import class_of, compact_strides, share_memory


def test_views_know_compactness_and_span() -> None:
    base = np.zeros((4, 6), np.int16)
    for a in (base, base[:, ::2], base.T, base[::-1], base[1:2], base[:, :0], np.zeros((1, 3), np.int16)[:, 1:2]):
        view = view_of(a, False)
        assert view.compact == a.flags.c_contiguous and view.size == a.size
        strides = np.array(a.strides)
        starts = [int((np.array(index) * strides).sum()) for index in np.ndindex(a.shape)]
        assert view.span() == ((min(starts), max(starts) + a.itemsize) if starts else (0, 0))
    assert view_of(base[:, ::2], False).text() == "int16[4, 3]"


def test_shared_memory_is_that_of_numpy() -> None:
    """At the arrays' own addresses and at others: only the distance counts."""
    pool = np.zeros((6, 8), np.float32)
    some = [pool, pool[::2], pool[1::2], pool[:, :3], pool[:, 3:], pool[2:2], pool[::-1, ::3], pool.T[1:4], pool[0]]
    for a in some:
        for b in some:
            x, y = view_of(a, False), view_of(b, False)
            want = np.shares_memory(a, b)
            assert share_memory(x, x.data, y, y.data) == share_memory(x, x.data + 64, y, y.data + 64) == want
            assert not share_memory(x, x.data, y, y.data + pool.nbytes * 2)


def test_words() -> None:
    assert class_of(np.float32(1)) == "numpy.float32" and class_of([]) == "list"
    assert compact_strides((2, 3, 4), 4) == np.zeros((2, 3, 4), np.float32).strides
    assert compact_strides((), 4) == ()
