"""Tensors of other libraries whose memory is not what it seems: immutable, or with an operation still pending.

Neither JAX nor PyTorch is installed where the tests run: stand-ins follow their protocols.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import ArgumentTypeError, ArgumentValueError
from tirlower.ir.dlpack import pending, unflagged_read_only
from tirlower.script import tir as T

ROOT = Path(__file__).resolve().parents[3]


@T.prim_func
def double(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = A[i] * 2.0


class _Unflagged:
    """Hands out its memory as exporters older than DLPack 1.0 do: nothing says whether it may be written."""

    def __init__(self, values: Any) -> None:
        self._array = np.array(values, "float32")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, *, stream: object = None) -> object:
        return self._array.__dlpack__()


class _Flagged(_Unflagged):
    """Says that its memory must not be written."""

    def __dlpack__(self, **asked: Any) -> object:
        self._array.flags.writeable = False
        return self._array.__dlpack__(**asked)


# As JAX's ArrayImpl: its module, a `__setitem__` that refuses, and capsules without flags.
JaxArray = type("ArrayImpl", (_Unflagged,), {"__module__": "jaxlib._jax"})
EagerTensor = type("EagerTensor", (_Unflagged,), {"__module__": "tensorflow.python.framework.ops"})
Derived = type("Mine", (JaxArray,), {"__module__": "mine"})


class _Interface(_Unflagged):
    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {**self._array.__array_interface__, "data": (self._array.ctypes.data, True)}


@pytest.mark.parametrize("kind", [JaxArray, EagerTensor, Derived, _Flagged, _Interface])
def test_an_immutable_array_is_read_and_never_written(kind: type) -> None:
    run = tl.build(double, schedule="none")
    given, taken = kind([1, 2, 3, 4]), kind([5, 6, 7, 8])
    out = np.zeros(4, "float32")
    run(given, out)
    np.testing.assert_array_equal(out, [2, 4, 6, 8])
    for _ in range(2):
        with pytest.raises(ArgumentValueError, match=r"argument `B` of `double`.*read-only"):
            run(out, taken)
    np.testing.assert_array_equal(taken._array, [5, 6, 7, 8])


def test_an_older_exporter_that_may_be_written_is() -> None:
    taken = _Unflagged([0, 0, 0, 0])
    tl.build(double, schedule="none")(np.arange(4, dtype="float32"), taken)
    np.testing.assert_array_equal(taken._array, [0, 2, 4, 6])
    assert not unflagged_read_only(taken) and not unflagged_read_only(np.zeros(2))
    assert unflagged_read_only(b"abc") and unflagged_read_only(JaxArray([1]))


class _Tensor(_Unflagged):
    def __init__(self, values: Any, neg: bool = False, conj: bool = False) -> None:
        super().__init__(values)
        self.neg, self.conj = neg, conj

    def is_neg(self) -> bool:
        return self.neg

    def is_conj(self) -> bool:
        return self.conj


@pytest.mark.parametrize(
    ("bits", "word", "remedy"),
    [({"neg": True}, "negation", "resolve_neg"), ({"conj": True}, "conjugation", "resolve_conj")],
)
@pytest.mark.parametrize("position", [0, 1])
def test_a_pending_operation_is_refused(bits: dict[str, bool], word: str, remedy: str, position: int) -> None:
    for run in (tl.build(double, schedule="none"), lambda *args: tl.interpret(double, *args)):
        args: list[Any] = [np.ones(4, "float32"), np.ones(4, "float32")]
        args[position] = _Tensor([1, 2, 3, 4], **bits)
        with pytest.raises(ArgumentTypeError, match=f"pending {word}") as caught:
            run(*args)
        assert f"tensor.{remedy}()" in str(caught.value)


def test_a_tensor_without_a_pending_operation_passes() -> None:
    out = np.zeros(4, "float32")
    tl.build(double, schedule="none")(_Tensor([1, 2, 3, 4]), out)
    np.testing.assert_array_equal(out, [2, 4, 6, 8])
    odd = type("Odd", (_Unflagged,), {"is_neg": True, "is_conj": lambda self: 1})([1, 2, 3, 4])
    assert pending(odd) is None and pending(None) is None and pending(np.zeros(1)) is None


_EXCHANGE = """
import ctypes
import numpy as np
import tirlower as tl
from tirlower.diagnostics import ArgumentTypeError, ArgumentValueError
from tirlower.ir.dlpack import DLTensor
from tirlower.script import parse

new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi))

@ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
def fill(obj, out):
    fills.append(obj)
    t = DLTensor.from_address(out)
    t.data, t.device_type, t.device_id, t.ndim = obj.array.ctypes.data, 1, 0, 1
    t.code, t.bits, t.lanes, t.byte_offset = 2, 32, 1, 0
    t.shape, t.strides = obj.shape_, obj.strides_
    return 0

fills, slow = [], []
table = (ctypes.c_uint64 * 8)()
table[0] = 1
table[5] = ctypes.cast(fill, ctypes.c_void_p).value

class Tensor:
    __module__ = "torch"
    __dlpack_c_exchange_api__ = new(ctypes.addressof(table), b"dlpack_exchange_api", None)
    requires_grad = False
    def __init__(self, values, neg=False):
        self.array = np.array(values, "float32")
        self.neg = neg
        self.shape_, self.strides_ = (ctypes.c_int64 * 1)(4), (ctypes.c_int64 * 1)(1)
    def is_neg(self):
        if self.neg is None:
            raise RuntimeError("not today")
        return self.neg
    def __dlpack_device__(self): return 1, 0
    def __dlpack__(self, **more):
        slow.append(self)
        return self.array.__dlpack__(**more)

run = tl.build(parse('''
@T.prim_func
def double(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        B[i] = A[i] * T.float32(2)
'''))
out = Tensor([0, 0, 0, 0])
for _ in range(3):
    run(Tensor([1, 2, 3, 4]), out)
    assert out.array.tolist() == [2, 4, 6, 8]
native = fills and len(slow) == 2  # the first call alone
strided = Tensor(range(8))
strided.array, strided.strides_[0] = strided.array[::2], 2
try:
    run(strided, out)
except ArgumentValueError as error:
    assert "contiguous" in str(error)
else:
    raise SystemExit("every other element was read as if there were none between")
for _ in range(3):
    try:
        run(Tensor([1, 2, 3, 4], neg=True), out)
    except ArgumentTypeError as error:
        assert "pending negation" in str(error)
    else:
        raise SystemExit("a negated tensor was read without its sign")
try:
    run(Tensor([1, 2, 3, 4], neg=None), out)
except RuntimeError as error:
    assert "not today" in str(error)
assert out.array.tolist() == [2, 4, 6, 8]
print("native" if native else "python")
"""


def test_the_machine_code_asks_too() -> None:
    done = subprocess.run([sys.executable, "-c", _EXCHANGE], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "native\n", done.stdout + done.stderr[-3000:]
