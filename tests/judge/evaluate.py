"""Runs a program on plain Python integers and lists every element that it touches.

Integers wrap at 32 bits as NumPy's do; `//` and `%` floor. What has no meaning (a division by zero, a shift by a negative
amount, a read of memory that nothing wrote, an assumption that does not hold) makes the run :class:`Meaningless`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.judge.program import Expr, Program, Stmt, is_zero

__all__ = ["Event", "Meaningless", "Run", "TooLong", "run_program"]

SIZES = {"int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8}
MAX_STEPS = 6000


class Meaningless(Exception):
    """The program has no result for these inputs."""


class TooLong(Exception):
    """The run has too many steps to be enumerated."""


class _Stopped(Exception):
    """An assertion does not hold."""


class Event:
    """One access of a run.

    ``loops`` has (variable, value, count) of each loop around it; ``path`` alternates places in the text and counts and
    ends with the place of the statement and its phase (0 loads, 1 store); ``low`` and ``size`` are bytes of ``memory``;
    ``update`` names the operation where the access belongs to ``x = x op …``.
    """

    __slots__ = ("inside", "loops", "low", "memory", "number", "path", "size", "subscripts", "update", "write")

    def __init__(
        self, number: int, write: bool, memory: int, low: int, size: int, inside: bool, loops: Any, path: Any,
        subscripts: tuple[int, ...], update: str,
    ) -> None:  # fmt: skip
        self.number = number
        self.write = write
        self.memory = memory
        self.low = low
        self.size = size
        self.inside = inside
        self.loops = loops
        self.path = path
        self.subscripts = subscripts
        self.update = update

    def __repr__(self) -> str:
        at = ", ".join(f"{var}={value}" for var, value, _ in self.loops)
        return f"<#{self.number} {'writes' if self.write else 'reads'} {list(self.subscripts)} at {at or 'once'}>"


@dataclass
class Run:
    """What happened: the accesses in order, the loops that a break left, the bytes of parameters, a failed assertion."""

    events: list[Event] = field(default_factory=list)
    left: set[str] = field(default_factory=set)
    memory: dict[int, dict[int, int]] = field(default_factory=dict)
    params: tuple[int, ...] = ()
    failed: bool = False
    outside: bool = False
    seeds: dict[int, int] = field(default_factory=dict)

    def initial(self, memory: int, size: int) -> Iterator[tuple[int, int]]:
        """The first bytes of a parameter before the run."""
        for at in range(size):
            yield at, first_byte(self.seeds[memory], at)

    def result(self) -> Any:
        """What a caller can see; after a failed assertion, that it failed."""
        return "failed" if self.failed else [self.memory[memory] for memory in self.params]


def wrap(value: int) -> int:
    """To int32."""
    return (value + 0x80000000) % 0x100000000 - 0x80000000


def narrow(value: int, dtype: str) -> int:
    """To an integer type."""
    bits = SIZES[dtype] * 8
    value %= 1 << bits
    return value - (1 << bits) if not dtype.startswith("u") and value >> (bits - 1) else value


def _floor_div(a: int, b: int) -> int:
    if b == 0:
        raise Meaningless("division by zero")
    return wrap(a // b)


def _floor_mod(a: int, b: int) -> int:
    if b == 0:
        raise Meaningless("division by zero")
    return a % b


def _trunc_div(a: int, b: int) -> int:
    if b == 0:
        raise Meaningless("division by zero")
    return wrap(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))


def _amount(b: int) -> int:
    if not 0 <= b < 32:
        raise Meaningless("shift amount")
    return b


_BINARY: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: wrap(a + b), "-": lambda a, b: wrap(a - b), "*": lambda a, b: wrap(a * b),
    "//": _floor_div, "%": _floor_mod, "tdiv": _trunc_div, "tmod": lambda a, b: a - b * _trunc_div(a, b),
    "min": min, "max": max, "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
    "<<": lambda a, b: wrap(a << _amount(b)), ">>": lambda a, b: a >> _amount(b),
}  # fmt: skip

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
}  # fmt: skip

_CHAINS = {"+": "sum", "-": "sum", "*": "product", "min": "min", "max": "max", "&": "and", "|": "or", "^": "xor"}
_CLASSES = {"sum": ("+", "-"), "product": ("*",), "min": ("min",), "max": ("max",)}


def update_of(stmt: Stmt) -> tuple[str, Expr] | None:
    """Of ``x = x op …``, the operation and the load of x itself (the object); None of another store."""
    own = ("ld", stmt[1], stmt[2])
    value = stmt[3]
    name = _CHAINS.get(value[0])
    if name is None:
        return None
    if name in ("and", "or", "xor"):
        leaves = [(value[1], True), (value[2], True)]
    else:
        leaves = []
        stack = [(value, True)]
        while stack:
            op, plus = stack.pop()
            if op[0] in _CLASSES[name]:
                stack += [(op[1], plus), (op[2], plus if op[0] != "-" else not plus)]
            else:
                leaves.append((op, plus))
    mine = [leaf for leaf, plus in leaves if leaf == own and plus]
    if any(leaf[0] == "c" for leaf, _ in leaves) and len(leaves) == 2:
        neutral = {"sum": 0, "product": 1}.get(name)
        if any(leaf == ("c", neutral) for leaf, _ in leaves):
            return None  # `x = x + 0` is `x = x`
    if len(mine) == 1 and all(leaf != own or plus for leaf, plus in leaves):
        return name, mine[0]
    return None


def run_program(program: Program, sizes: Mapping[str, int], seed: int = 0) -> Run:
    """Run with given sizes and scalars, and random contents of the parameters."""
    return _Runner(program, sizes, seed).run


def first_byte(seed: int, at: int) -> int:
    """A byte of a parameter that nothing wrote: the elements of four bytes are small integers, some negative."""
    key = (seed * 1000003 + at // 4 * 7919 + 12345) % 2147483647
    small = key * 48271 % 2147483647 // 7 % 11 - 2
    return small % (1 << 32) >> 8 * (at % 4) & 255


class _Memory:
    """How a buffer lies: memory, item size, extents, strides, offset (the last three may be computed at each access)."""

    __slots__ = ("dtype", "memory", "offset", "shape", "strides")

    def __init__(self, memory: int, dtype: str, shape: list[int], strides: list[int], offset: int) -> None:
        self.memory = memory
        self.dtype = dtype
        self.shape = shape
        self.strides = strides
        self.offset = offset


def dense(shape: list[int]) -> list[int]:
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent
    return strides


class _Runner:
    def __init__(self, program: Program, sizes: Mapping[str, int], seed: int) -> None:
        self.run = Run()
        self.env: dict[str, int] = dict(sizes)
        self.buffers: dict[str, _Memory] = {}
        self.pointers: dict[str, int] = {}
        self.functions = {name: (params, value) for name, params, value in program.functions}
        self.limits: dict[int, int] = {}
        self.contents: dict[int, int | None] = {}
        self.loops: tuple[Any, ...] = ()
        self.path: tuple[int, ...] = ()
        self.steps = 0
        self.count = 0
        self.place = 0
        self.update = ""
        self.own: Any = None
        memories = []
        for at, buf in enumerate(program.params):
            shape = [self.size(part) for part in buf.shape]
            strides = [self.size(part) for part in buf.strides] or dense(shape)
            offset = self.size(buf.offset)
            self.buffers[buf.name] = _Memory(at, buf.dtype, shape, strides, offset)
            memories.append(at)
            self.contents[at] = self.run.seeds[at] = seed * 31 + at
            self.run.memory[at] = {}
            empty = any(extent <= 0 for extent in shape)
            reach = 0 if empty else offset + 1 + sum((e - 1) * s for e, s in zip(shape, strides, strict=True))
            self.limits[at] = reach * SIZES[buf.dtype]
        self.run.params = tuple(memories)
        self.instances = len(memories)
        main = self.block(program.body)
        try:
            main()
        except _Stopped:
            self.run.failed = True

    def size(self, part: Any) -> int:
        if isinstance(part, int):
            return part
        if part in self.env:
            return self.env[part]
        return int(eval(part, {"__builtins__": {}}, dict(self.env)))

    # Memory

    def load(self, buf: _Memory, subscripts: tuple[int, ...], number: int, path: Any, update: str) -> int:
        size = SIZES[buf.dtype]
        low = (buf.offset + sum(i * s for i, s in zip(subscripts, buf.strides, strict=True))) * size
        inside = all(0 <= i < e for i, e in zip(subscripts, buf.shape, strict=True))
        limit = self.limits[buf.memory]
        inside = inside and 0 <= low and low + size <= limit
        self.run.events.append(
            Event(number, False, buf.memory, low, size, inside, self.loops, path, subscripts, update)
        )
        self.step()
        if not inside:
            self.run.outside = True
            return 0
        cells = self.run.memory[buf.memory]
        content = self.contents[buf.memory]
        value = 0
        for at in range(low, low + size):
            byte = cells.get(at)
            if byte is None:
                if content is None:
                    raise Meaningless("a read of memory that nothing wrote")
                byte = first_byte(content, at)
            value |= byte << 8 * (at - low)
        return narrow(value, buf.dtype)

    def store(self, buf: _Memory, subscripts: tuple[int, ...], value: int, number: int, path: Any, update: str) -> None:
        size = SIZES[buf.dtype]
        low = (buf.offset + sum(i * s for i, s in zip(subscripts, buf.strides, strict=True))) * size
        inside = all(0 <= i < e for i, e in zip(subscripts, buf.shape, strict=True))
        inside = inside and 0 <= low and low + size <= self.limits[buf.memory]
        self.run.events.append(Event(number, True, buf.memory, low, size, inside, self.loops, path, subscripts, update))
        self.step()
        if not inside:
            self.run.outside = True
            return
        cells = self.run.memory[buf.memory]
        for at in range(size):
            cells[low + at] = value >> 8 * at & 255

    def step(self) -> None:
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise TooLong

    # Statements: each becomes a function that returns "", "break" or "continue"

    def block(self, body: tuple[Stmt, ...]) -> Callable[[], str]:
        parts = [self.stmt(stmt) for stmt in body]
        if len(parts) == 1:
            return parts[0]

        def run() -> str:
            for part in parts:
                jump = part()
                if jump:
                    return jump
            return ""

        return run

    def stmt(self, stmt: Stmt) -> Callable[[], str]:
        self.place += 1
        made: Callable[[], str] = getattr(self, f"stmt_{stmt[0]}")(self.place, stmt)
        return made

    def stmt_for(self, place: int, stmt: Stmt) -> Callable[[], str]:
        _, var, _, start, stop, _, inner = stmt
        first, last = self.expr(start, place), self.expr(stop, place)
        body = self.block(inner)

        def run() -> str:
            low, high = first(), last()
            loops, path = self.loops, self.path
            for count, value in enumerate(range(low, high)):
                self.env[var] = value
                self.loops = (*loops, (var, value, count))
                self.path = (*path, place, count)
                self.step()
                if body() == "break":
                    if value + 1 < high:
                        self.run.left.add(var)
                    else:
                        self.run.left.add(f"{var} at its end")
                    break
            self.loops, self.path = loops, path
            return ""

        return run

    def stmt_while(self, place: int, stmt: Stmt) -> Callable[[], str]:
        condition = self.expr(stmt[1], place)
        body = self.block(stmt[2])
        name = f"while {place}"

        def run() -> str:
            loops, path = self.loops, self.path
            count = 0
            while True:
                self.loops = (*loops, (name, count, count))
                self.path = (*path, place, count)
                self.step()
                if not condition() or body() == "break":
                    break
                count += 1
            self.loops, self.path = loops, path
            return ""

        return run

    def stmt_if(self, place: int, stmt: Stmt) -> Callable[[], str]:
        condition = self.expr(stmt[1], place)
        then = self.block(stmt[2])
        other = self.block(stmt[3]) if stmt[3] else None

        def run() -> str:
            if condition():
                return then()
            return other() if other is not None else ""

        return run

    def stmt_st(self, place: int, stmt: Stmt) -> Callable[[], str]:
        found = update_of(stmt)
        indices = [self.expr(index, place) for index in stmt[2]]
        self.update, self.own = found if found is not None else ("", None)
        value = self.expr(stmt[3], place)
        update, self.update, self.own = self.update, "", None
        number = self.number()
        name = stmt[1]

        def run() -> str:
            at = tuple([index() for index in indices])
            what = value()
            buf = self.buffers[name]
            self.store(buf, at, narrow(what, buf.dtype), number, (*self.path, place, 1), update)
            return ""

        return run

    def stmt_let(self, place: int, stmt: Stmt) -> Callable[[], str]:
        value, name = self.expr(stmt[2], place), stmt[1]

        def run() -> str:
            self.env[name] = value()
            return ""

        return run

    def stmt_ptr(self, place: int, stmt: Stmt) -> Callable[[], str]:
        def run() -> str:
            self.pointers[stmt[1]] = self.source(stmt[2])
            return ""

        return run

    def source(self, name: str) -> int:
        return self.pointers[name] if name in self.pointers else self.buffers[name].memory

    def stmt_view(self, place: int, stmt: Stmt) -> Callable[[], str]:
        _, name, source, dtype, shape, strides, offset = stmt
        sizes = [self.expr(part, place) for part in shape]
        steps = [self.expr(part, place) for part in strides]
        begin = self.expr(offset, place)

        def run() -> str:
            extents = [size() for size in sizes]
            lie = [step() for step in steps] or dense(extents)
            self.buffers[name] = _Memory(self.source(source), dtype, extents, lie, begin())
            return ""

        return run

    def stmt_alloc(self, place: int, stmt: Stmt) -> Callable[[], str]:
        _, name, shape, dtype, _ = stmt
        total = SIZES[dtype]
        for extent in shape:
            total *= extent

        def run() -> str:
            self.instances += 1
            self.run.memory[self.instances] = {}
            self.contents[self.instances] = None
            self.limits[self.instances] = total
            self.buffers[name] = _Memory(self.instances, dtype, list(shape), dense(list(shape)), 0)
            return ""

        return run

    def stmt_break(self, place: int, stmt: Stmt) -> Callable[[], str]:
        return lambda: "break"

    def stmt_continue(self, place: int, stmt: Stmt) -> Callable[[], str]:
        return lambda: "continue"

    def stmt_assert(self, place: int, stmt: Stmt) -> Callable[[], str]:
        condition = self.expr(stmt[1], place)

        def run() -> str:
            if not condition():
                raise _Stopped
            return ""

        return run

    def stmt_assume(self, place: int, stmt: Stmt) -> Callable[[], str]:
        condition = self.expr(stmt[1], place)

        def run() -> str:
            if not condition():
                raise Meaningless("an assumption that does not hold")
            return ""

        return run

    # Expressions

    def number(self) -> int:
        self.count += 1
        return self.count - 1

    def expr(self, expr: Expr, place: int) -> Callable[[], int]:
        kind = expr[0]
        if kind == "c":
            value = expr[1]
            return lambda: value
        if kind == "v":
            name = expr[1]
            return lambda: self.env[name]
        if kind == "ld":
            return self.load_of(expr, place)
        if kind == "cast":
            inner, dtype = self.expr(expr[2], place), expr[1]
            return lambda: wrap(narrow(inner(), dtype))
        if kind == "call":
            return self.call_of(expr, place)
        if kind == "ite":
            c, x, y = (self.expr(part, place) for part in expr[1:])
            return lambda: x() if c() else y()
        if kind == "sel":
            c, x, y = (self.expr(part, place) for part in expr[1:])

            def select() -> int:
                chosen, one, two = c(), x(), y()
                return one if chosen else two

            return select
        if kind == "not":
            inner = self.expr(expr[1], place)
            return lambda: not inner()
        if kind == "cmp":
            a, b, compare = self.expr(expr[2], place), self.expr(expr[3], place), _COMPARE[expr[1]]
            return lambda: compare(a(), b())
        a, b = self.expr(expr[1], place), self.expr(expr[2], place)
        if kind == "and":
            return lambda: a() and b()
        if kind == "or":
            return lambda: a() or b()
        if is_zero(expr):
            return lambda: 0
        rule = _BINARY[kind]
        return lambda: rule(a(), b())

    def load_of(self, expr: Expr, place: int) -> Callable[[], int]:
        update = self.update if expr is self.own else ""
        saved = self.update, self.own
        self.update, self.own = "", None
        indices = [self.expr(index, place) for index in expr[2]]
        self.update, self.own = saved
        number = self.number()
        name = expr[1]

        def run() -> int:
            at = tuple([index() for index in indices])
            return self.load(self.buffers[name], at, number, (*self.path, place, 0), update)

        return run

    def call_of(self, expr: Expr, place: int) -> Callable[[], int]:
        params, value = self.functions[expr[1]]
        given = [self.expr(arg, place) for arg in expr[2]]
        inner = self.expr(value, place)

        def run() -> int:
            values = [arg() for arg in given]
            saved = {name: self.env.get(name) for name in params}
            self.env.update(zip(params, values, strict=True))
            result = inner()
            for name, old in saved.items():
                if old is not None:
                    self.env[name] = old
            return result

        return run
