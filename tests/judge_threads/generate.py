"""Random kernels as script text, by seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

__all__ = ["FEATURES", "Kernel", "generate"]

FEATURES = (
    "axes", "loops", "conditions", "arms", "breaks", "while", "atomics", "barriers", "shuffles", "warp", "global", "blocks",
    "floats", "vthreads", "functions", "vectors", "dynamic", "trusted", "names",
)  # fmt: skip
"""What can be left out."""


@dataclass(frozen=True)
class Kernel:
    """The text of a kernel over arrays A, C and B of ``size`` elements each, and the name of its function."""

    text: str
    size: int
    dtype: str
    name: str = "main"


def generate(seed: int, without: tuple[str, ...] = ()) -> Kernel:
    """The kernel of a seed; ``without`` leaves out features."""
    writer = _Writer(seed, without)
    return writer.staged() if writer.chance("reductions", 0.15) else writer.made()


class _Writer:
    def __init__(self, seed: int, without: tuple[str, ...]) -> None:
        self.random = random.Random(seed)
        self.without = without
        self.lines: list[str] = []
        self.count = 0
        self.functions = self.chance("functions", 0.15)
        self.dtype = "float32" if self.chance("floats", 0.15) else "int32"
        two = self.chance("axes", 0.4)
        self.y, self.x = (
            self.random.choice([(2, 8), (4, 4), (2, 16), (2, 32), (8, 2)])
            if two
            else (1, self.random.choice([8, 16, 32, 64]))
        )
        self.blocks = 2 if self.chance("blocks", 0.2) else 1
        self.threads = self.x * self.y
        self.tid = f"ty * {self.x} + tx" if self.y > 1 else "tx"
        self.scope = "shared.dyn" if self.chance("dynamic", 0.15) else "shared"
        self.warp = self.x <= 32 and self.chance("warp", 0.25)
        # Of its own numbers, so that the kernels of a seed are otherwise what they were.
        self.named = random.Random(f"names {seed}").random() < 0.25 and "names" not in without
        self.serial: list[str] = []
        self.virtual = False
        self.stored: tuple[str, str] | None = None

    def chance(self, feature: str, share: float) -> bool:
        drawn = self.random.random() < share
        return drawn and feature not in self.without

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def made(self) -> Kernel:
        size = 4 * self.threads * self.blocks
        given = ", ".join(f'{name}: T.Buffer(({size},), "{self.dtype}")' for name in "ACB")
        depth = 0
        if self.functions:
            self.lines += ["@I.ir_module", "class Module:"]
            depth = 1
            self.line(1, "@T.prim_func(private=True)")
            self.line(1, "def g(x: T.int32, y: T.int32) -> T.int32:")
            self.line(2, f"return {self.random.choice(['x + y', 'x * 2 - y', 'T.max(x, y)', '(x + y) % 7'])}")
        self.line(depth, "@T.prim_func")
        self.line(depth, f"def main({given}):")
        depth += 1
        if self.blocks > 1:
            self.line(depth, f'for bx in T.thread_binding({self.blocks}, thread="blockIdx.x"):')
            depth += 1
        trusted = ', annotations={"tir.unchecked": "it is"}' if self.chance("trusted", 0.12) else ""
        if self.y > 1:
            self.line(depth, f'for ty in T.thread_binding({self.y}, thread="threadIdx.y"{trusted}):')
            depth += 1
        self.line(depth, f'for tx in T.thread_binding({self.x}, thread="threadIdx.x"{trusted}):')
        depth += 1
        n = self.threads
        if self.named:
            self.line(depth, f"t: T.int32 = {self.tid}")
            self.tid = "t"
            self.line(depth, f'e = T.alloc_buffer(({4 * n},), "{self.dtype}", scope="{self.scope}")')
        for name in "sr":
            self.line(depth, f'{name} = T.alloc_buffer(({4 * n},), "{self.dtype}", scope="{self.scope}")')
        self.line(depth, f'l = T.alloc_buffer((4,), "{self.dtype}", scope="local")')
        self.line(depth, 'n = T.alloc_buffer((2,), "int32", scope="local")')
        self.line(depth, "n[0] = 0")
        for at in range(4):
            self.line(depth, f"l[{at}] = {self.literal(at)}")
        if self.warp:
            self.line(depth, f'w = T.alloc_buffer(({self.x},), "{self.dtype}", scope="warp")')
            self.line(depth, f"w[tx] = A[{self.tid}]")
        self.line(depth, "for i in range(4):")
        for name in "sr":
            self.line(depth + 1, f"{name}[i * {n} + {self.tid}] = A[i * {n} + {self.tid}]")
        if self.named:
            self.line(depth, f"e[t + {n}] = A[t]")
        self.line(depth, f'T.tvm_storage_sync("{self.scope}")')
        self.body(depth, self.random.randint(2, 5), 2)
        self.line(depth, f"B[{self.own('B')}] = {self.value(1)}{f' + e[{2 * n - 1} - t]' if self.named else ''}")
        return Kernel("\n".join(self.lines) + "\n", size, self.dtype)

    def staged(self) -> Kernel:
        """A kernel of loops over threads one after another, some of which reduce together."""
        x = self.x
        size = 4 * x
        self.warp, self.functions = False, False
        given = ", ".join(f'{name}: T.Buffer(({size},), "{self.dtype}")' for name in "ACB")
        self.line(0, "@T.prim_func")
        self.line(0, f"def main({given}):")
        self.line(1, 'for bx in T.thread_binding(2, thread="blockIdx.x"):')
        self.line(2, f's = T.alloc_buffer(({2 * x},), "{self.dtype}", scope="shared")')
        stages = self.random.randint(1, 3)
        for at in range(stages):
            self.line(2, f'q{at} = T.alloc_buffer((1,), "{self.dtype}", scope="shared")')
        loop = f'for tx in T.thread_binding({x}, thread="threadIdx.x"):'
        self.line(2, loop)
        self.line(3, f"s[tx] = A[bx * {x} + tx]")
        self.line(3, f"s[tx + {x}] = A[bx * {x} + {x - 1} - tx]")
        for at in range(stages):
            known = [f"q{n}[0]" for n in range(at)] + [f"A[bx * {x} + tx]", self.literal(3)]
            if self.random.random() < 0.5:
                self.line(2, loop)
                place = self.random.choice(["tx", f"{x - 1} - tx", f"tx + {x}", f"(tx + 3) % {x}"])
                value = self.random.choice([f"s[{place}]", *known])
                self.line(3, f"s[{place}] = T.max({value}, {self.random.choice(known)})")
            form, start = self.random.choice([("{} + {}", 0), ("T.max({}, {})", -99)])
            self.line(2, loop)
            self.line(3, f'with T.block("sum{at}"):')
            self.line(4, f"vk = T.axis.reduce({x}, tx)")
            if self.random.random() < 0.2:
                self.line(4, f"T.where(tx < {x - 2})")
            self.line(4, "with T.init():")
            self.line(5, f"q{at}[0] = {self.literal(start)}")
            term = self.random.choice([f"s[{x - 1} - vk]", "s[vk]", f"s[vk + {x}]", f"A[bx * {x} + vk]"])
            if at and self.random.random() < 0.5:
                term = f"({term} - q{self.random.randint(0, at - 1)}[0])"
            self.line(4, f"q{at}[0] = {form.format(f'q{at}[0]', term)}")
        self.line(2, loop)
        last = self.random.choice([f"s[{x - 1} - tx]", f"s[tx + {x}]", "s[tx]"])
        self.line(3, f"B[bx * {x} + tx] = {last} + q{stages - 1}[0] - q{self.random.randint(0, stages - 1)}[0]")
        return Kernel("\n".join(self.lines) + "\n", size, self.dtype)

    # Expressions

    def literal(self, value: int) -> str:
        return f"T.float32({value})" if self.dtype == "float32" else str(value)

    def own(self, name: str) -> str:
        """An element that this thread of this block alone has."""
        base = self.tid
        if name in "BC" and self.blocks > 1:
            base = f"bx * {4 * self.threads} + {base}"
        shift = self.random.choice([0, 0, 0, self.threads, 2 * self.threads])
        return f"{base} + {shift}" if shift else base

    def place(self, name: str) -> str:
        """An element to store to: mostly one that no other thread stores to in this statement."""
        n = self.threads
        if self.random.random() < 0.2:
            return self.index(name)
        apart = [self.tid] * 4 + [
            f"{n - 1} - ({self.tid})",
            f"({self.tid}) * 2",
            f"({self.tid}) * 2 + 1",
            f"{self.tid} + {n}",
        ]
        apart += [f"({self.tid} + {self.random.randint(1, n - 1)}) % {n}", f"{self.tid} + {self.random.randint(1, 3)}"]
        if self.y > 1:
            apart += [f"tx * {self.y} + ty"] * 2
        if self.serial:
            k = self.random.choice(self.serial)
            apart += (
                [f"{self.tid} + {k}"] * 3
                + [f"{k} % 2 * {n} + {self.tid}"] * 2
                + [f"({self.tid} + {k}) % {n}", f"{self.tid} + {n} * {k}"]
            )
        return self.random.choice(apart)

    def index(self, name: str) -> str:
        """An element of a buffer of four times as many elements as threads."""
        n, x, y = self.threads, self.x, self.y
        choices = [self.tid] * 6 + [f"{n - 1} - ({self.tid})"] * 3 + [f"{self.tid} + {self.random.randint(1, 3)}"] * 2
        choices += [
            f"({self.tid} + {self.random.randint(1, n - 1)}) % {n}",
            f"({self.tid}) * 2",
            "0",
            str(self.random.randint(0, n - 1)),
        ]
        choices += [
            f"T.bitwise_xor({self.tid}, {self.random.choice([1, 2, x // 2])})",
            f"({self.tid}) // 2",
            f"({self.tid}) * 2 + 1",
            "tx",
        ]
        if y > 1:
            choices += [f"tx * {y} + ty"] * 3 + [
                "tx + ty",
                "ty",
                f"{y - 1} - ty",
                f"({y - 1} - ty) * {x} + tx",
                "tx + 2 * ty",
            ]
        if self.serial:
            k = self.random.choice(self.serial)
            choices += (
                [f"{self.tid} + {k}"] * 3
                + [f"{self.tid} + {n} * {k}"] * 2
                + [f"({self.tid} + {k}) % {n}", k, f"{k} * 2 + tx"]
            )
            choices += [f"{k} % 2 * {n} + {self.tid}"] * 2 + [
                f"{k} % 2 * {n} + {n - 1} - ({self.tid})",
                f"({k} + 1) % 2 * {n} + {n - 1} - ({self.tid})",
            ]
        if self.dtype == "int32" and name in "sr" and self.random.random() < 0.05:
            choices = [f"T.bitwise_and(A[{self.tid}], {n - 1 if n & (n - 1) == 0 else 1})"]
        found = self.random.choice(choices)
        if name == "C" and self.blocks > 1:
            found = f"bx * {4 * n} + {found}"
        return found

    def load(self) -> str:
        names = ["s"] * 4 + ["r"] * 2 + ["A", "l"]
        if self.warp and self.random.random() < 0.4:
            x = self.x
            return f"w[{self.random.choice(['tx', f'{x - 1} - tx', f'(tx + 1) % {x}', '0', 'T.bitwise_xor(tx, 1)'])}]"
        if "global" not in self.without and self.random.random() < 0.1:
            names = ["C"]
        name = self.random.choice(names)
        if self.stored is not None and name == self.stored[0] and self.random.random() < 0.9:
            return f"{name}[{self.stored[1]}]"
        if name == "C" and self.random.random() < 0.7:
            return f"C[{self.own('C')}]"
        return f"l[{self.random.randint(0, 3)}]" if name == "l" else f"{name}[{self.index(name)}]"

    def value(self, depth: int) -> str:
        kind = self.random.random()
        if depth <= 0 or kind < 0.35:
            return self.load()
        if kind < 0.45:
            return self.literal(self.random.randint(0, 9))
        if kind < 0.5:
            return "T.Cast('float32', tx)" if self.dtype == "float32" else self.random.choice(["tx", self.tid])
        if self.chance("arms", 0.12):
            form = self.random.choice(["T.if_then_else", "T.if_then_else", "T.Select"])
            return f"{form}({self.condition()}, {self.value(depth - 1)}, {self.value(depth - 1)})"
        if self.chance("shuffles", 0.1):
            form = self.random.choice(["", "_up", "_down", "_xor"])
            mask = self.random.choice(["T.uint32(0xFFFFFFFF)", "T.uint32(0xFFFFFFFF)", "T.tvm_warp_activemask()"])
            offset = self.random.choice(["1", "2", "3", "0"] + (["tx % 4"] if not form else []))
            return f"T.tvm_warp_shuffle{form}({mask}, {self.value(depth - 1)}, {offset}, {self.random.choice([32, 32, 8])}, 32)"
        if self.functions and self.dtype == "int32" and self.random.random() < 0.3:
            return f"Module.g({self.value(0)}, tx)"
        form = self.random.choice(["({} + {})", "({} - {})", "T.max({}, {})", "T.min({}, {})"])
        return form.format(self.value(depth - 1), self.value(depth - 1))

    def condition(self) -> str:
        n, x = self.threads, self.x
        choices = [
            f"tx < {max(1, x // 2)}",
            "tx == 0",
            "tx % 2 == 0",
            f"{self.tid} < {n // 2}",
            f"tx > {x // 3}",
            "A[0] > " + self.literal(20),
        ]
        choices += [
            f"l[0] > {self.literal(1)}",
            f"A[{self.tid}] > {self.literal(10)}",
            f"s[{self.random.randint(0, 3)}] > {self.literal(5)}",
        ]
        if self.y > 1:
            choices += ["ty == 0", "ty < tx", "ty % 2 == 1"]
        if n > 32:
            choices += [f"({self.tid}) // 32 == 0", f"{self.tid} < 32"]
        if self.blocks > 1:
            choices += ["bx == 0"]
        if self.serial:
            k = self.random.choice(self.serial)
            choices += [f"{k} > 0", f"tx < {k}", f"{k} % 2 == 0"]
        found = self.random.choice(choices)
        if self.chance("arms", 0.1):
            found = f"{found} {self.random.choice(['and', 'or'])} {self.load()} > {self.literal(3)}"
        return found

    # Statements

    def body(self, depth: int, count: int, nesting: int) -> None:
        for _ in range(count):
            self.statement(depth, nesting)

    def statement(self, depth: int, nesting: int) -> None:
        kind = self.random.random()
        if nesting and kind < 0.16 and "loops" not in self.without:
            self.loop(depth, nesting)
        elif nesting and kind < 0.32 and "conditions" not in self.without:
            self.line(depth, f"if {self.condition()}:")
            self.body(depth + 1, self.random.randint(1, 2), nesting - 1)
            if self.random.random() < 0.35:
                self.line(depth, "else:")
                self.body(depth + 1, self.random.randint(1, 2), nesting - 1)
        elif kind < 0.4 and "barriers" not in self.without:
            self.line(
                depth, f'T.tvm_storage_sync("{self.random.choice([self.scope, self.scope, self.scope, "warp"])}")'
            )
        elif kind < 0.47 and self.dtype == "int32" and "atomics" not in self.without:
            name = self.random.choice(["add", "add", "max", "xor", "min", "and", "exchange"])
            place = self.random.choice(["0", "1", self.index("s"), self.tid])
            self.line(
                depth,
                f"T.evaluate(T.atomic_{name}(T.address_of(r[{place}]), {self.random.choice(['tx', '3', 'l[1]'])}))",
            )
        elif kind < 0.5 and nesting and self.chance("vthreads", 0.5) and not self.virtual:
            self.virtual = True
            self.line(depth, 'for vx in T.thread_binding(2, thread="vthread.x"):')
            at = self.random.choice([f"({self.tid}) * 2 + vx", f"{self.tid} + vx * {self.threads}", f"{self.tid} + vx"])
            self.line(depth + 1, f"s[{at}] = {self.value(1)}")
            if self.random.random() < 0.5:
                self.line(
                    depth + 1, f"r[{self.tid} + vx * {self.threads}] = s[{self.random.choice([at, self.index('s')])}]"
                )
        elif kind < 0.54 and self.chance("vectors", 0.6):
            self.line(depth, "for v in T.vectorized(2):")
            at = self.random.choice([f"({self.tid}) * 2 + v", f"({self.tid}) * 2 + v", f"{self.tid} + v"])
            self.line(depth + 1, f"{self.random.choice('sr')}[{at}] = A[({self.tid}) * 2 + v]")
        elif kind < 0.62:
            self.line(depth, f"l[{self.random.randint(0, 3)}] = {self.value(2)}")
        elif kind < 0.68 and self.warp:
            self.line(depth, f"w[tx] = {self.value(1)}")
        elif kind < 0.76:
            name = "C" if "global" not in self.without and self.random.random() < 0.4 else "B"
            self.store(depth, name, self.own(name))
        else:
            name = self.random.choice("ssr")
            self.store(depth, name, self.place(name))

    def store(self, depth: int, name: str, place: str) -> None:
        self.stored = name, place
        self.line(depth, f"{name}[{place}] = {self.value(2)}")
        self.stored = None

    def loop(self, depth: int, nesting: int) -> None:
        kind = self.random.random()
        if kind < 0.15 and "while" not in self.without:
            # A counter of the loop's own: of each thread, or the same for all.
            limit = self.random.choice(["2", "3", "tx % 3"])
            self.line(depth, "n[0] = 0")
            self.line(depth, f"while n[0] < {limit}:")
            self.body(depth + 1, self.random.randint(1, 2), 0)
            self.line(depth + 1, "n[0] = n[0] + 1")
            return
        k = self.name("k")
        extent = self.random.choice(["2", "3", "3", "4", "tx % 3", "1", "tx // 32 + 1"])
        form = self.random.choice(["range", "range", "range", "T.unroll"]) if extent.isdigit() else "range"
        self.line(depth, f"for {k} in {form}({extent}):")
        self.serial.append(k)
        self.body(depth + 1, self.random.randint(1, 3), nesting - 1)
        if form == "range" and self.chance("breaks", 0.15):
            self.line(depth + 1, f"if {self.condition()}:")
            self.line(depth + 2, self.random.choice(["break", "continue"]))
            self.body(depth + 1, 1, 0)
        self.serial.pop()
