"""Many programs in one C file: lowered each by itself, compiled at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from tirlower.c.codegen.module import CModule, generate, whole_text
from tirlower.c.compile import Compiled, compile_text, compiler
from tirlower.c.library import Library, packed
from tirlower.call.gil import GilPolicy
from tirlower.call.slowpath import FallbackEntry, SlowPath
from tirlower.diagnostics import CodegenError, TirError
from tirlower.driver.api import lower
from tirlower.ir import IRModule, PrimFunc
from tirlower.script import parse

__all__ = ["compile_all", "lines_of", "needs_compiler", "text_of"]


def _found() -> bool:
    try:
        compiler()
    except CodegenError:
        return False
    return True


needs_compiler = pytest.mark.skipif(not _found(), reason="there is no C compiler (cc, gcc, clang or what CC names)")


def text_of(program: PrimFunc | IRModule, prefix: str = "") -> CModule:
    """The C code of a program, lowered for arrays that share no memory."""
    return generate(lower(program, "c"), prefix=prefix)


def compile_all(
    programs: Mapping[str, PrimFunc | IRModule], options: Sequence[str] = ("-O1",)
) -> dict[str, Mapping[str, Callable[..., Any]] | TirError]:
    """The kernels of each program by their symbols, or the error that it does not have a form in C."""
    made: dict[str, CModule] = {}
    found: dict[str, Any] = {}
    for position, (name, program) in enumerate(programs.items()):
        try:
            made[name] = text_of(program, f"p{position}_")
        except TirError as error:
            found[name] = error
    compiled: Compiled = compile_text(whole_text(list(made.values())), options)
    library = Library(compiled)
    for name, module in made.items():
        found[name] = {
            symbol: FallbackEntry(
                SlowPath(kernel.signature, packed(library, module, kernel), GilPolicy(release=True)), 0, library
            )
            for symbol, kernel in module.kernels.items()
        }
    return found


def lines_of(text: str, name: str = "f") -> list[str]:
    """The lines of the body of a function of a program (a script), each without its indentation."""
    body = text_of(parse(text)).body
    inside = body[body.rindex(f"int32_t {name}_kernel(") :]
    inside = inside[inside.index("{\n") + 2 : inside.index("\n}\n")]
    return [line.strip() for line in inside.splitlines()]
