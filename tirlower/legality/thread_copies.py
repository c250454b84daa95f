"""Threads read what they wrote: of memory that each has for itself there is none that another one filled."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tirlower import poly
from tirlower.diagnostics import Label, LegalityError
from tirlower.ir.annotations import UNCHECKED
from tirlower.ir.expr import Var
from tirlower.ir.stmt import For

__all__ = ["require_own_copies"]


def require_own_copies(name: str, scop: poly.Scop, reduced: Mapping[For, Collection[Var]]) -> None:
    """Raise :class:`LegalityError` where a thread may read what another one wrote into its own copy of ``local`` memory, or a
    block of threads what another block wrote into its own ``shared`` memory.

    While a schedule is written that is a state in between: loops are bound first, and those that read are put into them
    next. So it is asked when the program is built. Loops annotated as unchecked are left out; ``reduced`` has, for the loops
    of threads, the data into which those combine their terms.
    """
    for found in poly.other_copies(scop, reduced=reduced):
        node = found.loop.node
        assert isinstance(node, For)  # has a thread axis
        if UNCHECKED not in node.annotations:
            raise _refusal(name, found, node)


def _refusal(name: str, found: poly.OtherCopy, node: For) -> LegalityError:
    buffer = found.read.buffer.name if found.read.buffer is not None else found.read.data.name
    blocks = not found.loop.tag.startswith("threadIdx")
    one = "block of threads" if blocks else "thread"
    verdict = found.verdict
    problem = "is not legal" if verdict.refuted else "cannot be proved legal"
    error = verdict.error(
        f"the thread-bound loop `{found.loop.name}` of {name!r} {problem}: each {one} of {found.loop.tag} has its own "
        f"{buffer!r}, of scope {found.scope!r}",
        "legality",
    )
    wider = "global" if blocks else "shared"
    error.help = (
        f"read {buffer!r} in the {one} that writes it (compute_at, reverse_compute_at), or give it the scope {wider!r} "
        f'(set_scope), or annotate the loop {{"{UNCHECKED}": "why it is right"}}'
    )
    if node.span is not None:
        error.labels.append(Label(node.span, f"each {one} has its own {buffer!r}", primary=not error.labels))
    return error
