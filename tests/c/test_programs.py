"""The forms of the dialect, a sample of the kernels, and random programs, compiled as C: beside NumPy and the interpreter.

Floats are compared bit by bit with the interpreter, where the kernel does not say that they may differ: products are
not contracted, and each operation is rounded once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.c.batch import compile_all, needs_compiler
from tests.fuzz.oracle import Expected, arguments_for, main_of
from tests.generate.programs import generate
from tests.kernels.base import Kernel, differences, same_bits
from tests.kernels.corpus import CORPUS
from tests.script.forms import FORMS
from tirlower.diagnostics import TirError
from tirlower.interp import interpret
from tirlower.ir import IRModule
from tirlower.script import parse

pytestmark = needs_compiler

SAMPLE = list(CORPUS)[::3]
SEEDS = range(40)

REFUSED = {
    "thread_loops": "run by threads of a GPU",
    "alloc_shared_local": "run by threads of a GPU",
    "launch_threads": "run by threads of a GPU",
    "env_threads": "run by threads of a GPU",
    "thread_attributes": "run by threads of a GPU",
    "scalable_vector": "no scalable vectors",
    "calls": "tir.call_llvm_intrin has no form in portable C",
    "host_structures": "tir.tvm_struct_get has no form in portable C",
    "gpu_operations": "is not legal",
    "tensor_cores": "tir.tvm_fill_fragment has no form in portable C",
}
"""The forms that have no meaning in portable C, and what the error says."""

LLVM_ONLY = {"functions_of_the_c_library", "llvm_intrinsics_on_integers"}

Made = Mapping[str, Callable[..., Any]] | TirError


@functools.cache
def forms() -> dict[str, Made]:
    return compile_all({name: form.func for name, form in FORMS.items()})


@functools.cache
def kernels() -> dict[str, Made]:
    return compile_all({name: CORPUS[name].program(CORPUS[name].sizes[0]) for name in SAMPLE})


@functools.cache
def random_programs() -> tuple[dict[int, Any], dict[str, Made]]:
    programs, modules = {}, {}
    for seed in SEEDS:
        programs[seed] = generate(seed)
        parsed = parse(programs[seed].text)
        name = parsed.name if not isinstance(parsed, IRModule) else ""
        modules[str(seed)] = parsed if not name else IRModule({name: parsed.with_attr("global_symbol", name)})
    with tl.PassContext(config={"tir.legality": "off"}):  # they are legal by construction
        return {seed: (programs[seed], modules[str(seed)]) for seed in SEEDS}, compile_all(modules)


@pytest.mark.parametrize("name", FORMS)
def test_a_form_means_the_same(name):
    form, made = FORMS[name], forms()[name]
    if name in REFUSED:
        assert isinstance(made, TirError) and REFUSED[name] in made.message and made.help
        return
    assert isinstance(made, Mapping), made
    if form.expected is None:
        pytest.skip("the form has no meaning on arguments")
    args, wanted = form.arguments(), form.arguments()
    form.expected(*wanted)
    next(iter(made.values()))(*args) if len(made) == 1 else made[form.entry.attrs["global_symbol"]](*args)
    for got, want in zip(args, wanted, strict=True):
        if isinstance(got, np.ndarray):
            exact = got.dtype.kind in "iub"
            a, b = (got, want) if exact else (got.astype(np.float64), want.astype(np.float64))
            slack = 0.0 if exact else 1e-6 if got.dtype.itemsize >= 4 else 1e-2
            np.testing.assert_allclose(a, b, rtol=slack, err_msg=name)


@pytest.mark.parametrize("name", SAMPLE)
def test_a_kernel_computes_what_numpy_and_the_interpreter_do(name):
    one, made = CORPUS[name], kernels()[name]
    if name in LLVM_ONLY:
        assert isinstance(made, TirError) and "has no form in portable C" in made.message
        return
    assert isinstance(made, Mapping), made
    run = made[one.entry] if one.entry else next(iter(made.values()))
    for size in one.sizes if one.dynamic else one.sizes[:1]:
        _agree(one, size, run)


def _agree(one: Kernel, size: Mapping[str, int], run: Callable[..., Any]) -> None:
    args = one.make(size)
    result = run(*args)
    wanted, returned = one.expected(size)
    wrong = differences([*args, result], [*wanted, returned], one.tolerance(size))
    assert not wrong, f"{one.name} at {dict(size)}: {wrong}"
    if one.differs:
        return
    program, again = one.program(size), one.make(size)
    meant = interpret(program, *again, name=one.entry if isinstance(program, IRModule) else None)
    wrong = same_bits([*args, result], [*again, meant])
    assert not wrong, f"{one.name} at {dict(size)}, beside the interpreter: {wrong}"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_program_computes_what_the_interpreter_does(seed):
    programs, made = random_programs()
    program, module = programs[seed]
    func, kernel = main_of(module), made[str(seed)]
    assert isinstance(kernel, Mapping), kernel
    expected = Expected(module, arguments_for(module, seed, empty=program.empty))
    for args, wanted in zip(expected.arguments, expected.results, strict=True):
        copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
        kernel[func.attrs["global_symbol"]](*copies)
        expected.compare(args, wanted, copies, exact=not program.inexact, slack=1e-4)
