"""Random programs full of temporaries through the passes that move and shrink them: executed, and certified."""

from __future__ import annotations

import random

import pytest

from tests.checking import check, roundtrips
from tests.sampling import by_day
from tirlower.analysis.compaction_check import verify_compaction
from tirlower.ir.verify import verify_well_formed
from tirlower.rewrite.storage.check import verify_storage
from tirlower.script import parse
from tirlower.transforms.memory.compact_buffer import CompactBufferAllocation
from tirlower.transforms.memory.storage_rewrite import StorageRewrite, storage_report


class Temporary:
    """A buffer of the program: its name, the window of it that holds values, and its dtype."""

    def __init__(self, name: str, start: str, length: int, dtype: str) -> None:
        self.name, self.start, self.length, self.dtype = name, start, length, dtype

    def at(self, index: str) -> str:
        return f"{self.name}[{self.start} + {index}]"


class Generator:
    """Writes a program as a script. A temporary is filled where it is allocated, so that every read is of a value."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0
        self.live: list[Temporary] = []
        self.loops: list[str] = []

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def emit(self, depth: int, text: str) -> None:
        self.lines.append("    " * (depth + 1) + text)

    def value(self, index: str, dtype: str) -> str:
        rng = self.rng
        parts = [f"A[{index} % 24]"] if dtype == "int32" else [f'T.Cast("{dtype}", A[{index} % 24])']
        for other in rng.sample(self.live, min(len(self.live), rng.randint(0, 2))):
            where = rng.choice([f"{index} % {other.length}", f"({index} * 3 + 1) % {other.length}"])
            text = other.at(where)
            parts.append(text if other.dtype == dtype else f'T.Cast("{dtype}", {text})')
        return f" {rng.choice('+-')} ".join(parts)

    def allocate(self, depth: int) -> None:
        rng = self.rng
        name, dtype = self.name("B"), rng.choice(["int32", "int32", "int16", "int8", "int64"])
        length = rng.choice([1, 2, 5, 8, 12, 24])
        outer = rng.choice([*self.loops, "1", "0"])
        start = f"{outer} * {rng.randint(0, 3)} + {rng.randint(0, 4)}"
        self.emit(depth, f'{name} = T.alloc_buffer(({length + 24},), "{dtype}")')
        made = Temporary(name, start, length, dtype)
        i = self.name("i")
        form = rng.randrange(4)
        if form == 0:
            self.emit(depth, f"for {i} in range({length}):")
            self.emit(depth + 1, f"{made.at(i)} = {self.value(i, dtype)}")
        elif form == 1:
            self.emit(depth, f"for {i} in range({length}):")
            self.emit(depth + 1, f"{made.at(f'{length - 1} - {i}')} = {self.value(i, dtype)}")
        elif form == 2:
            j = self.name("j")
            self.emit(depth, f"for {i}, {j} in T.grid({-(-length // 4)}, 4):")
            self.emit(depth + 1, f"if {i} * 4 + {j} < {length}:")
            self.emit(depth + 2, f"{made.at(f'{i} * 4 + {j}')} = {self.value(i, dtype)}")
        else:
            # Elementwise over another one: a chance to work in place.
            same = [t for t in self.live if t.dtype == dtype and t.length == length]
            source = rng.choice(same) if same else None
            if source is not None:
                made.start = source.start
            self.emit(depth, f"for {i} in range({length}):")
            value = f'{source.at(i)} + T.Cast("{dtype}", 1)' if source else self.value(i, dtype)
            self.emit(depth + 1, f"{made.at(i)} = {value}")
        self.live.append(made)

    def use(self, depth: int) -> None:
        if not self.live:
            return
        one = self.rng.choice(self.live)
        i = self.name("i")
        self.emit(depth, f"for {i} in range({one.length}):")
        if self.rng.random() < 0.4:
            self.emit(depth + 1, f"{one.at(i)} = {self.value(i, one.dtype)}")
        else:
            self.emit(depth + 1, f'A[{i}] = A[{i}] * 3 + T.Cast("int32", {one.at(i)})')

    def block(self, depth: int) -> None:
        mark = len(self.live)
        for _ in range(self.rng.randint(2, 5)):
            choice = self.rng.random()
            if choice < 0.4:
                self.allocate(depth)
            elif choice < 0.7 or depth > 2:
                self.use(depth)
            elif choice < 0.85:
                r = self.name("r")
                self.emit(depth, f"for {r} in range({self.rng.randint(1, 3)}):")
                self.loops.append(r)
                self.block(depth + 1)
                self.loops.pop()
            else:
                self.emit(depth, f"if A[{self.rng.randrange(24)}] % 3 < {self.rng.randint(1, 2)}:")
                self.block(depth + 1)
                if self.rng.random() < 0.5:
                    self.emit(depth, "else:")
                    self.block(depth + 1)
        self.use(depth)
        if len(self.lines) and self.lines[-1].strip().endswith(":"):
            self.emit(depth, "T.evaluate(0)")
        self.emit(depth, f"A[{self.rng.randrange(24)}] = {self.rng.randint(-5, 5)}")
        del self.live[mark:]

    def program(self) -> str:
        self.block(0)
        return "\n".join(["@T.prim_func", 'def f(A: T.Buffer((24,), "int32")):', *self.lines])


@pytest.mark.parametrize("seed", by_day(range(24)))
def test_random_programs(seed: int) -> None:
    func = parse(Generator(seed).program())
    verify_well_formed(func)
    small = check(CompactBufferAllocation(), func, samples=1) if "alloc_buffer" in func.script() else func
    verify_compaction(func, small)
    large = CompactBufferAllocation(is_strict=False)(func)
    verify_compaction(func, large)
    for before in (func, small):
        after = check(StorageRewrite(), before, samples=2, seed=seed)
        verify_storage(before, after)
        roundtrips(after)
        report = storage_report(before)
        assert report.lower_bound <= report.after <= report.before
