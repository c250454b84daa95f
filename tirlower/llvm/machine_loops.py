"""The innermost loops of assembly text: which vector registers they use, and what slows them.

What a vectorized loop became is in its machine code alone: LLVM may widen a serial loop, or take a vector apart lane
by lane. The report of a build reads it from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["MachineLoop", "machine_loops"]

_LABEL = re.compile(r"^(\.?[\w$]+):")
_FUNCTION = re.compile(r"^([A-Za-z_][\w.$]*):")
_JUMP = re.compile(r"^\s+(?:j\w+|b(?:\.\w+)?|cbn?z|tbn?z)\s+(?:[wx]\d+,\s*)?(?:#\d+,\s*)?(\.?[A-Za-z_]\w*)\s*$")
_X86_WIDTHS = (("%zmm", 512), ("%ymm", 256), ("%xmm", 128))
#: x86 instructions on the lowest lane alone (…ss, …sd, …sh), and those that move single lanes
_X86_SCALAR = re.compile(r"^v?(?:[a-z]+\d*)(?:ss|sd|sh)$")
_X86_LANE = re.compile(r"^v?(?:pextr[bwdq]|pinsr[bwdq]|extractps|insertps)$")
_ARM_VECTOR = re.compile(r"\bv\d+\.(\d+)([bhsd])\b")
_ARM_LANE = re.compile(r"\bv\d+\.[bhsd]\[\d+\]")
_ARM_BITS = {"b": 8, "h": 16, "s": 32, "d": 64}


@dataclass(frozen=True)
class MachineLoop:
    """An innermost loop of a function's machine code.

    ``function``: the symbol; ``instructions``: how many; ``vector_bits``: the widest register that arithmetic or moves
    of whole vectors use, 0 for a scalar loop; ``lane_moves``: instructions that take a single lane out of a vector or put
    one in; ``scalar_floats``: floating-point instructions on one lane; ``spills``: accesses of the stack; ``calls``.
    """

    function: str
    instructions: int
    vector_bits: int
    lane_moves: int
    scalar_floats: int
    spills: int
    calls: int
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        width = f"vectors of {self.vector_bits} bits" if self.vector_bits else "scalar"
        flaws = ", ".join(
            f"{count} {name}"
            for count, name in (
                (self.lane_moves, "lane moves"),
                (self.scalar_floats, "scalar float operations"),
                (self.spills, "stack accesses"),
                (self.calls, "calls"),
            )
            if count
        )
        return f"{self.function}: {self.instructions} instructions, {width}{f', {flaws}' if flaws else ''}"


def machine_loops(assembly: str) -> tuple[MachineLoop, ...]:
    """The innermost loops of AT&T x86 or AArch64 assembly as LLVM prints it, in the order of their code.

    >>> loop = machine_loops('''f:
    ... .LBB0_1:
    ...     vaddps (%rdi,%rax,4), %zmm0, %zmm1
    ...     vmovups %zmm1, (%rsi,%rax,4)
    ...     addq $16, %rax
    ...     cmpq $64, %rax
    ...     jne .LBB0_1
    ...     retq
    ... ''')[0]
    >>> loop.function, loop.instructions, loop.vector_bits, loop.spills
    ('f', 5, 512, 0)
    """
    lines = [re.split(r"\s+(?:#|//|;)", line.rstrip(), maxsplit=1)[0] for line in assembly.splitlines()]
    place: dict[str, int] = {}
    spans: list[tuple[int, int]] = []
    for at, line in enumerate(lines):
        label = _LABEL.match(line)
        if label:
            place[label[1]] = at
            continue
        jump = _JUMP.match(line)
        if jump and jump[1] in place:
            spans.append((place[jump[1]], at))
    inner = [s for s in spans if not any(s[0] <= o[0] and o[1] <= s[1] and o != s for o in spans)]
    owner = list(_owners(lines))
    return tuple(_describe(owner[start], lines[start : end + 1]) for start, end in sorted(set(inner)))


def _owners(lines: list[str]) -> Iterator[str]:
    """The symbol of the function in which each line stands."""
    current = ""
    for line in lines:
        match = _FUNCTION.match(line)
        if match and not match[1].startswith((".", "LBB", "L")):
            current = match[1]
        yield current


def _describe(function: str, lines: list[str]) -> MachineLoop:
    body = [
        line.strip() for line in lines if line.strip() and not _LABEL.match(line) and not line.strip().startswith(".")
    ]
    bits = lanes = scalars = spills = calls = 0
    for line in body:
        name, _, operands = line.partition("\t") if "\t" in line else line.partition(" ")
        lane = bool(_X86_LANE.match(name) or _ARM_LANE.search(operands))
        scalar = "%" in operands and bool(_X86_SCALAR.match(name)) and "xmm" in operands
        lanes += lane
        scalars += scalar
        # A broadcast reads one element of memory, or a lane that stays: not a vector taken apart.
        if not lane and not scalar:
            bits = max(bits, _width(operands))
        spills += "(%rsp" in operands or "(%rbp" in operands or "[sp" in operands
        calls += name.startswith("call") or name in ("bl", "blr")
    return MachineLoop(function, len(body), bits, lanes, scalars, spills, calls, tuple(body))


def _width(operands: str) -> int:
    for register, bits in _X86_WIDTHS:
        if register in operands:
            return bits
    found = [int(count) * _ARM_BITS[kind] for count, kind in _ARM_VECTOR.findall(operands)]
    if re.search(r"\bq\d+\b", operands):
        found.append(128)
    return max(found, default=0)
