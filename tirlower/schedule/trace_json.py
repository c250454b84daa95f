"""Traces as JSON: TVM's lists, and ours, which says more and is versioned."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tirlower.diagnostics import TirError, TraceError
from tirlower.ir.expr import Expr, Var
from tirlower.ir.index_map import IndexMap
from tirlower.ir.json_io import load_json, save_json
from tirlower.ir.stmt import normalize_attr
from tirlower.ir.tensor_intrin import TensorIntrin
from tirlower.schedule.handles import BlockRV, BufferRV, ExprRV, GapRV, Handle, LoopRV, Owner, StmtRV
from tirlower.schedule.kind import BufferAt
from tirlower.schedule.registry import InstructionKind
from tirlower.schedule.state import Instruction, Record
from tirlower.schedule.trace_text import check_dialect, need_tvm, tvm_names

__all__ = ["load_trace", "source_of", "tvm_json"]

FORMAT, VERSION = "tirlower.trace", 1
_PREFIX: dict[str, type[Handle]] = {kind.prefix: kind for kind in (LoopRV, BlockRV, StmtRV, BufferRV, GapRV)}


def _value(value: object, names: Mapping[object, str], quoted: bool) -> object:
    """A value in JSON: handles by name, None as ``"None"``, strings in quotes of their own among inputs."""
    if isinstance(value, (Handle, Var)):
        if value not in names:
            raise TraceError(f"`{value.name}` is no result of an instruction, so it has no form in JSON")
        return names[value]
    if isinstance(value, BufferAt):
        return [value.side, value.at]
    if isinstance(value, IndexMap):
        return save_json(value)
    if isinstance(value, TensorIntrin):
        return save_json((value.desc, value.impl))
    match normalize_attr(value):
        case None:
            return "None" if quoted else None
        case str() as text:
            return json.dumps(text, ensure_ascii=False) if quoted else text
        case tuple() as items:
            return [_value(one, names, quoted) for one in items]
        case dict() as entries:
            return {key: _value(one, names, quoted) for key, one in entries.items()}
        case bool() | int() | float() as number:
            return number
        case Expr() as expr:
            return save_json(expr)
    raise TraceError(f"the value {value} has no form in JSON", help="give it as a number")


def tvm_json(
    insts: Sequence[Instruction],
    decisions: Mapping[Instruction, object],
    dialect: str,
    records: Mapping[Instruction, Record],
    source: str = "",
) -> object:
    """Instructions and decisions as JSON values of a dialect."""
    check_dialect(dialect)
    names = tvm_names(insts)
    rows: list[list[object]] = []
    for inst in insts:
        if dialect == "tvm":
            need_tvm(inst)
        inputs = [_value(one, names, True) for one in inst.inputs]
        attrs = [_value(one, names, False) for one in inst.attrs]
        rows.append([inst.kind.name, inputs, attrs, [names[output] for output in inst.outputs]])
    if dialect == "tvm":
        decided = [[at, _value(decisions[inst], names, False)] for at, inst in enumerate(insts) if inst in decisions]
        return [rows, decided]
    steps = []
    for inst, (kind, given, stated, outputs) in zip(insts, rows, strict=True):
        record = records.get(inst)
        steps.append(
            {
                "kind": kind,
                "inputs": given,
                "attrs": stated,
                "extra": {key: _value(value, names, True) for key, value in inst.extra.items()},
                "outputs": outputs,
                "decision": _value(decisions.get(inst), names, False),
                "group": list(record.group) if record else [],
                "verdict": record.verdict if record else "",
                "exactness": record.exactness if record else "",
            }
        )
    return {"format": FORMAT, "version": VERSION, "source": source, "steps": steps}


def source_of(text: str) -> str:
    """The digest of the module that a trace in our dialect was taken on; nothing where it says none."""
    found = json.loads(text)
    source = found.get("source", "") if isinstance(found, dict) else ""
    return source if isinstance(source, str) else ""


class _Nowhere:
    """Handles that were read, and stand for nothing yet."""

    def __getattr__(self, name: str) -> object:
        raise TraceError("the handle of a trace that was read stands for nothing; apply the trace to a schedule")


def _read(value: object, known: Mapping[str, object]) -> object:
    """A value of JSON back."""
    if isinstance(value, str):
        if value in known:
            return known[value]
        if value == "None":
            return None
        if value.startswith("{"):
            try:
                return load_json(value)
            except TirError as error:
                raise TraceError(f"{value} is no expression or index map: {error.message}") from error
        if value.startswith('"'):
            try:
                return json.loads(value)
            except ValueError as error:
                raise TraceError(f"{value} is no string of JSON") from error
        raise TraceError(f"nothing gave the handle {value!r}")
    if isinstance(value, list):
        return [_read(one, known) for one in value]
    if isinstance(value, dict):
        return {key: _read(one, known) for key, one in value.items()}
    return value


def load_trace(obj: object) -> tuple[list[Instruction], dict[Instruction, object]]:
    """The instructions and decisions of a JSON trace (values, or its text). Raises :class:`TraceError`."""
    if isinstance(obj, str):
        try:
            obj = json.loads(obj)
        except ValueError as error:
            raise TraceError(f"the trace is no JSON: {error}") from error
    rows, decided = _rows(obj)
    known: dict[str, object] = {}
    insts: list[Instruction] = []
    for number, row in enumerate(rows):
        if not isinstance(row, (list, tuple)) or len(row) != 5:
            raise TraceError(f"instruction {number} is no [kind, inputs, attrs, outputs]: {row!r}")
        name, inputs, attrs, outputs, extra = row
        if not (isinstance(inputs, list) and isinstance(attrs, list) and isinstance(outputs, list)):
            raise TraceError(f"instruction {number}, {name!r}, has no lists of inputs, attributes and outputs")
        if not isinstance(extra, dict):
            raise TraceError(f"instruction {number}, {name!r}: its further arguments are no object")
        try:
            kind = InstructionKind.get(str(name))
        except AttributeError as error:
            raise TraceError(f"instruction {number}: {error}") from error
        args = [_read(value, known) for value in inputs]
        more = {str(key): _read(value, known) for key, value in extra.items()}
        made: list[Handle | Var] = []
        for output in outputs:
            known[str(output)] = handle = _handle(str(output), number)
            made.append(handle)
        try:
            kind.unflat(args, attrs, more)
        except ValueError as error:
            raise TraceError(f"instruction {number}: {getattr(error, 'message', error)}") from error
        insts.append(Instruction(kind, args, list(attrs), made, more))
    decisions: dict[Instruction, object] = {}
    for entry in decided:
        if not isinstance(entry, (list, tuple)) or len(entry) != 2 or not isinstance(entry[0], int):
            raise TraceError(f"a decision is [index, decision], got {entry!r}")
        if not 0 <= entry[0] < len(insts):
            raise TraceError(f"a decision names instruction {entry[0]}, and there are {len(insts)}")
        decisions[insts[entry[0]]] = entry[1]
    return insts, decisions


def _handle(name: str, number: int) -> Handle | Var:
    """A new handle of the kind that its name says."""
    owner: Owner = _Nowhere()  # type: ignore[assignment]
    if name[:1] == "v":
        return ExprRV(name)
    kind = _PREFIX.get(name[:1])
    if kind is None or not name[1:].isdigit():
        raise TraceError(f"instruction {number} gives {name!r}, which is no name of a block, loop or expression")
    return kind(name, owner)


def _rows(obj: object) -> tuple[list[object], list[object]]:
    """The instructions as [kind, inputs, attrs, outputs, extra], and the decisions, of either dialect."""
    if isinstance(obj, dict):
        if obj.get("format") != FORMAT:
            raise TraceError(f"the trace's format is {obj.get('format')!r}, not {FORMAT!r}")
        if obj.get("version") != VERSION:
            raise TraceError(f"the trace's version is {obj.get('version')!r}; this reads {VERSION}")
        steps = obj.get("steps")
        if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
            raise TraceError("the trace has no list of steps")
        rows: list[object] = [
            [s.get("kind"), s.get("inputs", []), s.get("attrs", []), s.get("outputs", []), s.get("extra", {})]
            for s in steps
        ]
        return rows, [[at, s["decision"]] for at, s in enumerate(steps) if s.get("decision") is not None]
    if not isinstance(obj, (list, tuple)) or len(obj) != 2 or not all(isinstance(part, (list, tuple)) for part in obj):
        raise TraceError("a trace is [instructions, decisions]")
    return [[*row, {}] if isinstance(row, (list, tuple)) and len(row) == 4 else row for row in obj[0]], list(obj[1])
