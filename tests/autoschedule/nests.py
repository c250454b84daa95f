"""Random programs of naive loops, as people write them: products, chains, sweeps, sums, transposes, triangles, scatters, in any
order of their loops, windows, padding, at sizes that are numbers or come with the call, of arrays that are flat now and then. ``python -m tests.autoschedule.nests FIRST COUNT`` builds each as a
build does by default and as it is written, on a stated machine, and compares the bytes that calls leave, arrays that overlap included.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tirlower as tl
from tests.fuzz.seeds import patched, run_seeds
from tests.generate.flat import flattened
from tirlower.autoschedule import choose
from tirlower.autoschedule.recipes import histogram, time_loop
from tirlower.script import parse

__all__ = ["MACHINES", "Nests", "check"]

MACHINES = (
    "llvm -mcpu=x86-64-v3 -mcache=1K,2K,4K -num_threads=4",
    "llvm -mcpu=x86-64-v3 -mcache=32K,1M,32M -num_threads=1",
    "llvm -mcpu=x86-64-v4 -mcache=32K,1M,32M -num_threads=2",
    "llvm -mcpu=x86-64-v4 -mcache=2K,16K,64K -num_threads=3",
)
SIZES = (1, 2, 3, 5, 8, 16, 17, 31, 40, 64, 67, 100)
DTYPES = ("float32", "float32", "float32", "float64", "int32", "int8", "uint8", "int64", "float16")


@dataclass
class Nests:
    """A program and what it is called with, made from a seed."""

    seed: int
    text: str = ""
    params: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    scalars: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        rng = self.rng
        self.dtype = rng.choice(DTYPES)
        self.symbolic = rng.random() < 0.3
        self.sizes = {name: rng.choice(SIZES) for name in "nmk"} | {name: rng.choice((1, 2, 3, 5, 7)) for name in "uv"}
        for name, (result, window) in {
            "h": "nu",
            "w": "mv",
        }.items():  # what a window moves over: now and then too small
            more = rng.choice((-1, 0, 0, 1, 4)) if self.symbolic else rng.choice((0, 0, 1, 4))
            self.sizes[name] = max(1, self.sizes[result] + self.sizes[window] - 1 + more)
        self.fresh = 0
        body: list[str] = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            body += rng.choice(KINDS)(self)
        if rng.random() < 0.1:
            body = [f"for t in range({rng.randrange(1, 4)}):", *("    " + line for line in body)]
        # Of draws of their own: the programs of the seeds stay what they are.
        if random.Random(f"around {self.seed}").random() < 0.25:
            self.rng = random.Random(f"inside {self.seed}")
            body = [*self.rng.choice(SERIAL)(self), *(body if self.rng.random() < 0.3 else ())]
            body = self._named(body) if self.rng.random() < 0.4 else body
            self.rng = rng
        self.text = "\n".join([f"def f({self._head()}):", *("    " + line for line in body)])
        if self.symbolic and ".shape[" not in self.text and random.Random(f"flat {self.seed}").random() < 0.4:
            self._flatten()

    def _head(self) -> str:
        shown = [
            f'{name}: T.Buffer(({", ".join(map(self.extent, shape))},), "{dtype}")'
            for name, dtype, shape in self.params
        ]
        return ", ".join(shown)

    def _flatten(self) -> None:
        """Let the program compute the subscripts of its arrays itself; the sizes are parameters then."""
        shapes = {name: shape for name, _, shape in self.params}
        self.scalars = list(dict.fromkeys(dim for shape in shapes.values() for dim in shape if not dim.isdigit()))
        self.params = [(name, dtype, (" * ".join(shape),)) for name, dtype, shape in self.params]
        head = [f"{name}: T.int32" for name in self.scalars]
        head += [f'{name}: T.Buffer(({shape},), "{dtype}")' for name, dtype, (shape,) in self.params]
        body = flattened(self.text, shapes)
        self.text = f"def f({', '.join(head)}):" + body.partition(":\n")[2].join(("\n", ""))

    def _named(self, body: list[str]) -> list[str]:
        """The body with names for the sizes of arrays: ``rows0 = A0.shape[0]``."""
        lines: list[str] = []
        for name, _, shape in self.params:
            for axis, dim in enumerate(shape):
                old, new = self.bound(dim), f"size{len(lines)}"
                if f"range({old})" in "\n".join(body):
                    lines.append(f"{new} = {name}.shape[{axis}]")
                    body = [line.replace(f"range({old})", f"range({new})") for line in body]
        return lines + body

    def extent(self, size: str) -> str:
        """A size in the head: a name of its own where the call brings it."""
        return f'"{size}"' if self.symbolic and not size.isdigit() else str(self.size(size))

    def size(self, name: str) -> int:
        """A size in a call: a name's, or a number itself; of a flat array the product of some."""
        return math.prod(int(one) if one.isdigit() else self.sizes[one] for one in name.split(" * "))

    def bound(self, size: str) -> str:
        """A size in a loop."""
        return size if self.symbolic or size.isdigit() else str(self.sizes[size])

    def array(self, *shape: str, dtype: str = "", old: bool = True) -> str:
        """A parameter of a shape: now and then one that there is already."""
        wanted = dtype or self.dtype
        there = [name for name, have, dims in self.params if have == wanted and dims == shape]
        if old and there and self.rng.random() < 0.5:
            return self.rng.choice(there)
        self.params.append((f"A{len(self.params)}", wanted, shape))
        return self.params[-1][0]

    def loops(self, *sizes: str) -> list[tuple[str, str]]:
        """Loop variables of their own, by size."""
        made = []
        for size in sizes:
            self.fresh += 1
            made.append((f"i{self.fresh}", size))
        return made

    def nest(self, loops: list[tuple[str, str]], inside: list[str]) -> list[str]:
        """Statements in loops, in a random order of them."""
        order = self.rng.sample(loops, len(loops))
        lines: list[str] = []
        for depth, (var, size) in enumerate(order):
            lines.append("    " * depth + f"for {var} in range({self.bound(size)}):")
        return lines + ["    " * len(order) + line for line in inside]

    def value(self, terms: list[str]) -> str:
        """An expression of some terms."""
        rng, made = self.rng, terms[0]
        for term in terms[1:]:
            kind = rng.randrange(5)
            made = (
                f"T.max({made}, {term})" if kind == 0
                else f"T.if_then_else({made} > {term}, {term}, {made})" if kind == 1
                else f"({made} {rng.choice('+-*')} {term})"
            )  # fmt: skip
        if self.dtype.startswith("float3") or self.dtype == "float64":
            made = rng.choice((made, made, f"T.exp({made})", f"({made} / T.{self.dtype}(3))", f"T.tanh({made})"))
        return made


def _elementwise(p: Nests) -> list[str]:
    (i, j) = p.loops("n", "m")
    target, a, row = p.array("n", "m"), p.array("n", "m"), p.array("m")
    terms = p.rng.sample([f"{a}[{i[0]}, {j[0]}]", f"{row}[{j[0]}]", f"{target}[{i[0]}, {j[0]}]"], p.rng.randrange(1, 4))
    return p.nest([i, j], [f"{target}[{i[0]}, {j[0]}] = {p.value(terms)}"])


def _chain(p: Nests) -> list[str]:
    (i, j), (x, y) = p.loops("n", "m"), p.loops("n", "m")
    a, middle, out = p.array("n", "m"), p.array("n", "m", old=False), p.array("n", "m", old=False)
    first = p.nest([i, j], [f"{middle}[{i[0]}, {j[0]}] = {p.value([f'{a}[{i[0]}, {j[0]}]'])}"])
    back = p.rng.choice(("", "", f"{p.bound('n')} - 1 - "))
    return first + p.nest([x, y], [f"{out}[{x[0]}, {y[0]}] = {middle}[{back}{x[0]}, {y[0]}] + {a}[{x[0]}, {y[0]}]"])


def _product(p: Nests) -> list[str]:
    (i, j, k) = p.loops("n", "m", "k")
    wide = {"int8": "int32", "uint8": "int32", "float16": "float32"}.get(p.dtype, p.dtype)
    turned = p.rng.random() < 0.4
    a, b, c = (
        p.array("n", "k"),
        p.array(*(("m", "k") if turned else ("k", "m"))),
        p.array("n", "m", dtype=wide, old=False),
    )
    at_b = f"{b}[{j[0]}, {k[0]}]" if turned else f"{b}[{k[0]}, {j[0]}]"
    parts = [f'T.Cast("{wide}", {x})' if wide != p.dtype else x for x in (f"{a}[{i[0]}, {k[0]}]", at_b)]
    form = p.rng.randrange(7)
    add = f"{c}[{i[0]}, {j[0]}] = {c}[{i[0]}, {j[0]}] + {parts[0]} * {parts[1]}"
    zero = f"{c}[{i[0]}, {j[0]}] = T.{wide}(0)"
    if form == 0:
        return p.nest([i, j, k], [add])
    inner = [f"for {k[0]} in range({p.bound('k')}):", "    " + add]
    if form == 1:
        return p.nest([i, j], [zero, *inner])
    if form == 2:
        acc = f"acc{p.fresh}"
        body = [f"{acc}: T.{wide} = T.{wide}(0)", inner[0], f"    {acc} = {acc} + {parts[0]} * {parts[1]}"]
        return p.nest([i, j], [*body, f"{c}[{i[0]}, {j[0]}] = {acc}"])
    if form == 3:  # a block with the loop of the sum in it
        renamed = [
            line.replace(f"[{i[0]},", "[vi,").replace(f"{j[0]}]", "vj]").replace(f"[{j[0]},", "[vj,")
            for line in (zero, *inner)
        ]
        head = [f'with T.block("b{p.fresh}"):', f'    vi, vj = T.axis.remap("SS", [{i[0]}, {j[0]}])']
        return p.nest([i, j], [*head, *("    " + line for line in renamed)])
    if form == 4:  # a scalar outside of the loops
        acc = f"acc{p.fresh}"
        body = [f"{acc}[0] = T.{wide}(0)", inner[0], f"    {acc}[0] += {parts[0]} * {parts[1]}"]
        made = p.nest([i, j], [*body, f"{c}[{i[0]}, {j[0]}] = {acc}[0]"])
        return [f'{acc} = T.alloc_buffer((1,), "{wide}", scope="local")', *made]
    if form == 5:  # rows one after another
        first = [f"for {j[0]} in range({p.bound('m')}):", "    " + zero]
        rows = p.rng.choice(([k, j], [j, k]))
        rest = [
            f"for {rows[0][0]} in range({p.bound(rows[0][1])}):",
            f"    for {rows[1][0]} in range({p.bound(rows[1][1])}):",
        ]
        return p.nest([i], [*first, *rest, "        " + add])
    x, y = p.loops("n", "m")
    return p.nest([x, y], [f"{c}[{x[0]}, {y[0]}] = T.{wide}(0)"]) + p.nest([i, j, k], [add])


def _block(p: Nests) -> list[str]:
    (i, j) = p.loops("n", "m")
    a, s = p.array("n", "m"), p.array("n", old=False)
    return p.nest([i, j], [
        f'with T.block("b{p.fresh}"):', f'    vi, vj = T.axis.remap("SR", [{i[0]}, {j[0]}])', "    with T.init():",
        f"        {s}[vi] = T.{p.dtype}(0)", f"    {s}[vi] = {s}[vi] + {a}[vi, vj]",
    ])  # fmt: skip


def _sums(p: Nests) -> list[str]:
    (i, j) = p.loops("n", "m")
    by, a = p.rng.choice((i, j)), p.array("n", "m")
    s = p.array(by[1], old=False)
    into = f"{s}[{by[0]}]"
    kind = p.rng.choice(("{0} + {1}", "T.max({0}, {1})", "T.min({0}, {1})", "{0} * {1}"))
    return p.nest([i, j], [f"{into} = {kind.format(into, f'{a}[{i[0]}, {j[0]}]')}"])


def _softmax(p: Nests) -> list[str]:
    (i, j) = p.loops("n", "m")
    a, out, top = p.array("n", "m"), p.array("n", "m", old=False), p.array("n", old=False)
    m, at = p.bound("m"), f"{a}[{i[0]}, {j[0]}]"
    return [
        f"for {i[0]} in range({p.bound('n')}):", f"    {top}[{i[0]}] = T.{p.dtype}(0)",
        f"    for {j[0]} in range({m}):", f"        {top}[{i[0]}] = T.max({top}[{i[0]}], {at})",
        f"    for {j[0]}s in range({m}):", f"        {out}[{i[0]}, {j[0]}s] = {a}[{i[0]}, {j[0]}s] - {top}[{i[0]}]",
    ]  # fmt: skip


def _rows(p: Nests) -> list[str]:
    """Sums along rows or columns in accumulators and names of each iteration, handed on from loop to loop."""
    (i, j), rng = p.loops("n", "m"), p.rng
    (outer, n), (inner, m) = rng.choice(((i, j), (j, i)))
    a, out, ends = p.array("n", "m"), p.array("n", "m", old=False), p.array(n, old=False)
    at = f"{i[0]}, {j[0]}"
    lines, known = [f"for {outer} in range({p.bound(n)}):"], [f"{a}[{at}]"]
    for number in range(rng.randrange(1, 4)):
        acc, name, loop = f"s{p.fresh}_{number}", f"d{p.fresh}_{number}", f"    for {inner} in range({p.bound(m)}):"
        update = rng.choice(("{0} + {1}", "T.max({0}, {1})", "{0} - {1}"))
        lines += [f"    {acc}: T.{p.dtype} = T.{p.dtype}({number})", loop]
        if rng.random() < 0.3:
            lines.append(f"        {name}x = {rng.choice(known)} - {known[-1]}")
            term = f"{name}x"
        else:
            term = rng.choice(known)
        lines.append(f"        {acc} = {update.format(acc, term)}")
        if rng.random() < 0.3:  # what is added up so far
            lines.append(f"        {out}[{at}] = {acc}")
        if rng.random() < 0.5:
            lines.append(f"    {name} = {acc} * T.{p.dtype}(2)")
            known.append(name)
        known.append(acc)
        if rng.random() < 0.4:
            lines += [loop, f"        {out}[{at}] = {rng.choice(known)} + {rng.choice(known[:1] + known)}"]
    return [*lines, f"    {ends}[{outer}] = {known[-1]}"]


def _transpose(p: Nests) -> list[str]:
    (i, j) = p.loops("n", "m")
    a, b = p.array("n", "m"), p.array("m", "n", old=False)
    return p.nest([i, j], [f"{b}[{j[0]}, {i[0]}] = {a}[{i[0]}, {j[0]}]"])


def _stencil(p: Nests) -> list[str]:
    (i, j) = p.loops("n", "m")
    a = p.array("n", "m")
    out = p.array("n", "m") if p.rng.random() < 0.5 else a  # in place: each iteration reads what those before wrote
    taps = [f"{a}[{i[0]} + {dy}, {j[0]} + {dx}]" for dy in (0, 1, 2) for dx in (0, 1, 2)]
    n, m = p.bound("n"), p.bound("m")
    total = " + ".join(p.rng.sample(taps, p.rng.randrange(1, 6)))
    return [f"for {i[0]} in range(T.max({n} - 2, 0)):", f"    for {j[0]} in range(T.max({m} - 2, 0)):",
            f"        {out}[{i[0]} + 1, {j[0]} + 1] = {total}"]  # fmt: skip


def _triangle(p: Nests) -> list[str]:
    ((i, n),) = p.loops("n")
    a, s = p.array("n", "n"), p.array("n", old=False)
    rows = p.rng.choice((f"range({i})", f"range({i} + 1)", f"range({i}, {p.bound(n)})"))
    return [f"for {i} in range({p.bound(n)}):", f"    for {i}j in {rows}:",
            f"        {s}[{i}] = {s}[{i}] + {a}[{i}, {i}j]"]  # fmt: skip


def _carried(p: Nests) -> list[str]:
    ((i, n),) = p.loops("n")
    a = p.array("n")
    size = p.bound(n)
    return [f"for {i} in range({size}):", "    " + p.rng.choice((
        f"{a}[{i}] = {a}[{size} - 1 - {i}]", f"{a}[{i}] = {a}[T.max({i} - 1, 0)] + {a}[{i}]",
        f"{a}[{i}] = {a}[T.min({i} + 1, {size} - 1)]", f"{a}[{i} // 2] = {a}[{i}]", f"{a}[{i} % 4 % {size}] = {a}[{i}]",
    ))]  # fmt: skip


def _odd(p: Nests) -> list[str]:
    (i, j) = p.loops("n", "m")
    a, b = p.array("n", "m"), p.array("n", "m")
    test = p.rng.choice((f"({i[0]} + {j[0]}) % 2 == 0", f"{i[0]} < {j[0]}", f"{a}[{i[0]}, {j[0]}] > T.{p.dtype}(1)"))
    return p.nest(
        [i, j],
        [f"if {test}:", f"    {b}[{i[0]}, {j[0]}] = {p.value([f'{a}[{i[0]}, {j[0]}]', f'{b}[{i[0]}, {j[0]}]'])}"],
    )


def _histogram(p: Nests) -> list[str]:
    (i, j) = p.loops("n", "m")
    loops = [i, j] if p.rng.random() < 0.5 else [i]
    shape, at = tuple(size for _, size in loops), ", ".join(var for var, _ in loops)
    data, weights = p.array(*shape, dtype="uint8"), p.array(*shape)
    table = p.array("256", old=False)
    place = f'{table}[T.Cast("int32", {data}[{at}])]'
    weight = p.rng.choice((f"{weights}[{at}]", f"T.{p.dtype}(1)"))
    update = p.rng.choice(("{0} + {1}", "{0} + {1}", "T.max({0}, {1})", "{0} * {1}", "{0} - {1}"))
    return p.nest(loops, [f"{place} = {update.format(place, weight)}"])


def _steps(p: Nests) -> list[str]:
    """Sweeps that a loop repeats, in place or between two arrays."""
    (i, j), rng = p.loops("n", "m"), p.rng
    count = p.sizes["n"]
    size = str(count)  # rows of a sweep are numbers
    arrays = [p.array(size, "m") for _ in range(rng.choice((1, 2, 2)))]
    first, last = min(rng.choice((0, 1, 2)), count // 2), count - min(rng.choice((0, 1, 2)), count // 2)
    lines = [f"for t{p.fresh} in range({rng.choice((1, 2, 3, 5, 9))}):"]
    for at, target in enumerate(arrays):
        source = arrays[at - 1]
        rows = [str(k) for k in (-2, -1, 0, 0, 1, 2) if first + k >= 0 and last + k <= count]
        terms = [
            f"{rng.choice((source, target))}[{i[0]} + {rng.choice(rows)}, {j[0]}]" for _ in range(rng.randrange(1, 4))
        ]
        lines += [
            f"    for {i[0]} in range({first}, {last}):", f"        for {j[0]} in range({p.bound('m')}):",
            f"            {target}[{i[0]}, {j[0]}] = {p.value(terms)}",
        ]  # fmt: skip
    return lines


def _window(p: Nests) -> list[str]:
    """Sums over a window of an array of its own sizes, or of the result's with what is outside left out."""
    (i, j, u, v), rng = p.loops("n", "m", "u", "v"), p.rng
    padded, known = rng.random() < 0.5, rng.random() < 0.5
    over = [str(p.sizes[name]) if known else name for name in "uv"]
    x = p.array(*(("n", "m") if padded else ("h", "w")))
    taps, y = p.array(*over), p.array("n", "m", old=False)
    ends = [p.sizes[name] // 2 for name in "uv"] if padded else [0, 0]
    at = [f"{a[0]} + {b[0]}" + (f" - {c}" if c else "") for a, b, c in zip((i, j), (u, v), ends, strict=True)]
    there = " and ".join(f"0 <= {a} and {a} < {p.bound(size)}" for a, size in zip(at, "nm", strict=True))
    total, read = f"{y}[{i[0]}, {j[0]}]", f"{x}[{', '.join(at)}]"
    choice = padded and rng.random() < 0.4
    if choice:
        read = f"T.if_then_else({there}, {read}, T.{p.dtype}(0))"
    tap = f"{taps}[{u[0]}, {v[0]}]"
    update = rng.choice(("{0} + {1} * {2}", "{0} + {1} * {2}", "T.max({0}, {1} + {2})")).format(total, read, tap)
    inner = [f"for {u[0]} in range({p.bound(over[0])}):", f"    for {v[0]} in range({p.bound(over[1])}):"]
    body = [f"        if {there}:", "    "] if padded and not choice else ["", ""]
    lines = [*inner, *filter(None, body[:1]), f"        {body[1]}{total} = {update}"]
    first = f"{total} = T.{p.dtype}(0)"
    if rng.random() < 0.3:
        a, b = p.loops("n", "m")
        return p.nest([a, b], [f"{y}[{a[0]}, {b[0]}] = T.{p.dtype}(0)"]) + p.nest([i, j], lines)
    return p.nest([i, j], [first, *lines])


def _once(p: Nests) -> list[str]:
    """What the first or the last iteration of a sum does alone."""
    (i, j, k), rng = p.loops("n", "m", "k"), p.rng
    a, b, c = p.array("n", "k"), p.array("k", "m"), p.array("n", "m", old=False)
    total, term = f"{c}[{i[0]}, {j[0]}]", f"{a}[{i[0]}, {k[0]}] * {b}[{k[0]}, {j[0]}]"
    if rng.random() < 0.4:
        body = [f"if {k[0]} == 0:", f"    {total} = {term}", "else:", f"    {total} = {total} + {term}"]
    else:
        body = [f"if {k[0]} == 0:", f"    {total} = T.{p.dtype}(1)", f"{total} = {total} + {term}"]
    if rng.random() < 0.4:
        d = rng.choice((c, p.array("n", "m")))
        body += [f"if {k[0]} == {p.bound('k')} - 1:", f"    {d}[{i[0]}, {j[0]}] = {total} * T.{p.dtype}(2)"]
    return p.nest([i, j, k], body)


def _rim(p: Nests) -> list[str]:
    """A stencil that leaves the rim as it is, or sets it."""
    (i, j), rng = p.loops("n", "m"), p.rng
    a, b = p.array("n", "m"), p.array("n", "m", old=False)
    low, high = rng.randrange(3), rng.randrange(3)
    inside = [f"{x[0]} >= {low} and {x[0]} < {p.bound(x[1])} - {high}" for x in rng.sample((i, j), rng.choice((1, 2)))]
    taps = [f"{a}[{i[0]}, {j[0]}]"]
    if len(inside) == 2:
        taps += [f"{a}[{i[0]} - {low}, {j[0]} + {high}]", f"{a}[{i[0]} + {high}, {j[0]} - {low}]"]
    body = [f"if {' and '.join(inside)}:", f"    {b}[{i[0]}, {j[0]}] = {p.value(taps)}"]
    if rng.random() < 0.6:
        body += ["else:", f"    {b}[{i[0]}, {j[0]}] = {a}[{i[0]}, {j[0]}]"]
    return p.nest([i, j], body)


def _apart(p: Nests) -> list[str]:
    """What reads arrays of other sizes than those that the loops have: sound for some calls alone."""
    (i, j) = p.loops("n", "m")
    a, b = p.array("h", "w"), p.array("n", "m", old=False)
    terms = [f"{a}[{i[0]}, {j[0]}]", f"{a}[0, {j[0]}]", *([f"{a}[{i[0]} + 1, 0]"] if p.symbolic else [])]
    terms = p.rng.sample(terms, p.rng.randrange(1, 3))
    return p.nest([i, j], [f"{b}[{i[0]}, {j[0]}] = {p.value(terms)}"])


def _solve(p: Nests) -> list[str]:
    ((i, n),) = p.loops("n")
    a, x = p.array("n", "n"), p.array("n", old=False)
    inner = p.rng.choice((f"range({i})", f"range({i} + 1, {p.bound(n)})"))
    into = p.rng.choice((f"{x}[{i}]", "acc"))
    lines = [f"for {i}k in {inner}:", f"    {into} = {into} - {a}[{i}, {i}k] * {x}[{i}k]"]
    if into == "acc":
        lines = [f"acc: T.{p.dtype} = {x}[{i}]", *lines, f"{x}[{i}] = acc"]
    return [f"for {i} in range({p.bound(n)}):", *("    " + line for line in lines)]


def _factor(p: Nests) -> list[str]:
    (i, j), (c, d) = p.loops("n", "m"), p.loops("n", "m")
    a, n, m = p.array("n", "m"), p.bound("n"), p.bound("m")
    (i, _), (j, _), (c, _), (d, _) = i, j, c, d
    columns = p.rng.choice((f"range({m})", f"range({i} % {m}, {m})", f"range(T.min({i}, {m}))"))
    terms = p.rng.choice((f"{a}[{i}, {c} % {m}] * {a}[{c}, {j}]", f"{a}[{c}, {j}]", f"{a}[{i}, {j}] + {a}[{c}, {j}]"))
    rows = p.rng.choice((f"range({i})", f"range({i} + 1, {n})", f"range(T.min({i}, 5))"))
    update = f"{a}[{i}, {j}] = {a}[{i}, {j}] {p.rng.choice('-+')} {terms}"
    behind = p.rng.choice(([], [f"        {a}[{i}, {j}] = {a}[{i}, {j}] * T.{p.dtype}(2)"]))
    if p.rng.random() < 0.4:  # whole columns below a pivot's row
        return [f"for {i} in range({n}):", f"    for {d} in range({m}):", f"        {a}[{i}, {d}] = {a}[{i}, {d}] + T.{p.dtype}(1)",
                f"    for {c} in range({i} + 1, {n}):", f"        for {j} in {columns}:",
                f"            {a}[{c}, {j}] = {a}[{c}, {j}] - {a}[{c}, {i} % {m}] * {a}[{i}, {j}]"]  # fmt: skip
    return [
        f"for {i} in range({n}):",
        f"    for {j} in {columns}:",
        f"        for {c} in {rows}:",
        f"            {update}",
        *behind,
    ]


def _scratch(p: Nests) -> list[str]:
    ((i, n), (j, m), (k, _)) = p.loops("n", "m", "m")
    a, w, s = p.array("n", "m"), p.array("m", "m"), p.array("m", old=False)
    at = p.rng.choice((f"{w}[{k}, {j}]", f"{w}[{j}, {k}]"))
    first, second = p.bound(n), p.bound(m)
    return [f"for {i} in range({first}):", f"    for {j} in range({second}):", f"        {s}[{j}] = T.{p.dtype}(0)",
            f"        for {k} in range({second}):", f"            {s}[{j}] = {s}[{j}] + {a}[{i}, {k}] * {at}",
            f"    for {j}r in range({second}):", f"        {a}[{i}, {j}r] = {s}[{j}r]"]  # fmt: skip


def _relax(p: Nests) -> list[str]:
    ((i, n), (j, _), (k, _)) = p.loops("n", "n", "n")
    a, size, rng = p.array("n", "n"), p.bound(n), p.rng
    first = rng.choice(("", "", "1, ", f"{k}, "))
    to = f"{a}[{i}, {j}]"
    by = rng.choice((f"{a}[{k}, {j}]", f"{a}[{k}, {j}]", to))
    through = f"{a}[{i}, {rng.choice((k, k, k, '0', f'{size} - 1', f'{size} - 1 - {k}'))}] {rng.choice('++-*')} {by}"
    update = [f"{to} = {rng.choice(('T.min', 'T.max'))}({to}, {through})"]
    if rng.random() < 0.4:
        update = [f"if {through} {rng.choice('<>')} {to}:", f"    {to} = {through}"]
    elif rng.random() < 0.3:
        update = [f"{to} = {rng.choice((f'{to} - ', ''))}{through}"]
    skipped = [f"if {i} != {k}:"] if rng.random() < 0.2 else []
    deep = "    " * len(skipped)
    return [f"for {k} in range({size}):", f"    for {i} in range({size}):", *("        " + one for one in skipped),
            f"        {deep}for {j} in range({first}{size}):", *(f"            {deep}{one}" for one in update)]  # fmt: skip


def _sweeps(p: Nests) -> list[str]:
    (i, j), (x, y) = p.loops("n", "m"), p.loops("n", "m")
    a, b, row = p.array("n", "m"), p.array("n", "m", old=False), p.array("m", old=False)
    first = p.nest([i, j], [f"{b}[{i[0]}, {j[0]}] = {p.value([f'{a}[{i[0]}, {j[0]}]', f'{row}[{j[0]}]'])}"])
    second = p.nest([x, y], [f"{row}[{y[0]}] = {row}[{y[0]}] + {b}[{x[0]}, {y[0]}]"])
    third = p.nest(p.loops("m"), [f"{row}[i{p.fresh}] = {row}[i{p.fresh}] * T.{p.dtype}(2)"])
    steps = [first, second, third][: p.rng.randrange(1, 4)]
    return [f"for t{p.fresh} in range({p.rng.randrange(1, 4)}):", *("    " + line for one in steps for line in one)]


SERIAL = (_solve, _factor, _factor, _scratch, _relax, _relax, _sweeps)
"""Loops that hand values from one iteration to the next, around others that do not."""


KINDS = (
    _elementwise, _elementwise, _chain, _product, _product, _block, _sums, _softmax, _rows, _rows, _transpose, _stencil, _triangle, _carried, _odd, _histogram, _steps,
    _window, _window, _once, _rim, _apart,
)  # fmt: skip


def check(seed: int) -> bool:
    """Build and call a program by default and as written; whether a schedule was taken. Raises AssertionError where they differ."""
    program = Nests(seed)
    func, target = parse(program.text), MACHINES[seed % len(MACHINES)]
    with tl.PassContext(config={"tir.auto.least": 0}):
        made = tl.build(func, target)
    plain = tl.build(func, target, schedule="none")
    if hasattr(plain, "lacking"):
        return False  # code for a processor that this one is not
    exact = all(nest.exactness == "bitwise equal" for nest in made.report().nests)
    rng = np.random.default_rng(seed)
    first = [_values(rng, dtype, [program.size(size) for size in shape]) for _, dtype, shape in program.params]
    calls = [list(range(len(first)))]
    same = [
        (a, b)
        for a in calls[0]
        for b in range(a)
        if first[a].shape == first[b].shape and first[a].dtype == first[b].dtype
    ]
    if same:  # two parameters are one array
        a, b = same[seed % len(same)]
        calls.append([b if at == a else at for at in calls[0]])
    sizes = [program.sizes[name] for name in program.scalars]
    for call in calls:
        ones, others = ([one.copy() for one in first] for _ in range(2))
        errors = [
            _called(kernel, [*sizes, *(mine[at] for at in call)]) for kernel, mine in ((plain, ones), (made, others))
        ]
        assert errors[0] == errors[1], f"seed {seed}, call {call}: {errors}:\n{program.text}\n{made.schedule}"
        for at, (one, other) in enumerate(zip(ones, others, strict=True)):
            if exact:
                assert _bits(one) == _bits(other), f"seed {seed}, call {call}, A{at}:\n{program.text}\n{made.schedule}"
            else:
                np.testing.assert_allclose(
                    other.astype(float), one.astype(float), rtol=2e-2 if one.dtype == np.float16 else 1e-4, atol=1e-2,
                    err_msg=f"seed {seed}, call {call}, A{at}:\n{program.text}\n{made.schedule}",
                )  # fmt: skip
    return bool(made.schedule.insts)


def _bits(array: Any) -> bytes:
    """The bytes of an array, with one NaN for all: which of two an operation hands on depends on the order of its operands."""
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), array.dtype.type(np.nan), array)
    return bytes(array.tobytes())


def _called(kernel: tl.Kernel, arguments: list[Any]) -> str:
    """Call a kernel; what it says where an access is outside."""
    try:
        kernel(*arguments)
    except tl.BoundsError as error:
        return str(error)
    return ""


def _values(rng: np.random.Generator, dtype: str, shape: list[int]) -> Any:
    if dtype.startswith("float"):
        return rng.standard_normal(shape).astype(dtype)
    low = 0 if dtype.startswith("u") else -9
    return rng.integers(low, 10, shape).astype(dtype)


def main() -> int:
    """The command line."""

    def run_one(seed: int, counts: Counter[str]) -> None:
        counts["scheduled" if check(seed) else "as written"] += 1

    eager = {
        choose: {"WORTH": math.inf, "CUT": math.inf},
        histogram: {"SHARE": math.inf, "PARALLEL_SECONDS": 0.0, "PIECE": 8},
        time_loop: {"PART": 1e6, "LARGE": 0},
    }
    with patched(eager):
        return run_seeds(run_one)


if __name__ == "__main__":
    raise SystemExit(main())
