"""Traces as text and Python: TVM's form, to the letter, and ours."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, Sequence

from tirlower.diagnostics import TraceError
from tirlower.ir.expr import Expr, Var
from tirlower.ir.stmt import normalize_attr
from tirlower.schedule.handles import Handle
from tirlower.schedule.kind import Kind, Takes
from tirlower.schedule.state import Instruction

__all__ = ["function_text", "python_lines", "tvm_names"]

DIALECTS = ("tvm", "tirlower")


def check_dialect(dialect: str) -> None:
    """Raise ValueError for a dialect that there is not."""
    if dialect not in DIALECTS:
        raise ValueError(f"dialect= is 'tvm' or 'tirlower', got {dialect!r}")


def need_tvm(inst: Instruction) -> None:
    """Raise :class:`TraceError` for a step that has no form in TVM."""
    if not inst.kind.tvm or inst.extra:
        what = f"{inst.kind.method}({', '.join(f'{key}=…' for key in inst.extra)})" if inst.extra else inst.kind.method
        raise TraceError(
            f"the step {what} has no form in TVM",
            help='use dialect="tirlower", or get_block and get_loops in place of selectors',
        )


def tvm_names(insts: Sequence[Instruction]) -> dict[object, str]:
    """The names of the results in TVM's traces: one counter over all."""
    names: dict[object, str] = {}
    for inst in insts:
        for output in inst.outputs:
            prefix = output.prefix if isinstance(output, Handle) else "v"
            names[output] = f"{prefix}{len(names)}"
    return names


def _own_names(insts: Sequence[Instruction]) -> dict[object, str]:
    """The results under the names of what they stand for."""
    names: dict[object, str] = {}
    taken = {"sch", "tl"}
    for inst in insts:
        for output in inst.outputs:
            base = output.name if output.name.isidentifier() and not keyword.iskeyword(output.name) else "handle"
            name, number = base, 1
            while name in taken:
                name, number = f"{base}_{number}", number + 1
            taken.add(name)
            names[output] = name
    return names


def tvm_value(value: object, names: Mapping[object, str], bare: bool = False) -> str:
    """A value as TVM's traces write it; strings ``bare`` inside dicts."""
    if isinstance(value, (Handle, Var)):
        return names.get(value, "_" if isinstance(value, Handle) else value.name)
    match normalize_attr(value):
        case str() as text:
            return text if bare else f'"{text}"'
        case float() as number:
            return f"{number:.17g}"
        case tuple() as items:
            return f"[{', '.join(tvm_value(one, names, bare) for one in items)}]"
        case dict() as entries:
            words = (f'"{key}": {tvm_value(entries[key], names, True)}' for key in sorted(entries))
            return f"{{{', '.join(words)}}}"
        case other:
            return str(other)


def own_value(value: object, names: Mapping[object, str]) -> str:
    """A value as Python reads it."""
    if isinstance(value, (Handle, Var)):
        return names.get(value, value.name)
    value = normalize_attr(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(own_value(one, names) for one in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {own_value(one, names)}' for key, one in value.items())}}}"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    return str(value) if isinstance(value, Expr) else repr(value)


def _left(inst: Instruction, names: Mapping[object, str]) -> str:
    """What stands in front of the call."""
    found = ", ".join(names[output] for output in inst.outputs)
    if inst.kind.returns == "none" or not found:
        return ""
    return f"{found}, = " if inst.kind.returns == "many" and len(inst.outputs) == 1 else f"{found} = "


def _tvm_line(inst: Instruction, names: Mapping[object, str], decision: object) -> str:
    need_tvm(inst)
    values = inst.kind.unflat(inst.inputs, inst.attrs, inst.extra)
    words: list[str] = []
    for slot in inst.kind.slots:
        value = values[slot.name]
        if slot.extra:
            continue
        if slot.rest:
            assert isinstance(value, (list, tuple))
            words += [tvm_value(one, names) for one in value]
        else:
            words.append(f"{slot.word}={tvm_value(value, names)}" if slot.word else tvm_value(value, names))
    if decision is not None:
        words.append(f"decision={tvm_value(decision, names)}")
    return f"{_left(inst, names)}sch.{inst.kind.method}({', '.join(words)})"


def _own_line(inst: Instruction, names: Mapping[object, str], decision: object) -> str:
    kind: Kind = inst.kind
    values = kind.unflat(inst.inputs, inst.attrs, inst.extra)
    words: list[str] = []
    named = False
    for slot in kind.slots:
        value = values[slot.name]
        if slot.rest:
            assert isinstance(value, (list, tuple))
            words += [own_value(one, names) for one in value]
            named = True  # what follows has no place by position
        elif value == slot.default or (slot.takes is Takes.FUNCTION and value == "main"):
            named = True
        else:
            named = named or slot.extra
            words.append(f"{slot.name}={own_value(value, names)}" if named else own_value(value, names))
    if decision is not None:
        words.append(f"decision={own_value(decision, names)}")
    return f"{_left(inst, names)}sch.{kind.method}({', '.join(words)})"


def python_lines(insts: Sequence[Instruction], decisions: Mapping[Instruction, object], dialect: str) -> list[str]:
    """A line for each instruction."""
    check_dialect(dialect)
    tvm = dialect == "tvm"
    names = tvm_names(insts) if tvm else _own_names(insts)
    line: Callable[[Instruction, Mapping[object, str], object], str] = _tvm_line if tvm else _own_line
    return [line(inst, names, decisions.get(inst)) for inst in insts]


def function_text(lines: Sequence[str], dialect: str) -> str:
    """Lines as a function of Python: TVM's, or ours."""
    if dialect == "tvm":
        head = ["# from tvm import tir", "def apply_trace(sch: tir.Schedule) -> None:"]
        return "\n".join([*head, *(f"  {line}" for line in lines or ["pass"])])
    head = ["import tirlower as tl", "", "", "def schedule(sch: tl.Schedule) -> None:"]
    return "\n".join([*head, *(f"    {line}" for line in lines or ["pass"])])
