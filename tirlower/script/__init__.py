"""Text to IR: the script dialect (``T``, ``I``), its parser, and the printer."""

from tirlower.script import ir, printer, tir
from tirlower.script.parse import parse

__all__ = ["ir", "parse", "tir"]

printer.install()
