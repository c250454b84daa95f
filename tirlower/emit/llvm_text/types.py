"""LLVM types as values.

A :class:`Type` prints with ``str(t)`` and compares by that text, which is unique for each type. Everything is a plain
slotted object, made once at the top of a code generator and shared.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "AMX",
    "BFLOAT",
    "DOUBLE",
    "FLOAT",
    "FP128",
    "HALF",
    "I1",
    "I8",
    "I16",
    "I32",
    "I64",
    "I128",
    "METADATA",
    "PTR",
    "TOKEN",
    "VOID",
    "Type",
    "array",
    "int_type",
    "ptr",
    "struct",
    "vector",
]


class Type:
    """An LLVM type; make one with :func:`int_type`, :func:`vector`, ... or take a constant (``I32``, ``FLOAT``).

    ``kind`` is one of ``"int" "float" "ptr" "vector" "array" "struct" "void" "token" "amx" "metadata"``; ``bits`` is
    the size of the value in bits where it is known without a data layout (0 for pointers, aggregates and scalable
    vectors); ``elem`` and ``lanes`` describe vectors and arrays, ``fields`` structs, ``addrspace`` pointers, and
    ``mangled`` is the suffix of an overloaded intrinsic.

    >>> str(vector(FLOAT, 16)), vector(FLOAT, 16).mangled, str(struct(I32, ptr(3)))
    ('<16 x float>', 'v16f32', '{ i32, ptr addrspace(3) }')
    """

    __slots__ = ("_mask", "addrspace", "bits", "elem", "fields", "kind", "lanes", "mangled", "scalable", "text")

    text: Final[str]
    kind: Final[str]
    bits: Final[int]
    mangled: Final[str]
    elem: Final[Type | None]
    lanes: Final[int]
    scalable: Final[bool]
    fields: Final[tuple[Type, ...]]
    addrspace: Final[int]
    _mask: Type | None

    def __init__(
        self,
        text: str,
        kind: str,
        *,
        bits: int = 0,
        mangled: str = "",
        elem: Type | None = None,
        lanes: int = 1,
        scalable: bool = False,
        fields: tuple[Type, ...] = (),
        addrspace: int = 0,
    ) -> None:
        self.text = text
        self.kind = kind
        self.bits = bits
        self.mangled = mangled
        self.elem = elem
        self.lanes = lanes
        self.scalable = scalable
        self.fields = fields
        self.addrspace = addrspace
        self._mask = None

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Type({self.text})"

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Type) and self.text == other.text)

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def scalar(self) -> Type:
        """The element type of a vector, and the type itself otherwise."""
        return self.elem if self.kind == "vector" and self.elem is not None else self

    @property
    def is_vector(self) -> bool:
        """True for fixed and scalable vectors."""
        return self.kind == "vector"

    @property
    def is_float(self) -> bool:
        """True for floating-point scalars and vectors of them."""
        return self.scalar.kind == "float"

    @property
    def is_int(self) -> bool:
        """True for integers and vectors of them."""
        return self.scalar.kind == "int"

    @property
    def is_ptr(self) -> bool:
        """True for pointers and vectors of them."""
        return self.scalar.kind == "ptr"

    @property
    def mask(self) -> Type:
        """The type of a comparison of two such values: ``i1`` or a vector of ``i1``."""
        if self.kind != "vector":
            return I1
        if self._mask is None:
            self._mask = vector(I1, self.lanes, scalable=self.scalable)
        return self._mask

    def with_scalar(self, elem: Type) -> Type:
        """The same shape (scalar, or vector of as many lanes) with another element type."""
        return vector(elem, self.lanes, scalable=self.scalable) if self.kind == "vector" else elem


def int_type(bits: int) -> Type:
    """The integer type ``i<bits>``, from 1 to 2**23 bits.

    Raises:
        ValueError: ``bits`` is out of LLVM's range.
    """
    if not 1 <= bits <= 1 << 23:
        raise ValueError(f"LLVM has no integer type of {bits} bits; use 1 to {1 << 23}")
    return Type(f"i{bits}", "int", bits=bits, mangled=f"i{bits}")


def ptr(addrspace: int = 0) -> Type:
    """An opaque pointer into ``addrspace``."""
    text = f"ptr addrspace({addrspace})" if addrspace else "ptr"
    return Type(text, "ptr", mangled=f"p{addrspace}", addrspace=addrspace)


def vector(elem: Type, lanes: int, scalable: bool = False) -> Type:
    """A vector of ``lanes`` elements, or of ``vscale * lanes`` where ``scalable``.

    Raises:
        ValueError: no lanes, or elements that are not integers, floats or pointers.
    """
    if lanes < 1 or elem.kind not in ("int", "float", "ptr"):
        raise ValueError(
            f"no LLVM vector of {lanes} x {elem}; use at least one lane of an integer, float or pointer type"
        )
    return Type(
        f"<vscale x {lanes} x {elem.text}>" if scalable else f"<{lanes} x {elem.text}>",
        "vector",
        bits=0 if scalable else lanes * elem.bits,
        mangled=f"{'nxv' if scalable else 'v'}{lanes}{elem.mangled}",
        elem=elem,
        lanes=lanes,
        scalable=scalable,
    )


def array(n: int, elem: Type) -> Type:
    """An array of ``n`` elements.

    Raises:
        ValueError: ``n`` is negative.
    """
    if n < 0:
        raise ValueError(f"an LLVM array cannot have {n} elements")
    return Type(f"[{n} x {elem.text}]", "array", mangled=f"a{n}{elem.mangled}", elem=elem, lanes=n)


def struct(*fields: Type, packed: bool = False) -> Type:
    """A literal struct of the fields in order; ``packed`` leaves out the padding."""
    inside = ", ".join([f.text for f in fields])
    text = f"{{ {inside} }}" if fields else "{}"
    return Type(
        f"<{text}>" if packed else text, "struct", mangled=f"sl_{''.join([f.mangled for f in fields])}s", fields=fields
    )


I1: Final = int_type(1)
I8: Final = int_type(8)
I16: Final = int_type(16)
I32: Final = int_type(32)
I64: Final = int_type(64)
I128: Final = int_type(128)
HALF: Final = Type("half", "float", bits=16, mangled="f16")
BFLOAT: Final = Type("bfloat", "float", bits=16, mangled="bf16")
FLOAT: Final = Type("float", "float", bits=32, mangled="f32")
DOUBLE: Final = Type("double", "float", bits=64, mangled="f64")
FP128: Final = Type("fp128", "float", bits=128, mangled="f128")
VOID: Final = Type("void", "void", mangled="isVoid")
PTR: Final = ptr()
TOKEN: Final = Type("token", "token", mangled="token")
AMX: Final = Type("x86_amx", "amx", bits=8192, mangled="x86amx")
METADATA: Final = Type("metadata", "metadata", mangled="Metadata")
