"""Reference counts, memory, threads, the GIL, and the objects that hold the code."""

from __future__ import annotations

import gc
import itertools
import pickle
import subprocess
import sys
import threading
import tracemalloc
import weakref

import numpy as np
import pytest

from tests.call.compounds import compound_of
from tirlower.call.errors import ErrorSite
from tirlower.call.gil import GilPolicy
from tirlower.call.signature import BufferParam, ScalarParam, Signature, Sym
from tirlower.call.slowpath import FallbackEntry
from tirlower.diagnostics import ArgumentError
from tirlower.emit.llvm_text import FLOAT, I32, I64, PTR, Builder, Module
from tirlower.llvm.entry import NATIVE_CALLS, NativeEntry, add_entry, entry_imports, entry_parts
from tirlower.llvm.jit import engine

N = Sym("n")
AXPY = Signature(
    "axpy",
    (BufferParam("X", "float32", (N,)), BufferParam("Y", "float32", (N,), written=True), ScalarParam("a", "float32")),
)
AXPY_OUT = Signature("axpy", AXPY.params, ("Y",), returns="int64")


def axpy_module(signature: Signature) -> tuple[Module, tuple[str, ...]]:
    """``Y[i] = a * X[i]``; returns ``n`` if asked; fails with code 0 where ``a < 0``."""
    module = Module("axpy")
    params = [(PTR, "X"), (PTR, "Y"), (FLOAT, "a"), (I64, "n"), (PTR, "err")]
    function = module.function("axpy", I32, params + ([(PTR, "ret")] if signature.returns else []))
    x, y, a, n, err, *ret = function.args
    b = Builder(function, function.block("entry"))
    with b.if_then(b.fcmp("olt", a, b.const(FLOAT, 0))):
        b.store(b.i64(0), err, 8)
        b.ret(b.i32(1))
    with b.for_range(b.i64(0), n) as i:
        b.store(b.fmul(a, b.load(FLOAT, b.gep(FLOAT, x, i))), b.gep(FLOAT, y, i))
    for pointer in ret:
        b.store(n, pointer)
    b.ret(b.i32(0))
    return module, add_entry(module, signature, function.ref)


def axpy(signature: Signature, native: bool) -> NativeEntry | FallbackEntry:
    module, exports = axpy_module(signature)
    linked = engine().link(engine().compile_object(module.text()).object, exports, entry_imports())
    parts = entry_parts(signature, linked, [ErrorSite(ValueError, "a is negative")])
    return NativeEntry(*parts) if native else FallbackEntry(*parts)


def test_reference_counts_do_not_move(native):
    f, g = axpy(AXPY, native), axpy(AXPY_OUT, native)
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    half, wrong = 0.125, np.zeros(8)
    dtype, byte = np.dtype("float32"), np.dtype("uint8")
    watched = [x, y, half, wrong, dtype, byte, f, g, np.ndarray, f.slow_path, g.slow_path]
    repeats = 30_000 if native else 1_000

    def calls(count: int) -> None:
        for i in range(count):
            f(x, y, half)
            if i % 4 == 0:
                g(x, half)
            if i % 50 == 0:
                f(x, y, a=half)
                for bad in ((x, y), (wrong, y, half), (x, y, -1.0)):
                    try:
                        f(*bad)
                    except (ArgumentError, ValueError):
                        pass
                try:
                    g(x, -1.0)
                except ValueError:
                    pass

    calls(200)
    gc.collect()
    before = [sys.getrefcount(o) for o in watched]
    none_before = sys.getrefcount(None)
    tracemalloc.start()
    try:
        calls(200)
        gc.collect()
        held = [tracemalloc.get_traced_memory()[0]]
        for _ in range(2):
            calls(repeats)
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    after = [sys.getrefcount(o) for o in watched]
    # Not proportional to the calls: some caches of Python's own may move by a few.
    assert all(abs(p - q) < 10 for p, q in zip(before, after, strict=True)), (before, after)
    assert abs(sys.getrefcount(None) - none_before) < 300
    # What each call keeps is kept in both rounds; lists of free objects are filled in the first.
    assert min(b - a for a, b in itertools.pairwise(held)) < 6_000
    np.testing.assert_array_equal(y, x * half)


def test_many_threads_call_one_kernel(native):
    f, g = axpy(AXPY, native), axpy(AXPY_OUT, native)
    wrong: list[object] = []

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).random(20_000 + seed, np.float32)
        y = np.zeros_like(x)
        for k in range(1, 60):
            f(x, y, float(k))
            z, n = g(x, float(k))
            if not (y == x * np.float32(k)).all() or not (y == z).all() or n != len(x):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


# Spins until *flag is set, or gives up; returns through %ret whether it saw the flag.
WAIT = """
define i32 @k(ptr %flag, i64 %n, ptr %err, ptr %ret) {
entry:
  store i64 0, ptr %ret
  br label %spin
spin:
  %i = phi i64 [ 0, %entry ], [ %next, %again ]
  %value = load atomic i8, ptr %flag monotonic, align 1
  %set = icmp ne i8 %value, 0
  br i1 %set, label %seen, label %again
again:
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %spin, label %done
seen:
  store i64 1, ptr %ret
  br label %done
done:
  ret i32 0
}
"""
WAITING = Signature("wait", (BufferParam("flag", "uint8", (1,)), ScalarParam("n", "int64")), returns="int64")
WORK = compound_of(lambda n: n, n="int64")


def test_elements_are_the_work_where_nothing_else_is_known():
    arrays = (BufferParam("a", "uint8", (3, 4)), ScalarParam("n", "int64"), BufferParam("b", "uint8", (5,)))
    signature = Signature("f", arrays)
    for threshold in (16, 17, 18):
        policy = GilPolicy("auto", threshold=threshold)
        assert policy.constant(signature) is policy.decide({}, 17) is (threshold <= 17)
    assert GilPolicy("auto").constant(Signature("f", (BufferParam("a", "uint8", (Sym("n", "int32"),)),))) is None


@pytest.mark.parametrize(
    ("policy", "spins", "released"),
    [
        (GilPolicy(True), 10**10, True),
        (GilPolicy(False), 10**6, False),
        (GilPolicy("auto", work=16_384), 10**10, True),
        (GilPolicy("auto", work=16_383), 10**6, False),
        (GilPolicy("auto", work=WORK), 10**10, True),
        (GilPolicy("auto", work=WORK, threshold=10**7), 10**6, False),
        (GilPolicy("auto"), 10**6, False),
    ],
)
def test_the_gil_is_released_as_the_policy_says(text_kernel, policy, spins, released):
    f = text_kernel(WAITING, WAIT, gil=policy)
    flag = np.zeros(1, np.uint8)
    assert f(flag, 1) == 0
    seen = hold_against_thread(f, spins)
    assert seen == released


def hold_against_thread(f, spins: int) -> bool:
    """Whether a kernel that waits for a flag sees a Python thread set it: only if the GIL is free meanwhile."""
    flag = np.zeros(1, np.uint8)
    go = threading.Lock()
    go.acquire()

    def set_flag() -> None:
        with go:
            flag[0] = 1

    thread = threading.Thread(target=set_flag)
    thread.start()
    interval = sys.getswitchinterval()
    # The setter wakes when the lock opens, but cannot run before the GIL is given away.
    sys.setswitchinterval(1000.0)
    try:
        go.release()
        return bool(f(flag, spins))
    finally:
        sys.setswitchinterval(interval)
        thread.join()


def test_dynamic_sizes_decide_by_elements():
    policy = GilPolicy()
    assert policy.constant(AXPY) is None
    assert not policy.decide({"n": 8}, 16) and policy.decide({"n": 8192}, 16_384)
    ratio = compound_of(lambda n: 1 // n, n="int64")
    assert not GilPolicy(work=ratio, threshold=0).decide({"n": 0}, 10**9)
    fixed = Signature("f", (BufferParam("A", "float32", (128, 128)),))
    assert policy.constant(fixed) is True
    assert policy.constant(Signature("f", (BufferParam("A", "float32", (128, 127)),))) is False


def test_the_code_dies_with_the_callable(native):
    class Token:
        pass

    module, exports = axpy_module(AXPY)
    token = Token()
    gone = weakref.ref(token)
    code = engine().compile_object(module.text()).object
    linked = engine().link(code, exports, entry_imports(), keep=token)
    parts = entry_parts(AXPY, linked)
    f = NativeEntry(*parts) if native else FallbackEntry(*parts)
    del linked, token, parts
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    f(x, y, 2.0)
    assert gone() is not None
    slow = f.slow_path
    del f
    gc.collect()
    y[:] = 0
    slow(x, y, 2.0)
    assert y[0] == 2
    del slow
    gc.collect()
    assert gone() is None


@pytest.mark.skipif(not NATIVE_CALLS, reason="no native entry on this Python")
def test_a_python_subclass_keeps_the_fast_call():
    class Kernel(NativeEntry):
        def __init__(self, parts, label: str) -> None:
            super().__init__(*parts)
            self.label = label

        def source(self) -> str:
            return self.label

    module, exports = axpy_module(AXPY)
    linked = engine().link(engine().compile_object(module.text()).object, exports, entry_imports())
    f = Kernel(entry_parts(AXPY, linked), "mine")
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    assert f(x, y, 3.0) is None and y[0] == 3 and f.source() == "mine"
    assert Kernel.__flags__ & 1 << 11, "Py_TPFLAGS_HAVE_VECTORCALL"
    assert weakref.ref(f)() is f


@pytest.mark.skipif(not NATIVE_CALLS, reason="no native entry on this Python")
def test_a_subclass_with_its_own_call_is_called_through_it():
    class Counting(NativeEntry):
        def __call__(self, *args: object) -> object:
            return "mine"

    module, exports = axpy_module(AXPY)
    linked = engine().link(engine().compile_object(module.text()).object, exports, entry_imports())
    assert Counting(*entry_parts(AXPY, linked))(1) == "mine"


@pytest.mark.skipif(not NATIVE_CALLS, reason="no native entry on this Python")
def test_an_entry_without_code_is_a_type_error_and_not_a_crash():
    with pytest.raises(TypeError, match="vectorcall"):
        NativeEntry.__new__(NativeEntry)()
    f = axpy(AXPY, True)
    with pytest.raises((TypeError, pickle.PicklingError, AttributeError, ValueError)):
        pickle.loads(pickle.dumps(f))()


def test_a_kernel_of_another_signature_is_refused():
    module = Module("m")
    function = module.function("f", I32, [(PTR, "A"), (PTR, "err")])
    with pytest.raises(TypeError, match=r"it must be i32 \(ptr, ptr, float, i64, ptr\)"):
        add_entry(module, AXPY, function.ref)


LOADER = """
import sys
import numpy as np
from tirlower.llvm.jit import engine
from tirlower.llvm.entry import entry_imports, make_entry
from tirlower.call.errors import ErrorSite
from tirlower.call.signature import BufferParam, ScalarParam, Signature, Sym

padding = [object() for _ in range(1000)]
n = Sym("n")
sig = Signature("axpy", (BufferParam("X", "float32", (n,)), BufferParam("Y", "float32", (n,), written=True),
                         ScalarParam("a", "float32")), ("Y",), returns="int64")
linked = engine().link(open(sys.argv[1], "rb").read(), sys.argv[2:], entry_imports())
f = make_entry(sig, linked, [ErrorSite(ValueError, "a is negative")])
f._slow, slow = None, f._slow
y, count = f(np.arange(5, dtype=np.float32), 2.0)
assert y.tolist() == [0, 2, 4, 6, 8] and count == 5
f._slow = slow
try:
    f(y, -1.0)
except ValueError as error:
    assert str(error) == "a is negative"
    print("fine")
"""


@pytest.mark.skipif(not NATIVE_CALLS, reason="no native entry on this Python")
def test_an_object_file_with_its_entry_works_in_another_process(tmp_path):
    module, exports = axpy_module(AXPY_OUT)
    path = tmp_path / "axpy.o"
    path.write_bytes(engine().compile_object(module.text()).object)
    assert b"inttoptr" not in module.text().encode()
    run = subprocess.run([sys.executable, "-c", LOADER, path, *exports], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "fine", run.stderr
