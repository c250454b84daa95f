"""DLPack's structures and type codes (the protocol by which array libraries hand each other memory, DLPack 1.0)."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final, cast

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["CODES", "READ_ONLY", "DLTensor", "VersionedTensor", "dlpack_name", "pending", "unflagged_read_only"]

CODES: Final = {
    "int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5, "bool": 6, "float8_e3m4": 7, "float8_e4m3": 8,
    "float8_e4m3b11fnuz": 9, "float8_e4m3fn": 10, "float8_e4m3fnuz": 11, "float8_e5m2": 12, "float8_e5m2fnuz": 13,
    "float8_e8m0fnu": 14, "float6_e2m3fn": 15, "float6_e3m2fn": 16, "float4_e2m1fn": 17,
}  # fmt: skip
"""DLDataTypeCode by name; a code covers every width but for the floats of at most 8 bits, which have one each."""

READ_ONLY: Final = 1
"""The flag of a versioned tensor whose memory must not be written."""

_NAMES = {code: name for name, code in CODES.items()}


class DLTensor(ctypes.Structure):
    """DLPack's DLTensor; ``strides`` count elements, and are null for a compact tensor."""

    _fields_ = [
        ("data", ctypes.c_uint64),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class VersionedTensor(ctypes.Structure):
    """DLPack's DLManagedTensorVersioned, what a capsule ``dltensor_versioned`` points to."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


def dlpack_name(code: int, bits: int, lanes: int) -> str:
    """The dtype name of a DLPack type, for comparison and for messages.

    >>> dlpack_name(2, 32, 1), dlpack_name(10, 8, 1), dlpack_name(2, 32, 4), dlpack_name(6, 8, 1), dlpack_name(99, 8, 1)
    ('float32', 'float8_e4m3fn', 'float32x4', 'bool', 'dlpack99_8')
    """
    known = _NAMES.get(code)
    # A bool, or a float of 8 bits, says its width in its name.
    whole = known is not None and code >= CODES["bool"] and bits == 8
    name = str(known) if whole else f"{known if known and code < CODES['bool'] else f'dlpack{code}_'}{bits}"
    return name if lanes == 1 else f"{name}x{lanes}"


_PENDING: Final = (("is_neg", "negation", "resolve_neg"), ("is_conj", "conjugation", "resolve_conj"))

# Libraries whose arrays nobody may write to, and whose capsules have no flag to say so.
_IMMUTABLE: Final = frozenset({"jax", "jaxlib", "tensorflow"})


def pending(value: object) -> tuple[str, str] | None:
    """What a tensor has still to do to its elements, with the method that does it; None where memory holds them.

    PyTorch keeps a negation or a conjugation as a bit of the tensor: the memory that it shows is without.

    >>> pending(3) is None
    True
    """
    for asks, what, does in _PENDING:
        ask = getattr(value, asks, None)
        if callable(ask) and ask() is True:
            return what, does
    return None


def unflagged_read_only(value: object) -> bool:
    """Whether an object's memory must not be written, where its capsule is of a DLPack that has no flag for that.

    Its buffer or ``__array_interface__`` says so where it has one; JAX's and TensorFlow's arrays never are written.
    """
    if any(cls.__module__.partition(".")[0] in _IMMUTABLE for cls in type(value).__mro__):
        return True
    try:
        return memoryview(cast("Buffer", value)).readonly
    except (TypeError, BufferError, ValueError):
        pass
    said = getattr(value, "__array_interface__", None)
    place = said.get("data") if isinstance(said, dict) else None
    return isinstance(place, tuple) and bool(place[1])
