"""How much is written, and what of it goes past the caches."""

from __future__ import annotations

from tests.autoschedule.scheduled import AVX2
from tirlower.autoschedule.classify import nests_of
from tirlower.autoschedule.traffic import bytes_of, inputs, outputs, streamed
from tirlower.ir import Buffer
from tirlower.machine.processor import Processor
from tirlower.script import parse

MACHINE = Processor.of(AVX2)


def nests(rows: int, again: str = "A"):
    return nests_of(
        parse(f"""
def f(A: T.Buffer(({rows}, 1024), "float32"), B: T.Buffer(({rows}, 1024), "float32"), C: T.Buffer((1,), "float32")):
    P = T.alloc_buffer(({rows}, 1024), "float32")
    for i, j in T.grid({rows}, 1024):
        P[i, j] = A[i, j]
        B[i, j] = P[i, j]
    C[0] = {again}[0, 0]
""")
    )


def test_what_is_larger_than_half_the_last_cache_is_streamed_unless_it_is_read():
    assert streamed(nests(2049), MACHINE) == 2049 * 4096
    assert streamed(nests(2048), MACHINE) == 0
    assert streamed(nests(4096, again="B"), MACHINE) == 0


def test_buffers_and_their_sizes():
    found = nests(8)
    assert [buffer.name for buffer in outputs(found)] == ["B"]
    assert [buffer.name for buffer in inputs(found)] == ["A", "P"]
    assert [bytes_of(buffer) for buffer in outputs(found)] == [8 * 4096]
    assert bytes_of(Buffer("x", (3,), "int4x8")) == 12
    assert (
        bytes_of(
            nests_of(parse('def f(A: T.Buffer(("n",), "int8")):\n    for i in range(n):\n        A[i] = 0'))[
                0
            ].func.buffers[0]
        )
        is None
    )
