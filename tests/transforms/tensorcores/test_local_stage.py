from __future__ import annotations

import numpy as np
import pytest

from tests.checking import check, random_arguments
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret
from tirlower.ir import PrimFunc
from tirlower.script import parse
from tirlower.transforms import (
    InjectSoftwarePipeline,
    LowerOpaqueBlock,
    ManifestSharedMemoryLocalStage,
    Sequential,
    ThreadSync,
)


def kernel(copy: str, dtype: str = "float32", scope: str = "shared", use: str = "s[63 - tx * 4 - j]") -> PrimFunc:
    """A kernel of 16 threads that copies 64 elements into ``s`` and stores what ``use`` says."""
    lines = "\n".join(f"        {line}" for line in copy.splitlines()).replace(
        "MARK", 'T.block_attr({"tir.manifest_shared_memory_local_stage": 1})'
    )
    return parse(f"""
@T.prim_func
def f(A: T.Buffer((80,), "{dtype}"), B: T.Buffer((64,), "{dtype}"), n: T.int32):
    for tx in T.thread_binding(16, thread="threadIdx.x"):
        s = T.alloc_buffer((64,), "{dtype}", scope="{scope}")
        for j in range(4):
            s[tx * 4 + j] = T.{dtype}(1)
        T.tvm_storage_sync("{scope}")
{lines}
        T.tvm_storage_sync("{scope}")
        for j in range(4):
            B[tx * 4 + j] = {use}
""")


def marked(loops: str, at: str, value: str, where: str = "") -> str:
    return f"""{loops}
        with T.block("copy"):
            T.reads(A[0:80])
            T.writes(s[{at}])
            {where or "T.where(T.bool(True))"}
            MARK
            s[{at}] = {value}"""


def staged(copy: str, local: str, **options: str) -> PrimFunc:
    before = kernel(copy, **options)
    after = check(ManifestSharedMemoryLocalStage(), before)
    text = after.script()
    assert f"s_local = T.alloc_buffer({local}" in text and "manifest" not in text
    assert text.index("s_local[") < text.index("] = s_local[")
    rng = np.random.default_rng(3)
    for seed in range(2):
        first = random_arguments(before, rng)
        second = [a.copy() if isinstance(a, np.ndarray) else a for a in first]
        interpret(before, *first)
        interpret(after, *second, seed=seed, races=True)
        for x, y in zip(first, second, strict=True):
            np.testing.assert_array_equal(x, y)
    return after


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "float64", "bool"])
@pytest.mark.parametrize("scope", ["shared", "shared.dyn"])
def test_types_and_scopes(dtype: str, scope: str) -> None:
    copy = marked("for i in range(4):", "i * 16 + tx", "A[i * 16 + tx]")
    staged(copy, "(4,)", dtype=dtype, scope=scope)


def test_nested_loops_with_a_vector_inside() -> None:
    copy = marked("for i, k in T.grid(2, 1):\n    for v in T.vectorized(2):\n     pass", "", "").split("     pass")[0]
    copy += """        with T.block("copy"):
            T.reads(A[i * 32 + tx * 2 + v + k])
            T.writes(s[i * 32 + tx * 2 + v])
            MARK
            s[i * 32 + tx * 2 + v] = A[i * 32 + tx * 2 + v + k]"""
    after = staged(copy, "(2, 1, 2)")
    assert after.script().count("T.vectorized(2)") == 2


def test_loops_that_do_not_start_at_0() -> None:
    staged(marked("for i in range(3, 7):", "i * 16 + tx - 48", "A[i * 16 + tx - 40]"), "(4,)")


@pytest.mark.parametrize("kind", ["range", "T.unroll", "T.vectorized"])
@pytest.mark.parametrize("extent", [0, 1, 3])
def test_extents_and_kinds(extent: int, kind: str) -> None:
    staged(
        marked(f"for i in {kind}({extent}):", "i * 16 + tx", "A[i * 16 + tx] * T.float32(3)"), f"({max(extent, 1)},)"
    )


def test_no_loop_at_all() -> None:
    copy = marked("if n > 2:", "tx", "A[tx + 3]")
    after = staged(copy, "(1,)")
    assert "if n > 2" in after.script()


def test_a_predicate_holds_for_both() -> None:
    copy = marked(
        "for i in range(4):",
        "i * 16 + tx",
        "A[i * 27 + tx - 7]",
        "T.where(i * 27 + tx - 7 >= 0 and i * 27 + tx - 7 < 80)",
    )
    after = staged(copy, "(4,)")
    assert after.script().count("T.where(") == 2


def test_values_that_are_computed() -> None:
    value = "T.if_then_else(i * 16 + tx < n, A[i * 16 + tx], T.float32(0)) + A[tx] * T.float32(2)"
    staged(marked("for i in range(4):", "i * 16 + (tx * 7) % 16", value), "(4,)")


def test_two_copies_and_a_block_around() -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        for k in range(2):
            with T.block("step"):
                T.reads(A[k * 16:k * 16 + 16])
                T.writes(B[k * 16:k * 16 + 16])
                s = T.alloc_buffer((16,), "int32", scope="shared")
                t = T.alloc_buffer((16,), "int32", scope="shared")
                T.tvm_storage_sync("shared")
                for i in range(2):
                    with T.block("s"):
                        T.reads(A[k * 16 + i * 8 + tx])
                        T.writes(s[i * 8 + tx])
                        T.block_attr({"tir.manifest_shared_memory_local_stage": 1, "other": 3})
                        s[i * 8 + tx] = A[k * 16 + i * 8 + tx]
                for i in range(2):
                    with T.block("t"):
                        T.reads(A[k * 16 + i * 8 + tx])
                        T.writes(t[i * 8 + tx])
                        T.block_attr({"tir.manifest_shared_memory_local_stage": 1})
                        t[i * 8 + tx] = A[k * 16 + i * 8 + tx] + 1
                T.tvm_storage_sync("shared")
                for i in range(2):
                    B[k * 16 + i * 8 + tx] = s[15 - i * 8 - tx] * t[i * 8 + tx]
""")
    after = check(ManifestSharedMemoryLocalStage(), before)
    text = after.script()
    assert '"other": 3' in text and text.index("t_local = ") < text.index('with T.block("s_local")')


def test_the_stages_of_a_pipeline() -> None:
    """The loads of an iteration run before the stores of the one before: that is what the stage is for."""
    before = parse("""
@T.prim_func
def f(A: T.Buffer((7, 32), "float32"), B: T.Buffer((7, 32), "float32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        for k in T.serial(7, annotations={"software_pipeline_stage": [0, 1, 1], "software_pipeline_order": [0, 1, 2]}):
            with T.block("step"):
                T.reads(A[k, 0:32])
                T.writes(B[k, 0:32])
                s = T.alloc_buffer((32,), "float32", scope="shared")
                for i in range(4):
                    with T.block("s"):
                        T.reads(A[k, i * 8 + tx])
                        T.writes(s[i * 8 + tx])
                        T.block_attr({"tir.manifest_shared_memory_local_stage": 1})
                        s[i * 8 + tx] = A[k, i * 8 + tx]
                with T.block("use"):
                    T.reads(s[0:32])
                    T.writes(B[k, 0:32])
                    for i in range(4):
                        B[k, i * 8 + tx] = s[31 - i * 8 - tx]
""")
    steps = [ManifestSharedMemoryLocalStage(), InjectSoftwarePipeline(), LowerOpaqueBlock(), ThreadSync("shared")]
    after = Sequential(steps)(before)
    a, b = np.arange(224, dtype=np.float32).reshape(7, 32), np.zeros((7, 32), np.float32)
    for seed in range(3):
        interpret(after, a, b, seed=seed, races=True)
        np.testing.assert_array_equal(b, a[:, ::-1])
    assert "s_local" in after.script() and "range(6)" in after.script()


def test_blocks_that_are_not_marked_stay() -> None:
    copy = marked("for i in range(4):", "i * 16 + tx", "A[i * 16 + tx]")
    for text in (copy.replace("            MARK\n", ""), copy.replace("MARK", 'T.block_attr({"tir.manifest_shared_memory_local_stage": 0})')):  # fmt: skip
        func = kernel(text)
        check(ManifestSharedMemoryLocalStage(), func, func)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("range(4):\n        with", "T.parallel(4):\n        with", "around it is parallel"),
        ("range(4):\n        with", "range(n):\n        with", "no constant"),
        ("= A[i * 16 + tx]", "= s[i * 16 + tx] + T.float32(1)", "reads 's', which it writes"),
        ("s[i * 16 + tx] = A[i * 16 + tx]", "T.evaluate(A[i * 16 + tx])", "its body is no store, but a Evaluate"),
        ("s[i * 16 + tx]", "B[i * 16 + tx]", "in 'global' memory"),
        (
            "            s[",
            "            with T.init():\n                s[tx] = T.float32(0)\n            s[",
            "an init",
        ),
    ],
)
def test_errors_by_name(old: str, new: str, message: str) -> None:
    copy = marked("for i in range(4):", "i * 16 + tx", "A[i * 16 + tx]").replace(old, new)
    with pytest.raises(TransformError, match=message) as caught:
        ManifestSharedMemoryLocalStage()(kernel(copy))
    assert "'copy'" in str(caught.value)


def test_iterators_are_an_error() -> None:
    copy = marked("for i in range(4):", "vi * 16 + vt", "A[vi * 16 + vt]", "T.where(i < 9)")
    copy = copy.replace(
        "T.reads", "vi = T.axis.spatial(4, i)\n            vt = T.axis.spatial(16, tx)\n            T.reads"
    )
    with pytest.raises(TransformError, match="it has iterators"):
        ManifestSharedMemoryLocalStage()(kernel(copy))
