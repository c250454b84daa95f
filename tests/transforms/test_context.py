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


def test_the_other_name_of_a_key() -> None:
    assert PassContext(config={"tir.instrument_lwp": True}).option("tir.enable_profiling") is True
    both = PassContext(config={"tir.instrument_lwp": True, "tir.enable_profiling": False})
    assert both.option("tir.enable_profiling") is False
    assert PassContext().option("tir.enable_profiling") is None


class _Listed:
    """Notes what it is told; ``fails`` is the event at which it raises."""

    def __init__(self, name: str, events: list[str], fails: str = "", runs: bool = True) -> None:
        self.name, self.events, self.fails, self.runs = name, events, fails, runs

    def _note(self, event: str) -> None:
        self.events.append(f"{self.name} {event}")
        if event == self.fails:
            raise ValueError(event)

    def enter_pass_ctx(self) -> None:
        self._note("enter")

    def exit_pass_ctx(self) -> None:
        self._note("exit")

    def should_run(self, mod, info) -> bool:
        self._note("asked")
        return self.runs

    def run_before_pass(self, mod, info) -> None:
        self._note("before")

    def run_after_pass(self, mod, info) -> None:
        self._note("after")


def test_an_instrument_that_fails_as_the_context_begins_ends_those_before_it() -> None:
    events: list[str] = []
    ctx = PassContext(instruments=[_Listed("a", events), _Listed("b", events, "enter"), _Listed("c", events)])
    with pytest.raises(ValueError, match="enter"), ctx:
        events.append("inside")
    assert events == ["a enter", "b enter", "a exit"]
    assert ctx.instruments == [] and PassContext.current() is not ctx
    with ctx:
        Simplify()(loop)
    assert events == ["a enter", "b enter", "a exit"]


def test_the_context_ends_for_instruments_after_an_error() -> None:
    events: list[str] = []
    with pytest.raises(ValueError, match="before"), PassContext(instruments=[_Listed("a", events, "before")]):
        Simplify()(loop)
    assert events == ["a enter", "a asked", "a before", "a exit"]


def test_instruments_are_replaced() -> None:
    events: list[str] = []
    with PassContext(instruments=[_Listed("a", events)]) as ctx:
        ctx.override_instruments([_Listed("b", events)])
        Simplify()(loop)
        ctx.override_instruments(None)
        Simplify()(loop)
    assert events == ["a enter", "a exit", "b enter", "b asked", "b before", "b after", "b exit"]


def test_all_instruments_are_asked_and_none_about_a_required_pass() -> None:
    events: list[str] = []
    watching = [_Listed("a", events, runs=False), _Listed("b", events)]
    with PassContext(instruments=watching):
        assert UnrollLoop()(loop) is loop
    assert events == ["a enter", "b enter", "a asked", "b asked", "a exit", "b exit"]
    events.clear()
    with PassContext(instruments=watching, required_pass=["tir.UnrollLoop"]):
        assert UnrollLoop()(loop) is not loop
    assert events == ["a enter", "b enter", "a before", "b before", "a after", "b after", "a exit", "b exit"]


def test_what_a_list_needs_runs_before_it() -> None:
    ran: list[str] = []

    class Names:
        def run_before_pass(self, mod, info) -> None:
            ran.append(info.name)

    inner = Sequential([UnrollLoop()], required=["tir.Simplify"])
    with PassContext(instruments=[Names()]):
        inner(loop)
        assert ran == ["sequential", "tir.Simplify", "tir.UnrollLoop"]
        ran.clear()
        Sequential([inner])(loop)
    assert ran == ["sequential", "sequential", "tir.Simplify", "tir.UnrollLoop"]


def test_a_key_without_effect_is_told() -> None:
    with pytest.warns(UserWarning, match=r"tir\.use_async_copy changes nothing: copies that are marked"):
        PassContext(config={"tir.use_async_copy": True})
    PassContext(config={"tir.use_async_copy": False})
