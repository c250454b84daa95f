"""What plans take from a machine: the width and number of its vector registers, its instructions, the sizes of its caches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tirlower.machine.cpu import HostCpu, features_of, host_cpu

__all__ = ["Machine"]

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS = {"K": 1 << 10, "M": 1 << 20}


@dataclass(frozen=True)
class Machine:
    """A processor and the caches that one core sees, in bytes.

    >>> Machine.named("znver4").lanes("float32"), Machine.named("znver3").registers
    (16, 16)
    """

    cpu: HostCpu
    l1: int = 32 << 10
    l2: int = 512 << 10
    l3: int = 32 << 20
    threads: int = 1
    """How many work at the same time."""

    @classmethod
    def host(cls) -> Machine:
        """The machine that this runs on; caches that the system does not tell of have the usual sizes."""
        sizes: dict[str, int] = {}
        for place in sorted(_CACHES.glob("index*")):
            if (place / "type").read_text().strip() != "Instruction":
                text = (place / "size").read_text().strip()
                sizes[f"l{(place / 'level').read_text().strip()}"] = int(text[:-1]) * _UNITS[text[-1]]
        return cls(host_cpu(), **{level: size for level, size in sizes.items() if level in ("l1", "l2", "l3")})

    @classmethod
    def named(cls, mcpu: str) -> Machine:
        """A processor by its name in targets, with caches of the usual sizes."""
        return cls(HostCpu(mcpu, mcpu, "", features_of(mcpu)))

    def lanes(self, dtype: str = "float32") -> int:
        """Elements of a vector register."""
        return self.cpu.vector_bits // int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz"))

    @property
    def registers(self) -> int:
        """Vector registers."""
        return self.cpu.vector_registers
