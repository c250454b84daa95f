"""The CPU pipeline: its options, its levels, passes added to it; what it makes still means the same."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.kernels.base import differences, same_bits
from tests.kernels.corpus import CORPUS
from tests.kernels.test_native import EXACT, _meaning, interpreted
from tests.sampling import in_pairs
from tirlower.diagnostics import TransformError
from tirlower.driver.pipelines import Pipeline, Step, pipeline_for
from tirlower.ir import IRModule, custom_datatype
from tirlower.ir.functor import post_order_visit
from tirlower.ir.posit import register_posit
from tirlower.ir.stmt import AllocBuffer, For, ForKind
from tirlower.machine.target import Target
from tirlower.script import tir as T
from tirlower.transforms import (
    Apply,
    ConvertBlocksToOpaque,
    Fact,
    FuncPass,
    LowerInitBlock,
    LowerOpaqueBlock,
    PassContext,
    Simplify,
    prim_func_pass,
)

pytestmark = pytest.mark.by_day


@T.prim_func
def two_temporaries(A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    first = T.alloc_buffer((64,), "float32")
    second = T.alloc_buffer((64,), "float32")
    for i in range(64):
        first[i] = A[i] + T.float32(1)
    for i in range(64):
        second[i] = first[i] * T.float32(2)
    for i in range(64):
        C[i] = second[i] - T.float32(3)


@T.prim_func
def guarded(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32"), flag: T.int32):
    for i in range(n):
        if flag > 0:
            B[i] = A[i] * T.float32(2) + A[i] * T.float32(2)


def nodes(func, kind):
    found = []
    post_order_visit(func.body, lambda op: found.append(op) if isinstance(op, kind) else None)
    return found


def names_run(program, **context) -> list[str]:
    with PassContext(trace=True, **context) as ctx:
        tl.lower(program)
    return [name.split(".")[0] for name in ctx.ir_after]


@pytest.mark.parametrize(
    ("name", "level"),
    [
        # what the levels do differently, a quarter of the kernels shows
        pytest.param(name, level, marks=pytest.mark.nightly if level == 2 and at % 4 else ())
        for at, name in enumerate(CORPUS)
        for level in (2, 3)
    ],
)
def test_validation_finds_nothing(name, level):
    """Each pass's output is well formed, and does on random inputs what its input does."""
    one = CORPUS[name]
    with PassContext(opt_level=level, validate=True):
        tl.lower(one.program(one.sizes[0]))


@pytest.mark.parametrize(("name", "level"), in_pairs([name for i, name in enumerate(CORPUS) if i % 3 == 0], [0, 1, 3]))
def test_every_level_means_the_same(name, level):
    one = CORPUS[name]
    size = one.sizes[-1]
    meant, returned = _meaning(name, len(one.sizes) - 1)
    with PassContext(opt_level=level):
        low = tl.lower(one.program(size), EXACT)
    args = one.make(size)
    result = interpreted(low, args, one.entry or next(iter(low)))
    if one.differs:
        want, expected = one.expected(size)
        wrong = differences([*args, result], [*want, expected], one.tolerance(size))
    else:
        wrong = same_bits([*args, result], [*meant, returned])
    assert not wrong, f"{name} at level {level}: {wrong}"


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("name", [name for i, name in enumerate(CORPUS) if i % 9 == 4])
def test_native_code_of_every_level_agrees_with_numpy(name, level):
    one = CORPUS[name]
    size = one.sizes[-1]
    with PassContext(opt_level=level):
        made = tl.build(one.program(size))
    args = one.make(size)
    result = (made[one.entry] if one.entry is not None else made)(*args)
    want, returned = one.expected(size)
    wrong = differences([*args, result], [*want, returned], one.tolerance(size))
    assert not wrong, f"{name} at level {level}: {wrong}"


def test_storage_is_shared_unless_the_option_says_not():
    low = tl.lower(two_temporaries)["two_temporaries"]
    with PassContext(config={"tir.disable_storage_rewrite": True}):
        kept = tl.lower(two_temporaries)["two_temporaries"]
    assert len(nodes(low, AllocBuffer)) == 1
    assert len(nodes(kept, AllocBuffer)) == 2
    a = np.random.default_rng(0).random(64, dtype=np.float32)
    for mod in (low, kept):
        out = np.empty_like(a)
        tl.interpret(mod, a, out)
        np.testing.assert_array_equal(out, (a + np.float32(1)) * np.float32(2) - np.float32(3))


def test_level_three_hoists_and_shares_expressions():
    plain = names_run(guarded)
    assert "HoistIfThenElse" not in plain and "CommonSubexprElimTIR" not in plain
    assert {"HoistIfThenElse", "CommonSubexprElimTIR"} <= set(names_run(guarded, opt_level=3))
    assert "CommonSubexprElimTIR" not in names_run(guarded, opt_level=3, config={"tir.disable_cse_tir": True})
    assert "HoistIfThenElse" in names_run(guarded, required_pass=["HoistIfThenElse"])
    assert "HoistIfThenElse" not in names_run(guarded, opt_level=3, disabled_pass=["HoistIfThenElse"])


@pytest.mark.parametrize("options", [{}, {"tir.disable_vectorize": True}])
def test_vectorized_loops_become_vectors_or_serial_loops(options):
    @T.prim_func
    def f(A: T.Buffer((32,), "float32")):
        for i in T.serial(2):
            for l in T.vectorized(16):
                A[i * 16 + l] = T.float32(1)

    with PassContext(config=options):
        low = tl.lower(f)["f"]
    loops = nodes(low, For)
    assert all(loop.kind is ForKind.SERIAL for loop in loops)
    assert len(loops) == (2 if options else 1)


def test_bound_checkers_by_option():
    @T.prim_func
    def f(A: T.Buffer((8,), "float32"), at: T.int32):
        A[at] = T.float32(1)

    with PassContext(config={"tir.instrument_bound_checkers": True, "tir.unproved_bounds": "trust"}):
        run = tl.build(f)
    a = np.zeros(8, np.float32)
    run(a, 3)
    assert a[3] == 1
    with pytest.raises(IndexError, match="8"):
        run(a, 8)


def test_added_passes_run_in_their_phases():
    seen: list[tuple[int, bool, bool]] = []

    def look(phase):
        @prim_func_pass(opt_level=0, name=f"look{phase}")
        def one(func, mod, ctx):
            text = func.script()
            seen.append((phase, "T.block" in text or "sblock" in text, "T.unroll" in text))
            return func

        return one

    @T.prim_func
    def f(A: T.Buffer((4, 4), "float32")):
        for i in T.serial(4):
            for j in T.unroll(4):
                with T.block("b"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    A[vi, vj] = T.float32(1)

    with PassContext(config={"tir.add_lower_pass": [(phase, look(phase)) for phase in (3, 1, 0, 2)]}):
        tl.lower(f)
    assert seen == [(0, True, True), (1, False, True), (2, False, False), (3, False, False)]


@pytest.mark.parametrize("entry", [(4, Simplify()), (-1, Simplify()), Simplify(), (0, "Simplify")])
def test_wrong_added_passes_are_named(entry):
    with pytest.raises(TransformError, match="add_lower_pass"):
        PassContext(config={"tir.add_lower_pass": [entry]})


def test_an_added_pass_changes_the_program():
    twice = Apply(lambda func: func.with_attr("seen", 1))
    with PassContext(config={"tir.add_lower_pass": [(3, twice)]}):
        assert tl.lower(guarded)["guarded"].attrs["seen"] == 1


def test_custom_types_are_compiled_and_never_from_the_disk():
    register_posit("posit8")
    try:

        @T.prim_func
        def f(A: T.Buffer((16,), "custom[posit8]8"), B: T.Buffer((16,), "float32")):
            for i in T.vectorized(16):
                B[i] = T.Cast("float32", A[i] + A[i])

        for _ in range(2):
            run = tl.build(f)
            assert not run.report().cached
            assert "custom data types" in run.explain_miss()
        bits = np.array([0x40] * 8 + [0xC0] * 8, np.uint8)  # 1 and -1
        out = np.empty(16, np.float32)
        run(bits, out)
        np.testing.assert_array_equal(out, [2.0] * 8 + [-2.0] * 8)
    finally:
        custom_datatype.unregister("posit8")


def test_every_step_says_why():
    for step in pipeline_for(Target("llvm")):
        assert len(step.why) > 10, step.name


def test_an_order_without_what_a_pass_needs_is_refused():
    with pytest.raises(TransformError, match="LowerOpaqueBlock needs"):
        Pipeline((Step(LowerOpaqueBlock(), ""),))


# Orders that the reasons in the pipelines forbid: the first may not stand behind the second.
FORBIDDEN = {
    "llvm": [
        ("PrivatizeReductions", "LowerInitBlock"),
        ("PlanAndUpdateBufferAllocationLocation", "ConvertBlocksToOpaque"),
        ("InjectRollingBuffer", "CompactBufferAllocation"),
        ("LowerAutoCopy", "LowerOpaqueBlock"),
        ("LowerMatchBuffer", "LowerOpaqueBlock"),
        ("InjectSoftwarePipeline", "LowerOpaqueBlock"),
        ("RemoveStoreUndef", "LoopPartition"),
        ("RemoveStoreUndef", "UnrollLoop"),
        ("FlattenBuffer", "VectorizeLoop"),
        ("LowerOpaqueBlock", "FlattenBuffer"),
        ("LoopPartition", "VectorizeLoop"),
        ("VectorizeLoop", "InjectVirtualThread"),
        ("VectorizeLoop", "StorageRewrite"),
        ("VectorizeLoop", "UnrollLoop"),
        ("InjectVirtualThread", "InjectDoubleBuffer"),
        ("InjectDoubleBuffer", "StorageRewrite"),
        ("UnrollLoop", "CommonSubexprElimTIR"),
        ("HoistIfThenElse", "CommonSubexprElimTIR"),
        ("LoopPartition", "InstrumentProfileIntrinsics"),
        ("VectorizeLoop", "LowerCustomDatatypes"),
        ("Simplify", "LowerIntrin"),
        ("HoistIfThenElse", "LowerIntrin"),
    ],
    "nvptx -arch=sm_80": [
        ("DefaultGPUSchedule", "LowerInitBlock"),
        ("LowerCrossThreadReduction", "LowerInitBlock"),
        ("LiftThreadBinding", "CompactBufferAllocation"),
        ("ManifestSharedMemoryLocalStage", "CompactBufferAllocation"),
        ("LowerAutoCopy", "UnifyThreadBinding"),
        ("InjectPermutedLayout", "InjectSoftwarePipeline"),
        ("InjectSoftwarePipeline", "TransformMmaBufferLayout"),
        ("StorageRewrite", "ThreadSync"),
        ("UnrollLoop", "ThreadSync"),
        ("CommonSubexprElimTIR", "ThreadSync"),
        ("VerifyMemory", "SplitHostDevice"),
        ("InferFragment", "SplitHostDevice"),
        ("ThreadSync", "LowerThreadAllreduce"),
        ("ThreadSync", "InjectPTXAsyncCopy"),
        ("ThreadSync", "MergeSharedMemoryAllocations"),
        ("AnnotateDeviceRegions", "SplitHostDevice"),
        ("MergeSharedMemoryAllocations", "LowerDeviceKernelLaunch"),
        ("SplitHostDevice", "LowerWarpMemory"),
        ("Simplify", "LowerIntrin"),
    ],
}


@pytest.mark.parametrize(
    ("target", "early", "late"),
    [(target, *pair) for target, pairs in FORBIDDEN.items() for pair in pairs],
)
def test_an_order_that_the_reasons_forbid_is_refused(target, early, late):
    steps = list(pipeline_for(Target(target)))
    moved = [step for step in steps if step.name == early]
    left = [step for step in steps if step.name != early]
    at = max(n for n, step in enumerate(left) if step.name == late)
    # Only this pass moves; without it the order is right, where nothing needs that it has run.
    with pytest.raises(TransformError, match=r"error\[Pipeline\]"):
        Pipeline((*left[: at + 1], *moved, *left[at + 1 :]))


def test_what_a_step_gives_that_may_be_left_out_is_not_given():
    steps = list(pipeline_for(Target("llvm")))
    at = next(n for n, step in enumerate(steps) if step.name == "LowerOpaqueBlock")
    steps[at] = Step(steps[at].pass_, "by option", option="tir.enable_debug")
    with pytest.raises(TransformError, match=r"needs tir\.LowerOpaqueBlock to run before it"):
        Pipeline(tuple(steps))


def test_a_users_pass_breaks_and_gives_facts():
    class Shuffles(FuncPass):
        breaks = (Fact.DIVISIONS, "tir.LowerInitBlock")

    class Restores(FuncPass):
        gives = (Fact.DIVISIONS,)

    steps = (Step(LowerInitBlock(), ""), Step(Shuffles(), "it shifts"))
    with pytest.raises(TransformError, match=r"Simplify stands behind .*divisions are divisions") as caught:
        Pipeline((*steps, Step(Simplify(), "it folds")))
    assert "it shifts" in str(caught.value) and "it folds" in str(caught.value)
    assert len(Pipeline((*steps, Step(Restores(), ""), Step(Simplify(), "")))) == 4
    with pytest.raises(TransformError, match=r"tir\.LowerInitBlock has run"):
        Pipeline((*steps, Step(ConvertBlocksToOpaque(), "")))
    assert len(Pipeline(())) == 0


def test_until_stops_early_and_names_what_it_does_not_know():
    low = tl.lower(two_temporaries, until="FlattenBuffer")
    assert isinstance(low, IRModule)
    with pytest.raises(TransformError, match="Flatten"):
        tl.lower(two_temporaries, until="FlattenBufer")
