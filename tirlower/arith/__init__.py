"""Arithmetic: what expressions are equal to, bounded by, and known to be."""

from __future__ import annotations

from tirlower.arith.analyzer import Analyzer, ConstIntBound, Extension, ProofStrength
from tirlower.arith.modular import ModularSet

__all__ = ["Analyzer", "ConstIntBound", "Extension", "ModularSet", "ProofStrength"]
