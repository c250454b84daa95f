from __future__ import annotations

import random

import numpy as np
import pytest

from tirlower import lower
from tirlower.diagnostics import InterpreterError
from tirlower.interp import interpret, simulate
from tirlower.script import parse

HEAD = """
@T.prim_func
def kernel(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            s = T.alloc_buffer((8,), "int32", scope="shared")
            l = T.alloc_buffer((1,), "int32", scope="local")
"""


def _run(body: str) -> np.ndarray:
    lines = "".join(f"            {line}\n" for line in body.strip().splitlines())
    a, b = np.arange(16, dtype=np.int32), np.zeros(16, np.int32)
    interpret(parse(HEAD + lines), a, b, races=True)
    return b


RACES = {
    "a read of another thread's value": ("s[tx] = A[tx]\nB[bx * 8 + tx] = s[7 - tx]", "writes s.*reads s"),
    "an overwritten value": ("s[tx] = 1\nl[0] = s[tx]\ns[7 - tx] = l[0]", "reads s.*writes s|writes s.*writes s"),
    "one element for all": ("s[0] = tx", "writes s.*writes s"),
    "a read in the same statement": ("s[tx] = tx\nT.tvm_storage_sync('shared')\ns[tx] = s[(tx + 1) % 8]", "reads"),
    "blocks": ("B[tx] = tx", "blockIdx.x = 0.*blockIdx.x = 1"),
    "an atomic and a plain write": (
        "if tx == 0:\n    B[bx] = 0\nT.evaluate(T.atomic_add(T.address_of(B[bx]), 1))", "atomically",
    ),
    "a barrier of the warp only, other warps or none": ("s[tx] = 0\nB[bx * 8 + tx] = s[7 - tx]", "race"),
    "a loop": (
        "for i in range(2):\n    s[(tx + i) % 8] = i\n    B[bx * 8 + tx] = s[(tx + i) % 8]", "data race on 's'",
    ),
}  # fmt: skip

CLEAN = {
    "the same from all threads of a block": "s[0] = bx\nT.tvm_storage_sync('shared')\nB[bx * 8 + tx] = s[0]",
    "own elements": "s[tx] = A[tx]\nB[bx * 8 + tx] = s[tx]",
    "a barrier": "s[tx] = A[tx]\nT.tvm_storage_sync('shared')\nB[bx * 8 + tx] = s[7 - tx]",
    "atomics": "T.evaluate(T.atomic_add(T.address_of(B[0]), 1))",
    "private memory": "l[0] = tx\nB[bx * 8 + tx] = l[0]",
    "a barrier of the warp": "s[tx] = A[tx]\nT.tvm_storage_sync('warp')\nB[bx * 8 + tx] = s[7 - tx]",
    "reads": "B[bx * 8 + tx] = A[0]",
    "two barriers in a loop": (
        "for i in range(3):\n    s[tx] = i\n    T.tvm_storage_sync('shared')\n    B[bx * 8 + tx] = s[7 - tx]\n"
        "    T.tvm_storage_sync('shared')"
    ),
}


@pytest.mark.parametrize("name", RACES)
def test_races_are_found(name: str) -> None:
    body, message = RACES[name]
    with pytest.raises(InterpreterError, match=message):
        _run(body)


@pytest.mark.parametrize("name", CLEAN)
def test_no_false_alarm(name: str) -> None:
    _run(CLEAN[name])


def test_the_message_names_both_threads() -> None:
    with pytest.raises(InterpreterError) as caught:
        _run("s[tx] = A[tx]\nB[bx * 8 + tx] = s[7 - tx]")
    text = str(caught.value)
    assert "threadIdx.x = 7) writes s[7]" in text
    assert "threadIdx.x = 0) reads s[7]" in text


def test_shared_memory_allocated_in_a_loop_is_one() -> None:
    body = (
        "for i in range(2):\n    t = T.alloc_buffer((8,), 'int32', scope='shared')\n    t[tx] = i\n"
        "    T.tvm_storage_sync('shared')\n    B[bx * 8 + tx] = t[7 - tx]"
    )
    with pytest.raises(InterpreterError, match="data race on 't'"):
        _run(body)


def test_kernels_are_ordered() -> None:
    func = parse("""
@T.prim_func
def two(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        A[tx] = tx
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        B[tx] = A[7 - tx]
""")
    b = np.zeros(8, np.int32)
    interpret(func, np.zeros(8, np.int32), b, races=True)
    assert b.tolist() == list(range(8))[::-1]


# ---------------------------------------------------------------- against enumeration


class _Phases:
    """A random kernel of phases between barriers, and whether two threads meet in one of them."""

    def __init__(self, seed: int) -> None:
        choose = random.Random(seed)
        self.lines: list[str] = []
        self.races = False
        phase: dict[tuple[str, int], set[tuple[int, bool]]] = {}
        for _ in range(choose.randint(3, 9)):
            kind = choose.random()
            if kind < 0.35:
                self.lines.append("T.tvm_storage_sync('shared')")
                phase.clear()
                continue
            name, low = choose.choice("st"), choose.randrange(4)
            factor, shift, write = choose.choice((1, 1, 1, 3, 5, 2)), choose.randrange(8), choose.random() < 0.5
            index = f"(tx * {factor} + {shift}) % 8"
            # Wide accesses touch two elements at once.
            wide = choose.random() < 0.25
            place = f"{name}[{index} * 2]" if not wide else f"{name}[T.Ramp({index} * 2, 1, 2)]"
            value = "tx" if not wide else "T.Broadcast(tx, 2)"
            self.lines += [f"if tx >= {low}:", f"    {place} = {value}" if write else f"    T.evaluate({place})"]
            for tx in range(low, 8):
                for part in range(2 if wide else 1):
                    at = (name, (tx * factor + shift) % 8 * 2 + part)
                    known = phase.setdefault(at, set())
                    self.races |= any(other != tx and (write or wrote) for other, wrote in known)
                    known.add((tx, write))

    def run(self, seed: int | None) -> None:
        lines = "".join(f"        {line}\n" for line in self.lines)
        func = parse(f"""
@T.prim_func
def kernel(s: T.Buffer((16,), "int32"), t: T.Buffer((16,), "int32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
{lines}        T.tvm_storage_sync('shared')
""")
        interpret(func, np.zeros(16, np.int32), np.zeros(16, np.int32), races=True, seed=seed)


@pytest.mark.parametrize("seed", range(60))
def test_random_phases(seed: int) -> None:
    kernel = _Phases(seed)
    for order in (None, 1):
        if kernel.races:
            with pytest.raises(InterpreterError, match="data race"):
                kernel.run(order)
        else:
            kernel.run(order)


def test_the_random_kernels_are_of_both_kinds() -> None:
    assert 15 < sum(_Phases(seed).races for seed in range(60)) < 45


# ---------------------------------------------------------------- what orders, besides barriers

FLAG = """
@T.prim_func
def flag(A: T.Buffer((2,), "int32"), F: T.Buffer((1,), "int32"), B: T.Buffer((2,), "int32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(2, thread="threadIdx.x"):
            seen = T.alloc_buffer((1,), "int32", scope="local")
            if bx == 0 and tx == 0:
                A[0] = 7
                T.evaluate(T.atomic_exchange(T.address_of(F[0]), 1, "STORE", "SCOPE"))
            if WHO:
                seen[0] = T.atomic_add(T.address_of(F[0]), 0, "LOAD", "SCOPE")
                if seen[0] == 1:
                    B[bx] = A[0]
"""


def _flag(store: str, load: str, scope: str, who: str) -> list[int]:
    text = FLAG.replace("STORE", store).replace("LOAD", load).replace("SCOPE", scope).replace("WHO", who)
    b = np.zeros(2, np.int32)
    interpret(parse(text), np.zeros(2, np.int32), np.zeros(1, np.int32), b, races=True)
    return b.tolist()


@pytest.mark.parametrize(("scope", "who", "result"), [
    ("device", "bx == 0 and tx == 1", [7, 0]), ("block", "bx == 0 and tx == 1", [7, 0]), ("device", "bx == 1 and tx == 1", [0, 7]),
    ("system", "bx == 1 and tx == 0", [0, 7]),
])  # fmt: skip
def test_a_released_and_acquired_flag_orders(scope: str, who: str, result: list[int]) -> None:
    assert _flag("release", "acquire", scope, who) == result
    assert _flag("acq_rel", "acq_rel", scope, who) == result
    for store, load in (("relaxed", "acquire"), ("release", "relaxed"), ("acquire", "release")):
        with pytest.raises(InterpreterError, match="data race on 'A'"):
            _flag(store, load, scope, who)


def test_a_flag_of_the_block_orders_nothing_for_another_block() -> None:
    with pytest.raises(InterpreterError, match="data race on 'F'"):
        _flag("release", "acquire", "block", "bx == 1 and tx == 1")


def test_elements_of_several_sizes_share_bytes() -> None:
    func = parse(
        """
@T.prim_func
def kernel(B: T.Buffer((4,), "uint8")):
    for tx in T.thread_binding(4, thread="threadIdx.x"):
        words = T.alloc_buffer((2,), "int32", scope="shared")
        bytes = T.decl_buffer((8,), "uint8", data=words.data, scope="shared")
        if tx == 0:
            words[1] = 0x01020304
        LINE
        B[tx] = bytes[PLACE]
""".replace("LINE", "T.tvm_storage_sync('shared')").replace("PLACE", "4 + tx")
    )
    b = np.zeros(4, np.uint8)
    interpret(func, b, races=True)
    assert b.tolist() == [4, 3, 2, 1]
    racy = parse(func.script().replace('T.tvm_storage_sync("shared")', "T.evaluate(0)"))
    with pytest.raises(InterpreterError, match=r"thread \(threadIdx.x = 0\) writes words\[1\] and .* reads bytes\[5\]"):
        interpret(racy, np.zeros(4, np.uint8), races=True)


def test_arrays_that_share_memory_race_by_their_bytes() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        B[tx] = A[tx] + 1
""")
    for shift in range(-8, 9):
        memory = np.arange(24, dtype="int32")
        arrays = memory[8:16], memory[8 + shift : 16 + shift]
        if shift in (-8, 0, 8):
            expected = arrays[0] + 1
            simulate(func, *arrays)
            np.testing.assert_array_equal(arrays[1], expected)
        else:
            with pytest.raises(InterpreterError, match=r"a data race on '[AB]': thread .* \(threadIdx\.x = \d\)"):
                simulate(func, *arrays)


def test_strided_arrays_share_only_the_bytes_that_they_touch() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((6,), "int32", strides=(2,)), B: T.Buffer((6,), "int32", strides=(2,))):
    for tx in T.thread_binding(6, thread="threadIdx.x"):
        B[tx] = A[tx] + 1
""")
    memory = np.arange(12, dtype="int32")
    simulate(func, memory[::2], memory[1::2])
    np.testing.assert_array_equal(memory[1::2], memory[::2] + 1)
    memory = np.arange(14, dtype="int32")
    with pytest.raises(InterpreterError, match="a data race"):
        simulate(func, memory[:12:2], memory[2::2])


AXIS = 'for tx in T.thread_binding(32, thread="threadIdx.x"):'
VX = 'for vx in T.thread_binding(2, thread="vthread.x"):'
SYNC = 'T.tvm_storage_sync("shared")'

# Kernels of 32 threads, and whether two of them race. In step the last of some equal writes was remembered alone, and
# what stands inside of a loop over virtual threads was taken to be behind all that stands around it.
UNORDERED = {
    "equal writes, then another one's": ("s[0] = 7\nif tx == 31:\n    s[0] = 8", True),
    "of the first": ("s[0] = 7\nif tx == 0:\n    s[0] = 8", True),
    "of one in the middle": ("s[0] = 7\nif tx == 13:\n    s[0] = 8", True),
    "with a barrier": (f"s[0] = 7\n{SYNC}\nif tx == 31:\n    s[0] = 8", False),
    "of the only one": ("if tx == 31:\n    s[0] = 7\nif tx == 31:\n    s[0] = 8", False),
    "equal writes, then a read": ("s[0] = 7\nif tx == 31:\n    B[tx] = s[0]", True),
    "equal writes, a barrier, reads": (f"s[0] = 7\n{SYNC}\nB[tx] = s[0]", False),
    "equal writes again and again": (f"for k in range(3):\n    s[0] = 7\n{SYNC}\nB[tx] = s[0]", False),
    "equal writes twice": (f"s[0] = 7\ns[0] = 7\n{SYNC}\nB[tx] = s[0]", True),
    "a read, then equal writes": (f"s[tx] = B[tx]\n{SYNC}\nl[0] = s[tx]\ns[0] = 7", True),
    "a read, then equal writes again and again": (f"s[tx] = B[tx]\n{SYNC}\nl[0] = s[tx]\nfor k in range(2):\n    s[0] = 7", True),
    "reads, a barrier, equal writes": (f"s[tx] = B[tx]\n{SYNC}\nl[0] = s[tx]\n{SYNC}\ns[0] = 7", False),
    "equal writes of warps": ("s[0] = 7\nT.tvm_storage_sync('warp')\nif tx == 31:\n    s[0] = 8", False),
    "of each thread's part": (f"s[tx] = 7\ns[tx] = 7\n{SYNC}\nB[tx] = s[31 - tx]", False),
    "read in virtual threads": (f"s[tx] = 1\n{VX}\n    B[tx] = s[31 - tx]", True),
    "read in virtual threads behind a barrier": (f"s[tx] = 1\n{SYNC}\n{VX}\n    l[0] = s[31 - tx]", False),
    "one's own read in virtual threads": (f"s[tx] = 1\n{VX}\n    l[0] = s[tx]", False),
    "written in virtual threads": (f"{VX}\n    s[tx * 2 + vx] = 1\nB[tx] = s[31 - tx]", True),
    "written in virtual threads, behind a barrier": (f"{VX}\n    s[tx * 2 + vx] = 1\n{SYNC}\nB[tx] = s[31 - tx]", False),
    "one's own written in virtual threads": (f"{VX}\n    s[tx * 2 + vx] = 1\nB[tx] = s[tx * 2 + 1]", False),
    "two loops of virtual threads": (
        f"{VX}\n    s[tx * 2 + vx] = 1\n{SYNC}\n{VX}\n    l[0] = s[63 - tx * 2 - vx]\n{SYNC}\ns[tx] = 2", False),
    "two without the second barrier": (
        f"{VX}\n    s[tx * 2 + vx] = 1\n{SYNC}\n{VX}\n    l[0] = s[63 - tx * 2 - vx]\ns[tx] = 2", True),
    "a barrier inside of virtual threads": (f"s[tx] = 1\n{VX}\n    {SYNC}\n    l[0] = s[31 - tx]", False),
}  # fmt: skip


@pytest.mark.parametrize("name", UNORDERED)
def test_what_nothing_orders_is_found_in_step_and_in_other_orders(name: str) -> None:
    body, race = UNORDERED[name]
    text = f"""
@T.prim_func
def f(B: T.Buffer((32,), "int32")):
    {AXIS}
        s = T.alloc_buffer((64,), "int32", scope="shared")
        l = T.alloc_buffer((4,), "int32", scope="local")
"""
    func = parse(text + "".join(f"        {line}\n" for line in body.splitlines()))
    for seed in (None, 1, 2):
        if race:
            with pytest.raises(InterpreterError, match="data race"):
                simulate(func, np.zeros(32, "int32"), seed=seed)
        else:
            simulate(func, np.zeros(32, "int32"), seed=seed)


def test_many_equal_writes_take_no_longer_for_each() -> None:
    """A thousand threads that write one element, a barrier, and a thousand that read it."""
    func = parse("""
@T.prim_func
def f(B: T.Buffer((1024,), "int32")):
    for tx in T.thread_binding(1024, thread="threadIdx.x"):
        s = T.alloc_buffer((4,), "int32", scope="shared")
        for k in range(3):
            s[0] = 7
            T.tvm_storage_sync("shared")
            B[tx] = B[tx] + s[0]
            T.tvm_storage_sync("shared")
""")
    simulate(func, out := np.zeros(1024, "int32"))
    assert (out == 21).all()


@pytest.mark.parametrize(("rows", "lanes"), [(2, 32), (4, 16), (3, 8), (16, 2)])
@pytest.mark.parametrize("where", ["outside", "between", "inside"])
def test_the_lanes_of_each_row_have_memory_of_a_warp_for_themselves(rows: int, lanes: int, where: str) -> None:
    alloc = f'w = T.alloc_buffer(({lanes},), "int32", scope="warp")'
    at = {"outside": (alloc, "", ""), "between": ("", alloc, ""), "inside": ("", "", alloc)}[where]
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer(({rows * lanes},), "int32"), B: T.Buffer(({rows * lanes},), "int32")):
    for bx in T.thread_binding(1, thread="blockIdx.x"):
        {at[0]}
        for ty in T.thread_binding({rows}, thread="threadIdx.y"):
            {at[1]}
            for tx in T.thread_binding({lanes}, thread="threadIdx.x"):
                {at[2]}
                w[tx] = A[ty * {lanes} + tx]
                T.tvm_storage_sync("warp")
                B[ty * {lanes} + tx] = w[{lanes - 1} - tx]
""")
    a = np.arange(rows * lanes, dtype="int32")
    want = a.reshape(rows, lanes)[:, ::-1].ravel()
    for program in (func, lower(func, "nvptx -arch=sm_80")):
        simulate(program, a, b := np.zeros_like(a), seeds=(1, 2))
        np.testing.assert_array_equal(b, want)
    without = parse(func.script().replace('T.tvm_storage_sync("warp")', "T.evaluate(0)"))
    if lanes > 1:
        with pytest.raises(InterpreterError, match="data race on 'w'"):
            simulate(without, a, np.zeros_like(a))


def test_shared_memory_in_front_of_the_loops_over_blocks_is_of_each_block() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((4, 8), "int32"), B: T.Buffer((4, 8), "int32")):
    s = T.alloc_buffer((8,), "int32", scope="shared")
    for by in T.thread_binding(2, thread="blockIdx.y"):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                s[tx] = A[by * 2 + bx, tx]
                T.tvm_storage_sync("shared")
                B[by * 2 + bx, tx] = s[7 - tx]
"""
    a = np.arange(32, dtype="int32").reshape(4, 8)
    simulate(parse(text), a, b := np.zeros_like(a), seeds=(1, 2, 3))
    np.testing.assert_array_equal(b, a[:, ::-1])
    with pytest.raises(InterpreterError, match="data race on 's'"):
        simulate(parse(text.replace('T.tvm_storage_sync("shared")', "T.evaluate(0)")), a, np.zeros_like(a))
