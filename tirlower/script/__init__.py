"""Text to IR: the script dialect (``T``, ``I``), its parser, and the printer."""

from tirlower.script import ir, printer, tir
from tirlower.script.parse import ir_module, parse

__all__ = ["from_source", "ir", "ir_module", "parse", "tir"]

#: TVM's name of :func:`parse`
from_source = parse
