"""Failures of kernels: the places where generated code can fail, and the record that a failing call fills."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from tirlower.diagnostics import Span
from tirlower.ir.failure_message import ERROR_KINDS

__all__ = ["ERROR_KINDS", "MAX_ERROR_VALUES", "ErrorRecord", "ErrorSite", "ErrorTable", "escape_template"]

MAX_ERROR_VALUES = 16
"""The most values that a failure records."""


class ErrorRecord(ctypes.Structure):
    """What a failing kernel fills: ``{i32 code, i32 nvals, [16 x i64] vals}``."""

    _fields_ = [("code", ctypes.c_int32), ("nvals", ctypes.c_int32), ("vals", ctypes.c_int64 * MAX_ERROR_VALUES)]


@dataclass(frozen=True, slots=True)
class ErrorSite:
    """One place where a kernel can fail: the exception to raise and its message.

    ``template`` is a ``str.format`` text over the recorded values; ``types`` says how to read each of them (``"int64"``
    where it is too short; ``"uint64"``, ``"bool"`` or ``"float64"``, whose bits are recorded).

    >>> ErrorSite(IndexError, "index {0} outside A[0:{1}]").exception([12, 10])
    IndexError('index 12 outside A[0:10]')
    """

    kind: type[Exception]
    template: str
    types: tuple[str, ...] = ()

    def exception(self, values: Sequence[int]) -> Exception:
        """The exception for these recorded values, not yet raised."""
        shown = [_decode(bits, self.types[i] if i < len(self.types) else "int64") for i, bits in enumerate(values)]
        return self.kind(self.template.format(*shown))


def _decode(bits: int, dtype: str) -> int | float | bool:
    if dtype == "float64":
        return float(struct.unpack("<d", struct.pack("<q", bits))[0])
    if dtype == "uint64":
        return bits & 0xFFFF_FFFF_FFFF_FFFF
    return bool(bits) if dtype == "bool" else bits


def escape_template(text: str) -> str:
    """A text as it stands in a ``str.format`` template."""
    return text.replace("{", "{{").replace("}", "}}")


class ErrorTable:
    """Error sites by code; equal sites share one."""

    def __init__(self) -> None:
        self.sites: list[ErrorSite] = []
        self._known: dict[ErrorSite, int] = {}

    def code(self, kind: type[Exception], template: str, types: tuple[str, ...] = (), span: Span | None = None) -> int:
        """The code of a site. ``template`` formats the recorded values; the span, where known, is added to it."""
        if span is not None:
            template += escape_template(f"\n --> {span}")
            line = span.source.line(span.line).strip()
            if line:
                template += escape_template(f"\n  | {line}")
        site = ErrorSite(kind, template, types[:MAX_ERROR_VALUES])
        found = self._known.get(site)
        if found is None:
            found = self._known[site] = len(self.sites)
            self.sites.append(site)
        return found
