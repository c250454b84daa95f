"""PTX that the driver's assembler gets right, from PTX as LLVM writes it."""

from __future__ import annotations

import re

__all__ = ["corrected"]

_CONSTANT = re.compile(r"^\tmov\.b32 \t(%r\d+), -?\d+;$", re.MULTILINE)
_ADD = re.compile(r"^\tadd\.[su]16x2 \t(%r\d+), (%r\d+), (%r\d+|-?\d+);$", re.MULTILINE)

_FUNCTION = re.compile(r"^}$", re.MULTILINE)
"""Where a function ends: registers are named anew in the next."""

_ORDER = re.compile(
    r"^\t(?:min|max|setp\.[gl][te])\.s(?:16|32|16x2) \t%\w+, (%rs?\d+|-?\d+), (%rs?\d+|-?\d+);$", re.MULTILINE
)
_MOVE = re.compile(r"^\tmov\.b(?:16|32) \t(%rs?\d+), \{?(%rs?\d+)(?:, (%rs?\d+)\})?;$", re.MULTILINE)
_NEGATION = re.compile(
    r"^\t(?:neg\.s(?:16|32) \t(?P<n>%rs?\d+), (?P<of_n>%rs?\d+)"
    r"|sub\.s(?:16|32) \t(?P<s>%rs?\d+), 0, (?P<of_s>%rs?\d+)"
    r"|mul\.lo\.s(?:16|32) \t(?P<m>%rs?\d+), (?P<of_m>%rs?\d+), -1);$",
    re.MULTILINE,
)


def corrected(ptx: str) -> str:
    """PTX without two forms that assemblers of NVIDIA's get wrong: sums of pairs with constants, negated operands of minima."""
    return _negated_apart(_added_apart(ptx))


def _added_apart(ptx: str) -> str:
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


def _negated_apart(ptx: str) -> str:
    """PTX in which numbers that are negated for a signed minimum, maximum or comparison are complements plus one.

    ptxas 12.6 to 13.3, and the drivers of their time, make one instruction of two minima on ``sm_90`` to ``sm_103``
    (``VIMNMX3``), also of those written as comparisons, and drop the sign of its second operand: ``min(min(a, -b), c)`` is
    ``min(a, b, c)``. ptxas 12.4 and 13.4 do not. Seen on an H100 with driver 580.159. A complement is an operation of its
    own, and the one is added in the first minimum (``VIADDMNMX``): of two numbers it costs nothing, of three an instruction.
    """
    if _NEGATION.search(ptx) is None:
        return ptx
    return "}".join(_of_a_function(part) for part in _FUNCTION.split(ptx))


def _of_a_function(ptx: str) -> str:
    ordered = {name for found in _ORDER.finditer(ptx) for name in found.groups() if name.startswith("%")}
    if not ordered:
        return ptx
    moves = _MOVE.findall(ptx)
    while grown := {value for into, *values in moves if into in ordered for value in values if value} - ordered:
        ordered |= grown

    def apart(negation: re.Match[str]) -> str:
        into = next(negation[name] for name in "nsm" if negation[name])
        value = next(negation[f"of_{name}"] for name in "nsm" if negation[name])
        if into not in ordered:
            return negation[0]
        bits = 16 if into.startswith("%rs") else 32
        return f"\tnot.b{bits} \t{into}, {value};\n\tadd.s{bits} \t{into}, {into}, 1;"

    return _NEGATION.sub(apart, ptx)
