"""The places where generated code can fail, as the module's table of :class:`~tirlower.llvm.entry.ErrorSite`."""

from __future__ import annotations

from tirlower.diagnostics import Span
from tirlower.ir.assertion import ERROR_KINDS
from tirlower.llvm.entry.abi import MAX_ERROR_VALUES, ErrorSite

__all__ = ["ERROR_KINDS", "ErrorTable", "escape_template"]


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
