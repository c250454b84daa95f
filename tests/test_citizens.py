"""Kernels among Python's functions: names, texts, signatures, pickles; wrong options are errors where they are given."""

from __future__ import annotations

import doctest
import functools
import inspect
import pickle
import sys
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tirlower.__main__ import main
from tirlower.diagnostics import TirError
from tirlower.ir import IRModule, PrimFunc, save_json, structural_equal
from tirlower.ir.citizens import Origin
from tirlower.script import ir as I
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import prim_func_pass

GPU = "nvptx -arch=sm_80"

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


@tl.jit
@T.prim_func
def doubled(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32")):
    """B = 2 A.

    >>> int(doubled.__name__ == "doubled")
    1
    """
    for i in range(n):
        B[i] = A[i] * 2.0


@I.ir_module
class Documented:
    @T.prim_func
    def first(A: T.Buffer((4,), "int32")):
        """The first."""
        for i in T.thread_binding(4, "threadIdx.x"):
            A[i] = 1

    @T.prim_func
    def second(A: T.Buffer((4,), "int32")):
        for i in T.thread_binding(4, "threadIdx.x"):
            A[i] = 2


DOCUMENTED: dict[str, Any] = {
    "a prim func": lambda: doubled.func,
    "pending": lambda: tl.jit(doubled.func),
    "built": lambda: tl.build(doubled.func),
    "called": lambda: tl.jit(doubled.func).compile(),
    "for a GPU": lambda: tl.build(doubled.func, target=GPU),
    "later for a GPU": lambda: tl.jit(target=GPU)(doubled.func),
}


@pytest.mark.parametrize("kind", DOCUMENTED)
def test_the_definition_and_the_docstring_are_found(kind: str) -> None:
    found = DOCUMENTED[kind]()
    assert inspect.getdoc(found).startswith("B = 2 A.\n\n>>> int(doubled")
    assert isinstance(inspect.unwrap(found), FunctionType) and inspect.unwrap(found).__name__ == "doubled"
    assert inspect.getsource(found).startswith("@tl.jit\n@T.prim_func\ndef doubled(")
    if kind != "a prim func":
        assert found.__module__ == __name__ and list(inspect.signature(found).parameters) == ["A", "B"]
        assert functools.wraps(found)(lambda *a: None).__doc__ == found.__doc__


def test_a_function_of_a_module_and_one_of_a_text() -> None:
    kernels = tl.build(Documented, target=GPU)
    assert kernels.first.__doc__ == "The first." and kernels.second.__doc__ == "second(A)"
    assert inspect.getsource(kernels.second).lstrip().startswith("@T.prim_func\n    def second(")
    text = tl.build(parse('def f(A: T.Buffer((4,), "int32")):\n    """Nothing.\n\n      Indented."""\n'))
    assert text.__doc__ == "Nothing.\n\nIndented."
    with pytest.raises(AttributeError, match="not written as a Python function"):
        text.__wrapped__
    assert inspect.unwrap(text) is text


def test_examples_in_the_docstring_of_a_kernel_are_found_by_doctest() -> None:
    found = doctest.DocTestFinder().find(sys.modules[__name__])
    assert [len(test.examples) for test in found if test.name.endswith(".doubled")] == [1]


@pytest.mark.parametrize("cls", [tl.Kernel, PrimFunc, type(doubled)])
def test_a_class_keeps_its_own_docstring_and_signature(cls: type) -> None:
    assert isinstance(cls.__doc__, str) and not hasattr(cls, "__wrapped__") and not hasattr(cls, "__signature__")
    inspect.signature(cls)
    assert f"class {cls.__name__}" in inspect.getsource(cls)


def test_docstrings_are_no_part_of_the_program() -> None:
    other = doubled.func.with_(origin=Origin("Another."))
    assert structural_equal(other, doubled.func) and save_json(other) == save_json(doubled.func)


def test_a_kernel_of_a_gpu_is_pickled_by_its_function_and_options() -> None:
    kernel = tl.build(doubled.func, target=GPU, outputs=["B"])
    again = pickle.loads(pickle.dumps(kernel))
    assert again.source("ptx") == kernel.source("ptx") and again.target.export() == kernel.target.export()
    assert again.__doc__ == kernel.__doc__ and inspect.signature(again) == inspect.signature(kernel)
    assert not hasattr(again, "__wrapped__") and again.__module__ == __name__
    both = pickle.loads(pickle.dumps(tl.build(Documented, target=GPU)))
    assert list(both) == ["first", "second"] and both.first.__doc__ == "The first."


def test_options_of_the_context_are_pickled_or_named() -> None:
    with tl.PassContext(opt_level=1, config={"tir.scalar_overflow": "none"}):
        kernels = [tl.build(doubled.func), tl.build(doubled.func, target=GPU)]
    for kernel in kernels:
        (chosen,) = [one for one in kernel.__reduce__()[1] if isinstance(one, dict)]
        assert chosen["opt_level"] == 1 and chosen["config"] == {"tir.scalar_overflow": "none"}

    @prim_func_pass(opt_level=0, name="nothing")
    def nothing(func, mod, ctx):
        return func

    with tl.PassContext(config={"tir.add_lower_pass": [(1, nothing)]}):
        custom = tl.build(doubled.func)
    with pytest.raises((pickle.PicklingError, AttributeError), match="nothing"):
        pickle.dumps(custom)


def test_a_long_expression_is_pickled() -> None:
    line = " + ".join(f"A[{k % 4}] * {k}" for k in range(2000))
    func = parse(f"def f(A: T.Buffer((4,), 'int32'), B: T.Buffer((1,), 'int32')):\n    B[0] = {line}\n")
    assert isinstance(func, PrimFunc)
    A, B = np.array([1, -2, 3, 5], "int32"), np.zeros(1, "int32")
    again = pickle.loads(pickle.dumps(tl.jit(func)))
    assert structural_equal(again.func, func) and again.func.body.span.line == func.body.span.line
    pickle.loads(pickle.dumps(tl.build(func)))(A, B)
    assert B[0] == sum(int(A[k % 4]) * k for k in range(2000))


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
    options = pickle.loads(pickle.dumps(again)).__reduce__()[1][1]
    assert options == ("nvptx -arch=sm_80", ["B"], "auto", "auto")


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
    "outputs that are no list": (lambda: tl.build(scale(), outputs=5), "a list of parameter names"),  # type: ignore[call-overload]
    "until": (lambda: tl.lower(scale(), until=5), "the name of a pass"),  # type: ignore[arg-type]
    "source": (lambda: tl.build(scale()).source(5), "no source of kind 5"),  # type: ignore[arg-type]
    "a pass alone": (lambda: tl.PassContext(disabled_pass="Simplify"), "disabled_pass=['Simplify']"),
    "a misspelt pass": (lambda: tl.PassContext(required_pass=["tir.UnrolLoop"]), "did you mean 'UnrollLoop'?"),
    "num_threads cut": (lambda: tl.Target("llvm", num_threads=1.5), "is int, got 1.5"),
    "num_threads without end": (lambda: tl.Target("llvm", num_threads=2**40), "fits an int32"),
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
