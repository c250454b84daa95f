"""Prints of compiled graphs: machine code calls Python back with the address of a tensor."""

from __future__ import annotations

import ctypes
import math

import numpy as np

from tirlower.graph.core.debug import Debug, tensor_text
from tirlower.graph.lower.callbacks import register_callback
from tirlower.ir.dtype import Array, DataType
from tirlower.llvm.codegen.symbols import registered_symbols

__all__ = ["array_at", "known_print", "print_symbol", "printed_text"]

_PREFIX = "tirlower_graph_print_"
"""How the names of the functions begin; the number of axes follows."""


def print_symbol(rank: int) -> str:
    """The name of the function that prints a tensor of so many axes, which is made known.

    It takes what :func:`printed_text` gives, an address, and the extents.

    >>> print_symbol(2)
    'tirlower_graph_print_2'
    """
    symbol = f"{_PREFIX}{rank}"
    if symbol not in registered_symbols():
        kinds = [ctypes.c_char_p, ctypes.c_void_p, *[ctypes.c_int64] * rank]
        register_callback(symbol, kinds, _print)
    return symbol


def known_print(symbol: str) -> bool:
    """Whether a name is that of a function that prints, which is made known then.

    >>> known_print("tirlower_graph_print_3"), known_print("tirlower_graph_print_x"), known_print("sinf")
    (True, False, False)
    """
    rank = symbol.removeprefix(_PREFIX)
    return symbol != rank and rank.isdecimal() and len(rank) < 4 and print_symbol(int(rank)) == symbol


def printed_text(node: Debug) -> str:
    """What machine code gives to the function: the dtype, and the text of the user's."""
    text = node.text.replace("\0", "\\0")  # a text of C ends there
    return f"{node.inputs[0].dtype!s} {text}"


def _print(given: bytes, address: int | None, *extents: int) -> None:
    kind, _, text = given.decode().partition(" ")
    print(tensor_text(array_at(address, extents, DataType(kind)), text))


def array_at(address: int | None, shape: tuple[int, ...], dtype: DataType) -> Array:
    """The tensor at an address, which is not copied."""
    kind = dtype.numpy
    size = math.prod(shape) * kind.itemsize
    if not size or address is None:
        return np.empty(shape, kind)
    return np.asarray((ctypes.c_uint8 * size).from_address(address)).view(kind).reshape(shape)
