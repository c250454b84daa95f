"""What a step looks at does not grow with the module: counted, for times depend on what else a machine does."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from bench.schedule import STEPS, _handles, chain_text, module_text
from tirlower.poly import extract
from tirlower.schedule import facts, narrowed
from tirlower.schedule.facts import Facts
from tirlower.script import parse

WHOLE = {"rfactor", "compute_at", "reverse_compute_at"}
"""Steps that still look at every nest."""


@pytest.mark.parametrize("step", [step for step in STEPS if step.name not in WHOLE], ids=lambda step: step.name)
def test_the_accesses_that_are_extracted(step: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counted(*args: Any, **named: Any) -> Any:
        scop = extract(*args, **named)
        sizes.append(len(scop.accesses))
        return scop

    for module in (narrowed, facts):
        monkeypatch.setattr(module, "extract", counted)
    found = []
    for blocks in (8, 20):
        sch: Any = tl.Schedule(parse((chain_text if step.chain else module_text)(blocks)))
        handles = _handles(sch, 4)
        sch.__dict__["_facts"] = Facts()
        sizes.clear()
        step.run(sch, handles)
        found.append([*sizes])
    assert found[0] == found[1]
