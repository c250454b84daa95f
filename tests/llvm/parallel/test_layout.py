from __future__ import annotations

import pytest

from tirlower.diagnostics import ArgumentValueError
from tirlower.llvm.parallel import launch_flags, layout


def test_fields_of_flags_do_not_overlap_and_fit_31_bits():
    largest = launch_flags(dynamic=True, chunk=(1 << 20) - 1, threads=1023)
    assert largest == 2**31 - 1
    assert launch_flags(threads=1023) & launch_flags(dynamic=True, chunk=(1 << 20) - 1) == 0


@pytest.mark.parametrize(
    "arguments", [{"threads": 1024}, {"threads": -1}, {"chunk": 1}, {"dynamic": True, "chunk": 1 << 20}]
)
def test_flags_out_of_range(arguments):
    with pytest.raises(ArgumentValueError, match="parallel region"):
        launch_flags(**arguments)


def test_words_of_different_threads_are_on_different_lines():
    # control (the lock's holder), join (workers), and three words with writers of their own
    groups = [layout.LOCK, layout.PENDING, layout.FAILED, layout.SLEEPERS, layout.NEXT]
    assert len({offset // layout.LINE for offset in groups}) == len(groups)
    assert layout.SLOT_ASLEEP // layout.LINE != layout.SLOT_POST // layout.LINE
    assert layout.SLOT_CHUNK + 8 <= 64  # a mailbox is one cache line
    assert layout.SLOT_AVOIDED + 4 <= layout.SLOT_MASK and layout.SLOT_MASK_SET + layout.MASK_BYTES <= layout.SLOT_BYTES
    assert layout.SLOT_BYTES % layout.LINE == 0
