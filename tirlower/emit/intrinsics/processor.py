"""Intrinsics of the x86 family: the features that they need, and the types that LLVM declares them with.

A program writes the types that its data has: ``bfloat16x32`` for the operands of ``llvm.x86.avx512bf16.dpbf16ps.512``,
``int8x64`` or ``int32x16`` for those of ``llvm.x86.avx512.vpdpbusd.512``, ``boolx16`` for a mask. LLVM's declarations say
``<32 x bfloat>``, ``<64 x i8>`` (earlier ones ``<16 x i32>``) and ``i16``, and differ from one version to the next. LLVM
tells only whether it takes a call: it is asked about types of the same size, the likeliest first.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from tirlower.emit.compile import is_valid
from tirlower.emit.emitter import Emitter
from tirlower.emit.llvm_text import BFLOAT, FALSE, I1, I16, PTR, VOID, Type, Value, int_type, vector, zero
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Call, Expr
from tirlower.machine.tiles import TILES

__all__ = ["PROCESSOR", "call_processor", "check_processor"]

#: how the names of these intrinsics begin
PROCESSOR: Final = "llvm.x86."

#: instructions on tiles (AMX), with their operands: ``t`` the number of a tile, ``p`` an address, ``n`` bytes between rows
_TILES: Final = {
    "ldtilecfg": "p", "sttilecfg": "p", "tilerelease": "", "tilezero": "t", "tileloadd64": "tpn", "tileloaddt164": "tpn",
    "tilestored64": "tpn", "tdpbssd": "ttt", "tdpbsud": "ttt", "tdpbusd": "ttt", "tdpbuud": "ttt", "tdpbf16ps": "ttt",
    "tdpfp16ps": "ttt",
}  # fmt: skip

#: prefixes of x86 intrinsics and the features that they need, the longest first
_NEEDS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("avx512bf16.", ("avx512bf16",)),
    ("avx512fp16.", ("avx512fp16",)),
    ("avx512.vpdp", ("avx512vnni", "avx512vl")),
    ("avx512.vpmadd52", ("avx512ifma",)),
    ("avx512.vpermi2var.qi", ("avx512vbmi",)),
    ("avx512.permvar.qi", ("avx512vbmi",)),
    ("avx512.pmultishift", ("avx512vbmi",)),
    ("avx512.conflict", ("avx512cd",)),
    ("avx512.", ("avx512f", "avx512bw", "avx512dq", "avx512vl")),
    ("avx2.vpdpb", ("avxvnniint8",)),
    ("avx2.vpdpw", ("avxvnniint16",)),
    ("avx2.", ("avx2",)),
    ("avx.", ("avx",)),
    ("fma.", ("fma",)),
    ("vfma", ("fma",)),
    ("vcvtph2ps", ("f16c",)),
    ("vcvtps2ph", ("f16c",)),
    ("sse42.", ("sse4.2",)),
    ("sse41.", ("sse4.1",)),
    ("ssse3.", ("ssse3",)),
    ("sse3.", ("sse3",)),
    ("sse2.", ("sse2",)),
    ("sse.", ("sse",)),
    ("bmi.pdep", ("bmi2",)),
    ("bmi.pext", ("bmi2",)),
    ("bmi.bzhi", ("bmi2",)),
    ("bmi.", ("bmi",)),
    ("aesni.", ("aes",)),
    ("pclmulqdq", ("pclmul",)),
    ("vgf2p8", ("gfni",)),
    ("tile", ("amx-tile",)),
    ("tdpbf16", ("amx-bf16",)),
    ("tdpfp16", ("amx-fp16",)),
    ("tdpbss", ("amx-int8",)),
    ("tdpbsu", ("amx-int8",)),
    ("tdpbus", ("amx-int8",)),
    ("tdpbuu", ("amx-int8",)),
    ("ldtilecfg", ("amx-tile",)),
    ("sttilecfg", ("amx-tile",)),
)

#: dot products of bytes and of 16-bit integers that AVX-VNNI has without AVX-512, in 128 and 256 bits
_VNNI: Final = ("avx512.vpdpbusd", "avx512.vpdpwssd")

#: dot products: their operands had other types before, which LLVM brings up to date, and stops the process where it cannot
_DOT: Final = re.compile(r"\.(?:vpdp\w+|dpbf16ps)\.(128|256|512)$")

#: so often LLVM may end the process that is asked
_MOST_STOPS: Final = 3

#: questions about one call: with four operands of four forms each there are 256
_MOST_QUESTIONS: Final = 512


def check_processor(em: Emitter, op: Call, name: str) -> bool:
    """Whether the intrinsic is one of the processor's family. Raises CodegenError where the processor lacks it."""
    short = name.removeprefix(PROCESSOR)
    if short == name:
        return False
    features = em.machine.features
    if short.startswith(_VNNI) and not short.endswith(".512") and "avxvnni" in features:
        return True
    for prefix, needs in _NEEDS:
        if short.startswith(prefix):
            missing = [need for need in needs if need not in features]
            if missing:
                raise em.error(
                    f"the intrinsic {name!r} needs the processor feature {', '.join(missing)}, "
                    f"which {em.machine.cpu!r} does not have",
                    op,
                    "build for a target that has it (mcpu or mattr), or guard the schedule by the target",
                )
            return True
    return False


def call_processor(em: Emitter, op: Call, name: str, args: Sequence[Expr], values: Sequence[Value]) -> Value:
    """The call with its operands as LLVM's declaration wants them, and its result as the program says.

    Raises CodegenError where no types of the same sizes fit.
    """
    own = em.type_of(op.dtype)
    on_tiles = _TILES.get(name.removeprefix(PROCESSOR))
    if on_tiles is not None:
        return _call_on_tiles(em, op, name, on_tiles, own, values)
    dot = _DOT.search(name)
    sizes = [own.bits, *(value.type.bits for value in values)]
    if dot is not None and sizes != [int(dot[1])] * 4:
        raise em.error(
            f"the intrinsic {name!r} takes three operands of {dot[1]} bits and gives as many, not {_written(op, args)}",
            op,
            f"use vectors such as {_example(name, int(dot[1]))}",
        )
    values = [_wide_mask(em, value) for value in values]
    attempts = list(_attempts(op.dtype, own, args, values))
    questions = tuple([_question(name, result, operands) for result, operands in attempts])
    sum_of = "float32" if "bf16" in name else "int32"
    safe = dot is not None and op.dtype.element == sum_of and args[0].dtype == op.dtype
    taken = _taken_here(questions) if safe else _taken(questions)
    if taken is not None:
        result, operands = attempts[taken]
        fitted = [
            operand if value.is_constant and not value.type.is_vector else em.b.bitcast(value, operand.type)
            for value, operand in zip(values, operands, strict=True)
        ]
        made = em.b.intrinsic(name, result, fitted)
        return FALSE if own is VOID else em.b.bitcast(made, own)
    raise em.error(
        f"LLVM's declaration of {name!r} is not {_written(op, args)}, nor one of other types of these sizes",
        op,
        "compare the number of arguments and their sizes in bits with the instruction's; flags are constants",
    )


def _call_on_tiles(em: Emitter, op: Call, name: str, kinds: str, own: Type, values: Sequence[Value]) -> Value:
    """An instruction on tiles. Registers are part of its name: LLVM ends the process over numbers that are none."""
    fits = len(values) == len(kinds) and own is VOID
    given: list[Value] = []
    for kind, value in zip(kinds, values, strict=False):
        if kind == "t":
            number = int(value.text) if value.is_constant and value.text.isdigit() else -1
            fits = fits and 0 <= number < TILES
            given.append(Value(int_type(8), str(number)))
        else:
            wanted = PTR if kind == "p" else int_type(64)
            fits = fits and value.type == wanted
            given.append(value)
    if kinds == "ttt" and len({str(value) for value in given}) < len(given):
        fits = False  # the processor refuses such an instruction
    if not fits:
        written = {
            "t": f"a constant tile number from 0 to {TILES - 1}",
            "p": "an address",
            "n": "an int64 of bytes",
        }
        raise em.error(
            f"the intrinsic {name!r} takes {', '.join(written[kind] for kind in kinds) or 'no operands'}"
            f"{', three different ones' * (kinds == 'ttt')}, and returns nothing",
            op,
            f'write T.evaluate(T.call_llvm_intrin("void", {name!r}, …)) with these operands',
        )
    em.b.intrinsic(name, VOID, given)
    return FALSE


def _written(op: Call, args: Sequence[Expr]) -> str:
    return f"({', '.join(str(arg.dtype) for arg in args)}) -> {op.dtype!s}"


def _example(name: str, size: int) -> str:
    if "bf16" in name:
        return f"float32x{size // 32} and bfloat16x{size // 16}"
    return f"int32x{size // 32} and " + (f"int16x{size // 16}" if "vpdpw" in name else f"int8x{size // 8}")


def _wide_mask(em: Emitter, value: Value) -> Value:
    """A mask of two or four lanes with those of a byte, of which the upper ones are off; all else as it is."""
    lanes = value.type.lanes
    if value.type.scalar is not I1 or lanes not in (2, 4):
        return value
    return em.b.shuffle(value, zero(value.type), [*range(lanes), *[lanes] * (8 - lanes)])


def _attempts(
    kind: DataType, own: Type, args: Sequence[Expr], values: Sequence[Value]
) -> Iterator[tuple[Type, list[Value]]]:
    """Types to try: first with operands of one type alike, then each for itself."""
    results = _forms(kind, own)
    keys = [(arg.dtype, value.text if value.is_constant else "") for arg, value in zip(args, values, strict=True)]
    forms = {key: _operands(arg.dtype, value) for key, arg, value in zip(keys, args, values, strict=True)}
    alike: Iterator[tuple[Type, list[Value]]] = (
        (result, [chosen[key] for key in keys])
        for result in results
        for row in itertools.product(*forms.values())
        for chosen in (dict(zip(forms, row, strict=True)),)
    )
    apart: Iterator[tuple[Type, list[Value]]] = (
        (result, list(row)) for result in results for row in itertools.product(*[forms[key] for key in keys])
    )
    return itertools.chain(itertools.islice(alike, _MOST_QUESTIONS), itertools.islice(apart, _MOST_QUESTIONS))


def _operands(kind: DataType, value: Value) -> list[Value]:
    """An operand in its possible types: a constant number keeps its value, all else its bits."""
    if value.is_constant and kind.is_integral and kind.is_scalar and value.text.lstrip("-").isdigit():
        number = int(value.text)
        fits = [int_type(bits) for bits in (8, 16, 32, 64) if -(1 << (bits - 1)) <= number < 1 << bits]
        return [value, *(Value(t, value.text) for t in fits if t != value.type)]
    return [Value(form, value.text) for form in _forms(kind, value.type)]


def _forms(kind: DataType, own: Type) -> list[Type]:
    """The LLVM types that a value of a data type may have, the likeliest first."""
    lanes, size = kind.lanes, own.bits
    if kind.is_bfloat16:
        return [BFLOAT if lanes == 1 else vector(BFLOAT, lanes), own]
    if kind.is_bool and own.lanes in (8, 16, 32, 64):
        return [int_type(own.lanes), own]  # LLVM stops the process over vectors of bits where it wants a number
    if kind == DataType.of("float", 16, lanes) and lanes > 1:
        return [own, vector(I16, lanes)]
    if own.is_int and lanes > 1:
        widths = (8, 16, 32, 64)
        return [own, *(vector(int_type(w), size // w) for w in widths if w != own.scalar.bits and size % w == 0)]
    if own.is_int and size in (8, 16, 32, 64):
        return [own, vector(I1, size)]
    return [own]


def _question(name: str, result: Type, operands: Sequence[Value]) -> str:
    """A module that makes the call, in which constants stand, as flags must."""
    given = [x if x.is_constant else Value(x.type, f"%a{i}") for i, x in enumerate(operands)]
    params = ", ".join([str(x) for x in given if not x.is_constant])
    call = f"call {result} @{name}({', '.join(map(str, given))})"
    body = f"{call}\n  ret void" if result is VOID else f"%r = {call}\n  ret {result} %r"
    declared = f"declare {result} @{name}({', '.join([x.type.text for x in operands])})"
    return f"{declared}\ndefine {result} @f({params}) {{\n  {body}\n}}\n"


@functools.lru_cache(maxsize=1024)
def _taken_here(questions: tuple[str, ...]) -> int | None:
    """The first module that LLVM takes, by its place."""
    return next((place for place, text in enumerate(questions) if is_valid(text)), None)


#: what another process runs: it says which module it looks at, and ends at the first good one
_ASKED: Final = """
import json, sys
sys.path[:], texts = json.load(sys.stdin)
import llvmlite.binding as llvm
for place, text in enumerate(texts):
    print(place, flush=True)
    try:
        llvm.parse_assembly(text).verify()
    except RuntimeError:
        continue
    print("good")
    break
"""


@functools.lru_cache(maxsize=1024)
def _taken(questions: tuple[str, ...]) -> int | None:
    """The same, asked in another process: LLVM ends its process over some of those that it does not take."""
    first = 0
    for _ in range(_MOST_STOPS):
        ran = subprocess.run(
            [sys.executable, "-c", _ASKED],
            input=json.dumps([sys.path, questions[first:]]),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=False,
        )
        *places, last = ran.stdout.split() or [""]
        if last == "good":
            return first + int(places[-1])
        if ran.returncode == 0 or not last:
            return None
        first += int(last) + 1
    return None
