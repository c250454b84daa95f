"""The driver's functions: windows of the arena hold what their parts name, and parts share no variable."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import tirlower.graph as tg
from tests.graph.lower.test_parts import chain
from tirlower.analysis.call_graph import calls_of
from tirlower.graph.lower.driver import lower
from tirlower.graph.lower.main import PART
from tirlower.graph.ops.evaluate import extent_value
from tirlower.graph.run.sites import sites_of
from tirlower.ir import BufferLoad, Call, Expr, Var, verify_well_formed


def address(arg: Expr) -> tuple[Var, Expr] | None:
    if isinstance(arg, Call) and isinstance(arg.args[0], BufferLoad):
        return arg.args[0].buffer.data, arg.args[0].indices[0]
    return None


@pytest.mark.parametrize("dynamic", [False, True])
def test_sites_name_the_places_of_the_plan_and_windows_lie_in_the_arena(dynamic: bool) -> None:
    n = tg.dim("N", 0, 100)
    lowered = lower(chain(700, (n, 3), [n]) if dynamic else chain(700, (5, 3)))
    verify_well_formed(lowered.module)
    main = lowered.module["main"]
    at: Any = {lowered.dims[0]: 7, main.params[-1]: 7} if dynamic else {}
    planned = [extent_value(o, at) for o in lowered.storage.offsets.values()]
    named = [
        [extent_value(a[1], at) for arg in site.call.args if (a := address(arg))] for site in sites_of(lowered.module)
    ]
    # A chain: the first reads the input, the last writes the result.
    assert named == [[planned[0]], *[[a, b] for a, b in itertools.pairwise(planned)], [planned[-1]]]
    arena = extent_value(lowered.storage.arena, at) + 64
    for call in calls_of(main):
        func = lowered.module[call.op.name]
        if PART in func.attrs:
            given = dict(zip(func.params, call.args, strict=True))
            inner = at | {p: 7 for p in func.params if p not in func.buffer_map}
            for param, buffer in func.buffer_map.items():
                if (found := address(given[param])) is not None:
                    assert extent_value(found[1], at) + extent_value(buffer.shape[0], inner) <= arena
