"""Random programs for the judge: each draws a few of the features that proofs stumble over."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from tests.judge.program import Buf, Expr, Program, Stmt
from tests.judge.sizes import fit

__all__ = ["FEATURES", "generate"]

C0, C1 = ("c", 0), ("c", 1)
BLOCKS = 0.3
"""How many programs have reduction blocks."""
MOVING = 0.12
"""How many programs have loops whose bounds are data that their bodies mostly write."""
HUGE = 1000
FEATURES = {
    "symbols": 0.2, "views": 0.35, "pointers": 0.2, "jumps": 0.12, "allocations": 0.2, "calls": 0.12, "bits": 0.18,
    "casts": 0.15, "data": 0.15, "while": 0.05, "asserts": 0.1, "narrow": 0.15, "strides": 0.1, "squares": 0.08,
}  # fmt: skip


def con(value: int) -> Expr:
    return ("c", value)


class _Maker:
    def __init__(self, seed: int, without: Collection[str]) -> None:
        self.rng = self.drawn = rng = random.Random(seed)
        self.on = {name for name, chance in FEATURES.items() if rng.random() < chance and name not in without}
        self.count = 0
        self.level = 0
        self.buffers: list[tuple[str, int]] = []
        """Names and numbers of dimensions of what can be accessed here."""
        self.sources: list[str] = []
        self.scalars: tuple[str, ...] = ("n",) if "symbols" in self.on else ()
        if self.scalars and rng.random() < 0.3:
            self.scalars = ("n", "k")
        self.functions: tuple[Any, ...] = ()
        self.loops: list[str] = []
        self.extents: dict[str, tuple[Expr, Expr] | None] = {}
        """Of each loop around, start and stop where no loop or datum decides them."""
        self.blocks = random.Random(f"blocks of {seed}")
        """Decides where blocks stand, apart: programs without them are what they are."""
        if "blocks" not in without and self.blocks.random() < BLOCKS:
            self.on.add("blocks")
        self.moving = random.Random(f"moving bounds of {seed}")
        """Decides where the bounds of a loop are data, apart as well."""
        if "moving" not in without and self.moving.random() < MOVING:
            self.on.add("moving")
        self.lets: list[str] = []
        if "calls" in self.on:
            value = rng.choice([
                ("+", ("v", "x"), ("v", "y")), ("-", ("*", ("v", "x"), con(2)), ("v", "y")),
                ("%", ("v", "x"), con(3)), ("max", ("v", "x"), ("v", "y")), ("ite", ("cmp", "<", ("v", "x"), con(2)), ("v", "x"), ("v", "y")),
                ("*", ("v", "x"), ("v", "y")),
            ])  # fmt: skip
            self.functions = (("f", ("x", "y"), value),)
        params = []
        for name in "ABC"[: rng.choice([1, 2, 2, 3])]:
            dims = rng.choice([1, 1, 1, 2])
            dtype = rng.choice(["int8", "uint8", "int16"]) if "narrow" in self.on and rng.random() < 0.5 else "int32"
            strides: tuple[Any, ...] = ()
            if "strides" in self.on and rng.random() < 0.6:
                strides = tuple(rng.choice([0, 1, 1, 2, 3, 4, 8]) for _ in range(dims))
            params.append(Buf(name, (HUGE,) * dims, dtype, strides))
            self.buffers.append((name, dims))
            self.sources.append(name)
        self.params = tuple(params)

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    # Expressions

    def index(self, plain: bool = False) -> Expr:
        rng = self.rng
        total: Expr = con(rng.randint(-2, 3))
        names = [*self.loops, *self.lets]
        for var in rng.sample(names, min(len(names), rng.choice([0, 1, 1, 1, 2, 2, 3]))):
            scale = rng.choice([-2, -1, 1, 1, 1, 1, 2, 3, 4])
            term: Expr = ("v", var) if scale == 1 else ("*", ("v", var), con(scale))
            total = term if total == C0 else ("+", term, total)
        if self.scalars and rng.random() < 0.15:
            total = ("+", total, ("v", rng.choice(self.scalars)))
        if plain:
            return total
        shape = rng.random()
        if shape < 0.06:
            return ("//", total, con(rng.choice([2, 3, 4, -2])))
        if shape < 0.12:
            return ("%", total, con(rng.choice([2, 3, 4])))
        if shape < 0.15:
            return ("min", total, con(rng.randint(0, 4)))
        if shape < 0.18:
            return ("max", total, self.index(True))
        if shape < 0.22:
            return (rng.choice(["sel", "ite"]), self.condition(), total, self.index(True))
        if shape < 0.25:
            return (rng.choice(["tdiv", "tmod"]), total, con(rng.choice([2, 3])))
        if "bits" in self.on and rng.random() < 0.4:
            kind = rng.choice(["^", "^", "&", "|", "<<", ">>", "1<<", "swizzle"])
            if kind == "1<<":
                return ("<<", con(1), ("max", self.index(True), C0) if rng.random() < 0.5 else self.small())
            if kind == "swizzle" and len(self.loops) >= 2:
                a, b = rng.sample(self.loops, 2)
                return ("^", ("v", a), ("*", ("&", ("v", b), con(rng.choice([1, 3, 7]))), con(rng.choice([1, 2, 4]))))
            if kind in ("<<", ">>"):
                return (kind, total, rng.choice([C1, con(2), self.small()]))
            if kind in ("^", "&", "|"):
                return (kind, total, con(rng.choice([1, 1, 2, 3, 7, 16])))
        if "squares" in self.on and self.loops and rng.random() < 0.4:
            var = ("v", rng.choice(self.loops))
            return rng.choice(
                [("*", var, var), ("+", ("*", var, var), total), ("//", ("*", var, ("+", var, C1)), con(2))]
            )
        if "casts" in self.on and rng.random() < 0.4:
            return ("cast", rng.choice(["int8", "uint8", "uint8", "int16", "uint16"]), self.stretched(total))
        if self.functions and rng.random() < 0.4:
            return ("call", "f", (total, self.index(True)))
        if "data" in self.on and rng.random() < 0.3:
            loaded = self.load()
            return rng.choice([loaded, ("%", loaded, con(4)), ("+", ("*", total, con(4)), ("%", loaded, con(4)))])
        return total

    def stretched(self, total: Expr) -> Expr:
        rng = self.rng
        return rng.choice(
            [total, total, ("*", total, con(rng.choice([60, 100, 120]))), ("+", total, con(rng.choice([120, 250])))]
        )

    def small(self) -> Expr:
        """0, 1, 2 … of a loop."""
        return ("v", self.rng.choice(self.loops)) if self.loops else C1

    def condition(self) -> Expr:
        rng = self.rng
        kind = rng.random()
        if kind < 0.1:
            return (rng.choice(["and", "or"]), self.condition(), self.condition())
        if kind < 0.15:
            return ("not", self.condition())
        op = rng.choice(["<", "<=", ">", ">=", "==", "!="])
        if "data" in self.on and rng.random() < 0.4:
            return ("cmp", op, self.load(), con(rng.randint(0, 4)))
        left = self.index(True)
        if rng.random() < 0.3:
            left = ("%", left, con(rng.choice([2, 3])))
        return ("cmp", op, left, self.index(True) if rng.random() < 0.3 else con(rng.randint(0, 5)))

    def load(self) -> Expr:
        name, dims = self.rng.choice(self.buffers)
        return ("ld", name, tuple(self.index(True) for _ in range(dims)))

    def value(self, depth: int = 2) -> Expr:
        rng = self.rng
        kind = rng.random()
        if depth == 0 or kind < 0.45:
            return self.access()
        if kind < 0.6:
            return con(rng.randint(-9, 9))
        if kind < 0.7:
            return self.index()
        if kind < 0.78:
            return ("ite", self.condition(), self.value(depth - 1), self.value(depth - 1))
        op = rng.choice(["+", "-", "*", "max", "&"])
        return (op, self.value(depth - 1), self.value(depth - 1))

    def access(self) -> Expr:
        name, dims = self.rng.choice(self.buffers)
        return ("ld", name, tuple(self.index() for _ in range(dims)))

    # Statements

    def body(self, depth: int, size: int) -> tuple[Stmt, ...]:
        saved = list(self.buffers), list(self.sources), list(self.lets)
        made: list[Stmt] = []
        for _ in range(size):
            made += self.statement(depth)
        if not any(stmt[0] in ("st", "for", "while", "if") for stmt in made):
            made.append(self.store())
        self.buffers[:], self.sources[:], self.lets[:] = saved
        return tuple(made)

    def statement(self, depth: int) -> list[Stmt]:
        rng = self.rng
        if "blocks" in self.on and self.loops and self.blocks.random() < 0.5:
            if all(self.extents[var] is not None for var in self.loops):
                return [self.block()]
        kind = rng.random()
        if depth < 3 and kind < (0.95 if depth == 0 else 0.3):
            return [self.loop(depth)]
        if kind < 0.36 and self.level < 3:
            condition = self.condition()
            self.level += 1
            made_if: Stmt = ("if", condition, self.body(depth, 1), self.body(depth, 1) if rng.random() < 0.2 else ())
            self.level -= 1
            return [made_if]
        if "views" in self.on and kind > 0.86:
            return [self.view()]
        if "pointers" in self.on and kind > 0.80:
            name = self.name("q")
            made: Stmt = ("ptr", name, rng.choice(self.sources), rng.choice(["T.bind", "T.LetStmt"]))
            self.sources.append(name)
            return [made, self.view(name)]
        if "allocations" in self.on and kind > 0.72 and (depth or "blocks" not in self.on):
            # In front of a function's blocks it is theirs: it moves into a loop that has all its accesses.
            name = self.name("t")
            alloc: Stmt = ("alloc", name, (rng.choice([1, 4, 8]),), "int32", rng.choice(["local", "local", "global"]))
            self.buffers += [(name, 1)] * 2
            first: list[Stmt] = [("st", name, (rng.choice([C0, con(rng.randint(0, 3))]),), self.value(1))]
            if rng.random() < 0.3:
                first = []
            return [alloc, *first]
        if "jumps" in self.on and self.loops and kind > 0.6:
            return [("if", self.condition(), ((rng.choice(["break", "continue", "continue"]),),), ())]
        if "asserts" in self.on and kind > 0.56:
            return [("assert", self.condition())]
        if "while" in self.on and kind > 0.54 and self.level == 0:
            name, dims = rng.choice(self.buffers)
            at = tuple(self.index(True) for _ in range(dims))
            own = ("ld", name, at)
            self.level += 2
            inner = (*self.body(depth, 1), ("st", name, at, ("+", own, C1)))
            self.level -= 2
            return [("while", ("cmp", "<", own, con(rng.randint(0, 4))), inner)]
        if kind < 0.42:
            name = self.name("x")
            made = ("let", name, self.index())
            self.lets.append(name)
            return [made]
        return [self.update() if rng.random() < 0.35 else self.store()]

    def loop(self, depth: int) -> Stmt:
        rng = self.rng
        var = self.name("i")
        start = con(rng.choice([0, 0, 0, 0, 1, 2, -2]))
        if self.scalars and rng.random() < 0.6:
            stop: Expr = ("v", rng.choice(self.scalars))
            if rng.random() < 0.3:
                stop = ("-", stop, C1)
        elif self.loops and rng.random() < 0.15:
            stop = rng.choice(
                [
                    ("+", ("v", rng.choice(self.loops)), C1),
                    ("-", con(5), ("v", rng.choice(self.loops))),
                    ("min", con(4), self.index(True)),
                ]
            )
        else:
            stop = con(start[1] + rng.choice([0, 1, 2, 3, 4, 4, 5, 6, -1]))
        bound: Expr = ()
        if "moving" in self.on and self.moving.random() < 0.6:
            bound, start, stop = self.datum()
        self.loops.append(var)
        plain = all(part[0] == "c" or part[1] in self.scalars for part in (start, stop))
        self.extents[var] = (start, stop) if plain else None
        inner = self.body(depth + 1, rng.choice([1, 1, 2, 2, 3]))
        if bound:
            inner = self.moved(var, bound, start if _mentions(start, bound) else stop, inner)
        self.loops.pop()
        return ("for", var, "serial", start, stop, False, inner)

    def datum(self) -> tuple[Expr, Expr, Expr]:
        """An element that bounds a loop, and the start and stop of the loop."""
        rng, self.rng = self.moving, self.moving
        element = self.load()
        self.rng = self.drawn
        top = con(rng.choice([2, 3, 4, 6]))
        bound = rng.choice([("%", element, top), ("min", ("max", element, C0), top)])
        if rng.random() < 0.25:
            return element, bound, ("+", bound, con(rng.choice([1, 2, 3])))
        return element, *((bound, top) if rng.random() < 0.25 else (C0, bound))

    def moved(self, var: str, element: Expr, bound: Expr, inner: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The body of such a loop, mostly with a store to the element, now and then under a condition on its bound."""
        rng = self.moving
        if rng.random() < 0.3:
            inner = (("if", ("cmp", rng.choice(["<", ">=", "=="]), ("v", var), bound), inner, ()),)
        if rng.random() < 0.75:
            at = (("v", var), *element[2][1:]) if rng.random() < 0.3 else element[2]
            stored: Stmt = ("st", element[1], at, con(rng.randint(-1, 5)))
            inner = (stored, *inner) if rng.random() < 0.3 else (*inner, stored)
        return inner

    def store(self) -> Stmt:
        name, dims = self.rng.choice(self.buffers)
        at = tuple(self.index() for _ in range(dims))
        value = self.value()
        own = ("ld", name, at)
        return ("st", name, at, con(7) if _mentions(value, own) else value)

    def update(self) -> Stmt:
        rng = self.rng
        name, dims = rng.choice(self.buffers)
        at = tuple(C0 if rng.random() < 0.3 else self.index() for _ in range(dims))
        own = ("ld", name, at)
        value = self.value(1)
        if _mentions(value, own):
            value = con(3)
        return ("st", name, at, (rng.choice(["+", "+", "+", "max", "-", "*", "^"]), own, value))

    def block(self) -> Stmt:
        """A block that updates an element, mostly with an init, some of its iterators those of the reduction."""
        rng = self.blocks
        iters = []
        for var in self.loops:
            found = self.extents[var]
            assert found is not None
            iters.append((rng.choice("SSR"), self.name("v"), ("v", var), *found))
        loops, lets, self.rng = self.loops, self.lets, rng
        on, self.on = self.on, self.on - {"data"}
        condition = self.condition() if rng.random() < 0.15 else ()
        self.on = on
        self.loops, self.lets = [it[1] for it in iters], []
        name, dims = rng.choice(self.buffers)
        mine = [it[1] for it in iters if it[0] == "S"] if rng.random() < 0.7 else self.loops
        at: list[Expr] = []
        for _ in range(dims):
            index: Expr = ("v", rng.choice(mine)) if mine and rng.random() < 0.6 else con(rng.randint(0, 2))
            if rng.random() < 0.3:
                index = (rng.choice(["//", "%"]), index, con(2))
            elif rng.random() < 0.2 and len(mine) > 1:
                index = ("+", index, ("v", rng.choice(mine)))
            at.append(index)
        own = ("ld", name, tuple(at))
        value = self.value(1)
        if _mentions(value, own):
            value = con(3)
        update = ("st", name, own[2], (rng.choice(["+", "+", "+", "max", "-", "*", "^"]), own, value))
        init = ("st", name, own[2], self.load() if rng.random() < 0.15 else con(rng.randint(-2, 2)))
        self.loops, self.lets, self.rng = loops, lets, self.drawn
        made = self.name("block")
        return ("block", made, tuple(iters), condition, (init,) if rng.random() < 0.9 else (), (update,))

    def view(self, source: str = "") -> Stmt:
        rng = self.rng
        name = self.name("V")
        of = source or rng.choice(self.sources)
        dims = rng.choice([1, 1, 2])
        dtype = "int32"
        if "narrow" in self.on and rng.random() < 0.3:
            dtype = rng.choice(["int8", "uint8", "int16"])
        strides: tuple[Expr, ...] = ()
        if rng.random() < 0.5:
            strides = tuple(self.stride() for _ in range(dims))
        offset = self.index(True) if rng.random() < 0.5 else con(rng.randint(0, 4))
        self.buffers += [(name, dims)] * 2
        self.sources.append(name)
        return ("view", name, of, dtype, (con(HUGE),) * dims, strides, offset)

    def stride(self) -> Expr:
        rng = self.rng
        if rng.random() < 0.2 and (self.loops or self.scalars):
            return ("max", ("v", rng.choice([*self.loops, *self.scalars])), C0)
        return con(rng.choice([0, 1, 1, 1, 2, 3, 4, 8]))

    def program(self) -> Program:
        rng = self.rng
        body = self.body(0, rng.choice([1, 1, 2, 2, 3]))
        return Program(self.params, body, self.scalars, self.functions)


def _mentions(expr: Any, part: Expr) -> bool:
    return expr == part or (isinstance(expr, tuple) and any(_mentions(one, part) for one in expr))


def generate(seed: int, without: Collection[str] = ()) -> Program:
    """The program of a seed: accesses mostly inside their buffers, kinds of loops drawn at random.

    ``without`` names features of :data:`FEATURES` that it does not have.
    """
    maker = _Maker(seed, without)
    program = fit(maker.program(), maker.rng, seed)
    return kinds(program, maker.rng)


def kinds(program: Program, rng: random.Random) -> Program:
    """Draw the kinds of the loops: at most one that is not serial in a nest, mostly."""

    def draw(body: tuple[Stmt, ...], free: bool) -> tuple[Stmt, ...]:
        made = []
        for stmt in body:
            if stmt[0] == "for":
                kind = "serial"
                if free and rng.random() < 0.5:
                    kind = rng.choice(["parallel", "parallel", "vectorized", "vectorized", "unroll"])
                if kind in ("vectorized", "unroll") and not (stmt[3][0] == stmt[4][0] == "c"):
                    kind = "parallel"
                inner = draw(stmt[6], free and kind in ("serial", "unroll"))
                stmt = (*stmt[:2], kind, *stmt[3:5], kind in ("parallel", "vectorized") and rng.random() < 0.4, inner)
            elif stmt[0] == "if":
                stmt = (*stmt[:2], draw(stmt[2], free), draw(stmt[3], free))
            elif stmt[0] == "while":
                stmt = (*stmt[:2], draw(stmt[2], free))
            made.append(stmt)
        return tuple(made)

    return replace(program, body=draw(program.body, True))
