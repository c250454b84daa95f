"""Traces as text and Python: TVM's form, to the letter, and ours."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, Sequence

from tirlower.diagnostics import TraceError
from tirlower.ir.cancel import linear_difference
from tirlower.ir.expr import Expr, Var, is_const_int
from tirlower.ir.functor import substitute
from tirlower.ir.index_map import IndexMap
from tirlower.ir.stmt import normalize_attr
from tirlower.schedule.handles import Handle
from tirlower.schedule.kind import BufferAt, Kind, Slot, Takes
from tirlower.schedule.state import Instruction

__all__ = ["function_text", "python_lines", "tvm_names", "with_groups"]

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


def _variables(given: IndexMap) -> tuple[list[str], list[str]]:
    """The names of a map's variables, each once, and its results in terms of them."""
    names: list[str] = []
    values: dict[Var, Expr] = {}
    for number, var in enumerate(given.initial_indices):
        name = var.name if var.name.isidentifier() and not keyword.iskeyword(var.name) else f"i{number}"
        while name in names:
            name += "_"
        names.append(name)
        values[var] = Var(name, var.dtype)
    return names, [str(substitute(final, values)) for final in given.final_indices]


def map_text(given: IndexMap, tvm: bool) -> str:
    """An index map as a function of Python: its results each with a comma behind it in TVM's form, a list in ours."""
    names, finals = _variables(given)
    results = f"({''.join(f'{one}, ' for one in finals).rstrip()})" if tvm else f"[{', '.join(finals)}]"
    made = f"lambda {', '.join(names)}: {results}"
    inverse = given.inverse_index_map
    if inverse is None:
        return made
    home = "tvm.tir" if tvm else "tl.ir"
    return f"{home}.IndexMap.from_func({made}, inverse_index_map={map_text(inverse, tvm)})"


def regions_text(given: IndexMap) -> str:
    """A map to begins and ends as a function to an index or (begin, end) for each dimension."""
    names, finals = _variables(given)
    parts: list[str] = []
    for at in range(0, len(finals), 2):
        begin, end = given.final_indices[at : at + 2]
        point = is_const_int(linear_difference(end, begin), 1)
        parts.append(finals[at] if point else f"({finals[at]}, {finals[at + 1]})")
    return f"lambda {', '.join(names)}: [{', '.join(parts)}]"


def _of_slot(slot: Slot, value: object, names: Mapping[object, str], tvm: bool) -> str:
    """The value of an argument."""
    if isinstance(value, BufferAt):
        return str(value.at) if slot.side else f'("{value.side}", {value.at})'
    if isinstance(value, IndexMap) and slot.takes is Takes.REGIONS:
        return regions_text(value)
    return tvm_value(value, names) if tvm else own_value(value, names)


def tvm_value(value: object, names: Mapping[object, str], bare: bool = False) -> str:
    """A value as TVM's traces write it; strings ``bare`` inside dicts."""
    if isinstance(value, (Handle, Var)):
        return names.get(value, "_" if isinstance(value, Handle) else value.name)
    if isinstance(value, IndexMap):
        return map_text(value, tvm=True)
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
    if isinstance(value, IndexMap):
        return map_text(value, tvm=False)
    match normalize_attr(value):
        case list() | tuple() as items:
            return f"[{', '.join(own_value(one, names) for one in items)}]"
        case dict() as entries:
            return f"{{{', '.join(f'{key!r}: {own_value(one, names)}' for key, one in entries.items())}}}"
        case str() as text:
            return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        case Expr() as expr:
            return str(expr)
        case other:
            return repr(other)


def _left(inst: Instruction, names: Mapping[object, str]) -> str:
    """What stands in front of the call."""
    if inst.kind.returns == "none" or not inst.outputs:
        return ""
    if inst.kind.result is not None:
        return f"{_unpacked(inst.kind.result(inst.outputs), names)} = "
    many = inst.kind.gives_many(inst.kind.unflat(inst.inputs, inst.attrs, inst.extra))
    return f"{_unpacked(inst.outputs if many else inst.outputs[0], names)} = "


def _unpacked(given: object, names: Mapping[object, str], inside: bool = False) -> str:
    """What a call gives as the names that it is assigned to, lists in lists in brackets."""
    if not isinstance(given, (list, tuple)):
        return names[given]
    found = ", ".join(_unpacked(one, names, True) for one in given) + ("," if len(given) == 1 else "")
    return f"({found})" if inside else found


def _tvm_line(inst: Instruction, names: Mapping[object, str], decision: object) -> str:
    need_tvm(inst)
    values = inst.kind.unflat(inst.inputs, inst.attrs, inst.extra)
    words: list[str] = []
    for slot in inst.kind.slots:
        value = values[slot.name]
        if slot.extra or (slot.quiet and not value):
            continue
        if slot.rest:
            assert isinstance(value, (list, tuple))
            words += [tvm_value(one, names) for one in value]
        else:
            text = _of_slot(slot, value, names, tvm=True)
            words.append(f"{slot.word}={text}" if slot.word else text)
    if decision is not None:
        words.append(f"decision={tvm_value(decision, names)}")
    return f"{_left(inst, names)}sch.{inst.kind.method}({', '.join(words)})"


def _is_default(slot: Slot, value: object) -> bool:
    default = slot.default
    return value is default or (value.__class__ is default.__class__ and value == default)


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
        elif _is_default(slot, value) or (slot.takes is Takes.FUNCTION and value == "main"):
            named = True
        else:
            named = named or slot.extra
            text = _of_slot(slot, value, names, tvm=False)
            words.append(f"{slot.name}={text}" if named else text)
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


def with_groups(lines: Sequence[str], groups: Sequence[Sequence[str]]) -> list[str]:
    """Lines with the operations that they belong to as comments in front of the first line of each."""
    made: list[str] = []
    before: Sequence[str] = ()
    for line, group in zip(lines, groups, strict=True):
        same = next(
            (at for at, (a, b) in enumerate(zip(before, group, strict=False)) if a != b), min(len(before), len(group))
        )
        made += [f"# {'  ' * depth}{group[depth]}" for depth in range(same, len(group))]
        made.append(line)
        before = group
    return made


def function_text(lines: Sequence[str], dialect: str) -> str:
    """Lines as a function of Python: TVM's, or ours."""
    if dialect == "tvm":
        head = ["# from tvm import tir", "def apply_trace(sch: tir.Schedule) -> None:"]
        return "\n".join([*head, *(f"  {line}" for line in lines or ["pass"])])
    script = ["from tirlower.script import tir as T"] if any("T." in line for line in lines) else []
    head = ["import tirlower as tl", *script, "", "", "def schedule(sch: tl.Schedule) -> None:"]
    return "\n".join([*head, *(f"    {line}" for line in lines or ["pass"])])
