"""What tests of schedules ask: does a trace do the same again, whatever form it went through?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import SimpleNamespace

from tirlower import ir, script
from tirlower.diagnostics import TraceError
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.structural import assert_structural_equal
from tirlower.schedule.schedule import Schedule

__all__ = ["assert_structural_equal_ignore_global_symbol", "verify_trace_roundtrip"]

FORMATS = ("python", "json")


def verify_trace_roundtrip(
    sch: Schedule,
    mod: PrimFunc | IRModule,
    *,
    debug_mask: str | int = "all",
    text_format: str | Sequence[str] = FORMATS,
) -> Schedule:
    """Take the steps of a schedule anew from ``mod``, out of each form of its trace; the last schedule made so.

    The forms are TVM's, and ours where a step has none in TVM. The new schedule has the options of the old one, but for
    ``debug_mask``. Raises AssertionError where module or trace differ, ValueError for a form that there is not.

    >>> from tirlower.script import parse
    >>> func = parse('''
    ... def f(A: T.Buffer((8,), "int32")):
    ...     for i in range(8):
    ...         with T.block("A"):
    ...             vi = T.axis.spatial(8, i)
    ...             A[vi] = 1
    ... ''')
    >>> sch = Schedule(func)
    >>> _ = sch.split(sch.get_loops("A")[0], [2, 4])
    >>> len(verify_trace_roundtrip(sch, func).trace.insts)
    3
    """
    made = sch
    for form in [text_format] if isinstance(text_format, str) else text_format:
        if form not in FORMATS:
            raise ValueError(f"text_format= is 'python', 'json' or a list of these, got {form!r}")
        made = sch.anew(mod, debug_mask=debug_mask)
        dialect = _dialect(sch)
        if form == "json":
            text = json.dumps(sch.trace.as_json(dialect=dialect))
            made.trace.apply_json_to_schedule(json.loads(text), made)
        else:
            _run(sch.trace.as_python(dialect=dialect), made)
        assert_structural_equal(made.mod, sch.mod)
        before, after = ("\n".join(one.trace.as_python(dialect=dialect)) for one in (sch, made))
        if before != after:
            raise AssertionError(f"the trace is another one:\n{before}\n--- after the form {form!r} ---\n{after}")
    return made


def _dialect(sch: Schedule) -> str:
    try:
        sch.trace.as_python()
    except TraceError:
        return "tirlower"
    return "tvm"


def _run(lines: Sequence[str], sch: Schedule) -> None:
    """Run the lines of a trace, which name index maps alone."""
    names = {
        "sch": sch,
        "T": script.tir,
        "tl": SimpleNamespace(ir=ir),
        "tvm": SimpleNamespace(tir=SimpleNamespace(IndexMap=ir.IndexMap)),
    }
    exec("\n".join(lines), names)


def assert_structural_equal_ignore_global_symbol(
    actual: PrimFunc | IRModule, expected: PrimFunc | IRModule, map_free_vars: bool = False
) -> None:
    """Raise where two programs differ in more than the names under which their functions are exported.

    >>> from tirlower.script import parse
    >>> texts = (f'def {name}(A: T.Buffer((8,), "int32")): A[0] = 1' for name in "fg")
    >>> assert_structural_equal_ignore_global_symbol(*map(parse, texts))
    """
    assert_structural_equal(_nameless(actual), _nameless(expected), map_free_vars=map_free_vars)


def _nameless(program: PrimFunc | IRModule) -> PrimFunc | IRModule:
    if isinstance(program, PrimFunc):
        return program.with_attr("global_symbol", "main")
    return IRModule({name: func.with_attr("global_symbol", "main") for name, func in program.items()}, program.attrs)
