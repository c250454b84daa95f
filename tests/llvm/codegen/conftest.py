"""Kernels from prim funcs: generated, compiled, linked, and called through the entry."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tirlower.ir.expr import Call, StringImm
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import Mutator
from tirlower.ir.op import Op
from tirlower.llvm.codegen import GeneratedModule, compile_options, generate, resolve_imports
from tirlower.llvm.entry import add_entry, entry_imports, make_entry
from tirlower.llvm.jit import engine
from tirlower.machine.target import Target
from tirlower.script import parse

HEADER = "from tirlower.script import tir as T\n"


def build_module(
    module: IRModule | PrimFunc,
    target: Target | str = "llvm",
    *,
    opt_level: int = 1,
    outputs: dict[str, tuple[str, ...]] | None = None,
    **options: Any,
) -> tuple[dict[str, Callable[..., Any]], GeneratedModule]:
    """All exported kernels of a lowered module as callables, and the generated code."""
    where = target if isinstance(target, Target) else Target(target)
    made = generate(module, where, outputs=outputs, **options)
    exports: list[str] = []
    for info in made.kernels.values():
        exports += add_entry(made.module, info.signature, info.ref, name=info.symbol)
    code = engine().compile_object(made.text, compile_options(where).with_(opt_level=opt_level))
    linked = engine().link(code.object, exports, {**entry_imports(), **resolve_imports(made.imports)})
    calls = {n: make_entry(i.signature, linked, i.errors, name=i.symbol) for n, i in made.kernels.items()}
    return calls, made


def build(program: PrimFunc | str, target: Target | str = "llvm", **options: Any) -> Callable[..., Any]:
    """The callable of one function, given as a prim func or as its text."""
    func = parse(textwrap.dedent(program)) if isinstance(program, str) else program
    calls, _ = build_module(func, target, **options)
    (call,) = calls.values()
    return call


def llvm_text(program: PrimFunc | str, target: Target | str = "llvm", **options: Any) -> str:
    """The LLVM assembly of a function."""
    return generate(parse(textwrap.dedent(program)) if isinstance(program, str) else program, target, **options).text


def count(pattern: str, text: str) -> int:
    """How often a pattern stands in a text."""
    return len(re.findall(pattern, text))


def elementwise(
    expression: str, inputs: Sequence[tuple[str, str]], result: str, n: int = 64, lanes: int = 1, setup: str = ""
) -> str:
    """The text of a kernel ``C[i] = expression`` over inputs ``(name, dtype)``; the expression reads ``a``, ``b`` ..."""
    params = ", ".join(f'{name.upper()}: T.Buffer(({n},), "{dtype}")' for name, dtype in inputs)
    text = expression
    index = "i" if lanes == 1 else f"i * {lanes}:i * {lanes} + {lanes}"
    for name, _ in inputs:
        text = re.sub(rf"\b{name}\b", f"{name.upper()}[{index}]", text)
    return (
        f'@T.prim_func\ndef kernel({params}, OUT: T.Buffer(({n},), "{result}")):\n'
        f"    for i in range({n // lanes}):\n{setup}        OUT[{index}] = {text}\n"
    )


class _Rename(Mutator):
    def __init__(self, marker: str, name: str) -> None:
        self.marker, self.name = marker, name

    def visit_Call(self, op: Call) -> Any:
        args = op.args
        if op.op is not Op.get("tir.call_pure_extern") or not isinstance(args[0], StringImm):
            return op
        return Call(Op.get(self.name), args[1:], op.dtype) if args[0].value == self.marker else op


def with_operation(program: str, name: str, marker: str = "it") -> PrimFunc:
    """A function in which ``T.call_pure_extern(dtype, "it", ...)`` is a call of an operation that the script refuses."""
    func = parse(textwrap.dedent(program))
    return func.with_body(_Rename(marker, name).visit(func.body))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)
