"""PTX that the driver's assembler gets right, from PTX as LLVM writes it."""

from __future__ import annotations

import re

__all__ = ["corrected"]

_CONSTANT = re.compile(r"^\tmov\.b32 \t(%r\d+), -?\d+;$", re.MULTILINE)
_ADD = re.compile(r"^\tadd\.[su]16x2 \t(%r\d+), (%r\d+), (%r\d+|-?\d+);$", re.MULTILINE)


def corrected(ptx: str) -> str:
    """PTX in which constants are added to pairs of 16-bit numbers one by one.

    ptxas 13.0, and the drivers of its time, drop the constant of ``add.s16x2`` where one half of the sum is not used
    (``VIADD.16x2 R0, R2, 0x0``); ptxas 13.5 does not. Seen on an H100 with driver 580.159, in the last of seven lanes.
    """
    found = _ADD.search(ptx)
    if found is None:
        return ptx
    constants = set(_CONSTANT.findall(ptx))

    def apart(add: re.Match[str]) -> str:
        into, a, b = add.groups()
        if not (a in constants or b in constants or not b.startswith("%")):
            return add[0]
        return (
            "\t{\n\t.reg .b16 \t%a<2>, %b<2>;\n"
            f"\tmov.b32 \t{{%a0, %a1}}, {a};\n\tmov.b32 \t{{%b0, %b1}}, {b};\n"
            "\tadd.s16 \t%a0, %a0, %b0;\n\tadd.s16 \t%a1, %a1, %b1;\n"
            f"\tmov.b32 \t{into}, {{%a0, %a1}};\n\t}}"
        )

    return _ADD.sub(apart, ptx)
