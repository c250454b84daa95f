from __future__ import annotations

import io

import pytest

from tirlower.diagnostics import TransformError
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import (
    DumpIR,
    PassContext,
    PassTimingInstrument,
    PrintAfterAll,
    PrintBeforeAll,
    Sequential,
    Simplify,
    UnrollLoop,
    pass_instrument,
)


@T.prim_func
def loop(A: T.Buffer((8,), "int32")):
    for i in T.unroll(2):
        A[i * 4] = i + 0


def test_timing_is_a_table_of_nested_passes() -> None:
    timing = PassTimingInstrument()
    with PassContext(instruments=[timing]):
        Sequential([UnrollLoop(), Simplify(), UnrollLoop()])(loop)
    assert list(timing.times) == ["sequential", "tir.UnrollLoop", "tir.Simplify"]
    inner = timing.times["tir.UnrollLoop"] + timing.times["tir.Simplify"]
    assert 0 < inner <= timing.total == timing.times["sequential"]
    lines = timing.render().splitlines()
    assert len(lines) == 4 and lines[0].endswith("sequential") and lines[1].endswith("  tir.UnrollLoop")


def test_printing_before_and_after() -> None:
    before, after = io.StringIO(), io.StringIO()
    with PassContext(instruments=[PrintBeforeAll(before), PrintAfterAll(after)]):
        UnrollLoop()(loop)
    assert before.getvalue().startswith("# before tir.UnrollLoop\n") and "T.unroll(2)" in before.getvalue()
    assert after.getvalue().startswith("# after tir.UnrollLoop\n") and "T.unroll(2)" not in after.getvalue()


def test_dumps_are_numbered_files_that_parse(tmp_path) -> None:
    with PassContext(instruments=[DumpIR(tmp_path / "ir")]):
        Simplify()(UnrollLoop()(loop))
    names = sorted(path.name for path in (tmp_path / "ir").iterdir())
    assert names == ["000_UnrollLoop.py", "001_Simplify.py"]
    assert "for " not in parse((tmp_path / "ir" / names[0]).read_text()).script()


def test_a_class_of_instruments_watches_something() -> None:
    @pass_instrument
    class Names:
        def __init__(self) -> None:
            self.names: list[str] = []

        def run_before_pass(self, mod, info) -> None:
            self.names.append(info.name)

    seen = Names()
    with PassContext(instruments=[seen]):
        UnrollLoop()(loop)
    assert seen.names == ["tir.UnrollLoop"]
    with pytest.raises(TransformError, match="Typo watches nothing"):

        @pass_instrument
        class Typo:
            def run_before_pas(self, mod, info) -> None:
                pass
