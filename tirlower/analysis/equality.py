"""Equality of expressions without renaming."""

from __future__ import annotations

from tirlower.ir.structural import expr_deep_equal

__all__ = ["expr_deep_equal"]
