"""Which plain loops are vectorized for the functions in them that have a slow path, and which must not be."""

from __future__ import annotations

import platform
import textwrap

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tests.sampling import in_pairs
from tirlower.emit import vmath
from tirlower.ir import Call, IRModule, PrimFunc
from tirlower.ir.query import each
from tirlower.ir.structural import structural_equal
from tirlower.script import parse
from tirlower.transforms import VectorizeLoop

PARAMS = (
    'X: T.Buffer((40,), "float32"), Y: T.Buffer((40,), "float32"), Z: T.Buffer((40,), "float64"), '
    'I: T.Buffer((40,), "int32"), n: T.int32, d: T.int32'
)


def function(body: str, noalias: bool = True) -> PrimFunc:
    """A function of a body, whose arrays are apart."""
    head = f'    T.func_attr({{"tir.noalias": {noalias}}})\n'
    return parse(f"@T.prim_func\ndef f({PARAMS}):\n{head}" + "".join(f"    {line}\n" for line in body.splitlines()))  # type: ignore[return-value]


def in_step(func: PrimFunc) -> bool:
    """Whether a call of the function's became one of vectors."""
    return any(
        call.dtype.is_vector for call in each(Call, VectorizeLoop(tail=True, predicate=True, plain=True)(func).body)
    )


VECTORIZED = {
    "sin": "for i in range(40):\n    Y[i] = T.sin(X[i])",
    "float64": "for i in range(40):\n    Z[i] = T.tan(Z[i])",
    "shifted": "for i in range(37):\n    Y[i + 3] = T.cos(X[i])",
    "first and last": "for i in range(2, 33):\n    Y[i] = T.sin(X[i - 2])",
    "inner": "for j in range(5):\n    for i in range(8):\n        Y[j * 8 + i] = T.sin(X[i * 5 + j])",
    "in place": "for i in range(40):\n    Y[i] = Y[i] + T.sin(Y[i]) * X[39 - i]",
    "two stores": "for i in range(40):\n    Y[i] = T.sin(X[i])\n    X[i] = T.cos(Y[i])",
    "gathered": "for i in range(40):\n    Y[i] = T.sin(X[T.bitwise_and(I[i], 31)])",
    "bound": "for i in range(40):\n    t = T.sin(X[i])\n    Y[i] = t * t",
    "masked": "for i in range(40):\n    if X[i] > 0.0:\n        Y[i] = T.sin(X[i])\n    else:\n        Y[i] = T.tan(X[i])",
    "chosen": "for i in range(40):\n    Y[i] = T.if_then_else(i < 17, T.cos(X[i]), X[i])",
    "strided": "for i in range(20):\n    Y[2 * i] = T.sin(X[i])",
    "strided, from between": "for i in range(19):\n    Y[2 * i] = T.sin(Y[2 * i + 3])",
    "pairs": "for i in range(20):\n    Y[2 * i] = T.sin(X[2 * i + 1])\n    Y[2 * i + 1] = T.cos(X[2 * i])",
    "symbolic": "for i in range(T.max(T.min(n, 40), 0)):\n    Y[i] = T.sin(X[i])",
}
LEFT = {
    "no slow path": "for i in range(40):\n    Y[i] = T.exp(X[i])",
    "short": "for i in range(3):\n    Y[i] = T.sin(X[i])",
    "from the one before": "for i in range(39):\n    Y[i + 1] = T.sin(Y[i])",
    "from the one after": "for i in range(39):\n    Y[i] = T.sin(Y[i + 1])",
    "of another's place": "for i in range(39):\n    Y[i] = T.sin(X[i])\n    Y[i + 1] = T.cos(X[i])",
    "sum": "for i in range(40):\n    Y[0] = Y[0] + T.sin(X[i])",
    "far apart": "for i in range(8):\n    Y[5 * i] = T.sin(X[i])",
    "strided, from the one after": "for i in range(19):\n    Y[2 * i] = T.sin(Y[2 * i + 2])",
    "strided, from another multiple": "for i in range(10):\n    Y[2 * i] = T.sin(Y[3 * i])",
    "all in one place": "for i in range(8):\n    Y[i * 0] = T.sin(X[i])",
    "backwards": "for i in range(40):\n    Y[39 - i] = T.sin(X[i])",
    "scattered": "for i in range(40):\n    Y[T.bitwise_and(I[i], 31)] = T.sin(X[i])",
    "scattered by a name": "for i in range(40):\n    t = i % 7\n    Y[t] = T.sin(X[i])",
    "dividing": "for i in range(40):\n    Y[i] = T.sin(X[i // d])",
    "left": "for i in range(40):\n    if X[i] > 2.0:\n        break\n    Y[i] = T.sin(X[i])",
    "annotated": 'for i in T.serial(40, annotations={"tir.llvm_vectorize": 0}):\n    Y[i] = T.sin(X[i])',
    "unrolled": "for i in T.unroll(40):\n    Y[i] = T.sin(X[i])",
    "around a while": "for i in range(40):\n    while Y[i] < 0.5:\n        Y[i] = Y[i] + T.abs(T.sin(X[i])) + 0.1",
}


@pytest.mark.parametrize("name", VECTORIZED)
def test_iterations_that_are_alone_run_in_step(name):
    func = function(VECTORIZED[name])
    assert in_step(func)
    check(VectorizeLoop(tail=True, predicate=True, plain=True), func)
    assert not any(call.dtype.is_vector for call in each(Call, VectorizeLoop(tail=True)(func).body))


@pytest.mark.parametrize("name", LEFT)
def test_other_loops_stay_as_they_are(name):
    func = function(LEFT[name])
    assert not in_step(func)
    assert structural_equal(VectorizeLoop(tail=True, predicate=True, plain=True)(func), func)


def test_arrays_that_may_overlap_are_left_alone():
    assert not in_step(function(VECTORIZED["sin"], noalias=False))
    x = np.linspace(-3, 3, 40, dtype=np.float32)
    overlapping, apart = x.copy(), x.copy()
    body = "for i in range(39):\n    Y[i] = T.sin(X[i])"
    shape = PARAMS.replace("40", "39", 2)
    kernel = tl.build(
        parse(f"@T.prim_func\ndef f({shape}):\n    {body}\n".replace("\n    Y", "\n        Y")), schedule="none"
    )
    rest = (np.zeros(40), np.zeros(40, np.int32), 0, 1)
    kernel(overlapping[:-1], overlapping[1:], *rest)
    for i in range(39):
        one = np.zeros(39, np.float32)
        kernel(np.full(39, apart[i]), one, *rest)
        apart[i + 1] = one[0]
    np.testing.assert_array_equal(overlapping, apart)


def forms(name: str, dtype: str, size: int) -> IRModule:
    """The same loop over arrays in its three forms, a function each."""
    second = f', Z: T.Buffer(({size},), "{dtype}")' if vmath.ARITY[name] == 2 else ""
    call = f"T.{name}(X[@], Z[@])" if second else f"T.{name}(X[@])"
    loops = {
        "plain": f"for i in range({size}):\n        Y[i] = {call}",
        "vectorized": f"for i in T.vectorized({size}):\n        Y[i] = {call}",
        "whole": f"Y[:] = {call.replace('@', ':')}",
    }
    params = f'X: T.Buffer(({size},), "{dtype}"){second}, Y: T.Buffer(({size},), "{dtype}")'
    text = "".join(
        f"@T.prim_func\ndef {form}({params}):\n    {body.replace('@', 'i')}\n" for form, body in loops.items()
    )
    return parse("@I.ir_module\nclass Module:\n" + textwrap.indent(text, "    "))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("name", "dtype", "target"),
    in_pairs(sorted(vmath.SUPPORTED), ["float32", "float64"], ["llvm", "llvm -mcpu=x86-64"]),
)
def test_three_forms_of_a_loop_give_the_same_bits(name, dtype, target):
    if "x86-64" in target and platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("code for x86")
    rng, size = np.random.default_rng(0), 333
    bits = np.dtype(f"uint{32 if dtype == 'float32' else 64}")
    x = rng.integers(0, np.iinfo(bits).max, size, dtype=bits).view(dtype)
    x[::2] = rng.uniform(-3, 3, x[::2].size)
    x[-8:] = [0.0, -0.0, np.inf, -np.inf, np.nan, 4e8, 1e-40, np.finfo(dtype).max]
    given = (x, rng.permutation(x))[: vmath.ARITY[name]]
    found = {}
    kernels = tl.build(forms(name, dtype, size), target, schedule="none")
    for form in ("plain", "vectorized", "whole"):
        found[form] = np.zeros_like(x)
        kernels[form](*given, found[form])
        found[form][np.isnan(found[form])] = np.nan  # whose sign is the processor's
    for form in ("plain", "whole"):
        np.testing.assert_array_equal(found[form].view(bits), found["vectorized"].view(bits), err_msg=form)
