"""Constants of a graph: arrays that are compared by their contents, and splats.

An array is hashed once, when somebody asks; one that is read from a file stays mapped there. A splat is one number in
every element, and takes no memory.
"""

from __future__ import annotations

import hashlib
from typing import cast

import numpy as np

from tirlower.graph.errors import GraphError
from tirlower.ir.dtype import Array, DataType

__all__ = ["ConstantData", "tensor_dtype"]


def tensor_dtype(array: Array) -> DataType:
    """The dtype of an array as one of a tensor. Raises :class:`GraphError` for arrays of other things than numbers."""
    if array.dtype.kind in "OUSMmc" or array.dtype.names:
        raise GraphError(f"tensors hold numbers and bools, got an array of {array.dtype}")
    return DataType(array.dtype.name)


class ConstantData:
    """An array that is not changed any more, or a splat. Two of equal dtype, shape and contents are equal.

    >>> zeros = ConstantData.splat(0.0, (1024, 1024), "float32")
    >>> zeros == ConstantData.splat(0.0, (1024, 1024), "float32"), zeros.nbytes
    (True, 0)
    >>> ConstantData(np.arange(4, dtype="int32"))
    ConstantData(int32, (4,), 'ad87fa97')
    """

    __slots__ = ("_array", "_digest", "dtype", "shape", "value")

    def __init__(self, array: Array) -> None:
        self.dtype = tensor_dtype(array)
        self.shape: tuple[int, ...] = array.shape
        self.value = cast("bool | int | float", array.item()) if array.ndim == 0 else None
        """The one number of a splat."""
        self._array: Array | None = array
        self._digest: str | None = None

    @classmethod
    def splat(cls, value: float, shape: tuple[int, ...], dtype: DataType | str) -> ConstantData:
        """One number in every element. Raises :class:`GraphError` for a number that the dtype does not have."""
        kind = DataType(dtype)
        one = np.asarray(value)
        if kind.is_integral and not kind.is_bool and (one.dtype.kind not in "biu" or not _fits(int(value), kind)):
            raise GraphError(f"{value!r} is no value of {kind!s}")
        if one.dtype == object:  # an integer that no integer dtype holds
            try:
                one = np.asarray(float(value))
            except (OverflowError, TypeError, ValueError):
                raise GraphError(
                    f"a number of {kind!s} is wanted that it holds, or infinity", help="float('inf')"
                ) from None
        made = cls(one.astype(kind.numpy))
        made.shape = shape
        if shape:
            made._array = None
        return made

    @classmethod
    def abstract(cls, digest: str, shape: tuple[int, ...], dtype: DataType | str) -> ConstantData:
        """A constant of which only its digest is known, or eight digits of it and more: its array is not here."""
        made = cls.__new__(cls)
        made.dtype, made.shape = DataType(dtype), shape
        made.value = made._array = None
        made._digest = digest
        return made

    @property
    def is_abstract(self) -> bool:
        """Whether its array is not here."""
        return self.value is None and self._array is None

    @property
    def nbytes(self) -> int:
        """The bytes that it keeps in memory: none for a splat."""
        return 0 if self.value is not None or self._array is None else self._array.nbytes

    @property
    def digest(self) -> str:
        """A hash of dtype, shape and contents, in hexadecimal digits."""
        if self._digest is None:
            hashed = hashlib.sha256(f"{self.dtype}{self.shape}".encode())
            whole = np.asarray(self.value, self.dtype.numpy) if self._array is None else self._array
            hashed.update(np.ascontiguousarray(whole).reshape(-1).view(np.uint8).data if whole.size else b"")
            self._digest = hashed.hexdigest()
        return self._digest

    @property
    def structural_token(self) -> bytes:
        """What structural hashing knows of it: dtype, shape, and so many digits of the digest as an abstract one has."""
        return f"{self.dtype}{self.shape}{self.digest[:8]}".encode()

    def numpy(self) -> Array:
        """The array, which must not be written to."""
        if self.is_abstract:
            raise GraphError(
                f"the contents of the constant {self.digest!r} of {self.dtype!s}{list(self.shape)} are not here",
                help="give them when the text is read: tg.parse(text, constants={digest: array}), or to the graph: tg.passes.BindConstants",
            )
        if self._array is None:
            return np.broadcast_to(np.asarray(self.value, self.dtype.numpy), self.shape)
        view = self._array.view()
        view.flags.writeable = False
        return view

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ConstantData):
            return NotImplemented
        return (
            self.dtype == other.dtype
            and self.shape == other.shape
            and ((self._array is not None and self._array is other._array) or self._has_digest_of(other))
        )

    def _has_digest_of(self, other: ConstantData) -> bool:
        # Of an abstract constant some digits may be all that is known.
        return self.digest.startswith(other.digest) or other.digest.startswith(self.digest)

    def __hash__(self) -> int:
        return hash((self.dtype, self.shape, self.digest[:8]))

    def __repr__(self) -> str:
        what = repr(self.value) if self.value is not None else repr(self.digest[:8])
        return f"ConstantData({self.dtype!s}, {self.shape}, {what})"


def _fits(value: int, kind: DataType) -> bool:
    return bool(kind.min_value <= value <= kind.max_value)
