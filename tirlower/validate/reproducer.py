"""A file that shows a wrong pass alone: the program, the arguments, the pass, and what comes out before and after it."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np

from tirlower.diagnostics import TirError
from tirlower.ir.func import IRModule
from tirlower.ir.json_io import save_json
from tirlower.ir.structural import structural_equal
from tirlower.script import parse
from tirlower.support.literals import literals
from tirlower.validate.shrink import Case

__all__ = [
    "DIRECTORY_KEY",
    "Context",
    "Named",
    "Rewriting",
    "directory",
    "literal",
    "readable",
    "write_file",
    "write_reproducer",
]

DIRECTORY_KEY = "tir.validate.reproducer_dir"


class Context(Protocol):
    """What is asked of a :class:`~tirlower.rewrite.context.PassContext`, which stands a floor above."""

    opt_level: int
    config: Mapping[str, object]

    def option(self, key: str) -> object:
        """A configuration value."""

    def quiet(self) -> Context:
        """The same options, without instruments, traces and validation."""


class Named(Protocol):
    """A pass's description."""

    @property
    def name(self) -> str:
        """The pass's name."""


class Rewriting(Protocol):
    """What is asked of a :class:`~tirlower.rewrite.base.Pass`, which stands a floor above."""

    @property
    def info(self) -> Named:
        """Its description."""

    def transform_module(self, mod: IRModule, ctx: object) -> IRModule:
        """The rewriting itself."""

    def construction(self) -> str | None:
        """The Python expression that makes it; None where a file of its own cannot name it."""


_TEMPLATE = '''"""{headline}

Run it: python {file}
"""

import numpy as np

import tirlower as tl
from tirlower.ir import load_json, verify_well_formed
from tirlower.script import parse
from tirlower.support.literals import literals
from tirlower.transforms import find_pass

inf, nan = float("inf"), float("nan")

BEFORE = {read_before}(r"""
{before}
""".strip())

ARGUMENTS = [
{arguments}]


def run(mod):
    """The arguments after a run, and what was returned."""
    arguments = [a.copy() if isinstance(a, np.ndarray) else a for a in ARGUMENTS]
    result = tl.interpret(mod, *arguments, name={name})
    return [*arguments, result]


def same(x, y):
    """Elementwise, NaN equal to NaN."""
    x, y = np.asarray(x), np.asarray(y)
    return bool(np.all((x == y) | ((x != x) & (y != y))))


{after}

print(BEFORE.script())
print("\\nbecomes\\n")
print(AFTER.script())
verify_well_formed(AFTER)
was = run(BEFORE)
now = run(AFTER)
differ = [n for n, (x, y) in enumerate(zip(was, now)) if not same(x, y)]
for n in differ:
    what = f"argument {{n}}" if n < len(ARGUMENTS) else "the returned value"
    print(f"\\n{{what}} was\\n{{was[n]}}\\nand is now\\n{{now[n]}}")
print("\\nmismatch" if differ else "\\nno difference any more")
raise SystemExit(1 if differ else 0)
'''


def directory(ctx: Context) -> Path:
    """Where reproducers are written: ``tir.validate.reproducer_dir`` of the context, else the system's temporary one."""
    chosen = ctx.option(DIRECTORY_KEY)
    return Path(str(chosen)).expanduser() if chosen else Path(tempfile.gettempdir())


def write_reproducer(case: Case, pass_: Rewriting, after: IRModule, headline: str, ctx: Context) -> Path:
    """Write the file for a case that a pass turned into ``after``. Raises OSError where the directory takes no file.

    The file runs the pass itself where it is one of this package with options that can be written; what another pass
    made is recorded in it instead.
    """
    reader, text = readable(case.mod)
    call = pass_.construction()
    if call is not None:
        config = literals(ctx.config)
        made = f"with tl.PassContext(opt_level={ctx.opt_level}, config={config!r}):\n    AFTER = {call}(BEFORE)"
    else:
        kind, recorded = readable(after)
        made = f'# The pass {pass_.info.name} cannot be named from here: this is what it made.\nAFTER = {kind}(r"""\n{recorded}\n""".strip())'
    parts = {
        "read_before": reader,
        "before": text,
        "arguments": "".join(f"    {literal(a)},\n" for a in case.arguments),
        "name": repr(case.name),
        "after": made,
    }
    return write_file(pass_.info.name.removeprefix("tir."), _TEMPLATE, parts, headline, ctx)


def write_file(name: str, template: str, parts: Mapping[str, str], headline: str, ctx: Context) -> Path:
    """Write a file for what a pass of a name did wrong: a template with its parts filled in, named by what is in it.

    Raises OSError where the directory takes no file.
    """
    plain = re.sub(r"\W+", "_", name)
    digest = hashlib.sha256("".join(parts.values()).encode()).hexdigest()[:10]
    path = directory(ctx) / f"tirlower_{plain}_{digest}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    shown = headline.replace("\\", "/").replace('"""', "'''")
    path.write_text(template.format(headline=shown, file=path.name, **parts), encoding="utf-8")
    return path


def readable(mod: IRModule) -> tuple[str, str]:
    """A reader and the text from which it makes the module: the script, or JSON where that would not come back equal."""
    text = mod.script()
    try:
        if '"""' not in text and structural_equal(parse(text), mod):
            return "parse", text
    except (TirError, SyntaxError):
        pass  # an ill-formed module has no script that parses
    return "load_json", save_json(mod)


def literal(value: object) -> str:
    """An argument as Python text."""
    if not isinstance(value, np.ndarray):
        return repr(value.item() if isinstance(value, np.generic) else value)
    shape = f".reshape({value.shape})" if value.size == 0 else ""
    if value.dtype.kind in "biuf":
        return f'np.array({value.tolist()}, "{value.dtype.name}"){shape}'
    # bfloat16 and float8: every value is one of float32.
    exact = value.astype(np.float32).tolist()
    return f'np.array({exact}, "float32").astype(tl.ir.DataType("{value.dtype.name}").numpy){shape}'
