"""The machine code that NVIDIA's assembler makes of PTX, where its disassembler is installed: instructions, loops, and kinds.

As :mod:`tirlower.gpu.ptxas` it is for looking at kernels without a GPU. It comes with the wheel ``nvidia-cuda-nvdisasm``
or with a CUDA toolkit.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tirlower.diagnostics import CodegenError, DeviceError
from tirlower.gpu.ptxas import cubin_of, find_tool

__all__ = ["KINDS", "Code", "Instruction", "disassemble", "find_nvdisasm"]

_VARIABLE: Final = "TIRLOWER_NVDISASM"

KINDS: Final[Mapping[str, str]] = {
    "tensor": r"[HIDBQ]G?MMA\b|OMMA|UTC\w*MMA",
    "float": r"F(ADD|MUL|FMA|MNMX|SEL|SET|SETP|CHK|SWZADD|2F|2FP)|D(ADD|MUL|FMA|SETP|MNMX)|H(ADD|MUL|FMA|MNMX|SET|SETP)2?",
    "special": r"MUFU",
    "convert": r"F2[IF]P?|I2[IF]P?|FRND",
    "shuffle": r"SHFL|VOTE|MATCH|REDUX|VOTEU",
    "shared": r"LDS|STS|LDSM|STSM|ATOMS",
    "copy": r"LDGSTS|UTMA\w+|UBLKCP|UBLKRED|UBLKPF",
    "global": r"LDG|STG|ATOMG?|REDG?|LDGDEPBAR",
    "local": r"LDL|STL",
    "barrier": r"BAR|SYNCS|WARPSYNC|WARPGROUP|DEPBAR|MEMBAR|FENCE|ERRBAR|CCTL\w*|ELECT",
    "control": r"BRA|BRX|BSSY|BSYNC|BREAK|EXIT|CALL|RET|JMP|YIELD|NANOSLEEP|WARPSYNC|KILL|BPT",
    "uniform": r"U\w+|R2UR|S2UR",
    "move": r"MOV|CS2R|S2R|LDC|IMAD\.MOV|SEL|P2R|R2P|PRMT",
    "integer": r"I\w+|LEA|LOP3?|SHF|SHL|SHR|POPC|FLO|BREV|BMSK|SGXT|VABSDIFF4?|PLOP3|VIADD\w*|VIMNMX\w*|XMAD",
    "nothing": r"NOP|DEPBAR",
}
"""The kinds of instructions, each with the names that it has; the first that fits (CUDA binary utilities, instruction sets)."""

_KIND: Final = [(kind, re.compile(rf"(?:{names})(?![A-Z0-9])")) for kind, names in KINDS.items()]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its address in bytes, its name with suffixes, and where it may go on; None behind the last."""

    address: int
    name: str
    target: int | None = None
    always: bool = False

    @property
    def kind(self) -> str:
        """Which of :data:`KINDS` it is; ``other`` for none.

        >>> [Instruction(0, name).kind for name in ("FFMA", "HGMMA.64x256x16.F32.BF16", "LDGSTS.E.BYPASS.128", "UIADD3")]
        ['float', 'tensor', 'copy', 'uniform']
        """
        return next((kind for kind, names in _KIND if names.match(self.name)), "other")


@dataclass(frozen=True)
class Code:
    """The instructions of a kernel in the order of their addresses."""

    instructions: tuple[Instruction, ...]

    def mix(self, addresses: Iterable[int] | None = None) -> Counter[str]:
        """How many instructions there are of each kind, at some addresses or at all."""
        chosen = None if addresses is None else frozenset(addresses)
        return Counter(one.kind for one in self.instructions if chosen is None or one.address in chosen)

    def loops(self) -> list[frozenset[int]]:
        """The addresses of the instructions of each loop: of what leads back to an instruction that all ways to it pass."""
        follows, comes = self._flow()
        dominators = _dominators(follows, comes)
        bodies: dict[int, set[int]] = {}
        for source, targets in follows.items():
            for head in targets:
                if source in dominators and head in dominators[source]:
                    bodies.setdefault(head, {head}).update(_reaching(source, head, comes))
        return [frozenset(body) for body in bodies.values()]

    def main_loop(self) -> frozenset[int]:
        """The addresses of the loop that works: without another one inside that has work of the same kind, and with the most
        of it. Tensor cores come before floating point, that before memory; loops that only wait do no work. Empty where
        there is no such loop."""
        loops = self.loops()
        for kinds in (("tensor",), ("float", "special"), ("shared", "global", "copy", "integer")):
            working = {loop: sum(self.mix(loop)[kind] for kind in kinds) for loop in loops}
            working = {loop: work for loop, work in working.items() if work}
            inner = [loop for loop in working if not any(other < loop for other in working)]
            if inner:
                return max(inner, key=lambda loop: (working[loop], -min(loop)))
        return frozenset()

    def _flow(self) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        """What may follow each instruction, and what may come before it."""
        known = {one.address for one in self.instructions}
        follows: dict[int, list[int]] = {}
        comes: dict[int, list[int]] = {one.address: [] for one in self.instructions}
        for at, one in enumerate(self.instructions):
            targets = [] if one.target is None or one.target not in known else [one.target]
            if not one.always and at + 1 < len(self.instructions):
                targets.append(self.instructions[at + 1].address)
            follows[one.address] = targets
            for target in targets:
                comes[target].append(one.address)
        return follows, comes


def _dominators(follows: Mapping[int, list[int]], comes: Mapping[int, list[int]]) -> dict[int, set[int]]:
    """Of each instruction that can be reached, those that every way to it passes."""
    entry = next(iter(follows), None)
    if entry is None:
        return {}
    order, seen, stack = [], {entry}, [entry]
    while stack:
        at = stack.pop()
        order.append(at)
        for target in follows[at]:
            if target not in seen:
                seen.add(target)
                stack.append(target)
    found = {at: set(seen) for at in order}
    found[entry] = {entry}
    changed = True
    while changed:
        changed = False
        for at in order[1:]:
            made = set.intersection(*(found[before] for before in comes[at] if before in found)) | {at}
            if made != found[at]:
                found[at], changed = made, True
    return found


def _reaching(source: int, head: int, comes: Mapping[int, list[int]]) -> set[int]:
    found, stack = {source}, [source]
    while stack:
        at = stack.pop()
        if at != head:
            for before in comes[at]:
                if before not in found:
                    found.add(before)
                    stack.append(before)
    return found


def find_nvdisasm() -> Path | None:
    """The disassembler: the one that ``TIRLOWER_NVDISASM`` names, a wheel's, or the one on the path; None without any."""
    return find_tool("nvdisasm", _VARIABLE)


def disassemble(ptx: str, arch: str) -> dict[str, Code]:
    """Assemble PTX for an architecture, and take each kernel's machine code apart.

    Raises:
        DeviceError: there is no assembler, or no disassembler.
        CodegenError: the assembler refuses the PTX; the message has its words.
    """
    tool = find_nvdisasm()
    if tool is None:
        raise DeviceError(
            "there is no nvdisasm to take machine code apart with",
            help=f"install the wheel nvidia-cuda-nvdisasm, or name the disassembler by {_VARIABLE}",
        )
    with tempfile.TemporaryDirectory(prefix="tirlower-sass-") as folder:
        binary = Path(folder) / "module.cubin"
        binary.write_bytes(cubin_of(ptx, arch))
        done = subprocess.run([str(tool), "-c", str(binary)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CodegenError(
            f"nvdisasm refuses the machine code for {arch}", origin="nvdisasm", notes=done.stderr.splitlines()[:10]
        )
    return parsed(done.stdout)


_SECTION: Final = re.compile(r"^\s*\.section\s+\.text\.([\w$.]+),")
_LABEL: Final = re.compile(r"^\s*(\.L_\w+|[\w$]+):\s*$")
_LINE: Final = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:@(!?)(U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);")
_BRANCH: Final = re.compile(r"`\((\.L_\w+)\)")


def parsed(text: str) -> dict[str, Code]:
    """The kernels in a disassembler's text."""
    found: dict[str, Code] = {}
    for part in re.split(r"(?=^\s*\.section\s)", text, flags=re.MULTILINE):
        section = _SECTION.match(part)
        if section is None:
            continue
        labels: dict[str, int] = {}
        waiting: list[str] = []
        lines: list[tuple[int, bool, str, str]] = []
        for line in part.splitlines():
            label, code = _LABEL.match(line), _LINE.search(line)
            if label is not None:
                waiting.append(label[1])
            elif code is not None:
                address = int(code[1], 16)
                labels.update(dict.fromkeys(waiting, address))
                waiting.clear()
                # Under PT all threads go, under any other predicate some.
                lines.append((address, code[3] is not None and code[2] + code[3] != "PT", code[4], code[5]))
        instructions = []
        for address, some, name, operands in lines:
            plain = name.split(".")[0]
            branch = _BRANCH.search(operands) if plain in ("BRA", "JMP", "BRX") else None
            always = not some and plain in ("BRA", "JMP", "BRX", "EXIT", "RET", "KILL")
            # A branch may have a predicate among its operands, too: `BRA.U !UP0, label`.
            always = always and not re.match(r"!?U?P\d", operands.strip())
            target = labels.get(branch[1]) if branch is not None else None
            instructions.append(Instruction(address, name, target, always))
        found[section[1]] = Code(tuple(instructions))
    return found
