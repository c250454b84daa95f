"""The table of primitives: complete, and asked for one by one."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import tirlower as tl
from tirlower import schedule
from tirlower.schedule.kind import Kind
from tirlower.schedule.registry import VERBS, InstructionKind, all_kinds, method_kind

PARTS = {"sum_tile", "tensorize_block"}
"""Steps that bigger ones take and nobody else: they have no method."""

ROOM = Path(schedule.__file__).parent


def test_every_primitive_of_the_room_is_in_the_table() -> None:
    """One that somebody writes and forgets to list would be no verb."""
    modules = [
        importlib.import_module(".".join(("tirlower.schedule", *path.relative_to(ROOM).with_suffix("").parts)))
        for path in ROOM.rglob("*.py")
        if path.name != "__init__.py"
    ]
    written = {kind.method for module in modules for kind in vars(module).values() if isinstance(kind, Kind)}
    assert written - PARTS == set(VERBS)


def test_a_row_leads_to_the_primitive_that_it_names() -> None:
    kinds = all_kinds()
    assert [kind.method for kind in kinds] == list(VERBS) and len({kind.name for kind in kinds}) == len(VERBS)
    for kind in kinds:
        assert method_kind(kind.method) is kind and InstructionKind.get(kind.name) is kind


def test_what_there_is_not() -> None:
    with pytest.raises(AttributeError, match="no verb 'splitt'; did you mean 'split'"):
        method_kind("splitt")
    with pytest.raises(AttributeError, match="no instruction 'Splitt'; did you mean 'Split'"):
        InstructionKind.get("Splitt")
    with pytest.raises(AttributeError):
        tl.Schedule.splitt  # type: ignore[attr-defined]


def test_a_verb_is_imported_when_it_is_asked_for_and_a_method_like_any_other() -> None:
    code = (
        "import inspect, sys, tirlower as tl\n"
        "held = lambda: 'tirlower.schedule.memory.pack' in sys.modules\n"
        "tl.Schedule\nprint(held(), 'pack' in dir(tl.Schedule), held())\n"
        "class Mine(tl.Schedule):\n    def split(self, *args):\n        return super().split(*args)\n"
        "print(Mine.pack is tl.Schedule.pack is tl.Schedule.pack, held(), Mine.split is not tl.Schedule.split)\n"
        "print(list(inspect.signature(tl.Schedule.pack).parameters)[:2], tl.Schedule.pack.__qualname__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "False True False",
        "True True True",
        "['buffer', 'at'] Schedule.pack",
    ]
