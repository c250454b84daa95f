"""Expressions of a script, evaluated for a thread; every access is noted, and compared with those that nothing orders."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.judge_threads.state import WARP, Astray, Buf, NotRead, Outside, Result, Team, Thread

__all__ = ["Expressions", "name_of"]

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Div: operator.truediv, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
}  # fmt: skip
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}  # fmt: skip
_CALLS: dict[str, Callable[..., Any]] = {
    "min": min, "max": max, "shift_left": operator.lshift, "shift_right": operator.rshift, "bitwise_and": operator.and_,
    "bitwise_or": operator.or_, "bitwise_xor": operator.xor, "bitwise_not": operator.invert,
    "floordiv": operator.floordiv, "floormod": operator.mod, "truncdiv": lambda a, b: int(math.fabs(a) // math.fabs(b)) * (1 if a * b >= 0 else -1),
    "truncmod": lambda a, b: int(math.fmod(a, b)), "abs": abs,
}  # fmt: skip
_UPDATES: dict[str, Callable[[Any, Any], Any]] = {
    "atomic_add": operator.add, "atomic_max": max, "atomic_min": min, "atomic_and": operator.and_,
    "atomic_or": operator.or_, "atomic_xor": operator.xor, "atomic_exchange": lambda old, new: new,
}  # fmt: skip


def name_of(func: ast.expr) -> str:
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""


def _each(fn: Callable[..., Any], *values: Any) -> Any:
    """A function of numbers applied to each lane where one of its operands has lanes."""
    lanes = [len(value) for value in values if isinstance(value, tuple)]
    if not lanes:
        return fn(*values)
    rows = [value if isinstance(value, tuple) else (value,) * lanes[0] for value in values]
    return tuple(fn(*row) for row in zip(*rows, strict=True))


class Expressions:
    """Evaluates expressions for one thread, and notes the accesses."""

    def __init__(self, tree: ast.Module, free: bool) -> None:
        self.functions: dict[str, ast.FunctionDef] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                self.functions[node.name] = node
        self.free = free
        self.result = Result()
        self.steps = 0
        self.team: Team = []
        self.guards: list[tuple[ast.expr, bool]] = []
        self.reducing = False

    # Memory

    def touch(self, th: Thread, buf: Buf, at: int, how: str, node: ast.AST, value: Any = None) -> None:
        """Note an access: ``how`` is "r", "w", or the name of an atomic update."""
        memory = buf.memory
        if memory.private or th.block is None or self.reducing:
            return
        size = int(np.dtype(buf.dtype).itemsize)
        block = th.block
        warp = th.lane // WARP
        mine = (block.name, block.epoch, warp, block.warps.get(warp, 0), how, node, value)
        for granule in range((buf.offset + at) * size // 4, -(-((buf.offset + at) * size + size) // 4)):
            cell = memory.cells.setdefault(granule, {})
            for (who, kind), other in cell.items():
                if _of_one_thread(who, th.name) or (kind == "r" and how == "r"):
                    continue
                if kind not in "rw" and how not in "rw":
                    continue  # both atomic
                if other[0] == block.name and (other[1] != block.epoch or (other[2] == warp and other[3] != mine[3])):
                    continue
                if kind == how == "w" and other[5] is node and other[6] == value:
                    self.result.alike.add(memory.name)
                    continue
                text = " and ".join(sorted((kind if kind in "rw" else "a", how if how in "rw" else "a")))
                self.result.races.add((memory.name, text))
            cell[th.name, how if how in "rw" else "a"] = mine

    def load(self, th: Thread, buf: Buf, at: int, node: ast.AST) -> Any:
        self.inside(buf, at)
        size = np.dtype(buf.dtype).itemsize
        start = (buf.offset + at) * size
        if not buf.memory.known and start not in buf.memory.written:
            raise Outside(f"{buf.memory.name} is read before it is written")
        self.touch(th, buf, at, "r", node)
        value = buf.memory.raw[start : start + size].view(buf.dtype)[0]
        return value if buf.dtype.startswith("float") else int(value)

    def store(self, th: Thread, buf: Buf, at: int, value: Any, node: ast.AST, how: str = "w") -> None:
        self.inside(buf, at)
        size = np.dtype(buf.dtype).itemsize
        start = (buf.offset + at) * size
        if buf.dtype.startswith("float"):
            made = np.asarray(value, buf.dtype).reshape(1)
        else:
            bits = size * 8
            whole = int(value) & ((1 << bits) - 1)
            if buf.dtype.startswith("int") and whole >> (bits - 1):
                whole -= 1 << bits
            made = np.asarray([whole], buf.dtype)
        self.touch(th, buf, at, how, node, made[0])
        buf.memory.raw[start : start + size] = made.view(np.uint8)
        buf.memory.written.add(start)

    @staticmethod
    def inside(buf: Buf, at: int) -> None:
        size = np.dtype(buf.dtype).itemsize
        if at < 0 or (buf.offset + at + 1) * size > buf.memory.raw.size:
            raise Outside(f"{buf.memory.name}[{at}]")

    def places(self, th: Thread, node: ast.Subscript) -> tuple[Buf, list[int], bool]:
        """The buffer of an access, its elements, and whether it is a vector."""
        buf = self.value(th, node.value)
        if not isinstance(buf, Buf):
            raise NotRead(ast.unparse(node))
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        columns = []
        for part in parts:
            if isinstance(part, ast.Slice):
                assert part.lower is not None and part.upper is not None
                step = self.value(th, part.step) if part.step is not None else 1
                columns.append(tuple(range(self.value(th, part.lower), self.value(th, part.upper), step)))
            else:
                columns.append(self.value(th, part))
        if len(columns) != len(buf.shape):
            raise NotRead(ast.unparse(node))
        flat: Any = 0
        for column, extent in zip(columns, buf.shape, strict=True):
            for at in column if isinstance(column, tuple) else (column,):
                if not 0 <= at < extent:
                    raise Outside(f"{buf.memory.name}[{at}]")
            flat = _each(lambda a, b, extent=extent: a * extent + b, flat, column)
        return buf, list(flat) if isinstance(flat, tuple) else [flat], isinstance(flat, tuple)

    # Expressions

    def value(self, th: Thread, node: ast.expr) -> Any:
        """The value of an expression for a thread."""
        kind = node.__class__
        if kind is ast.Constant:
            return node.value  # type: ignore[attr-defined]
        if kind is ast.Name:
            if node.id not in th.env:  # type: ignore[attr-defined]
                raise NotRead(ast.unparse(node))
            return th.env[node.id]  # type: ignore[attr-defined]
        if isinstance(node, ast.BinOp):
            fn = _BINARY[node.op.__class__]
            a, b = self.value(th, node.left), self.value(th, node.right)
            return _each(lambda x, y: _arithmetic(fn, x, y), a, b)
        if isinstance(node, ast.UnaryOp):
            inner = self.value(th, node.operand)
            return _each(operator.neg if isinstance(node.op, ast.USub) else operator.not_, inner)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            a, b = self.value(th, node.left), self.value(th, node.comparators[0])
            return _each(_COMPARE[node.ops[0].__class__], a, b)
        if isinstance(node, ast.Compare):
            values = [self.value(th, part) for part in (node.left, *node.comparators)]
            return all(_COMPARE[op.__class__](a, b) for op, a, b in zip(node.ops, values, values[1:], strict=False))
        if isinstance(node, ast.BoolOp):
            return self.chain(th, node)
        if isinstance(node, ast.Subscript):
            buf, places, vector = self.places(th, node)
            loaded = tuple(self.load(th, buf, at, node) for at in places)
            return loaded if vector else loaded[0]
        if isinstance(node, ast.Attribute) and node.attr == "data":
            return self.value(th, node.value)
        if isinstance(node, ast.Tuple):
            return tuple(self.value(th, part) for part in node.elts)
        if isinstance(node, ast.Call):
            return self.call(th, node)
        raise NotRead(ast.unparse(node))

    def chain(self, th: Thread, node: ast.BoolOp) -> bool:
        """``and`` and ``or``, of which later parts are evaluated where the earlier ones leave it open."""
        goes_on = isinstance(node.op, ast.And)
        depth = len(self.guards)
        try:
            for part in node.values:
                if bool(self.value(th, part)) is not goes_on:
                    return not goes_on
                self.guards.append((part, goes_on))
            return goes_on
        finally:
            del self.guards[depth:]

    def call(self, th: Thread, node: ast.Call) -> Any:
        name = name_of(node.func)
        args = node.args
        if name == "if_then_else":
            holds = bool(self.value(th, args[0]))
            self.guards.append((args[0], holds))
            try:
                return self.value(th, args[1 if holds else 2])
            finally:
                self.guards.pop()
        if name == "Select":
            values = [self.value(th, arg) for arg in args]
            return _each(lambda c, a, b: a if c else b, *values)
        if name in ("Cast", "cast"):
            dtype = args[0].value if isinstance(args[0], ast.Constant) else None
            return _each(lambda x: _as(str(dtype), x), self.value(th, args[1]))
        if name in ("int32", "int64", "uint32", "float32", "bool"):
            return _each(lambda x: _as(name, x), self.value(th, args[0]))
        if name == "Broadcast":
            return (self.value(th, args[0]),) * self.value(th, args[1])
        if name == "Ramp":
            base, stride, lanes = (self.value(th, arg) for arg in args)
            return tuple(base + stride * lane for lane in range(lanes))
        if name in _CALLS:
            return _each(_CALLS[name], *(self.value(th, arg) for arg in args))
        if name in ("likely", "tvm_thread_invariant"):
            return self.value(th, args[0])
        if name.startswith("tvm_warp_shuffle"):
            return self.shuffle(th, node, name)
        if name == "tvm_warp_activemask":
            return sum(1 << lane for lane in self.partners(th))
        if name in _UPDATES:
            return self.update(th, node, name)
        if name in self.functions:
            return self.function(th, self.functions[name], [self.value(th, arg) for arg in args])
        raise NotRead(ast.unparse(node))

    def function(self, th: Thread, function: ast.FunctionDef, values: Sequence[Any]) -> Any:
        """A private function that computes a value."""
        names = [arg.arg for arg in function.args.args]
        inner = Thread(dict(zip(names, values, strict=True)), th.axes, th.extents, th.block)
        for stmt in function.body:
            if isinstance(stmt, ast.Return) and stmt.value is not None:
                return self.value(inner, stmt.value)
            if isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Call):
                if name_of(stmt.value.func) == "ret":
                    return self.value(inner, stmt.value.args[0])
        raise NotRead(function.name)

    def partners(self, th: Thread) -> dict[int, Thread]:
        """The lanes of a thread's warp that come to the call being evaluated."""
        warp = th.lane // WARP
        found = {}
        guards = list(self.guards)
        for other in self.team:
            if other.block is th.block and other.lane // WARP == warp:
                kept, self.guards = self.guards, []
                try:
                    if all(bool(self.value(other, condition)) is holds for condition, holds in guards):
                        found[other.lane % WARP] = other
                finally:
                    self.guards = kept
        return found

    def shuffle(self, th: Thread, node: ast.Call, name: str) -> Any:
        mask, width, mine = self.value(th, node.args[0]), self.value(th, node.args[3]), th.lane % WARP
        there = self.partners(th)
        assert th.block is not None
        lanes = [other.lane % WARP for other in th.block.all if other.lane // WARP == th.lane // WARP]
        if any(mask >> lane & 1 and lane not in there for lane in lanes) or not mask >> mine & 1:
            raise Astray(f"a shuffle of {mask:#x} by {sorted(there)}")
        self.value(th, node.args[1])  # each gives a value, whoever takes it
        offset = self.value(th, node.args[2])
        first = mine - mine % width
        last = first + width
        if name.endswith("_up"):
            source = mine - offset
        elif name.endswith("_down"):
            source = mine + offset
        elif name.endswith("_xor"):
            source = mine ^ offset
            first = 0
        else:
            source = first + offset % width
        if not first <= source < last:
            source = mine
        if source not in lanes:
            raise Outside(f"a shuffle from lane {source}, which the block has not")
        if source not in there:
            raise Astray(f"lane {mine} shuffles with lane {source}")
        return self.value(there[source], node.args[1])

    def update(self, th: Thread, node: ast.Call, name: str) -> Any:
        address = node.args[0]
        if not (isinstance(address, ast.Call) and name_of(address.func) == "address_of"):
            raise NotRead(ast.unparse(node))
        place = address.args[0]
        assert isinstance(place, ast.Subscript)
        buf, (at,), _ = self.places(th, place)
        value = self.value(th, node.args[1])
        size = np.dtype(buf.dtype).itemsize
        start = (buf.offset + at) * size
        if not buf.memory.known and start not in buf.memory.written:
            raise Outside(buf.memory.name)
        raw = buf.memory.raw[start : start + size].view(buf.dtype)[0]
        old = raw if buf.dtype.startswith("float") else int(raw)
        self.store(th, buf, at, _UPDATES[name](old, value), node, name)
        return old


def _arithmetic(fn: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    if isinstance(a, np.floating) or isinstance(b, np.floating):
        return np.float32(fn(np.float32(a), np.float32(b)))
    return fn(a, b)


def _as(dtype: str, value: Any) -> Any:
    if dtype.startswith("float"):
        return np.float32(value)
    if dtype == "bool":
        return bool(value)
    bits = int(dtype.strip("uint"))
    whole = int(value) & ((1 << bits) - 1)
    return whole - (1 << bits) if dtype.startswith("int") and whole >> (bits - 1) else whole


def _of_one_thread(a: Any, b: Any) -> bool:
    """Whether one of two names is the other's, or the real thread's that the other one is a virtual part of."""
    return a == b or set(a) <= set(b) or set(b) <= set(a)
