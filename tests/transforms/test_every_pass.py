"""Every pass on programs of every kind: what it changes is the form, never the result.

The tests of a pass say what it makes of programs made for it; here each one meets the programs of all the others.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from tests.checking import check, random_arguments
from tirlower import transforms
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret
from tirlower.ir import PrimFunc, Var
from tirlower.machine.target import Target
from tirlower.script import parse
from tirlower.transforms import Pass, Stage, catalog

PROGRAMS = {
    "constant extents, minimums that are not zero, reversed indices": """
def f(A: T.Buffer((6, 8), "float32"), B: T.Buffer((8, 6), "float32")):
    for i in range(1, 6):
        for j in range(2, 8):
            B[j, 5 - i] = A[i, j] * T.float32(2) + T.Cast("float32", i - j)
    for i, j in T.grid(8, 6):
        A[j, 7 - i] = B[i, j] - A[j, 7 - i]
""",
    "symbolic sizes and guarded tails": """
def f(A: T.Buffer(("n", 5), "float32"), B: T.Buffer(("n",), "float32"), m: T.int32):
    for io, ii in T.grid((n + 3) // 4, 4):
        if T.likely(io * 4 + ii < n):
            B[io * 4 + ii] = T.float32(0)
            for k in range(5):
                if io * 4 + ii + k < m:
                    B[io * 4 + ii] = B[io * 4 + ii] + A[io * 4 + ii, k]
""",
    "extents 0, 1 and a prime": """
def f(A: T.Buffer((7, 7), "int32")):
    for i in range(0):
        A[0, 0] = i
    for i in range(3, 4):
        for j in range(7):
            A[i, j] = A[j, i] + j
    for i, j, k in T.grid(7, 1, 0):
        A[i, j] = k
    for i, j in T.grid(1, 7):
        A[j, i] = A[j, 6 - i] * 3
""",
    "strides of either sign": """
def f(A: T.Buffer(("n", "m"), "int32", strides=("s", "t")), B: T.Buffer(("n", "m"), "int32", strides=("p", "q"))):
    for i, j in T.grid(n, m):
        B[i, j] = A[n - 1 - i, j] * 2 + A[i, m - 1 - j]
    for i, j in T.grid(n, m):
        if i % 2 == 0:
            A[i, j] = B[i, j] + i
""",
    "buffers of many dtypes": """
def f(A: T.Buffer((9,), "int8"), B: T.Buffer((9,), "uint8"), C: T.Buffer((9,), "int64"), D: T.Buffer((9,), "float16"),
      E: T.Buffer((9,), "float64"), F: T.Buffer((9,), "bool")):
    for i in range(9):
        F[i] = A[i] < T.Cast("int8", 3) and D[i] < T.float16(1)
    for i in range(9):
        C[i] = T.Cast("int64", A[i]) * T.int64(3) + T.Cast("int64", B[8 - i])
        E[i] = T.Cast("float64", D[i]) / T.float64(3)
        if F[i]:
            A[i] = A[i] + T.int8(1)
            B[i] = B[i] // T.uint8(3)
        else:
            D[i] = D[i] * T.float16(2)
""",
    "narrow floats": """
def f(A: T.Buffer((9,), "bfloat16"), B: T.Buffer((9,), "float8_e4m3fn"), C: T.Buffer((9,), "bfloat16")):
    S = T.alloc_buffer((9,), "bfloat16")
    for i in range(9):
        S[i] = A[i] + C[8 - i]
    for i in range(9):
        B[i] = B[i] * B[i]
    for i in range(9):
        C[i] = T.max(S[8 - i], C[i])
""",
    "temporaries of loops one after another": """
def f(A: T.Buffer((12,), "float32"), B: T.Buffer((12,), "float32")):
    X = T.alloc_buffer((12,), "float32")
    Y = T.alloc_buffer((3, 4), "float32")
    for i in range(12):
        X[i] = A[11 - i] * T.float32(3)
    for i in range(3):
        Z = T.alloc_buffer((4,), "float32")
        for j in range(4):
            Z[j] = X[i * 4 + j] + X[11 - i * 4 - j]
        for j in range(4):
            Y[i, 3 - j] = Z[j]
    W = T.alloc_buffer((12,), "float32")
    for i in range(12):
        W[i] = Y[i // 4, i % 4] - A[i]
    for i in range(12):
        B[i] = W[11 - i]
""",
    "while loops": """
def f(A: T.Buffer((8,), "int32"), n: T.int32):
    k = T.alloc_buffer((2,), "int32")
    k[0] = 0
    k[1] = n
    while k[0] < 8 and k[1] > 0:
        for j in range(2):
            A[k[0]] = A[k[0]] + k[1] * j
        k[0] = k[0] + 1
        k[1] = k[1] - 1
    A[0] = k[0]
""",
    "views of buffers": """
def f(A: T.Buffer((4, 6), "int32"), B: T.Buffer((24,), "int32")):
    flat = T.decl_buffer((24,), "int32", data=A.data)
    tail = T.decl_buffer((2, 6), "int32", data=A.data, elem_offset=12)
    column = T.decl_buffer((4,), "int32", data=A.data, strides=(6,), elem_offset=2)
    S = T.alloc_buffer((6,), "int32")
    bytes = T.decl_buffer((24,), "int8", data=S.data)
    for i in range(24):
        B[i] = flat[23 - i]
    for i, j in T.grid(2, 6):
        tail[i, j] = tail[i, j] + B[i * 6 + j]
    for i in range(4):
        column[i] = column[i] * 2
    for i in range(6):
        S[i] = A[3, i]
    for i in range(24):
        B[i] = B[i] + T.Cast("int32", bytes[i])
""",
    "opaque calls with addresses and pointers": """
def f(A: T.Buffer((4, 4), "int32"), B: T.Buffer((16,), "int32")):
    S = T.alloc_buffer((16,), "int32")
    for i in range(4):
        for j in range(4):
            S[i * 4 + j] = A[i, j] + 1
        T.evaluate(T.call_extern("handle", "memcpy", T.address_of(B[i * 4]), T.address_of(S[i * 4]), 16))
    T.evaluate(T.call_extern("handle", "memcpy", A.access_ptr("w"), S.access_ptr("r"), 64))
    T.evaluate(
        T.call_extern("handle", "memset", T.tvm_access_ptr(T.type_annotation("int32"), B.data, 3, 2, 2), 0, 8)
    )
    for i in range(16):
        B[i] = B[i] + S[15 - i]
""",
    "loops of every kind": """
def f(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for i in T.parallel(4):
        for j in T.vectorized(8):
            B[i, j] = A[i, j] * T.float32(2)
    for i in T.unroll(4):
        for j in T.vectorized(8):
            if j < 5:
                A[i, 7 - j] = B[i, j]
    for i in T.serial(4, annotations={"pragma_auto_unroll_max_step": 4}):
        for v in T.thread_binding(2, thread="vthread"):
            A[i, v * 4] = A[i, v * 4] + T.float32(1)
""",
    "vectors and predicates": """
def f(A: T.Buffer((16,), "float32"), B: T.Buffer((4,), "float32x4"), n: T.int32):
    for i in range(4):
        A.vstore(
            [T.Ramp(i * 4, 1, 4)],
            A[T.Ramp(12 - i * 4, 1, 4)] + T.Broadcast(T.float32(i), 4),
            predicate=T.Ramp(i * 4, 1, 4) < T.Broadcast(n, 4),
        )
    for i in range(4):
        B[i] = B[3 - i] * A[i * 4:i * 4 + 4]
""",
    "bindings, choices and assertions": """
def f(A: T.Buffer((10,), "int32"), B: T.Buffer((10,), "int32"), n: T.int32):
    z = T.int32()
    assert n < 1000, "n is small"
    for i in range(10):
        x: T.int32 = A[i] * 3 + i
        A[9 - i] = x // 2
        y: T.int32 = A[i] * 3 + i
        B[i] = T.Select(i % 3 == 0, x, y) + T.if_then_else(i + n < 10 and i + n >= 0, A[(i + n) % 10], 7)
        B[9 - i] = T.Let(z * z, where={z: x + y}) + (x + y) * (x + y)
""",
    "loops that are left early": """
def f(A: T.Buffer((9,), "int32"), B: T.Buffer((9,), "int32")):
    for i in range(9):
        if A[i] > 30:
            break
        for j in range(3):
            if j == A[i] % 3:
                continue
            B[i] = B[i] + j
    for i in range(9):
        A[i] = B[8 - i]
""",
    "divisions of either sign": """
def f(A: T.Buffer((12,), "int32"), B: T.Buffer((12,), "int64"), n: T.int32):
    for i in range(-5, 7):
        A[i + 5] = (i - 2) // 3 * 10 + (i - 2) % 3 + T.truncdiv(i, 4) * 7 + T.truncmod(i, 4)
    for i in range(12):
        B[i] = T.Cast("int64", A[i]) // T.int64(5) + T.Cast("int64", i) % T.int64(n * n + 1)
""",
    "constants": """
def f(A: T.Buffer((2, 3), "int16")):
    K_data = T.allocate_const([5, -6, 7, 8, -9, 10], "int16", [2, 3])
    K = T.Buffer((2, 3), "int16", data=K_data)
    for i, j in T.grid(2, 3):
        A[i, j] = A[i, j] * K[1 - i, 2 - j]
""",
    "blocks that reduce under a predicate": """
def f(A: T.Buffer((7, 5), "float32"), C: T.Buffer((7,), "float32")):
    B = T.alloc_buffer((7,), "float32")
    for io, ii, k in T.grid(2, 4, 5):
        with T.block("B"):
            vi = T.axis.spatial(7, io * 4 + ii)
            vk = T.axis.reduce(5, k)
            T.where(io * 4 + ii < 7)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
    for i in range(7):
        with T.block("C"):
            vi = T.axis.spatial(7, i)
            C[vi] = B[6 - vi] * T.float32(2)
""",
    "blocks with matched regions": """
def f(A: T.Buffer(("n", 8), "int32"), C: T.Buffer(("n", 8), "int32")):
    for i, j in T.grid(n, 2):
        with T.block("tile"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi, vj * 4:vj * 4 + 4])
            T.writes(C[vi, vj * 4:vj * 4 + 4])
            S = T.match_buffer(A[vi, vj * 4:vj * 4 + 4], (4,), "int32", offset_factor=1)
            D = T.match_buffer(C[vi, vj * 4:vj * 4 + 4], (4,), "int32", offset_factor=1)
            L = T.alloc_buffer((4,), "int32")
            for k in range(4):
                L[k] = S[3 - k] + k
            for k in range(4):
                D[k] = L[3 - k] * 2
""",
}

REFUSED = {
    ("ForceNarrowIndexToInt32", "buffers of many dtypes"): "holds int64",
    ("ForceNarrowIndexToInt32", "divisions of either sign"): "holds int64",
}
"""What a pass cannot do for a program, and says."""

AROUND_THE_BODY = {"InstrumentProfileIntrinsics", "MakePackedAPI"}
"""Passes that put statements around the body: around a root block, the script would state another one."""
OTHER_SIGNATURE = {"MakeUnpackedAPI"}
"""Passes after which a call passes other arguments."""
FOR_GPUS = {
    "DecorateDeviceScope", "AnnotateDeviceRegions", "DefaultGPUSchedule", "InferFragment", "InjectPTXAsyncCopy",
    "InjectPTXLDG32", "InjectPermutedLayout", "LiftThreadBinding", "LowerCrossThreadReduction",
    "LowerDeviceKernelLaunch", "LowerDeviceStorageAccessInfo", "LowerThreadAllreduce", "LowerWarpMemory",
    "ManifestSharedMemoryLocalStage", "MergeSharedMemoryAllocations", "SplitHostDevice", "ThreadSync",
    "TransformMmaBufferLayout", "UnifyThreadBinding",
}  # fmt: skip
"""Passes whose subject is threads of a device."""
PASSES = [
    name.removeprefix("tir.")
    for name in sorted(entry.name for entry in catalog())
    if name.startswith("tir.") and name.removeprefix("tir.") not in OTHER_SIGNATURE | FOR_GPUS
]
TO_STAGE = {
    Stage.BLOCK: (),
    Stage.OPAQUE: ("LowerInitBlock", "PlanAndUpdateBufferAllocationLocation", "ConvertBlocksToOpaque"),
    Stage.FLAT: ("LowerMatchBuffer", "LowerOpaqueBlock"),
    Stage.FLAT_1D: ("FlattenBuffer",),
}
"""What brings a program to each stage from the one before."""
NEEDED: dict[str, dict[str, Any]] = {"BindTarget": {"target": "llvm"}}
"""What a pass cannot do without."""
OPTIONS: dict[str, dict[str, Any]] = {
    "CommonSubexprElimTIR": {"identify_equiv_terms": True},
    "CompactBufferAllocation": {"is_strict": False},
    "LoopPartition": {"partition_const_loop": True},
    "ReduceBranchingThroughOvercompute": {"use_dataflow_analysis": True},
    "RemoveNoOp": {"use_dataflow_analysis": True},
    "Simplify": {
        "transitively_prove_inequalities": True,
        "propagate_knowns_to_prove_conditional": True,
        "propagate_knowns_to_simplify_expressions": True,
        "convert_boolean_to_and_of_ors": True,
        "apply_constraints_to_boolean_branches": True,
    },
    "UnrollLoop": {"auto_max_step": 8, "auto_max_extent": 7},
    "VectorizeLoop": {"predicate": True},
}
"""Options with which a pass does more than without."""


def at_stage(kind: str, stage: Stage) -> tuple[PrimFunc, list[str]]:
    """A program at a stage, and what brought it there."""
    names: list[str] = []
    for reached, more in TO_STAGE.items():
        names += more
        if reached is stage:
            break
    return lowered(kind, tuple(names)), names


@functools.cache
def lowered(kind: str, names: tuple[str, ...]) -> PrimFunc:
    """A program after some passes."""
    if not names:
        return parse("@T.prim_func" + PROGRAMS[kind])
    return getattr(transforms, names[-1])()(lowered(kind, names[:-1]))


def stages(name: str, one: Pass) -> tuple[Stage, ...]:
    """Where a pass is run: at its own stage, or as the program was written and where most of the pipeline stands."""
    if one.stage is Stage.ANY and name not in AROUND_THE_BODY:
        return Stage.BLOCK, Stage.FLAT_1D
    return (one.stage,) if one.stage in TO_STAGE else (Stage.FLAT_1D,)


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, NEEDED.get(name, {})) for name in PASSES] + list(OPTIONS.items()),
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_programs_of_every_kind_compute_the_same(name: str, options: dict[str, Any]) -> None:
    one = getattr(transforms, name)(**options)
    for kind in PROGRAMS:
        for stage in stages(name, one):
            before, done = at_stage(kind, stage)
            for need in [need.removeprefix("tir.") for need in one.needs if isinstance(need, str)]:
                if need not in done:
                    before = getattr(transforms, need)(**NEEDED.get(need, {}))(before)
            if (name, kind) in REFUSED:
                with pytest.raises(TransformError, match=REFUSED[name, kind]):
                    one(before)
                continue
            try:
                check(one, before, idempotent=False, samples=2, sizes=(0, 1, 3, 7))
            except BaseException as error:
                error.add_note(f"{name} on the program with {kind}, {stage.value}")
                raise


@pytest.mark.parametrize("kind", PROGRAMS)
def test_an_unpacked_entry_computes_the_same_from_pointers_and_symbols(kind: str) -> None:
    before, _ = at_stage(kind, Stage.FLAT_1D)
    with Target("llvm", host="llvm"):
        after = transforms.MakeUnpackedAPI()(before)
    rng = np.random.default_rng(5)
    for _ in range(3):
        args = random_arguments(before, rng, sizes=(0, 1, 3, 7))
        first = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
        values = dict(zip([param.name for param in before.params], args, strict=True))
        for buffer in before.buffers:
            array = values[next(p.name for p, b in before.buffer_map.items() if b is buffer)]
            steps = [step // array.itemsize for step in array.strides]
            for part, value in zip((*buffer.shape, *buffer.strides), (*array.shape, *steps), strict=False):
                if isinstance(part, Var):
                    values.setdefault(part.name, value)
        interpret(before, *first)
        interpret(after, *args, *[values[param.name] for param in after.params[len(args) :]])
        for x, y in zip(first, args, strict=True):
            assert not isinstance(x, np.ndarray) or x.tobytes() == y.tobytes()
