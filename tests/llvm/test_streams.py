"""Stores past the caches: the same elements as ordinary ones, wherever the array begins and ends."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.emit.test_memory import data
from tests.sampling import in_pairs
from tirlower.script import parse

MARK = 'annotations={"tir.nontemporal": True}'

FILLING = {
    "plain": "for i in T.serial(n, MARK):\n    B[i] = A[i]",
    "lanes": "for l in T.vectorized(n, MARK):\n    B[l] = A[l]",
    "threads": (
        "for i in T.parallel(T.ceildiv(n, 8), MARK):\n    for l in T.vectorized(8):\n        if i * 8 + l < n:\n"
        "            B[i * 8 + l] = A[i * 8 + l]"
    ),
    "rows": "for i in T.serial(3, MARK):\n    for j in range(n // 3):\n        B[i * (n // 3) + j] = A[i * (n // 3) + j]",
    "two": "for i in T.serial(n, MARK):\n    B[i] = A[i]\n    C[i] = A[n - 1 - i]",
    "then read": "for i in T.serial(n, MARK):\n    C[i] = A[i]\nfor i in T.parallel(n):\n    B[i] = C[n - 1 - i]",
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    in_pairs(FILLING, ["bool", "int8", "int16", "bfloat16", "float32", "float64", "uint64"]),
)
def test_arrays_that_begin_anywhere(name: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    body = "".join(f"    {line}\n" for line in FILLING[name].replace("MARK", MARK).split("\n"))
    params = ", ".join(f'{array}: T.Buffer((n,), "{dtype}")' for array in "ABC")
    func = parse(f"@T.prim_func\ndef f({params}, n: T.int32):\n{body}")
    kernels = (
        [tl.build(func, schedule="none"), tl.build(func, "c")]
        if dtype == "float32"
        else [tl.build(func, schedule="none")]
    )  # type: ignore[call-overload]
    for n in (0, 1, 15, 16, 48, 131, 1000):
        a = data(dtype, n, rng)
        wanted = [np.zeros_like(a) for _ in "BC"]
        tl.interpret(func, a, *wanted, n)  # type: ignore[arg-type]
        for start in (0, 1, 2, 4, 5, 8, 16):
            room = data(dtype, 2 * n + 128, rng)
            kept = room.copy()
            filled = [room[start : start + n], room[start + n + 32 :][:n]]
            for kernel in kernels:
                for array in filled:
                    array[:] = 0
                kernel(a, *filled, n)
                for array, values in zip(filled, wanted, strict=True):
                    assert array.tobytes() == values.tobytes()
            for array, place in zip(filled, (start, start + n + 32), strict=True):
                array[:] = kept[place : place + n]
            assert room.tobytes() == kept.tobytes()


def test_an_array_that_is_read_under_another_name_is_filled_in_order() -> None:
    func = parse(
        f'@T.prim_func\ndef f(A: T.Buffer((100,), "int32"), B: T.Buffer((100,), "int32")):\n'
        f"    for i in T.serial(100, {MARK}):\n        B[i] = A[i] + 1\n"
    )
    ours, theirs = np.arange(101, dtype="int32"), np.arange(101, dtype="int32")
    tl.build(func, schedule="none")(ours[:100], ours[1:])  # type: ignore[call-overload]
    tl.interpret(func, theirs[:100], theirs[1:])  # type: ignore[arg-type]
    assert ours.tolist() == theirs.tolist() == list(range(101))


def test_fences_stand_on_the_way_of_an_error() -> None:
    func = parse(
        '@T.prim_func\ndef f(A: T.Buffer((64,), "float32"), n: T.int32):\n'
        f"    for l in T.vectorized(64, {MARK}):\n        A[l] = 1.0\n    assert n > 0, 'n'\n"
    )
    kernel = tl.build(func, schedule="none")  # type: ignore[call-overload]
    a = np.zeros(64, "float32")
    with pytest.raises(Exception, match="n"):
        kernel(a, 0)
    assert a.tolist() == [1.0] * 64
    text = kernel.source("llvm")
    assert text.count("sfence()") >= text.count("ret i32") - text.count("alwaysinline") >= 1
