"""The names that the rule files share: variables, constants, lanes."""

from __future__ import annotations

from tirlower.arith.pattern import PConst, PLanes, PVar

x, y, z, w, v = (PVar(name) for name in "xyzwv")
"""Any expression."""

s, t = (PVar(name, const=False) for name in "st")
"""Any expression but an integer constant."""

p, q, r = (PVar(name) for name in "pqr")
"""Conditions."""

c0, c1, c2, c3 = (PConst(name) for name in ("c0", "c1", "c2", "c3"))
lanes = PLanes("lanes")
