"""What plans take from a processor: the width and number of its vector registers, its instructions, its caches, its threads.

The caches of this machine are asked of the system. A target may state another's, so that what is planned for it is the
same everywhere: ``llvm -mcpu=x86-64-v3 -mcache=32K,512K,16M -num_threads=8``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tirlower.diagnostics import TirError
from tirlower.machine.cpu import HostCpu, effective_cpu_count, features_of, host_cpu
from tirlower.machine.dots import Dots
from tirlower.machine.target import Target, rounds_dots

__all__ = ["Processor"]

SHARED: Final = 32 << 20
"""The bytes of a last cache that a program can count on. Larger ones are those of dozens of cores, and of other virtual machines:
of 300 MB, outputs of 64 MB written past the caches took 0.4 (a transpose) to 0.8 of the time of those that were not."""

_CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
_BITS: Final = re.compile(r"(?:custom\[.*\]|[a-z]+)(\d+)")
"""The bits in the name of a type."""
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Processor:
    """A processor, the caches that one core sees, in bytes, and how many threads work at the same time.

    >>> zen = Processor.of("llvm -mcpu=znver4 -mcache=32K,1M,32M -num_threads=8")
    >>> zen.lanes("float32"), zen.registers, zen.l2, zen.threads
    (16, 32, 1048576, 8)
    >>> Processor.named("znver3").registers
    16
    """

    cpu: HostCpu
    l1: int = 32 << 10
    l2: int = 512 << 10
    l3: int = 32 << 20
    threads: int = 1
    rounds_dots: bool = False
    """Whether products of bfloat16 may be added up by instructions that round in their own way."""

    @classmethod
    def host(cls) -> Processor:
        """That of this machine; caches that the system does not tell of have the usual sizes. One thread works.

        Of a last cache no more counts than :data:`SHARED`.
        """
        l1, l2, l3 = _caches_of(_CACHES)
        return cls(host_cpu())._with_caches((l1, l2, min(l3, SHARED)))

    @classmethod
    def named(cls, mcpu: str) -> Processor:
        """A processor by its name in targets, with caches of the usual sizes."""
        return cls(HostCpu(mcpu, mcpu, "", features_of(mcpu)))

    @classmethod
    def of(cls, target: Target | str) -> Processor:
        """The one that a target describes; of what it does not state, this machine's, or the usual for another name.

        Raises :class:`TirError` for sizes that are none.
        """
        target = Target(target)
        mcpu = str(target.get("mcpu") or "native")
        found = cls.host() if mcpu == "native" else cls.named(mcpu)
        attributes: tuple[str, ...] = target.get("mattr", ())
        if attributes:
            enabled = set(found.cpu.enabled)
            for item in attributes:
                (enabled.discard if item.startswith("-") else enabled.add)(item.lstrip("+-"))
            cpu = found.cpu
            found = replace(found, cpu=HostCpu(cpu.name, cpu.llvm_name, cpu.features, frozenset(enabled)))
        stated: tuple[str, ...] = target.get("mcache", ())
        if stated:
            if len(stated) > 3:
                raise TirError(
                    f"mcache= has the sizes of at most three caches, got {','.join(stated)}",
                    help="write -mcache=48K,1M,32M: of the first, second and third level",
                )
            found = found._with_caches(tuple(map(_bytes, stated)))
        threads: int = target.get("num_threads", 0)
        return replace(found, threads=threads or effective_cpu_count(), rounds_dots=rounds_dots(target))

    def _with_caches(self, sizes: Sequence[int]) -> Processor:
        """The same with the sizes of its first caches, in their order; 0 for one that is not known."""
        l1, l2, l3 = (*sizes, 0, 0, 0)[:3]
        return replace(self, l1=l1 or self.l1, l2=l2 or self.l2, l3=l3 or self.l3)

    def lanes(self, dtype: str = "float32") -> int:
        """Elements of a vector register, of a type as it prints: ``float32``, ``float8_e4m3fn``, ``custom[posit]16``.

        >>> wide = Processor.of("llvm -mcpu=x86-64-v4")
        >>> [wide.lanes(dtype) for dtype in ("float32", "bfloat16", "float8_e4m3fn", "float4_e2m1fn", "bool", "int64x4", "handle")]
        [16, 32, 64, 64, 64, 8, 8]
        """
        found = _BITS.match(dtype)
        bits = 64 if dtype == "handle" else int(found[1]) if found else 8
        return max(1, self.cpu.vector_bits // max(8, bits))

    def masks(self, dtype: str) -> bool:
        """Whether instructions load and store some lanes of a vector of a type.

        >>> wide, older = Processor.named("x86-64-v4"), Processor.named("x86-64-v3")
        >>> wide.masks("int8"), older.masks("int8"), older.masks("float32")
        (True, False, True)
        """
        wide = self.cpu.vector_bits // self.lanes(dtype) >= 32
        return bool(self.cpu.enabled & ({"avx512bw", "avx", "sve"} if wide else {"avx512bw", "sve"}))

    @property
    def registers(self) -> int:
        """Vector registers."""
        return self.cpu.vector_registers

    @property
    def dots(self) -> Dots:
        """Its instructions for dot products of short elements."""
        return Dots.of(self.cpu.enabled, self.cpu.vector_bits, rounding=self.rounds_dots)

    @property
    def fused(self) -> bool:
        """Whether it multiplies and adds in one instruction."""
        return bool(self.cpu.enabled & {"fma", "avx512f", "neon"})

    def __str__(self) -> str:
        sizes = ",".join(map(_written, (self.l1, self.l2, self.l3)))
        return (
            f"{self.cpu.name}, {self.cpu.vector_bits} bits x {self.registers}, caches {sizes}, {self.threads} threads"
        )


def _bytes(text: str) -> int:
    """The size that a target states: ``48K``, ``1M``, ``4096``."""
    found = re.fullmatch(r"(\d{1,9})([KMG]?)", text.strip())
    if found is None or not int(found[1]):
        raise TirError(
            f"mcache= is the sizes of caches, got {text!r}", help="write -mcache=48K,1M,32M: numbers with K, M or G"
        )
    return int(found[1]) * _UNITS[found[2]]


def _written(size: int) -> str:
    for unit in "GMK":
        if size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]}{unit}"
    return str(size)


@functools.lru_cache(maxsize=8)
def _caches_of(root: Path) -> tuple[int, int, int]:
    """The sizes of the caches of data of a CPU by level, as the system lists them under a folder; 0 for what it does not tell."""
    sizes = [0, 0, 0]
    for place in sorted(root.glob("index*")):
        try:
            kind, level, size = ((place / name).read_text().strip() for name in ("type", "level", "size"))
        except OSError:
            continue
        found = re.fullmatch(r"(\d+)([KMG]?)", size)
        if kind != "Instruction" and level in ("1", "2", "3") and found is not None:
            sizes[int(level) - 1] = int(found[1]) * _UNITS[found[2]]
    return sizes[0], sizes[1], sizes[2]
