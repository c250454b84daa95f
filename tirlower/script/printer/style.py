"""Which of its forms a text takes where there are several: TIR's options of them, and what they are by default."""

from __future__ import annotations

from dataclasses import dataclass

from tirlower.ir.dtype import DataType

__all__ = ["USUAL", "Style"]


@dataclass(frozen=True)
class Style:
    """The types that a text leaves out, and whether it takes short forms.

    >>> Style(int_dtype="int64")
    Style(buffer_dtype='float32', int_dtype='int64', float_dtype='void', sugar=True)
    """

    buffer_dtype: str = "float32"
    """Buffers are declared without this type."""
    int_dtype: str = "int32"
    """Integers of this type are bare numbers."""
    float_dtype: str = "void"
    """Floats of this type are bare numbers where an operand beside them, or what they are stored to, says the type."""
    sugar: bool = True
    """Whether ``T.grid``, ``T.axis.remap``, ``T.Buffer`` parameters, ``range`` and the root that is understood are used."""

    def __post_init__(self) -> None:
        for kind in (self.buffer_dtype, self.int_dtype, self.float_dtype):
            DataType(kind)  # raises for what is no type

    @property
    def implied(self) -> DataType:
        """The type that a declaration of a buffer leaves out."""
        return DataType(self.buffer_dtype)


USUAL = Style()
"""What the parser takes for granted: a text in this style, or in one that says more, parses back."""
