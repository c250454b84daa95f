"""Instructions on tile registers in the interpreter: held against sums written out, and against the processor where it has them."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import InterpreterError
from tirlower.machine.cpu import host_cpu
from tirlower.script import parse

PRODUCT = """
def f(W: T.Buffer((8,), "int64"), A: T.Buffer(({rows}, {steps} * 4), "{a}"), B: T.Buffer(({steps}, {columns} * 4), "{b}"), C: T.Buffer(({rows}, {columns}), "{c}")):
    T.evaluate(T.call_llvm_intrin("void", "llvm.x86.ldtilecfg", T.address_of(W[0])))
    T.evaluate(T.call_llvm_intrin("void", "llvm.x86.tileloadd64", T.int8(0), T.address_of(C[0, 0]), T.int64({columns} * 4)))
    T.evaluate(T.call_llvm_intrin("void", "llvm.x86.tileloadd64", T.int8(1), T.address_of(A[0, 0]), T.int64({steps} * 4)))
    T.evaluate(T.call_llvm_intrin("void", "llvm.x86.tileloaddt164", T.int8(2), T.address_of(B[0, 0]), T.int64({columns} * 4)))
    T.evaluate(T.call_llvm_intrin("void", "llvm.x86.{name}", T.int8(0), T.int8(1), T.int8(2)))
    T.evaluate(T.call_llvm_intrin("void", "llvm.x86.tilestored64", T.int8(0), T.address_of(C[0, 0]), T.int64({columns} * 4)))
    T.evaluate(T.call_llvm_intrin("void", "llvm.x86.tilerelease"))
"""
ON_TILES = host_cpu().has("amx-tile", "amx-int8", "amx-bf16")


def configuration(*tiles: tuple[int, int], palette: int = 1) -> np.ndarray:
    """What ``ldtilecfg`` loads, as eight words: rows and bytes of a row of the first tiles."""
    made = np.zeros(64, np.uint8)
    made[0] = palette
    for number, (rows, size) in enumerate(tiles):
        made[16 + 2 * number], made[48 + number] = size, rows
    return made.view(np.int64)


def run(func: tl.PrimFunc, *args: np.ndarray) -> np.ndarray:
    """The last array after the interpreter; after machine code it is the same, bit for bit, where this processor has tiles."""
    mine = [arg.copy() for arg in args]
    tl.interpret(func, *mine)
    if ON_TILES:
        other = [arg.copy() for arg in args]
        tl.build(func, "llvm", schedule="none")(*other)
        same = (mine[-1] == other[-1]) | (np.isnan(mine[-1]) & np.isnan(other[-1]))
        assert same.all() and np.array_equal(np.signbit(mine[-1])[same], np.signbit(other[-1])[same])
    return mine[-1]


@pytest.mark.parametrize(("a", "b"), [*itertools.product(("int8", "uint8"), repeat=2)])
@pytest.mark.parametrize(("rows", "columns", "steps"), [(16, 16, 16), (3, 5, 7), (1, 1, 1)])
def test_products_of_bytes_are_sums_of_products(a: str, b: str, rows: int, columns: int, steps: int):
    signs = "".join("s" if kind == "int8" else "u" for kind in (a, b))
    func = parse(PRODUCT.format(rows=rows, columns=columns, steps=steps, a=a, b=b, c="int32", name=f"tdpb{signs}d"))
    rng = np.random.default_rng(rows)
    x, y = (
        rng.choice([np.iinfo(kind).min, np.iinfo(kind).max, 1, 77], shape).astype(kind)
        for kind, shape in ((a, (rows, steps * 4)), (b, (steps, columns * 4)))
    )
    sums = rng.integers(-(2**31), 2**31, (rows, columns)).astype(np.int32)
    wanted = [
        [
            int(sums[r, c]) + sum(int(x[r, k]) * int(y[k // 4, c * 4 + k % 4]) for k in range(steps * 4))
            for c in range(columns)
        ]
        for r in range(rows)
    ]
    words = configuration((rows, columns * 4), (rows, steps * 4), (steps, columns * 4))
    got = run(func, words, x, y, sums)
    np.testing.assert_array_equal(got, np.array(wanted).astype(np.int64).astype(np.int32))


@pytest.mark.parametrize("kind", ["normal", "any bits", "subnormal products", "subnormal operands"])
def test_products_of_bfloat16_are_rounded_as_documented(kind: str):
    func = parse(
        PRODUCT.format(rows=4, columns=6, steps=5, a="int8", b="int8", c="float32", name="tdpbf16ps")
        .replace("* 4), \"int8\"", "* 2), \"bfloat16\"")
    )  # fmt: skip
    rng = np.random.default_rng(1)

    def bfloats(*shape: int) -> np.ndarray:
        low, high = {"any bits": (0, 256), "subnormal products": (55, 70), "subnormal operands": (0, 2)}.get(
            kind, (120, 130)
        )
        bits = rng.integers(0, 2, shape) << 15 | rng.integers(low, high, shape) << 7 | rng.integers(0, 128, shape)
        return bits.astype(np.uint16).view(ml_dtypes.bfloat16)

    x, y = bfloats(4, 10), bfloats(5, 12)
    sums = (rng.standard_normal((4, 6)) * (1e-38 if "subnormal" in kind else 1)).astype(np.float32)
    got = run(func, configuration((4, 24), (4, 20), (5, 24)), x, y, sums)
    tiny = np.float32(2.0**-126)

    def flush(value: np.float32) -> np.float32:
        return np.copysign(np.float32(0), value) if abs(value) < tiny else value

    with np.errstate(all="ignore"):
        for r, c in itertools.product(range(4), range(6)):
            halves = [np.float32(0), np.float32(0)]
            for k in range(10):
                p, q = (flush(np.float32(v)) for v in (x[r, k], y[k // 2, c * 2 + k % 2]))
                # Twice float64's precision is not needed: the product has 16 bits, and rounding twice is harmless.
                halves[k % 2] = flush(np.float32(np.float64(halves[k % 2]) + np.float64(p) * np.float64(q)))
            wanted = flush(flush(sums[r, c]) + flush(halves[0] + halves[1]))
            assert got[r, c] == wanted or (np.isnan(got[r, c]) and np.isnan(wanted))


def test_what_has_no_meaning_is_said():
    func = parse(PRODUCT.format(rows=2, columns=2, steps=2, a="int8", b="int8", c="int32", name="tdpbssd"))
    x, c = np.zeros((2, 8), np.int8), np.zeros((2, 2), np.int32)
    for words, said in (
        (configuration((2, 8), (2, 8)), "tile 2 is not configured"),
        (configuration((2, 8), (2, 8), (2, 8), palette=2), "palette 1"),
        (configuration((2, 8), (2, 8), (1, 8)), "have no product"),
        (configuration((17, 8), (2, 8), (2, 8)), "at most 16 rows"),
        (configuration((2, 8), (3, 8), (2, 8)), "reaches outside"),
    ):
        with pytest.raises(InterpreterError, match=said):
            tl.interpret(func, words, x, x.copy(), c)
    # Nothing is left behind of it: a program that configures no tiles has none.
    alone = parse('def f():\n    T.evaluate(T.call_llvm_intrin("void", "llvm.x86.tilerelease"))')
    tl.interpret(alone)
    zero = parse('def f():\n    T.evaluate(T.call_llvm_intrin("void", "llvm.x86.tilezero", T.int8(0)))')
    with pytest.raises(InterpreterError, match="tile 0 is not configured"):
        tl.interpret(zero)


def test_bytes_that_nothing_has_written_are_not_loaded():
    func = parse("""
def f(W: T.Buffer((8,), "int64")):
    M = T.alloc_buffer((16,), "int32", scope="local")
    M[0] = 1
    T.evaluate(T.call_llvm_intrin("void", "llvm.x86.ldtilecfg", T.address_of(W[0])))
    T.evaluate(T.call_llvm_intrin("void", "llvm.x86.tileloadd64", T.int8(0), T.address_of(M[0]), T.int64(64)))
""")
    with pytest.raises(InterpreterError, match="was not written"):
        tl.interpret(func, configuration((1, 64)))
    tl.interpret(func, configuration((1, 4)))
