"""What the machine code looks like where speed rests on it: read from the reports of builds.

The kernels are built for a processor that is named, not for the one that runs the tests: the assembly is the same
everywhere.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import tirlower as tl
from bench.vectors import neighbours, product_by_tile
from examples.jacobi import jacobi
from examples.layer_norm import layer_norm
from examples.matmul import tiled
from examples.softmax import softmax
from tirlower.driver.cpu_compile import generate_code
from tirlower.emit.compile import emit_assembly
from tirlower.ir import PrimFunc
from tirlower.llvm.machine_loops import MachineLoop, machine_loops
from tirlower.script import parse

x86 = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names processors of the x86 family")
pytestmark = x86

#: registers of 512 and of 256 bits
PROCESSORS = {"znver4": 512, "haswell": 256}


def elementwise(lanes: int, body: str, *arrays: tuple[str, str], extent: int = 16384, scalars: str = "") -> PrimFunc:
    """A function that runs ``body`` for each lane ``l`` of vectors of a whole number of registers; ``e`` is the element."""
    params = ", ".join(f'{name}: T.Buffer(({4 * extent},), "{dtype}")' for name, dtype in arrays)
    return parse(  # type: ignore[return-value]
        f"@T.prim_func\ndef f({params}{scalars}):\n"
        '    T.func_attr({"tir.noalias": True})\n'
        f"    for i in range({extent // lanes}):\n"
        f"        for l in T.vectorized({lanes}):\n" + "".join(f"            {line}\n" for line in body.splitlines())
    )


F32 = (("A", "float32"), ("B", "float32"), ("C", "float32"))


def at(lanes: int) -> str:
    return f"i * {lanes} + l"


def floats(body: str, dtype: str = "float32", scalars: str = "") -> Callable[[int], PrimFunc]:
    """By the bits of a register: as many lanes as it holds elements of the type."""

    def make(bits: int) -> PrimFunc:
        lanes = bits // (64 if dtype.endswith("64") else int(re.sub(r"\D", "", dtype)))
        arrays = tuple((name, dtype) for name in "ABC")
        return elementwise(lanes, body.replace("@", at(lanes)), *arrays, scalars=scalars)

    return make


def converting(source: str, result: str, body: str, width: int = 32) -> Callable[[int], PrimFunc]:
    def make(bits: int) -> PrimFunc:
        lanes = bits // width
        return elementwise(lanes, body.replace("@", at(lanes)), ("A", source), ("B", result))

    return make


def reading(body: str) -> Callable[[int], PrimFunc]:
    """Float32 elements read at other places than those written."""

    def make(bits: int) -> PrimFunc:
        lanes = bits // 32
        text = body.replace("@", at(lanes)).replace("LANES", str(lanes))
        return elementwise(lanes, text, *F32, ("I", "int32"))

    return make


#: What a vectorized loop is made of; each becomes one innermost loop of whole vectors.
KERNELS: dict[str, Callable[[int], PrimFunc]] = {
    "add": floats("C[@] = A[@] + B[@]"),
    "axpy": floats("C[@] = A[@] * a + B[@]", scalars=", a: T.float32"),
    "double": floats("C[@] = A[@] * B[@] - C[@]", "float64"),
    "int32": floats("C[@] = A[@] * B[@] + C[@]", "int32"),
    "int8": floats("C[@] = T.max(A[@], B[@])", "int8"),
    "uint16": floats("C[@] = T.min(A[@] + B[@], T.uint16(255))", "uint16"),
    "bits": floats("C[@] = T.bitwise_xor(T.shift_left(A[@], T.uint32(3)), B[@])", "uint32"),
    "relu": floats("C[@] = T.max(A[@], T.float32(0))"),
    "select": floats("C[@] = T.Select(A[@] > B[@], A[@] * T.float32(2), B[@])"),
    "guarded": floats("if A[@] > T.float32(0):\n    C[@] = T.sqrt(A[@]) + B[@]"),
    "square root": floats("C[@] = T.sqrt(A[@] * A[@] + B[@] * B[@])"),
    "exp": floats("C[@] = T.exp(A[@])"),
    "tanh": floats("C[@] = T.tanh(A[@])"),
    "sigmoid": floats("C[@] = T.sigmoid(A[@])"),
    "log": floats("C[@] = T.log(A[@])"),
    "widening": converting("int8", "int32", 'B[@] = T.Cast("int32", A[@]) * 3'),
    "int to float": converting("int32", "float32", 'B[@] = T.Cast("float32", A[@]) * T.float32(0.5)'),
    "half": converting("float16", "float32", 'B[@] = T.Cast("float32", A[@]) + T.float32(1)'),
    "bfloat16": converting("bfloat16", "float32", 'B[@] = T.Cast("float32", A[@]) + T.float32(1)'),
    "reversed": reading("C[@] = A[i * LANES + (LANES - 1 - l)] + B[@]"),
    "shifted": reading("C[@] = A[@] + A[@ + 1] + A[@ + 2]"),
    "broadcast": reading("C[@] = A[i] * B[@]"),
    "gather": reading("C[@] = A[T.bitwise_and(I[@], 4095)] + B[@]"),
    "strided": reading("C[@] = A[(i * LANES + l) * 2] + B[@]"),
}


def vector_loop(func: PrimFunc, mcpu: str) -> MachineLoop:
    """The innermost loop with the most vector code."""
    with tl.PassContext(config={"tir.unproved_bounds": "trust"}):
        kernel = tl.build(func, f"llvm -mcpu={mcpu}", schedule="none")
    loops = kernel.report().inner_loops
    assert loops, kernel.source("asm")
    return max(loops, key=lambda loop: (loop.vector_bits, loop.instructions))


#: LLVM knows that gathering is slower there than loading lane by lane.
SLOW_GATHER = ("gather", "haswell")


@pytest.mark.parametrize(
    ("name", "mcpu"), [(name, mcpu) for name in KERNELS for mcpu in PROCESSORS if (name, mcpu) != SLOW_GATHER]
)
def test_a_vectorized_loop_is_made_of_whole_vectors(name, mcpu):
    bits = PROCESSORS[mcpu]
    loop = vector_loop(KERNELS[name](bits), mcpu)
    assert loop.vector_bits == bits, f"{loop}\n" + "\n".join(loop.lines)
    flaws = (loop.lane_moves, loop.scalar_floats, loop.spills, loop.calls)
    assert flaws == (0, 0, 0, 0), f"{loop}\n" + "\n".join(loop.lines)


@pytest.mark.parametrize("mcpu", PROCESSORS)
@pytest.mark.parametrize("call", ["sin(A[i])", "cos(A[i])", "tan(A[i])", "pow(A[i], B[i])"])
def test_a_plain_loop_with_a_rare_slow_path_is_made_of_vectors(call, mcpu):
    arrays = ", ".join(f'{name}: T.Buffer((16384,), "float32")' for name in "ABC")
    func = parse(f"@T.prim_func\ndef f({arrays}):\n    for i in range(16384):\n        C[i] = T.{call}\n")
    assert vector_loop(func, mcpu).vector_bits == PROCESSORS[mcpu]


EXAMPLES = {
    "softmax": lambda bits: softmax(64, 1024),
    "layer norm": lambda bits: layer_norm(64, 1024, lanes=bits // 32),
    "jacobi": lambda bits: jacobi(1026),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_are_made_of_whole_vectors(name):
    loop = vector_loop(EXAMPLES[name](512), "znver4")
    assert loop.vector_bits == 512
    assert (loop.lane_moves, loop.spills, loop.calls) == (0, 0, 0), "\n".join(loop.lines)


def test_the_tiled_matmul_keeps_its_accumulators_in_registers():
    loops = tl.build(tiled(512, 512, 512), "llvm -mcpu=znver4", schedule="none").report().inner_loops
    kernel = max(loops, key=lambda loop: sum("vfmadd" in line for line in loop.lines))
    fused = [line for line in kernel.lines if "vfmadd" in line]
    # 8 rows of two registers: 16 multiply-adds for each step of k, every accumulator a register of its own.
    assert len(fused) % 16 == 0
    targets = {line.split(",")[-1].strip() for line in fused}
    assert len(targets) == 16
    assert all("zmm" in line for line in fused)
    assert kernel.spills == 0, "an accumulator is spilled"
    assert not [line for line in kernel.lines if re.match(r"vmov\w+\s+%zmm\d+,\s*-?\w*\(", line)]


@pytest.mark.parametrize(("mcpu", "register"), [("x86-64", "xmm"), ("haswell", "ymm"), ("znver4", "zmm")])
def test_a_serial_loop_is_vectorized_by_llvm(mcpu, register):
    func = parse(
        "@T.prim_func\n"
        'def add(A: T.Buffer((4096,), "float32"), B: T.Buffer((4096,), "float32"), C: T.Buffer((4096,), "float32")):\n'
        '    T.func_attr({"tir.noalias": True})\n'
        "    for i in range(4096):\n"
        "        C[i] = A[i] + B[i]\n"
    )
    loops = tl.build(func, f"llvm -mcpu={mcpu}", schedule="none").report().inner_loops
    assert any(f"%{register}" in line and "addps" in line for loop in loops for line in loop.lines)


#: nests whose inner loops stay, and how many innermost loops their code has (a rest of the iterations is one)
_TWICE = "for l in T.vectorized(16):\n                A[h, i, l] = A[h, i, l] * 2.0"
NESTS = {
    "heads": (f"for h in range(8):\n        for i in range(512):\n            {_TWICE}", 1),
    "of unknown length": ("for h in range(8):\n        for i in range(n):\n            A[h, i % 512, 0] *= 2.0", 2),
    "a while loop": ("for h in range(64):\n        while A[0, h, 0] > 3.0:\n            A[0, h, 0] *= 0.3", 1),
    "unrolled": (f"for h in T.unroll(8):\n        for i in range(512):\n            {_TWICE}", 8),
}


@pytest.mark.parametrize("name", NESTS)
def test_a_loop_around_loops_is_not_copied_unless_it_says_so(name: str) -> None:
    body, copies = NESTS[name]
    func = parse(f'@T.prim_func\ndef f(A: T.Buffer((8, 512, 16), "float32"), n: T.int32):\n    {body}\n')
    kernel = tl.build(func, "llvm -mcpu=znver4 -num_threads=1", schedule="none")
    steps = [x for x in kernel.report().inner_loops if any(re.match("vmul|vadd", line) for line in x.lines)]
    assert len(steps) == copies, kernel.source("asm")


def test_a_loop_around_loops_that_go_is_left_to_llvm() -> None:
    params = 'A: T.Buffer((66, 66), "float32"), K: T.Buffer((3, 3), "float32"), C: T.Buffer((64, 64), "float32")'
    body = "for i, j, y, x in T.grid(64, 64, 3, 3):\n        C[i, j] += A[i + y, j + x] * K[y, x]"
    kernel = tl.build(parse(f"@T.prim_func\ndef f({params}):\n    {body}\n"), "llvm -mcpu=znver4", schedule="none")
    # Only the outermost loop has one in it that stays: that of 64 iterations of nine products each.
    assert kernel.source("llvm").count("!llvm.loop") == 1
    assert max(loop.vector_bits for loop in kernel.report().inner_loops) == 512


@pytest.mark.parametrize("mcpu", PROCESSORS)
def test_which_lane_of_a_guard_failed_is_looked_for_by_a_loop(mcpu: str) -> None:
    arrays = 'A: T.Buffer((4096,), "float32"), I: T.Buffer((4096,), "int32"), S: T.Buffer((1,), "float32")'
    head = 'for l in T.vectorized(16, annotations={"tir.reduction": True})'
    body = f"for i in range(256):\n        {head}:\n            S[0] = S[0] + A[I[i * 16 + l]]"
    kernel = tl.build(
        parse(f"@T.prim_func\ndef f({arrays}):\n    {body}\n"), f"llvm -mcpu={mcpu} -num_threads=1", schedule="none"
    )
    searches = [x for x in kernel.report().inner_loops if not x.vector_bits and x.instructions < 10]
    assert len(searches) == 4, "one for each chain of the sum"
    assert len(re.findall(r"\tcmp\w\s\$4096,", kernel.source("asm"))) == 4, "a lane is compared in a place of its own"
    # The loop around it is as free as one without.
    assert kernel.source("llvm").count("!llvm.loop") == 4


@pytest.mark.parametrize(
    ("mcpu", "rows", "spills"), [("haswell", 6, False), ("haswell", 8, True), ("znver4", 14, False)]
)
def test_an_unrolled_tile_is_written_out_by_llvm_as_by_us(mcpu: str, rows: int, spills: bool) -> None:
    func = product_by_tile(rows, PROCESSORS[mcpu] // 32, 2, "T.unroll")
    kernel = tl.build(func, f"llvm -mcpu={mcpu}", schedule="none")
    assert "T.unroll" in kernel.source("tir")
    loop = max(kernel.report().inner_loops, key=lambda found: sum("vfmadd" in line for line in found.lines))
    assert sum("vfmadd" in line for line in loop.lines) == 2 * rows, loop.lines
    assert bool(loop.spills) == spills, loop.lines
    copies = tl.build(product_by_tile(rows, PROCESSORS[mcpu] // 32, 2, "copies"), f"llvm -mcpu={mcpu}", schedule="none")
    assert copies.source("asm") == kernel.source("asm")


@pytest.mark.parametrize("mcpu", PROCESSORS)
@pytest.mark.parametrize("loads", [True, False])
def test_neighbours_are_loaded_or_shuffled_as_the_program_says(mcpu: str, loads: bool) -> None:
    lanes = PROCESSORS[mcpu] // 32
    loop = max(
        tl.build(neighbours(lanes, loads), f"llvm -mcpu={mcpu}", schedule="none").report().inner_loops,
        key=lambda x: x.vector_bits,
    )
    stored = sum(bool(_STORE.match(line)) for line in loop.lines)
    text = "\n".join(loop.lines)
    # What the arithmetic reads from memory itself is a load too.
    aligned = len(re.findall(r"^vmovaps\s+-?\w*\(", text, re.M))
    anywhere = len(re.findall(r"^v(?:movups|addps)\s+-?\w*\(", text, re.M))
    permuted = len(re.findall(r"^v(?:perm|shuf|align)", text, re.M))
    assert loop.vector_bits == PROCESSORS[mcpu] and not loop.spills and not loop.lane_moves
    if loads:
        assert permuted == 0 and anywhere == 2 * stored, text
    else:
        # One instruction chooses from two vectors of 512 bits; halves of 256 bits are moved first, once for both sides.
        assert anywhere == 0 and aligned == stored, text
        assert permuted == 2 * stored if lanes == 16 else permuted <= 5 * stored + 1, text


def _sum(head: str, update: str, mcpu: str) -> tl.Kernel:
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((4096,), "float32"), S: T.Buffer((1,), "float32")):
    for i in {head}:
        {update}
""")
    made = tl.build(func, f"llvm -mcpu={mcpu} -num_threads=1", schedule="none")
    assert isinstance(made, tl.Kernel)
    return made


@pytest.mark.parametrize("mcpu", PROCESSORS)
def test_a_sum_of_vectors_has_four_chains_that_are_combined_in_halves(mcpu: str) -> None:
    lanes = PROCESSORS[mcpu] // 32
    mark = 'annotations={"tir.reduction": True}'
    inner = f"for l in T.vectorized({lanes}, {mark}):\n            S[0] = S[0] + A[i * {lanes} + l]"
    explicit = _sum(f"range({4096 // lanes})", inner, mcpu)
    by_llvm = _sum(f"T.serial(4096, {mark})", "S[0] = S[0] + A[i]", mcpu)
    for kernel in (explicit, by_llvm):
        loop = max(kernel.report().inner_loops, key=lambda found: found.vector_bits)
        sums = {line.split(",")[-1].strip() for line in loop.lines if line.startswith("vaddps")}
        assert len(sums) == 4 and loop.vector_bits == PROCESSORS[mcpu], loop.lines
    assembly = explicit.source("asm")
    rest = assembly[assembly.index("f.kernel:") : assembly.index(".Lfunc_end")].rpartition("jne")[2]
    # Three vectors onto the first, halves until one lane is left, and that onto what was there.
    steps = 3 + (lanes.bit_length() - 1) + 1
    assert len(re.findall(r"\tvadd[sp]s", rest)) == steps, rest


_STORE = re.compile(r"^\s*v?mov\w+\s+%\w+,\s*-?\d*\(")

ACCUMULATING = {
    "a product": (
        'A: T.Buffer((64, 256), "float32"), B: T.Buffer((64, 256), "float32"), C: T.Buffer((64, 64), "float32")',
        "for i, j, k in T.grid(64, 64, 256):\n        C[i, j] += A[i, k] * B[j, k]",
    ),
    "a sum": (
        'A: T.Buffer(("n",), "float64"), C: T.Buffer((1,), "float64")',
        "for i in range(n):\n        C[0] += A[i]",
    ),
    "rows": (
        'A: T.Buffer(("n", "m"), "int32"), C: T.Buffer(("n",), "int32")',
        "for i in T.parallel(n):\n        for j in range(m):\n            C[i] = T.max(C[i], A[i, j])",
    ),
    "a count under a condition": (
        'A: T.Buffer(("n",), "int32"), C: T.Buffer((1,), "int32")',
        "C[0] = 0\n    for i in range(n):\n        if A[i] > 5:\n            C[0] += 1",
    ),
    "a maximum by comparing": (
        'A: T.Buffer(("n",), "int64"), C: T.Buffer((1,), "int64")',
        "C[0] = -1\n    for i in range(n):\n        if A[i] > C[0]:\n            C[0] = A[i]",
    ),
    "rows under a condition": (
        'A: T.Buffer(("n", "m"), "int32"), C: T.Buffer(("n",), "int32")',
        "for i in range(n):\n        C[i] = 0\n        for j in range(m):\n"
        "            if A[i, j] > C[i]:\n                C[i] = C[i] * 2 + j",
    ),
    "a convolution": (
        'A: T.Buffer((100,), "float32"), K: T.Buffer((7,), "float32"), C: T.Buffer((94,), "float32")',
        "for i in range(94):\n        for j in range(7):\n            C[i] += A[i + j] * K[j]",
    ),
}


@pytest.mark.parametrize("name", ACCUMULATING)
def test_what_is_accumulated_stays_in_a_register_where_arrays_are_apart(name: str) -> None:
    params, body = ACCUMULATING[name]
    kernel = tl.build(
        parse(f"@T.prim_func\ndef f({params}):\n    {body}\n"), target="llvm -mcpu=haswell", schedule="none"
    )

    def stores(assembly: str) -> int:
        return sum(bool(_STORE.match(line)) for loop in machine_loops(assembly) for line in loop.lines)

    assert stores(kernel.source("asm")) == 0
    overlapping = replace(kernel.artifact.spec, overlap="f", outputs={})
    code = generate_code(overlapping.lower(), overlapping, {})
    assert stores("".join(emit_assembly(part, overlapping.options) for part in code.parts)) > 0


@pytest.mark.parametrize("dtype, copied", [("float32", "A[i]"), ("uint32", "T.reinterpret('uint32', A[i])")])
def test_a_loop_that_copies_and_stores_more_reads_once(dtype: str, copied: str) -> None:
    params = f'A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "{dtype}"), C: T.Buffer(("n",), "float32")'
    body = f"for i in range(n):\n        B[i] = {copied}\n        C[i] = -A[i]"
    assembly = tl.build(
        parse(f"@T.prim_func\ndef f({params}):\n    {body}\n"), target="llvm -mcpu=haswell", schedule="none"
    ).source("asm")
    assert "memcpy" not in assembly
    # Eight elements a load, and two stores of what it loaded.
    widest = max(machine_loops(assembly), key=lambda loop: loop.vector_bits)
    stores = sum(bool(_STORE.match(line)) for line in widest.lines)
    loads = sum(line.startswith("vmovups") and not _STORE.match(line) for line in widest.lines)
    assert stores == 2 * loads > 0


def test_functions_whose_loops_copy_are_inlined() -> None:
    made = tl.build(
        parse("""
@I.ir_module
class Pairs:
    @T.prim_func(private=True)
    def swap(p: T.handle("int32"), n: T.int32, k: T.int32):
        A = T.Buffer((n,), "int32", data=p)
        for i in range(n - k):
            t: T.int32 = A[i]
            A[i] = A[i + k]
            A[i + k] = t

    @T.prim_func(private=True)
    def both(p: T.handle("int32"), n: T.int32):
        Pairs.swap(p, n, 3)

    @T.prim_func
    def main(A: T.Buffer((n,), "int32"), n: T.int32):
        for _ in range(n):
            Pairs.both(A.data, n)
"""),
        target="llvm -mcpu=haswell",
        schedule="none",
    )
    assert not isinstance(made, tl.Kernel)
    assembly = made["main"].source("asm")
    assert "main.kernel:" in assembly and not re.search(r"call\S*\s+(swap|both)", assembly)


def test_a_mask_of_lanes_is_computed_in_one_register() -> None:
    lanes = 'T.get_active_lane_mask("boolx8", i * 8, n)'
    func = parse(f"""
@T.prim_func
def tail(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,))
    B = T.match_buffer(b, (n,))
    for i in range((n + 7) // 8):
        B.vstore([T.Ramp(i * 8, 1, 8)], A.vload([T.Ramp(i * 8, 1, 8)], predicate={lanes}), predicate={lanes})
""")
    assembly = tl.build(func, target="llvm -mcpu=haswell", schedule="none").source("asm")
    assert "vmaskmov" in assembly and "vpcmpgtd" in assembly
    assert "vpcmpgtq" not in assembly and "vpackss" not in assembly


#: scalars bound anew in loops, by what the loop makes of them
VARIABLES = {
    "a sum": "s = 0.0\nfor k in range(1024):\n    s += A[k]\nB[0] = s",
    "a product and a sum": "s = 0.0\np = 1.0\nfor k in range(1024):\n    p *= A[k]\n    s += p\nB[0] = s",
    "a maximum": "m = A[0]\nfor k in range(1024):\n    if A[k] > m:\n        m = A[k]\nB[0] = m",
    "a place": "m = A[0]\nw = 0\nfor k in range(1024):\n    if A[k] > m:\n        m = A[k]\n        w = k\nB[0] = w",
    "a counter": "i = 0\nwhile i < 1000:\n    B[i] = A[i] * 2.0\n    i += 1",
    "a count": "s = 0\nfor k in range(1024):\n    if A[k] < 0.0:\n        break\n    s += 1\nB[0] = s",
    "a swap": "a, b = 0, 1\nfor k in range(1024):\n    a, b = b, a + b\nB[0] = a",
    "sums of rows": "for i in range(32):\n    s = 0.0\n    for k in range(32):\n        s += A[i * 32 + k]\n    B[i] = s",
    "sums in threads": "for i in T.parallel(32):\n    s = 0.0\n    for k in range(n):\n        s += A[(i * 32 + k) % 1024]\n    B[i] = s",
    "sums in lanes": "for i in T.vectorized(16):\n    s = 0.0\n    for k in range(64):\n        s += A[k * 16 + i]\n    B[i] = s",
    "running sums": "s = 0.0\nfor k in range(1024):\n    s += A[k]\n    B[k] = s",
    "nested sums": (
        "t = 0.0\nfor i in range(32):\n    s = 0.0\n    for k in range(32):\n        s += A[i * 32 + k]\n    t += s * s\nB[0] = t"
    ),
    "Horner": "for i in range(1024):\n    y = 0.0\n    for k in range(9):\n        y = y * A[i] + 1.5\n    B[i] = y",
    "Newton": "for i in range(1024):\n    y = A[i]\n    while y * y > A[i]:\n        y = 0.5 * (y + A[i] / y)\n    B[i] = y",
    "Collatz": (
        "for i in range(1024):\n    n = i + 1\n    c = 0\n    while n != 1:\n        if n % 2 == 0:\n            n = n // 2\n"
        "        else:\n            n = 3 * n + 1\n        c += 1\n    B[i] = c"
    ),
    "Euclid": "for i in range(1024):\n    a = i\n    b = 360\n    while b != 0:\n        a, b = b, a % b\n    B[i] = a",
    "a search": (
        "for i in range(1024):\n    lo = 0\n    hi = 1024\n    while lo < hi:\n        mid = (lo + hi) // 2\n"
        "        if A[mid] < B[i]:\n            lo = mid + 1\n        else:\n            hi = mid\n    B[i] = lo"
    ),
    "a block": 's = 0.0\nfor i in range(1024):\n    with T.block("b"):\n        v = T.axis.spatial(1024, i)\n        s += A[v]\n        B[v] = s',
    "a parameter": "x = 1.0\nwhile n > 0:\n    x = x * A[n % 1024]\n    n = n // 2\nB[0] = x",
    "mean and variance": (
        "s = 0.0\nq = 0.0\nfor k in range(1024):\n    s += A[k]\n    q += A[k] * A[k]\nB[0] = s\nB[1] = q - s * s"
    ),
}


@pytest.mark.parametrize("name", VARIABLES)
def test_variables_are_registers(name):
    body = "\n".join("    " + line for line in VARIABLES[name].split("\n"))
    func = parse(f'def f(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32"), n: T.int32):\n{body}\n')
    assert 'scope="local"' in func.script(), "no variable"
    loops = tl.build(func, "llvm -mcpu=haswell", schedule="none").report().inner_loops
    assert loops or name == "a swap"
    assert not [line for loop in loops for line in loop.lines if re.search(r"\(%r[sb]p", line)]
    assert sum(loop.spills for loop in loops) == 0


#: A hint 64 elements ahead of what is read, so behind the end at last: the body of a function of A, I and B.
PREFETCHES = {
    "in a loop": "for i in range(1024):\n    HINT(A[i + 64])\n    B[i] = A[i]",
    "around lanes": (
        "for i in range(64):\n    HINT(A[i * 16 + 64])\n    for l in T.vectorized(16):\n"
        "        B[i * 16 + l] = A[i * 16 + l] + T.float32(1)"
    ),
    "in lanes": "for i in range(64):\n    for l in T.vectorized(16):\n        HINT(A[i * 16 + l + 64])",
    "in threads": "for i in T.parallel(64):\n    HINT(A[i * 16 + 64])",
    "in copies": "for i in T.unroll(8):\n    B[i] = A[i]\n    HINT(A[i * 16 + 64])",
    "under a condition": "for i in range(1024):\n    B[i] = A[i]\n    if i % 16 == 0:\n        HINT(A[i + 64])",
    "in a block": (
        'for i in range(64):\n    with T.block("b"):\n        v = T.axis.spatial(64, i)\n        HINT(A[v * 16 + 64])\n'
        "        B[v] = A[v]"
    ),
    "of what an index names": "for i in range(1016):\n    HINT(A[I[i + 8]])\n    B[i] = A[I[i] % 1024]",
    "in front of the array": "for i in range(1024):\n    HINT(A[i - 4096])",
}


@pytest.mark.parametrize("name", PREFETCHES)
@pytest.mark.parametrize("hint", ["0, 3", "1, 3", "0, 0"])
def test_prefetches_are_in_the_machine_code(name: str, hint: str) -> None:
    body = re.sub(r"HINT\((.*)\)", rf"T.prefetch(T.address_of(\1), {hint}, 1)", PREFETCHES[name])
    params = 'A: T.Buffer((1024,), "float32"), I: T.Buffer((1024,), "int32"), B: T.Buffer((1024,), "float32")'
    func = parse(f"@T.prim_func\ndef f({params}):\n" + "".join(f"    {line}\n" for line in body.split("\n")))
    kernel = tl.build(func, "llvm -mcpu=znver4", schedule="none")  # type: ignore[arg-type]
    instruction = {"0, 3": "prefetcht0", "1, 3": "prefetchw", "0, 0": "prefetchnta"}[hint]
    lines = [line for line in kernel.source("asm").splitlines() if "prefetch" in line]
    assert lines and all(instruction in line for line in lines)
    if name == "around lanes":
        stores = re.findall(r"vmovups\s%zmm\d+, .*\(", kernel.source("asm"))
        assert len(stores) == len(lines)


@pytest.mark.parametrize("mcpu", PROCESSORS)
@pytest.mark.parametrize(("dtype", "lines"), [("float32", 4), ("float64", 8), ("uint8", 1)])
def test_a_plain_loop_that_fetches_ahead_is_made_of_vectors(mcpu: str, dtype: str, lines: int) -> None:
    params = f'A: T.Buffer((4096,), "{dtype}"), B: T.Buffer((4096,), "{dtype}")'
    body = f"T.prefetch(T.address_of(A[i + 512]), 0, 3, 1)\n        B[i] = A[i] + T.{dtype}(3)"
    kernel = tl.build(
        parse(f"@T.prim_func\ndef f({params}):\n    for i in range(4096):\n        {body}\n"),
        f"llvm -mcpu={mcpu}",
        schedule="none",
    )
    loops = [loop for loop in kernel.report().inner_loops if any("prefetcht0" in line for line in loop.lines)]
    assert loops, kernel.source("asm")
    for loop in loops:
        elements = (
            sum(bool(_STORE.match(line)) for line in loop.lines) * PROCESSORS[mcpu] // int(re.sub(r"\D", "", dtype))
        )
        assert loop.vector_bits == PROCESSORS[mcpu] and elements % 64 == 0, loop.lines
        assert sum("prefetcht0" in line for line in loop.lines) == lines * elements // 64, loop.lines


#: Bodies that fill B under an annotation, and whether whole registers go past the caches.
STREAMS = {
    "a plain loop": ("for i in T.serial(1000, MARK):\n    B[i] = A[i] * x", True),
    "lanes": (
        "for i in T.serial(64, MARK):\n    for l in T.vectorized(16):\n        B[i * 16 + l] = A[i * 16 + l] * x",
        True,
    ),
    "the lanes alone": (
        "for i in range(64):\n    for l in T.vectorized(16, MARK):\n        B[i * 16 + l] = A[i * 16 + l] * x",
        True,
    ),
    "threads": (
        "for i in T.parallel(64, MARK):\n    for l in T.vectorized(16):\n        B[i * 16 + l] = A[i * 16 + l] * x",
        True,
    ),
    "in threads": (
        "for i in T.parallel(64):\n    for l in T.serial(16, MARK):\n        B[i * 16 + l] = A[i * 16 + l] * x",
        True,
    ),
    "copies": (
        "for i in range(64):\n    for k in T.unroll(2, MARK):\n        for l in T.vectorized(8):\n"
        "            B[i * 16 + k * 8 + l] = A[i] * x",
        True,
    ),
    "constants": ("for i in T.serial(1000, MARK):\n    B[i] = T.float32(0)", True),
    "a tail by masks": ("for l in T.vectorized(64, MARK):\n    if l < w:\n        B[l] = A[l] * x", False),
    "backwards": ("for l in T.vectorized(64, MARK):\n    B[63 - l] = A[l]", False),
    "apart": ("for l in T.vectorized(32, MARK):\n    B[l * 2] = A[l]", False),
    "a reader": ("for l in T.vectorized(64, MARK):\n    B[l] = B[l] + A[l]", False),
    "a reader of another part": (
        "for i in T.serial(4, MARK):\n    for l in T.vectorized(16):\n        B[l] = A[l] * x\n    A[i] = B[i + 32]",
        False,
    ),
    "single elements": ("for i in T.serial(64, MARK):\n    B[i * 16] = A[i]", False),
    "memory of its own": (
        "L = T.alloc_buffer((256,))\nfor i in T.serial(256, MARK):\n    L[i] = A[i] * x\nfor i in range(64):\n    B[i] = L[i * 3]",
        False,
    ),
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("mcpu", PROCESSORS)
def test_annotated_stores_go_past_the_caches_and_are_fenced(name: str, mcpu: str) -> None:
    body, past = STREAMS[name]
    params = 'A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32"), x: T.float32, w: T.int32'

    def built(annotations: str) -> tl.Kernel:
        lines = "".join(f"    {line}\n" for line in body.replace("MARK", f"annotations={annotations}").split("\n"))
        with tl.PassContext(config={"tir.unproved_bounds": "trust"}):
            return tl.build(parse(f"@T.prim_func\ndef f({params}):\n{lines}"), f"llvm -mcpu={mcpu}", schedule="none")  # type: ignore[call-overload, no-any-return]

    kernel, plain = built('{"tir.nontemporal": True}'), built('{"tir.nontemporal": False}')
    assembly = kernel.source("asm")
    assert ("vmovnt" in assembly) == past
    assert not re.search("movnt|sfence", plain.source("asm"))
    # Each way out of what streams has a fence, and no loop.
    functions = [part for part in re.split(r"(?m)^(?=[\w.$]+:.*@?\n\t)", assembly) if "vmovnt" in part]
    assert all(part.count("sfence") >= part.count("retq") for part in functions)
    assert not any("sfence" in line for loop in machine_loops(assembly) for line in loop.lines)
    assert verdicts(kernel) == verdicts(plain)


def verdicts(kernel: tl.Kernel) -> list[str]:
    return [line for line in str(kernel.report()).splitlines() if line.startswith("  f:")]


@pytest.mark.parametrize(("cpu", "count", "shuffles"), [("znver3", 8, 24), ("znver4", 16, 64), ("x86-64", 4, 8)])
def test_tiles_are_transposed_in_registers(cpu: str, count: int, shuffles: int) -> None:
    """``log n`` shuffles a row, and no element alone."""
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32")):
    for r, c in T.grid({128 // count}, {128 // count}):
        for i in range({count}):
            for j in T.vectorized({count}):
                B[c * {count} + j, r * {count} + i] = A[r * {count} + i, c * {count} + j]
""")
    text = tl.build(func, f"llvm -mcpu={cpu}", schedule="none").source("asm")  # type: ignore[arg-type]
    assert not re.findall(r"gather|scatter|movss|extractps|insertps", text)
    found = re.findall(r"^\s*v?(?:perm2f128|permt2\w+|permi2\w+|shuf\w+|unpck\w+|insertf\w+|perm\w+)\s", text, re.M)
    assert shuffles <= len(found) <= 2 * shuffles


#: Whether what is said of the arrays' alignment (or nothing) makes all moves of vectors aligned ones.
ALIGNED = {", align=64": True, ", align=32": False, "": False}


@pytest.mark.parametrize("said", ALIGNED)
@pytest.mark.parametrize("called", [False, True])
def test_vectors_of_aligned_arrays_are_moved_whole(said: str, called: bool) -> None:
    mark = 'annotations={"tir.nontemporal": True}'
    caller = """
    @T.prim_func
    def g(A: T.Buffer((4096,), "float32"), B: T.Buffer((4096,), "float32")):
        Module.f(T.address_of(A[1]), T.address_of(B[1]))
"""
    module = parse(f"""
@I.ir_module
class Module:
    @T.prim_func
    def f(A: T.Buffer((2048,), "float32"{said}), B: T.Buffer((2048,), "float32"{said})):
        T.func_attr({{"tir.noalias": True}})
        for i in range(64):
            for l in T.vectorized(16, {mark}):
                B[i * 16 + l] = A[i * 16 + l]
            for l in T.vectorized(16):
                B[1024 + i * 16 + l] = A[1024 + i * 16 + l] * A[i * 16 + l]
{caller if called else ""}""")
    assembly = tl.build(module, "llvm -mcpu=znver4", schedule="none").source("asm")  # type: ignore[call-overload]
    moves = set(re.findall(r"v(?:movaps|movups|movntps)(?=\s.*%zmm)", assembly))
    # What other functions call relies on nothing: its callers' pointers are not checked.
    assert (moves == {"vmovaps", "vmovntps"}) == (ALIGNED[said] and not called)


def test_pointers_of_any_alignment_may_be_given_to_a_function_that_states_one() -> None:
    module = parse("""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def f(A: T.Buffer((32,), "float32", align=64), B: T.Buffer((32,), "float32", align=64)):
        for l in T.vectorized(32):
            B[l] = A[l] + T.float32(1)

    @T.prim_func
    def g(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        Module.f(T.address_of(A[1]), T.address_of(B[5]))
""")
    a, b = np.arange(64, dtype="float32"), np.zeros(64, "float32")
    tl.build(module, schedule="none")["g"](a, b)  # type: ignore[call-overload]
    assert b[5:37].tolist() == (a[1:33] + 1).tolist()


def chosen_lanes(body: str, mcpu: str) -> str:
    """The machine code of a function of A, n and C, in vectors of 16 lanes."""
    params = 'A: T.Buffer((16384,), "float32"), n: T.int32, C: T.Buffer((1024,), "float32")'
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return tl.build(parse(f"@T.prim_func\ndef f({params}):\n{lines}"), f"llvm -mcpu={mcpu}", schedule="none").source(
        "asm"
    )  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize("mcpu", PROCESSORS)
@pytest.mark.parametrize("rows", [1, 4])
def test_accumulators_under_a_mask_stay_in_registers(mcpu: str, rows: int) -> None:
    assembly = chosen_lanes(
        f'acc = T.alloc_buffer(({16 * rows},), scope="local")\n'
        f"for r in T.unroll({rows}):\n    for l in T.vectorized(16):\n        acc[r * 16 + l] = T.float32(0)\n"
        f"for k in range(256):\n    for r in T.unroll({rows}):\n        for l in T.vectorized(16):\n            if l < n:\n"
        f"                acc[r * 16 + l] += A[k * {16 * rows} + r * 16 + l]\n"
        f"for r in T.unroll({rows}):\n    for l in T.vectorized(16):\n        C[r * 16 + l] = acc[r * 16 + l]",
        mcpu,
    )
    loop = max(machine_loops(assembly), key=lambda loop: loop.instructions)
    assert loop.vector_bits == PROCESSORS[mcpu] and loop.spills == 0
    assert not any(_STORE.match(line) for line in loop.lines)


@pytest.mark.parametrize("other", ["T.float32(0)", "T.float32(7)"])
@pytest.mark.parametrize("condition", ["i * 16 + l < n", "A[i * 16 + l + 1024] > T.float32(0)"])
def test_a_load_that_is_chosen_is_masked_once(condition: str, other: str) -> None:
    assembly = chosen_lanes(
        f"for i in range(64):\n    for l in T.vectorized(16):\n"
        f"        C[i * 16 + l] = T.if_then_else({condition}, A[i * 16 + l], {other})",
        "znver4",
    )
    # One comparison of a register's lanes for each vector, and one masked instruction, which loads.
    loop = max(machine_loops(assembly), key=lambda loop: loop.vector_bits)
    compared = [line for line in loop.lines if line.startswith(("vpcmp", "vcmp"))]
    masked = [line for line in loop.lines if "{%k" in line and line not in compared]
    assert len(masked) == len(compared) > 0 and all("(" in line for line in masked)
    assert not any("kunpck" in line for line in loop.lines)
