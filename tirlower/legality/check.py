"""The check of a module, as its configuration says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tirlower import poly
from tirlower.ir.annotations import ELSEWHERE
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.legality.assumptions import assumptions
from tirlower.legality.bounds import BoundVerdicts, judge_accesses
from tirlower.legality.guards import insert_guards
from tirlower.legality.loops import check_loops, loop_notes, without_idle_jumps
from tirlower.legality.notes import AccessNote, CheckReport
from tirlower.legality.regions import with_regions_held
from tirlower.legality.strides import require_nested_strides
from tirlower.legality.words import require_words
from tirlower.transforms import PassContext

__all__ = ["CheckedModule", "check_legality"]


@dataclass(frozen=True)
class CheckedModule:
    """The module to lower (the given one where nothing needs a guard), and what was proved, guarded and trusted.

    ``in_place`` has, for each exported function, the pairs of parameters that may be one array (:func:`poly.in_place`).
    """

    module: IRModule
    checks: CheckReport
    in_place: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)


def check_legality(
    mod: IRModule, ctx: PassContext, *, in_order: bool = False, lifts: bool = True, written: IRModule | None = None
) -> CheckedModule:
    """Prove that every loop computes what its serial form computes, and that every access is inside its buffer.

    Raises :class:`LegalityError` for a loop that does not (with two iterations that meet in one element) or for which
    it cannot be proved, unless it is annotated ``{"tir.unchecked": "reason"}``; and for an access that certainly goes
    outside, with the iteration in which it does. An access that may go outside gets a guard that raises IndexError
    before it; ``tir.unproved_bounds`` of the configuration says ``"guard"`` (the default), ``"trust"`` or
    ``"refuse"``. ``{"tir.legality": "off"}`` leaves all of this out. With ``in_order`` loops are not asked about: they
    run in the order of the script, and lanes in step, whatever they share (the module is :func:`overlapping`'s). With
    ``lifts`` guards stand before the loops that do not change them; kernels of GPUs are made of nests without any between.
    ``written`` is the checked module of which a schedule made this one: calls whose strides the schedule cannot take run it.

    >>> from tirlower.script import parse
    >>> func = parse('''
    ... @T.prim_func
    ... def gather(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), X: T.Buffer((8,), "int32")):
    ...     for i in range(8):
    ...         B[i] = A[X[i]]
    ... ''')
    >>> checks = check_legality(IRModule({"gather": func}), PassContext()).checks
    >>> checks.proved, [note.access for note in checks.guarded]
    ({'gather': 2}, ['A[X[i]]'])
    """
    if ctx.option("tir.legality") == "off":
        loops = tuple(note for name, func in mod.items() for note in loop_notes(name, func, "not checked"))
        return CheckedModule(mod, CheckReport(on=False, loops=loops))
    mode = str(ctx.option("tir.unproved_bounds"))
    debug = bool(ctx.option("tir.enable_debug"))
    functions = dict(mod.items())
    checks = CheckReport()
    pairs = {}
    for name, func in mod.items():
        if ELSEWHERE in func.attrs:
            continue  # checked where it is defined
        held = with_regions_held(func, poly.PureFunctions(mod).has)
        scop = poly.extract(held, mod, wrapping=ctx.option("tir.scalar_overflow") != "none", strides_checked=True)
        loops = tuple(loop_notes(name, func, "in order")) if in_order else check_loops(name, scop)
        before = None if written is None else written[name]
        judged = judge_accesses(name, scop, mode, again=in_order or written is not None)
        guarded, found = _check_accesses(name, scop, mod, mode, debug, lifts, before, judged)
        if "global_symbol" in func.attrs:
            pairs[str(func.attrs["global_symbol"])] = poly.in_place(scop)
        checks = checks.merged(replace(found, loops=loops))
        if guarded is not func:
            functions[name] = guarded
    changed = any(functions[name] is not func for name, func in mod.items())
    return CheckedModule(IRModule(functions, dict(mod.attrs)) if changed else mod, checks, pairs)


def _check_accesses(
    name: str,
    scop: poly.Scop,
    mod: IRModule,
    mode: str,
    debug: bool,
    lifts: bool,
    written: PrimFunc | None,
    judged: BoundVerdicts,
) -> tuple[PrimFunc, CheckReport]:
    """The function with its guards, and what was found of its accesses and assumptions."""
    func = made = scop.func
    guarded: tuple[AccessNote, ...] = ()
    trusted = judged.trusted
    if mode == "trust":
        trusted = (*judged.notes(), *trusted)
    loops_over = [loop.node for loop in scop.loops if loop.overflows]
    if (judged.open and mode != "trust") or loops_over:
        made, guarded = insert_guards(
            name, func, judged, poly.PureFunctions(mod).has, loops_over, accesses=mode != "trust", lifts=lifts
        )
    made = require_nested_strides(func, scop, without_idle_jumps(scop, made), written)
    if mode != "trust":
        made = require_words(scop, made)
    return made, CheckReport(
        proved={name: judged.proved},
        guarded=guarded,
        trusted=trusted,
        assumed=assumptions(name, func, checked=debug),
    )
