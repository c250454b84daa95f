"""Runs the text of a kernel, as written or lowered, with the threads of a block in step, and notes every access.

The text is read by Python's own ``ast``; nothing is shared with the library. Each statement runs for all threads of a team
that take it: all loads, then all stores. Two accesses of one element by different threads, at least one a write and not
both atomic, race unless a barrier of the block, or of their warp, stands between them: each thread counts the barriers that it
has passed. A call that threads make together has to be reached by all that make it.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tests.judge_threads.expressions import Expressions, name_of
from tests.judge_threads.state import (
    FULL,
    LIMIT,
    WARP,
    Astray,
    Block,
    Buf,
    Memory,
    NotRead,
    Outside,
    Result,
    Team,
    Thread,
)

__all__ = ["Astray", "NotRead", "Outside", "Result", "run_text"]

_IGNORED = ("func_attr", "noalias", "assume", "tvm_thread_invariant")


class _Runner(Expressions):
    """Runs statements for all threads of a team that take them."""

    def body(self, stmts: Sequence[ast.stmt], team: Team) -> Team:
        for stmt in stmts:
            team = [th for th in team if not th.signal]
            if not team:
                break
            self.steps += len(team)
            if self.steps > LIMIT:
                raise NotRead("too long")
            if self.free and team[0].block is not None and len(team) == len(team[0].block.all):
                for block in {id(th.block): th.block for th in team}.values():
                    block.epoch += 1
            self.team = team
            self.statement(stmt, team)
        return [th for th in team if not th.signal]

    def statement(self, stmt: ast.stmt, team: Team) -> None:
        if isinstance(stmt, ast.Expr):
            if isinstance(stmt.value, ast.Constant):
                return
            self.effect(stmt.value, team)
        elif isinstance(stmt, ast.Assign) and isinstance(stmt.targets[0], ast.Subscript):
            self.assign(stmt.targets[0], stmt.value, team, stmt)
        elif isinstance(stmt, ast.Assign) and isinstance(stmt.targets[0], ast.Name):
            self.define(stmt.targets[0].id, stmt.value, team)
        elif isinstance(stmt, ast.AnnAssign) and isinstance(stmt.target, ast.Name) and stmt.value is not None:
            self.define(stmt.target.id, stmt.value, team)
        elif isinstance(stmt, ast.For):
            self.loop(stmt, team)
        elif isinstance(stmt, ast.While):
            self.repeat(stmt, team)
        elif isinstance(stmt, ast.If):
            holds = [bool(self.value(th, stmt.test)) for th in team]
            then = [th for th, yes in zip(team, holds, strict=True) if yes]
            other = [th for th, yes in zip(team, holds, strict=True) if not yes]
            self.body(stmt.body, then)
            self.body(stmt.orelse, other)
        elif isinstance(stmt, ast.With):
            self.scope(stmt, team)
        elif isinstance(stmt, (ast.Break, ast.Continue)):
            for th in team:
                th.signal = "break" if isinstance(stmt, ast.Break) else "continue"
        elif not isinstance(stmt, ast.Pass):
            raise NotRead(ast.unparse(stmt))

    def assign(self, target: ast.Subscript, value: ast.expr, team: Team, stmt: ast.AST) -> None:
        pending = []
        for th in team:
            buf, places, vector = self.places(th, target)
            made = self.value(th, value)
            pending.append((th, buf, places, made if vector and isinstance(made, tuple) else (made,) * len(places)))
        for th, buf, places, values in pending:
            for at, each in zip(places, values, strict=True):
                self.store(th, buf, at, each, stmt)

    def define(self, name: str, value: ast.expr, team: Team) -> None:
        what = name_of(value.func) if isinstance(value, ast.Call) else ""
        for th in team:
            if what in ("alloc_buffer", "allocate"):
                assert isinstance(value, ast.Call)
                th.env[name] = self.allocated(name, value, th)
            elif what in ("decl_buffer", "Buffer"):
                assert isinstance(value, ast.Call)
                th.env[name] = self.declared(value, th)
            else:
                th.env[name] = self.value(th, value)

    @staticmethod
    def _word(value: ast.Call, key: str, at: int, default: Any) -> Any:
        if len(value.args) > at:
            return value.args[at]
        return next((word.value for word in value.keywords if word.arg == key), default)

    def allocated(self, name: str, value: ast.Call, th: Thread) -> Buf:
        shape = self.value(th, value.args[0])
        given = self._word(value, "dtype", 1, None)
        dtype = given.value if given is not None else "float32"
        scope_node = next((word.value for word in value.keywords if word.arg == "scope"), None)
        scope = scope_node.value if isinstance(scope_node, ast.Constant) else ""
        shape = shape if isinstance(shape, tuple) else (shape,)
        if "x" in dtype:
            raise NotRead(f"an array of {dtype}")
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if th.block is None or scope in ("local", ""):
            memory = Memory(name, size)
            memory.of_blocks = scope.startswith("shared")
            return Buf(memory.of_a_thread() if scope == "local" else memory, dtype, shape)
        key: Any = (value.lineno, value.col_offset)
        if scope == "warp":
            key = (*key, th.axes.get("threadIdx.y"), th.axes.get("threadIdx.z"), th.lane // WARP)
        memory = th.block.memories.get(key) or th.block.memories.setdefault(key, Memory(name, size))
        return Buf(memory, dtype, shape)

    def declared(self, value: ast.Call, th: Thread) -> Buf:
        words = {word.arg: word.value for word in value.keywords}
        shape = self.value(th, value.args[0])
        shape = shape if isinstance(shape, tuple) else (shape,)
        given = self._word(value, "dtype", 1, None)
        dtype = given.value if given is not None else "float32"
        if "strides" in words or "data" not in words:
            raise NotRead(ast.unparse(value))
        source = self.value(th, words["data"])
        offset = self.value(th, words["elem_offset"]) if "elem_offset" in words else 0
        start = source.offset * np.dtype(source.dtype).itemsize // np.dtype(dtype).itemsize
        return Buf(source.memory, dtype, shape, start + offset)

    def effect(self, call: ast.expr, team: Team) -> None:
        """A call for its effect."""
        if not isinstance(call, ast.Call):
            raise NotRead(ast.unparse(call))
        name = name_of(call.func)
        if name == "evaluate":
            inner = call.args[0]
            if isinstance(inner, ast.Call):
                self.effect(inner, team)
        elif name == "tvm_storage_sync":
            self.barrier(str(self.value(team[0], call.args[0])), team)
        elif name == "ptx_syncwarp":
            if self.value(team[0], call.args[0]) != FULL:
                raise NotRead(ast.unparse(call))
            self.barrier("warp", team)
        elif name == "tvm_call_packed":
            self.launch(call, team[0])
        elif name not in _IGNORED:
            for th in team:
                self.value(th, call)

    def barrier(self, scope: str, team: Team) -> None:
        for block in {id(th.block): th.block for th in team}.values():
            if block is None:
                raise NotRead("a barrier outside of threads")
            here = [th for th in team if th.block is block]
            if scope != "warp":
                if len(here) != len(block.all):
                    raise Astray(f"a barrier by {len(here)} of {len(block.all)}")
                block.epoch += 1
                continue
            for warp in {th.lane // WARP for th in here}:
                if sum(th.lane // WARP == warp for th in here) != sum(th.lane // WARP == warp for th in block.all):
                    raise Astray("a barrier of a part of a warp")
                block.warps[warp] = block.warps.get(warp, 0) + 1

    def launch(self, call: ast.Call, th: Thread) -> None:
        kernel = self.functions[str(self.value(th, call.args[0]))]
        names = [arg.arg for arg in kernel.args.args]
        values = [self.value(th, arg) for arg in call.args[1 : 1 + len(names)]]
        self.body(kernel.body, [Thread(dict(zip(names, values, strict=True)), {}, {}, None)])

    def loop(self, stmt: ast.For, team: Team) -> None:
        if isinstance(stmt.target, ast.Tuple):
            self.loop(_nested(stmt), team)
            return
        assert isinstance(stmt.target, ast.Name) and isinstance(stmt.iter, ast.Call)
        kind, var = name_of(stmt.iter.func), stmt.target.id
        words = {word.arg: word.value for word in stmt.iter.keywords}
        if kind == "thread_binding":
            args = list(stmt.iter.args)
            tag_node = words.get("thread")
            if tag_node is None:
                tag_node = args.pop()
            assert isinstance(tag_node, ast.Constant)
            self.threads(var, str(tag_node.value), args, stmt.body, team)
            return
        if kind not in ("range", "serial", "unroll", "vectorized"):
            raise NotRead(kind)
        spans = {}
        for th in team:
            bounds = [self.value(th, arg) for arg in stmt.iter.args]
            spans[id(th)] = range(*bounds)
        if kind == "vectorized":
            self.lanes(var, spans, stmt.body, team)
            return
        active, step = team, 0
        while True:
            active = [th for th in active if step < len(spans[id(th)])]
            if not active:
                break
            for th in active:
                th.env[var] = spans[id(th)][step]
            self.body(stmt.body, active)
            active = self.next_turn(active)
            step += 1
        self.over(team)

    @staticmethod
    def next_turn(active: Team) -> Team:
        for th in active:
            if th.signal == "continue":
                th.signal = ""
        return [th for th in active if not th.signal]

    @staticmethod
    def over(team: Team) -> None:
        for th in team:
            if th.signal == "break":
                th.signal = ""

    def lanes(self, var: str, spans: dict[int, range], body: Sequence[ast.stmt], team: Team) -> None:
        """A vectorized loop: each of its iterations is a thread of the same name."""
        made = []
        for th in team:
            for at in spans[id(th)]:
                made.append(Thread({**th.env, var: at}, th.axes, th.extents, th.block))
        kept, self.free = self.free, False
        self.body(body, made)
        self.free = kept

    def repeat(self, stmt: ast.While, team: Team) -> None:
        active = team
        while True:
            self.team = active
            active = [th for th in active if self.value(th, stmt.test)]
            if not active:
                break
            self.body(stmt.body, active)
            active = self.next_turn(active)
        self.over(team)

    def threads(self, var: str, tag: str, args: list[ast.expr], body: Sequence[ast.stmt], team: Team) -> None:
        if tag in team[0].axes:
            for th in team:
                th.env[var] = th.axes[tag]
            self.body(body, team)
            return
        bounds = [self.value(team[0], arg) for arg in args]
        span = range(*bounds)
        if not team[0].axes:  # a kernel begins: all before is over
            for buf in team[0].env.values():
                if isinstance(buf, Buf):
                    buf.memory.cells.clear()
        if tag.startswith("blockIdx"):
            for th in team:
                for at in span:
                    block = Block((th.block.name if th.block else (), tag, at))
                    fork = Thread({**th.env, var: at}, {**th.axes, tag: at}, {**th.extents, tag: len(span)}, block)
                    block.all = [fork]
                    for name, value in fork.env.items():
                        if isinstance(value, Buf) and value.memory.of_blocks:
                            memory = value.memory.copy_for(fork.name)
                            fork.env[name] = Buf(memory, value.dtype, value.shape, value.offset)
                    self.body(body, [fork])
            return
        made: Team = []
        for th in team:
            block = th.block or Block(())
            for at in span:
                axes, extents = {**th.axes, tag: at - span.start}, {**th.extents, tag: len(span)}
                made.append(Thread({**th.env, var: at}, axes, extents, block))
        for fork in made:
            for name, value in fork.env.items():
                if isinstance(value, Buf) and value.memory.private:
                    memory = value.memory.copy_for(fork.name)
                    fork.env[name] = Buf(memory, value.dtype, value.shape, value.offset)
        before = {id(th.block): (th.block, th.block.all) for th in team if th.block is not None}
        for block in {id(fork.block): fork.block for fork in made}.values():
            block.all = [fork for fork in made if fork.block is block]
        self.body(body, made)
        for block, everyone in before.values():
            block.all = everyone

    def scope(self, stmt: ast.With, team: Team) -> None:
        call = stmt.items[0].context_expr
        name = name_of(call.func) if isinstance(call, ast.Call) else ""
        if name == "attr":
            self.body(stmt.body, team)
        elif name == "block":
            self.block(stmt, team)
        else:
            raise NotRead(ast.unparse(stmt))

    def block(self, stmt: ast.With, team: Team) -> None:
        """A block that reduces over thread axes: the threads add their terms one after another."""
        reducing = any(
            isinstance(node, ast.Attribute) and node.attr == "reduce" for part in stmt.body for node in ast.walk(part)
        )
        parts = [[th] for th in team] if reducing else [team]
        kept, self.reducing = self.reducing, reducing or self.reducing
        for part in parts:
            first = True
            for inner in stmt.body:
                if isinstance(inner, ast.Assign) and isinstance(inner.value, ast.Call) and _is_axis(inner.value):
                    assert isinstance(inner.targets[0], ast.Name)
                    for th in part:
                        value = self.value(th, inner.value.args[1])
                        th.env[inner.targets[0].id] = value
                        first = first and (name_of(inner.value.func) != "reduce" or value == 0)
                elif (
                    isinstance(inner, ast.Expr)
                    and isinstance(inner.value, ast.Call)
                    and name_of(inner.value.func) == "where"
                ):
                    part = [th for th in part if self.value(th, inner.value.args[0])]
                elif isinstance(inner, ast.With) and name_of(inner.items[0].context_expr.func) == "init":  # type: ignore[attr-defined]
                    if first:
                        self.body(inner.body, part)
                else:
                    self.body([inner], part)
        self.reducing = kept


_NESTED: dict[ast.For, ast.For] = {}


def _nested(stmt: ast.For) -> ast.For:
    """``for i, j in T.grid(a, b)`` as loops inside each other, the same nodes each time."""
    found = _NESTED.get(stmt)
    if found is None:
        assert isinstance(stmt.target, ast.Tuple) and isinstance(stmt.iter, ast.Call)
        body = stmt.body
        for var, extent in zip(reversed(stmt.target.elts), reversed(stmt.iter.args), strict=True):
            call = ast.Call(ast.Name("range"), [extent], [])
            body = [ast.copy_location(ast.For(var, call, body, []), stmt)]
        found = _NESTED[stmt] = body[0]  # type: ignore[assignment]
    return found


def _is_axis(call: ast.Call) -> bool:
    return name_of(call.func) in ("spatial", "reduce")


def _buffers(function: ast.FunctionDef) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    for arg in function.args.args:
        note = arg.annotation
        if isinstance(note, ast.Call) and name_of(note.func) == "Buffer":
            shape = ast.literal_eval(note.args[0])
            dtype = ast.literal_eval(note.args[1]) if len(note.args) > 1 else "float32"
            yield arg.arg, dtype, shape if isinstance(shape, tuple) else (shape,)
        else:
            raise NotRead(f"parameter {arg.arg}")


def run_text(text: str, name: str, arrays: Sequence[np.ndarray], *, free: bool = False) -> Result:
    """Run the function ``name`` of a text on arrays of its parameters, in place.

    ``free`` lets a barrier stand in front of every statement that all threads of a block come to: what then still races,
    no barrier could order. Raises NotRead and Outside.
    """
    runner = _Runner(ast.parse(text), free)
    function = runner.functions[name]
    env: dict[str, Any] = {}
    for (param, dtype, shape), array in zip(_buffers(function), arrays, strict=True):
        memory = Memory(param, 0, array.view(np.uint8).reshape(-1))
        env[param] = Buf(memory, dtype, shape)
    try:
        runner.body(function.body, [Thread(env, {}, {}, None)])
    except Astray as error:
        runner.result.astray = str(error)
    return runner.result
