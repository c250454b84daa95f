"""Kernels among Python's functions: names, texts, signatures, pickles; wrong options are errors where they are given."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tirlower.__main__ import main
from tirlower.diagnostics import TirError
from tirlower.ir import IRModule, PrimFunc
from tirlower.script import parse

TEXT = """
@T.prim_func
def scale(A: T.Buffer(("n", 2), "float32"), B: T.Buffer(("n", 2), "float32"), by: T.float32 = 3.0):
    for i, j in T.grid(n, 2):
        B[i, j] = A[i, j] * by
"""


def scale() -> PrimFunc:
    made = parse(TEXT)
    assert isinstance(made, PrimFunc)
    return made


def _kernels() -> dict[str, Any]:
    called = tl.jit(outputs=["B"])(scale())
    called(np.ones((1, 2), "float32"))
    return {
        "built": tl.build(scale(), outputs=["B"]),
        "pending": tl.jit(outputs=["B"])(scale()),
        "called": called,
        "exported": tl.build(IRModule({"scale": scale()}), outputs=["B"])["scale"],
    }


KINDS = ("built", "pending", "called", "exported")


@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_has_the_names_and_texts_of_a_function(kind: str) -> None:
    kernel = _kernels()[kind]
    assert kernel.__name__ == kernel.__qualname__ == "scale"
    assert kernel.__doc__ == "scale(A, by)"
    assert len(repr(kernel)) < 160 and "\n" not in repr(kernel) and "scale(A, by)" in repr(kernel)
    signature = inspect.signature(kernel)
    assert list(signature.parameters) == ["A", "by"]
    assert signature.parameters["by"].default == 3.0
    assert signature.parameters["A"].annotation == "float32(n, 2)"


@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_is_pickled_by_its_function_and_options(kind: str) -> None:
    again = pickle.loads(pickle.dumps(_kernels()[kind]))
    a = np.arange(6, dtype="float32").reshape(3, 2)
    np.testing.assert_array_equal(again(a), a * 3)
    np.testing.assert_array_equal(again(a, 0.5), a / 2)


def test_a_jit_function_for_a_gpu_is_pickled_by_its_function_and_options() -> None:
    lazy = tl.jit(target="nvptx -arch=sm_80", outputs=["B"])(scale())
    assert lazy.__name__ == lazy.__qualname__ == "scale"
    again = pickle.loads(pickle.dumps(lazy))
    assert type(again) is type(lazy) and again.func.script() == lazy.func.script()
    assert pickle.loads(pickle.dumps(again)).__reduce__()[1][1] == {
        "target": "nvptx -arch=sm_80",
        "outputs": ["B"],
        "gil": "auto",
    }


def test_an_executable_is_pickled() -> None:
    again = pickle.loads(pickle.dumps(tl.build(IRModule({"scale": scale()}), gil=False)))
    a, b = np.ones((2, 2), "float32"), np.zeros((2, 2), "float32")
    again.scale(a, b, 7.0)
    assert list(again) == ["scale"] and (b == 7).all()


WRONG: dict[str, tuple[Any, str]] = {
    "gil": (lambda: tl.build(scale(), gil="maybe"), "'auto'"),  # type: ignore[call-overload]
    "gil of jit": (lambda: tl.jit(gil=3), "'auto'"),  # type: ignore[call-overload]
    "outputs": (lambda: tl.build(scale(), outputs="B"), "outputs=['B']"),
    "outputs of jit": (lambda: tl.jit(outputs="B"), "outputs=['B']"),
    "outputs of numbers": (lambda: tl.build(scale(), outputs=[1]), "strings"),  # type: ignore[list-item]
    "an unknown output": (lambda: tl.build(scale(), outputs=["b"]), "`b`"),
    "num_threads": (lambda: tl.Target("llvm", num_threads=-1), "at least 0"),
    "num_threads in text": (lambda: tl.Target("llvm -num-threads=-2"), "at least 0"),
    "target": (lambda: tl.build(scale(), target=5), "a target is a string"),
    "target of lower": (lambda: tl.lower(scale(), 5.0), "a target is a string"),
    "target of jit": (lambda: tl.jit(target=5)(scale()), "a target is a string"),
    "opt_level": (lambda: tl.PassContext(opt_level=99), "0 to 4"),
    "opt_level text": (lambda: tl.PassContext(opt_level="2"), "0 to 4"),  # type: ignore[arg-type]
    "extern": (lambda: tl.register_extern("zz", 5), "a Python function"),  # type: ignore[arg-type]
    "extern name": (lambda: tl.register_extern(5, abs), "takes a name"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize(("make", "part"), WRONG.values(), ids=WRONG)
def test_a_wrong_option_is_an_error_where_it_is_given(make: Any, part: str) -> None:
    with pytest.raises(TirError) as caught:
        make()
    assert part in str(caught.value)


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0 and capsys.readouterr().out.strip() == f"tirlower {tl.__version__}"
