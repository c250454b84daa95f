"""Each kernel of the corpus four ways: interpreted, lowered and interpreted, compiled, and NumPy.

The reference interpreter runs the program as it was written and after the whole pipeline; LLVM compiles it twice, as
everybody does (products may be fused with sums) and without contraction, where floats too must equal the interpreter's
bit by bit, but for the kernels that say why not (``differs``). A kernel in which nothing was fused is compiled once: it is
the same text for LLVM.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable
from typing import Any

import pytest

import tirlower as tl
from tests.checking import roundtrips
from tests.kernels.base import Program, Size, differences, same_bits
from tests.kernels.corpus import CORPUS, Kernel
from tests.sampling import by_day
from tirlower.interp import interpret
from tirlower.ir import IRModule

pytestmark = pytest.mark.by_day

EXACT = "llvm -fast-math-contract=0"


@pytest.fixture(autouse=True, scope="module")
def fresh_cache(tmp_path_factory):
    """Machine code of another version of the compiler must not be found."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIRLOWER_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(params=list(CORPUS), ids=str, scope="module")
def kernel(request) -> Kernel:
    """One after another: what a kernel's tests share is made once."""
    return CORPUS[request.param]


Place = tuple[tuple[str, int], ...]
"""The sizes of a program; nothing for that of a dynamic kernel."""


def place(one: Kernel, size: Size) -> Place:
    return () if one.dynamic else tuple(size.items())


@functools.lru_cache(16)
def _program(name: str, at: Place) -> Program:
    return CORPUS[name].program(dict(at))


@functools.lru_cache(16)
def _lowered(name: str, at: Place, target: str) -> IRModule:
    return tl.lower(_program(name, at), target)


@functools.lru_cache(16)
def _built(name: str, at: Place, target: str) -> Callable[..., Any]:
    one, made = CORPUS[name], tl.build(_program(name, at), target)
    return made[one.entry] if one.entry is not None else made


@functools.lru_cache(16)
def _fuses_nothing(name: str, at: Place) -> bool:
    """Whether lowering with and without contraction gives one program, without a fused product."""
    text = _lowered(name, at, "llvm").script()
    return "fma" not in text and text == _lowered(name, at, EXACT).script().replace(EXACT, "llvm")


def interpreted(program: Program, args: list[Any], entry: str | None) -> Any:
    return interpret(program, *args, name=entry if isinstance(program, IRModule) else None)


@functools.cache
def _meaning(name: str, index: int) -> tuple[list[Any], Any]:
    """What the interpreter makes of the program as it was written."""
    one = CORPUS[name]
    args = one.make(one.sizes[index])
    return args, interpreted(_program(name, place(one, one.sizes[index])), args, one.entry)


@functools.lru_cache(8)
def _lowered_meaning(name: str, index: int, target: str) -> tuple[list[Any], Any]:
    """What the interpreter makes of the lowered program."""
    one = CORPUS[name]
    at = place(one, one.sizes[index])
    if target == EXACT and _fuses_nothing(name, at):
        return _lowered_meaning(name, index, "llvm")
    low, args = _lowered(name, at, target), one.make(one.sizes[index])
    return args, interpret(low, *args, name=one.entry or next(iter(low)))


def against_numpy(one: Kernel, size: Size, run: Callable[..., Any]) -> None:
    args = one.make(size)
    result = run(*args)
    want, returned = one.expected(size)
    wrong = differences([*args, result], [*want, returned], one.tolerance(size))
    assert not wrong, f"{one.name} at {dict(size)}: {wrong}"


def test_the_interpreter_agrees_with_numpy(kernel):
    for index, size in enumerate(kernel.sizes):
        args, result = _meaning(kernel.name, index)
        want, returned = kernel.expected(size)
        wrong = differences([*args, result], [*want, returned], kernel.tolerance(size))
        assert not wrong, f"{kernel.name} at {dict(size)}: {wrong}"


def test_the_lowered_program_means_the_same(kernel):
    for index, size in enumerate(kernel.sizes):
        args, result = _lowered_meaning(kernel.name, index, EXACT)
        meant, returned = _meaning(kernel.name, index)
        if kernel.differs:
            want, returned = kernel.expected(size)
            wrong = differences([*args, result], [*want, returned], kernel.tolerance(size))
        else:
            wrong = same_bits([*args, result], [*meant, returned])
        assert not wrong, (
            f"{kernel.name} at {dict(size)}: {wrong}\n{_lowered(kernel.name, place(kernel, size), EXACT).script()}"
        )


def built(one: Kernel, size: Size, target: str) -> Callable[..., Any]:
    at = place(one, size)
    return _built(one.name, at, "llvm" if target == EXACT and _fuses_nothing(one.name, at) else target)


@pytest.mark.parametrize("name", by_day(CORPUS, 8))
def test_what_fuses_nothing_is_one_text_for_llvm(name):
    """So that these kernels are compiled once."""
    one = CORPUS[name]
    at = place(one, one.sizes[0])
    if _fuses_nothing(name, at):
        assert _built(name, at, "llvm").source("llvm") == _built(name, at, EXACT).source("llvm")


def test_native_code_agrees_with_numpy(kernel):
    for sizes in kernel.builds.values():
        run = built(kernel, sizes[0], "llvm")
        for size in sizes:
            against_numpy(kernel, size, run)


def test_native_code_fuses_what_the_passes_fused(kernel):
    """Machine code has the bits of the lowered program: no product is fused with a sum, or kept apart, by code generation."""
    if kernel.differs:
        return
    for index, size in enumerate(kernel.sizes[:2]):
        ours = kernel.make(size)
        result = built(kernel, size, "llvm")(*ours)
        args, meant = _lowered_meaning(kernel.name, index, "llvm")
        wrong = same_bits([*ours, result], [*args, meant])
        low = _lowered(kernel.name, place(kernel, size), "llvm")
        assert not wrong, f"{kernel.name} at {dict(size)}: {wrong}\n{low.script()}"


def test_native_code_agrees_with_the_interpreter(kernel):
    for index, size in enumerate(kernel.sizes):
        meant, returned = _meaning(kernel.name, index)
        args = kernel.make(size)
        result = built(kernel, size, EXACT)(*args)
        if kernel.differs:
            wrong = differences([*args, result], [*meant, returned], kernel.tolerance(size))
        else:
            wrong = same_bits([*args, result], [*meant, returned])
        assert not wrong, f"{kernel.name} at {dict(size)}: {wrong}"


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names a processor of the x86 family")
@pytest.mark.parametrize("name", by_day([name for i, name in enumerate(CORPUS) if i % 4 == 0]))
def test_native_code_for_the_oldest_processor_agrees_with_numpy(name):
    """Without any vector extension since SSE2, float16 and bfloat16 are converted by other code."""
    one = CORPUS[name]
    run = built(one, one.sizes[-1], "llvm -mcpu=x86-64")
    against_numpy(one, one.sizes[-1], run)


PARALLEL = [name for name, one in CORPUS.items() if "T.parallel" in one.program(one.sizes[0]).script()]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", PARALLEL)
def test_the_number_of_threads_changes_nothing(name, threads):
    one = CORPUS[name]
    for sizes in one.builds.values():
        run = built(one, sizes[0], f"llvm -num_threads={threads}")
        for size in sizes:
            against_numpy(one, size, run)


def test_the_script_parses_back(kernel):
    at = place(kernel, kernel.sizes[0])
    roundtrips(_program(kernel.name, at))
    roundtrips(_lowered(kernel.name, at, "llvm"))


def test_the_corpus_is_wide():
    families = {one.family for one in CORPUS.values()}
    assert len(CORPUS) >= 75 and len(families) >= 10 and len(PARALLEL) >= 10
    inexact = [one.name for one in CORPUS.values() if one.differs]
    assert len(inexact) < len(CORPUS) // 3, "most kernels must agree with the interpreter bit by bit"
