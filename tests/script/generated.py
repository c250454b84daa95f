"""Random IR, built by constructors: every kind of node, in shapes that no script would be written in."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from tirlower import ir
from tirlower.ir import DataType, PointerType
from tirlower.ir.op import Op

INTS = ("int32", "int64", "int8", "uint8", "uint32", "bool", "int4")
FLOATS = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn")
NAMES = ("x", "i", "A", "for", "a.b", "", "T", "range", "3d", "_", "x_1", "expr", "Module", "é")


class Generator:
    """Makes expressions and statements over what is in scope."""

    def __init__(self, rng: random.Random, blocks: bool = True) -> None:
        self.rng = rng
        self.vars: list[ir.Var] = []
        self.buffers: list[ir.Buffer] = []
        self.loops: list[ir.For | tuple[ir.Var, ir.Expr, ir.Expr]] = []
        self.blocks = blocks
        self.made_block = False

    def name(self) -> str:
        return self.rng.choice(NAMES)

    # Expressions

    def const(self, dtype: str) -> ir.Expr:
        kind = DataType(dtype)
        if kind.is_float:
            value = self.rng.choice(
                [0.0, -0.0, 1.0, 1.5, 0.1, -3.25, 1e30, 1e-8, float("nan"), float("inf"), -float("inf")]
            )
            return ir.FloatImm(kind, value)
        value = self.rng.choice([0, 1, 2, 3, -1, 7, 100, 2**40, -(2**31)])
        low, high = int(kind.min_value), int(kind.max_value)
        return ir.IntImm(kind, value if low <= value <= high else 1)

    def expr(self, dtype: str = "int32", depth: int = 3) -> ir.Expr:
        """An expression of a scalar type."""
        rng = self.rng
        kind = DataType(dtype)
        choices: list[Callable[[], ir.Expr]] = [lambda: self.const(dtype)]
        choices += [lambda v=v: v for v in self.vars if v.dtype is kind]
        if depth > 0:
            sub = lambda: self.expr(dtype, depth - 1)
            choices += [lambda c=c: c(sub(), sub()) for c in (ir.Add, ir.Sub, ir.Mul, ir.Min, ir.Max)] * 2
            choices += [lambda: ir.Select(self.expr("bool", depth - 1), sub(), sub())]
            choices += [lambda: self.call("tir.if_then_else", (self.expr("bool", depth - 1), sub(), sub()), dtype)]
            choices += [lambda: ir.Cast(dtype, self.expr(rng.choice(INTS + FLOATS), depth - 1))]
            choices += [lambda: self.let(dtype, depth)]
            choices += [lambda: self.call("tir.likely", (sub(),), dtype)]
            choices += [lambda: self.load(dtype, depth)]
            choices += [lambda: self.call("tir.call_extern", ("f", sub(), 1), dtype)]
            if kind.is_bool:
                operand = lambda t: self.expr(t, depth - 1)
                choices = [lambda: self.const("bool")]
                choices += [lambda c=c: c(sub(), sub()) for c in (ir.And, ir.Or)] * 2 + [lambda: ir.Not(sub())] * 2
                for node in (ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE):
                    choices.append(
                        lambda n=node: (lambda t: n(operand(t), operand(t)))(rng.choice(("int32", "float32")))
                    )
                choices.append(lambda: self.call("tir.isnan", (operand("float32"),), "bool"))
            elif kind.is_float:
                choices += [lambda c=c: c(sub(), sub()) for c in (ir.Div, ir.FloorDiv, ir.Mod)]
                choices += [
                    lambda: self.call("tir.exp", (sub(),), dtype),
                    lambda: self.call("tir.pow", (sub(), sub()), dtype),
                ]
                choices += [lambda: self.call("tir.ldexp", (sub(), self.expr("int32", depth - 1)), dtype)]
            else:
                choices += [lambda c=c: c(sub(), sub()) for c in (ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod)]
                for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"):
                    choices.append(lambda n=name: self.call(f"tir.{n}", (sub(), sub()), dtype))
                choices.append(lambda: self.call("tir.bitwise_not", (sub(),), dtype))
                choices.append(lambda: self.call("tir.reinterpret", (self.expr(dtype, depth - 1),), dtype))
        return rng.choice(choices)()

    def call(self, name: str, args: tuple[Any, ...], dtype: str) -> ir.Expr:
        notes = {"note": [1, {"k": True}]} if self.rng.random() < 0.05 else None
        return ir.Call(Op.get(name), args, dtype, annotations=notes)

    def let(self, dtype: str, depth: int) -> ir.Expr:
        var = ir.Var(self.name(), self.rng.choice(("int32", dtype)))
        if self.rng.random() < 0.2 and self.vars:
            known = self.rng.choice(self.vars)
            if known.dtype in INTS + FLOATS:
                var = known  # the same variable bound again inside
        value = self.expr(var.dtype, depth - 1)
        self.vars.append(var)
        body = self.expr(dtype, depth - 1)
        self.vars.pop()
        return ir.Let(var, value, body)

    def load(self, dtype: str, depth: int) -> ir.Expr:
        fitting = [b for b in self.buffers if b.dtype == dtype]
        if not fitting:
            return self.const(dtype)
        buffer = self.rng.choice(fitting)
        return ir.BufferLoad(buffer, [self.expr("int32", min(depth - 1, 1)) for _ in buffer.shape])

    def vector(self, dtype: str, lanes: int, depth: int = 2) -> ir.Expr:
        """An expression of a vector type."""
        rng = self.rng
        sub = lambda: self.vector(dtype, lanes, depth - 1)
        choices: list[Callable[[], ir.Expr]] = [lambda: ir.Broadcast(self.expr(dtype, 1), lanes)]
        if DataType(dtype).is_integral and dtype != "bool":
            choices += [lambda: ir.Ramp(self.expr(dtype, 1), self.const(dtype), lanes)] * 2
        if depth > 0:
            choices += [
                lambda: ir.Add(sub(), sub()),
                lambda: ir.Shuffle((sub(), sub()), [rng.randrange(2 * lanes) for _ in range(lanes)]),
            ]
            fitting = [b for b in self.buffers if b.dtype == dtype and b.shape]
            if fitting:
                choices += [lambda: self.vector_load(rng.choice(fitting), lanes)] * 3
        return rng.choice(choices)()

    def lanes_index(self, lanes: int) -> ir.Expr:
        stride = self.rng.choice([1, 1, 2, -1, 0])
        return ir.Ramp(self.expr("int32", 1), ir.IntImm("int32", stride), lanes)

    def vector_load(self, buffer: ir.Buffer, lanes: int) -> ir.Expr:
        indices = [self.expr("int32", 1) for _ in buffer.shape[1:]]
        mask = self.vector("bool", lanes, 0) if self.rng.random() < 0.3 else None
        return ir.BufferLoad(buffer, [*indices, self.lanes_index(lanes)], mask)

    # Statements

    def new_buffer(self, data: ir.Var | None = None) -> ir.Buffer:
        rng = self.rng
        dtype = rng.choice(("float32", "int32", "bool", "float16", "int64"))
        rank = rng.randrange(3)
        big = rng.random() < 0.2
        shape = [ir.IntImm("int64" if big else "int32", rng.choice((1, 4, 8))) for _ in range(rank)]
        options: dict[str, Any] = {}
        if rng.random() < 0.2 and rank and not big:
            options["strides"] = [self.expr("int32", 0) for _ in range(rank)]
        if rng.random() < 0.1:
            options |= {"elem_offset": self.expr("int32", 0), "offset_factor": rng.choice((1, 4))}
        if rng.random() < 0.1:
            options |= {"align": 128, "axis_separators": [0] * (rank > 0)}
        scope = rng.choice(("global", "shared", "local"))
        return ir.Buffer(self.name(), shape, dtype, data, scope=scope, **options)

    def annotations(self) -> dict[str, Any]:
        if self.rng.random() < 0.8:
            return {}
        return {
            "pragma_x": self.rng.choice([1, True, "s", 1.5, None, [1, [2]], {"k": 0.1}, ir.IntImm("int64", 3), float("nan")]),
            "expr": self.expr("int32", 1),
        }  # fmt: skip

    def body(self, depth: int) -> ir.Stmt:
        """A statement in a scope of its own; what it declares is forgotten after it."""
        marks = len(self.vars), len(self.buffers), len(self.loops)
        made = self.stmt(depth)
        del self.vars[marks[0] :], self.buffers[marks[1] :], self.loops[marks[2] :]
        return made

    def stmt(self, depth: int) -> ir.Stmt:
        rng = self.rng
        simple = [self.store, self.evaluate, self.bind, self.alloc, self.check, self.decl]
        nested = [self.loop, self.branch, self.seq, self.seq, self.attr, self.repeat, self.block]
        return rng.choice(simple if depth <= 0 else simple + nested * 2)(depth)

    def seq(self, depth: int) -> ir.Stmt:
        marks = len(self.vars), len(self.buffers)
        made = ir.Seq(tuple(self.stmt(depth - 1) for _ in range(self.rng.choice((0, 1, 2, 3, 4)))))
        del self.vars[marks[0] :], self.buffers[marks[1] :]
        return made

    def store(self, depth: int) -> ir.Stmt:
        if not self.buffers:
            return self.evaluate(depth)
        buffer = self.rng.choice(self.buffers)
        if buffer.shape and self.rng.random() < 0.3:
            mask = self.vector("bool", 4, 0) if self.rng.random() < 0.5 else None
            indices = [*[self.expr("int32", 1) for _ in buffer.shape[1:]], self.lanes_index(4)]
            return ir.BufferStore(buffer, self.vector(buffer.dtype, 4), indices, mask)
        return ir.BufferStore(buffer, self.expr(buffer.dtype), [self.expr("int32", 1) for _ in buffer.shape])

    def evaluate(self, depth: int) -> ir.Stmt:
        rng = self.rng
        value = rng.choice(
            [
                lambda: self.expr(rng.choice(INTS + FLOATS)),
                lambda: self.vector(rng.choice(("int32", "float32")), 4),
                lambda: ir.StringImm('a"b\n'),
                lambda: self.call("tir.ret", (self.expr(),), "int32"),
                lambda: ir.Call(Op.get("tir.tvm_struct_get"), (self.expr("int64", 1), 0, 3), "handle"),
                lambda: ir.Call(ir.GlobalVar("callee"), (self.expr("int32", 1),), rng.choice(("int32", "void"))),
                lambda: ir.Call(Op.get("tir.tvm_storage_sync"), ("shared",), "int32"),
            ]
        )()
        return ir.Evaluate(value)

    def bind(self, depth: int) -> ir.Stmt:
        dtype = self.rng.choice(INTS + FLOATS)
        value = self.expr(dtype)
        var = ir.Var(self.name(), dtype, self.rng.random() < 0.1 and DataType(dtype).is_int)
        self.vars.append(var)
        return ir.Bind(var, value)

    def alloc(self, depth: int) -> ir.Stmt:
        if self.rng.random() < 0.15:
            buffer = ir.Buffer(self.name(), (3,), self.rng.choice(("float32", "int32", "bool", "float16")))
            made = ir.AllocConst(buffer, np.array([1.5, 0, -2.25]).astype(buffer.dtype.numpy), self.annotations())
            self.buffers.append(buffer)
            return made
        buffer = self.new_buffer()
        condition = self.expr("bool", 1) if buffer.is_compact and self.rng.random() < 0.2 else True
        notes = self.annotations()
        self.buffers.append(buffer)
        return ir.AllocBuffer(buffer, condition, notes)

    def decl(self, depth: int) -> ir.Stmt:
        if not self.buffers:
            return self.alloc(depth)
        view = self.new_buffer(self.rng.choice(self.buffers).data)
        made = ir.DeclBuffer(view) if self.rng.random() < 0.5 else ir.Evaluate(self.touch(view))
        self.buffers.append(view)
        return made

    def touch(self, view: ir.Buffer) -> ir.Expr:
        return ir.BufferLoad(view, [ir.IntImm("int32", 0) for _ in view.shape])

    def check(self, depth: int) -> ir.Stmt:
        return ir.Assert(self.expr("bool", 2), ir.StringImm('it\'s "x"'))

    def loop(self, depth: int) -> ir.Stmt:
        rng = self.rng
        dtype = rng.choice(("int32", "int32", "int32", "int64"))
        start = ir.IntImm(dtype, 0) if rng.random() < 0.6 else self.expr(dtype, 1)
        extent = self.expr(dtype, 1)
        var = ir.Var(self.name(), dtype)
        kind = rng.choice(("serial", "serial", "serial", "parallel", "vectorized", "unroll", "thread_binding"))
        tag = f"threadIdx.{len(self.loops)}" if kind == "thread_binding" else None
        notes = self.annotations()
        self.vars.append(var)
        self.loops.append((var, start, extent))
        made = ir.For(var, start, extent, kind, tag, notes, self.body(depth - 1))
        self.vars.remove(var)
        self.loops.pop()
        return made

    def branch(self, depth: int) -> ir.Stmt:
        orelse = self.body(depth - 1) if self.rng.random() < 0.6 else None
        return ir.IfThenElse(self.expr("bool"), self.body(depth - 1), orelse)

    def repeat(self, depth: int) -> ir.Stmt:
        return ir.While(self.expr("bool"), self.body(depth - 1))

    def attr(self, depth: int) -> ir.Stmt:
        rng = self.rng
        named: Any = rng.choice(
            [None, "node", 0, ir.Range(0, self.expr("int32", 1)), [1, "x"], *self.vars[-2:], *self.buffers[-2:]]
        )
        if rng.random() < 0.2:
            var = ir.Var(self.name())
            self.vars.append(var)
            inner = self.body(depth - 1)
            self.vars.remove(var)
            body: ir.Stmt = rng.choice(
                [
                    ir.For(var, 0, 4, "serial", None, {}, inner),
                    ir.Seq((ir.Bind(var, self.expr()), inner, ir.Evaluate(var))),
                ]
            )
            return ir.AttrStmt(var, "pragma_y", 1, body)
        return ir.AttrStmt(named, "key", self.expr("int32", 1), self.body(depth - 1))

    def block(self, depth: int) -> ir.Stmt:
        if not self.blocks:
            return self.loop(depth)
        self.made_block = True
        rng = self.rng
        marks = len(self.vars), len(self.buffers)
        iters = []
        predicate = self.expr("bool", 1) if rng.random() < 0.3 else None
        for _ in range(rng.randrange(4)):
            kind = rng.choice(("spatial", "reduce", "scan", "opaque"))
            if self.loops and rng.random() < 0.7:
                value, start, extent = rng.choice(self.loops)
                iters.append(ir.BlockIter(ir.Var(self.name(), value.dtype), ir.Range(start, extent), kind, value))
            else:
                bound = self.expr("int32", 1) if rng.random() < 0.8 else None
                iters.append(
                    ir.BlockIter(
                        ir.Var(self.name()), ir.Range(self.expr("int32", 1), self.expr("int32", 1)), kind, bound
                    )
                )
        self.vars += [it.var for it in iters]
        reads, writes = (
            [self.region() for _ in range(rng.randrange(3))],
            [self.region() for _ in range(rng.randrange(2))],
        )
        reads, writes = [r for r in reads if r], [w for w in writes if w]
        notes = self.annotations()
        matches = []
        for region in [r for r in reads if r.region][:1]:
            if rng.random() < 0.5:
                continue
            source = region.buffer
            matched = ir.Buffer(
                self.name(), [part.extent for part in region.region], source.dtype, scope=source.scope,
                strides=[ir.Var("s") for _ in region.region], elem_offset=ir.Var("o"), offset_factor=rng.choice((1, 4)),
            )  # fmt: skip
            self.buffers.append(matched)
            matches.append(ir.MatchBufferRegion(matched, region))
        heads = [self.alloc(0) for _ in range(rng.randrange(2))]
        heads = [h for h in heads if isinstance(h, ir.AllocBuffer)]
        del self.buffers[marks[1] + len(matches) :]
        self.buffers += [h.buffer for h in heads]
        init = self.body(depth - 2) if rng.random() < 0.3 else None
        rest = self.body(depth - 1)
        # A Seq of nothing but its allocations cannot be told from the allocations themselves.
        body = ir.Seq((*heads, rest, ir.Evaluate(0))) if heads else rest
        made = ir.Block(self.name(), iters, predicate, reads, writes, init, matches, notes, body)
        del self.vars[marks[0] :], self.buffers[marks[1] :]
        return made

    def region(self) -> ir.BufferRegion | None:
        if not self.buffers:
            return None
        buffer = self.rng.choice(self.buffers)
        ranges = []
        for dim in buffer.shape:
            start = self.expr("int32", 1) if self.rng.random() < 0.7 else ir.IntImm("int32", 0)
            extent = self.rng.choice([ir.IntImm("int32", 1), ir.IntImm("int32", 4), self.expr("int32", 1)])
            if self.rng.random() < 0.1:
                start, extent = ir.IntImm(dim.dtype, 0), dim
            ranges.append(ir.Range(start, extent))
        return ir.BufferRegion(buffer, ranges)

    # Functions

    def function(self, depth: int = 4) -> ir.PrimFunc:
        rng = self.rng
        params: list[ir.Var] = []
        buffer_map: dict[ir.Var, ir.Buffer] = {}
        n = ir.Var("n", rng.choice(("int32", "int64")), rng.random() < 0.5)
        for _ in range(rng.randrange(4)):
            pick = rng.random()
            if pick < 0.25:
                var = ir.Var(self.name(), rng.choice((*INTS, *FLOATS, PointerType("float32", "shared"))))
                params.append(var)
                self.vars += [var] if not isinstance(var.type, PointerType) else []
                continue
            param = ir.Var(self.name(), "handle")
            params.append(param)
            if pick < 0.7:
                buffer = ir.Buffer(self.name(), (8, rng.choice((4, 16))), rng.choice(("float32", "int32")))
            else:
                extra: dict[str, Any] = {}
                if rng.random() < 0.5:
                    extra = {"strides": (ir.Var("s", n.type), 1), "elem_offset": ir.Var("o"), "offset_factor": 4}
                buffer = ir.Buffer(self.name(), (n, ir.Mul(n, ir.IntImm(n.dtype, 2))), "float32", **extra)
                self.vars += [n] if n not in self.vars else []
            self.buffers.append(buffer)
            buffer_map[param] = buffer
        attrs: dict[str, Any] = {"tir.noalias": True} if rng.random() < 0.5 else {}
        if rng.random() < 0.8:
            attrs["global_symbol"] = rng.choice(("main", "f", "not-a-name"))
        body = self.body(depth)
        if self.made_block and (not isinstance(body, ir.Block) or body.iters):
            body = ir.Block("root", (), True, (), (), None, (), {}, body)
        ret = rng.choice(("void", "int32", PointerType("float32")))
        return ir.PrimFunc(params, buffer_map, ret, attrs, body)
