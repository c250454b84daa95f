from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import tirlower as tl
from tirlower.diagnostics import TransformError
from tirlower.script import tir as T
from tirlower.transforms import CONFIG_KEYS, PassContext, Sequential, Simplify, UnrollLoop, prim_func_pass


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
    assert PassContext().option("tir.enable_profiling") is False


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


# -- threads and builds ----------------------------------------------------------------------------------------------


def test_two_threads_enter_one_context() -> None:
    ctx = PassContext(opt_level=1, trace=True)
    both, left = threading.Barrier(2), threading.Event()

    def first() -> list[str]:
        with ctx:
            both.wait()
            Simplify()(loop)
            left.wait()
            assert PassContext.current() is ctx
            return list(ctx.ir_after)

    def second() -> list[str]:
        both.wait()
        with ctx:
            Sequential([UnrollLoop(), UnrollLoop()])(loop)
            found = list(ctx.ir_after)
        assert PassContext.current() is not ctx
        left.set()
        return found

    with ThreadPoolExecutor(2) as pool:
        traces = [pool.submit(first), pool.submit(second)]
        assert [trace.result() for trace in traces] == [["Simplify"], ["UnrollLoop", "UnrollLoop.2"]]
    assert PassContext.current() is not ctx and not ctx.ir_after


def test_one_thread_enters_a_context_twice() -> None:
    ctx = PassContext(opt_level=1)
    with ctx, PassContext(opt_level=3) as inner:
        with ctx:
            assert PassContext.current() is ctx
        assert PassContext.current() is inner
    assert PassContext.current() is not ctx


def test_two_tasks_enter_one_context() -> None:
    ctx = PassContext(opt_level=1)

    async def work(times: int) -> None:
        for _ in range(times):
            with ctx:
                await asyncio.sleep(0)
                assert PassContext.current() is ctx
            await asyncio.sleep(0)
            assert PassContext.current() is not ctx

    async def both() -> None:
        await asyncio.gather(work(3), work(4), work(2))

    asyncio.run(both())


def test_contexts_that_end_out_of_turn() -> None:
    def hold(ctx: PassContext) -> Iterator[None]:
        with ctx:
            yield

    first, second = PassContext(opt_level=1), PassContext(opt_level=3)
    a, b = hold(first), hold(second)
    next(a), next(b)
    a.close()
    assert PassContext.current() is second
    b.close()
    assert PassContext.current() not in (first, second)


@T.prim_func
def added(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = A[i] + 1


@pytest.mark.parametrize("target", ["llvm", "nvptx -arch=sm_80"])
def test_a_build_leaves_nothing_in_the_context(target: str) -> None:
    ran: list[str] = []

    class Names:
        def run_before_pass(self, mod, info) -> None:
            ran.append(info.name)

    names = Names()
    with PassContext(trace=True, instruments=[names]) as ctx:
        first = tl.build(added, target, schedule="none")
        second = tl.build(added, target, schedule="none")
    assert ctx.instruments == [names] and not ctx.ir_after
    assert list(first.ir_after) == list(second.ir_after) and "FlattenBuffer" in first.ir_after
    assert len(ran) == 2 * len(first.ir_after)
    with PassContext(trace=True) as ctx:
        tl.lower(added, target)
    assert "FlattenBuffer" in ctx.ir_after


def test_a_build_that_fails_leaves_nothing_in_the_context() -> None:
    @prim_func_pass(opt_level=0, name="fails")
    def fails(func, mod, ctx):
        raise TransformError("it does")

    with (
        PassContext(config={"tir.add_lower_pass": [(0, fails)]}) as ctx,
        pytest.raises(TransformError, match="it does"),
    ):
        tl.build(added, schedule="none")
    assert ctx.instruments == []


def test_threads_build_under_one_context() -> None:
    ctx = PassContext(config={"tir.UnrollLoop": {"auto_max_step": 8}}, trace=True)

    def work(_: int) -> dict[str, str]:
        with ctx:
            made = tl.build(added, schedule="none")
        assert made.report().passes["UnrollLoop"] > 0 and len(made.report().passes) < 40
        return {name: mod.script() for name, mod in made.ir_after.items()}

    with ThreadPoolExecutor(4) as pool:
        traces = list(pool.map(work, range(8)))
    assert all(trace == traces[0] for trace in traces) and "UnrollLoop" in traces[0]


def test_the_keys_are_listed() -> None:
    listed = PassContext.list_configs()
    assert set(listed) == set(CONFIG_KEYS) and all(set(one) == {"default", "takes", "about"} for one in listed.values())
    assert listed["tir.legality"]["default"] == "check" and all(one["about"] for one in listed.values())
