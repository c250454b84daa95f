"""The check of every loop kind before a program is lowered: proved, or refused with the iterations that disagree."""

from __future__ import annotations

from typing import Any

from tirlower import poly
from tirlower.diagnostics import Label, TransformError
from tirlower.ir.expr import Expr
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.stmt import For, ForKind
from tirlower.transforms import PassContext

__all__ = ["UNCHECKED", "check_legality"]

UNCHECKED = "tir.unchecked"
"""Annotation of a loop whose kind is taken on the user's word; its value is the reason, for the report."""

_CHECKS = {ForKind.PARALLEL: poly.is_parallel, ForKind.VECTORIZED: poly.is_vectorizable}


def _loops(func: PrimFunc) -> list[For]:
    found: list[For] = []

    def look(op: Any) -> bool:
        if isinstance(op, For) and op.kind in _CHECKS:
            found.append(op)
        return not isinstance(op, Expr)

    pre_order_visit(func.body, look)
    return found


def check_legality(mod: IRModule, ctx: PassContext) -> None:
    """Prove that every parallel and vectorized loop of a module computes what the serial loop computes.

    Raises :class:`LegalityError` for a loop that does not (with two iterations that meet in one element), or for which
    it cannot be proved; a loop annotated ``{"tir.unchecked": "reason"}`` is taken on trust. The configuration
    ``{"tir.legality": "off"}`` leaves the check out.
    """
    mode = ctx.option("tir.legality", "check")
    if mode == "off":
        return
    if mode != "check":
        raise TransformError(f"tir.legality is 'check' or 'off', got {mode!r}", origin="PassContext")
    for name, func in mod.items():
        loops = [loop for loop in _loops(func) if UNCHECKED not in loop.annotations]
        if not loops:
            continue
        scop = poly.extract(func, mod)
        for loop in loops:
            _check(name, scop, loop)


def _check(name: str, scop: poly.Scop, loop: For) -> None:
    verdict = _CHECKS[loop.kind](scop, loop)
    if verdict.proved:
        return
    word = "is not legal" if verdict.refuted else "cannot be proved legal"
    error = verdict.error(f"the {loop.kind.value} loop `{loop.loop_var.name}` of {name!r} {word}", "legality")
    if loop.span is not None:
        error.labels.append(Label(loop.span, f"{loop.kind.value} here", primary=False))
    trust = f'state the missing fact with T.assume, or annotate the loop {{"{UNCHECKED}": "why it is right"}}'
    error.help = error.help or (f"make it serial, or {trust}" if verdict.refuted else trust)
    raise error
