from __future__ import annotations

import pytest

from tirlower.diagnostics import TransformError
from tirlower.script import tir as T
from tirlower.transforms import PassContext, Sequential, Simplify, UnrollLoop


@T.prim_func
def loop(A: T.Buffer((8,), "int32")):
    for i in T.unroll(2):
        A[i * 4] = i + 0


def test_contexts_nest_and_end() -> None:
    outside = PassContext.current()
    with PassContext(opt_level=3) as outer:
        assert PassContext.current() is outer
        with PassContext(opt_level=1) as inner:
            assert PassContext.current() is inner
        assert PassContext.current() is outer
    assert PassContext.current().opt_level == outside.opt_level == 2


def test_unknown_keys_are_named() -> None:
    with pytest.raises(TransformError, match=r"unknown configuration key 'tir.UnrolLoop'") as error:
        PassContext(config={"tir.UnrolLoop": {}})
    assert "did you mean 'tir.UnrollLoop'?" in str(error.value)
    PassContext(config={"tir.unproved_bounds": "trust", "tir.Simplify": {}})


def test_instruments_see_passes_and_may_stop_them() -> None:
    class Watcher:
        def __init__(self) -> None:
            self.events: list[str] = []

        def enter_pass_ctx(self) -> None:
            self.events.append("enter")

        def exit_pass_ctx(self) -> None:
            self.events.append("exit")

        def should_run(self, mod, info) -> bool:
            return info.name != "tir.Simplify"

        def run_before_pass(self, mod, info) -> None:
            self.events.append(f"before {info.name} {len(mod)}")

        def run_after_pass(self, mod, info) -> None:
            self.events.append(f"after {info.name}")

    watcher = Watcher()
    with PassContext(instruments=[watcher]):
        after = Sequential([Simplify(), UnrollLoop()])(loop)
    assert watcher.events == [
        "enter",
        "before sequential 1",
        "before tir.UnrollLoop 1",
        "after tir.UnrollLoop",
        "after sequential",
        "exit",
    ]
    assert "unroll" not in after.script()


def test_the_trace_keeps_each_module() -> None:
    with PassContext(trace=True) as ctx:
        after = Sequential([Simplify(), UnrollLoop(), Simplify()])(loop)
    assert list(ctx.ir_after) == ["Simplify", "UnrollLoop", "Simplify.2"]
    assert "unroll" in ctx.ir_after["Simplify"].script()
    assert ctx.ir_after["Simplify.2"]["loop"] is after


def test_the_context_can_be_given_to_a_pass() -> None:
    @T.prim_func
    def serial(A: T.Buffer((8,), "int32")):
        for i in range(4):
            A[i] = i

    ctx = PassContext(config={"tir.UnrollLoop": {"auto_max_step": 8}})
    assert UnrollLoop()(serial, ctx) is not serial
    assert ctx.option("tir.disable_vectorize", 5) == 5
