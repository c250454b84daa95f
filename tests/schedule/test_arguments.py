"""Arguments as users give them, and as traces show them: buffers, index maps, regions, lists of blocks, scopes."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tirlower as tl
from tirlower.diagnostics import BadArgument
from tirlower.ir import IndexMap
from tirlower.ir.structural import structural_equal
from tirlower.schedule import registry
from tirlower.schedule.kind import BufferAt, Kind, Slot, Takes
from tirlower.schedule.sites import Change
from tirlower.schedule.trace import Trace
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(A: T.Buffer((16, 8), "int32"), B: T.Buffer((16, 8), "int32")):
    for i, j in T.grid(16, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + A[vi, 0]
"""
SEEN: list[dict[str, Any]] = []


def _see(step: Any) -> Change:
    SEEN.append(dict(step.values))
    return Change()


ASK = Kind(
    "Ask",
    "ask",
    (
        Slot("block", Takes.STAGE),
        Slot("others", Takes.BLOCKS, default=None, quiet=True),
        Slot("buffer", Takes.BUFFER, default=0, attr=True),
        Slot("index", Takes.BUFFER, default=0, attr=True, side="read"),
        Slot("index_map", Takes.INDEX_MAP, default=None, of="buffer"),
        Slot("pad", Takes.EXPR, default=None, attr=True),
        Slot("scope", Takes.SCOPE, default="global", attr=True),
        Slot("ranges", Takes.REGIONS, default=None),
        Slot("numbers", Takes.INTEGERS, default=(), attr=True),
        Slot("weights", Takes.FLOATS, default=(), attr=True),
        Slot("dtype", Takes.DTYPE, default="int32", attr=True),
        Slot("axis_separators", Takes.INTEGERS, default=(), attr=True, extra=True),
    ),
    _see,
    "Ask.",
)


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = registry._loaded
    monkeypatch.setitem(registry._METHODS, "Ask", "ask")
    monkeypatch.setattr(registry, "_loaded", lambda method: ASK if method == "ask" else loaded(method))
    monkeypatch.setattr(tl.Schedule, "ask", lambda self, *args, **kwargs: self._call(ASK, args, kwargs), raising=False)


def asked(**kwargs: Any) -> tuple[Any, dict[str, Any]]:
    sch = tl.Schedule(parse(TEXT))
    sch.ask("B", **kwargs)  # type: ignore[attr-defined]
    return sch, SEEN[-1]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (0, ("read", 0)),
        (("write", 0), ("write", 0)),
        ("A", ("read", 0)),
        ("B", ("write", 0)),
    ],
)
def test_buffers(given: Any, wanted: tuple[str, int]) -> None:
    assert asked(buffer=given if given != 0 else ("read", 0))[1]["buffer"] == BufferAt(*wanted)
    func = parse(TEXT)
    sch = tl.Schedule(func)
    sch.ask("B", buffer=func.buffers[1])  # type: ignore[attr-defined]
    assert SEEN[-1]["buffer"] == ("write", 0)
    sch.ask("B", buffer=sch.buffer("A"))  # type: ignore[attr-defined]
    assert SEEN[-1]["buffer"] == ("read", 0)


def test_wrong_buffers() -> None:
    with pytest.raises(BadArgument, match=r"out of range: 1 buffers are reads there"):
        asked(index=3)
    with pytest.raises(BadArgument, match="no buffer 'X' is read or written there"):
        asked(buffer="X")
    with pytest.raises(BadArgument, match="no buffer 'B' is read there"):
        asked(index="B")
    for wrong in (("reads", 0), ("read",), ("read", "A")):
        with pytest.raises(AssertionError):
            asked(buffer=wrong)
    with pytest.raises(TypeError, match="takes a buffer"):
        asked(buffer=1.5)


def test_index_maps() -> None:
    _, seen = asked(buffer="A", index_map=lambda i, j: [j, i // 4, IndexMap.AXIS_SEPARATOR, i % 4])
    assert [one.value for one in seen["index_map"].map_indices([5, 2])] == [2, 1, 1] and seen["axis_separators"] == [2]
    _, seen = asked(buffer="A", index_map=lambda *at: at[0])
    assert len(seen["index_map"].initial_indices) == 2
    with pytest.raises(BadArgument):
        asked(buffer="A", index_map=lambda i: "x")
    with pytest.raises(TypeError, match="takes an index map"):
        asked(buffer="A", index_map=4)


def test_scopes_and_types() -> None:
    assert asked(scope="shared.dyn")[1]["scope"] == "shared.dyn"
    with pytest.raises(BadArgument, match="did you mean 'shared'"):
        asked(scope="sharde")
    with pytest.raises(BadArgument):
        asked(dtype="int31x")


def test_plain_loops_where_a_block_is_meant() -> None:
    sch = tl.Schedule(
        parse(
            TEXT.replace('        with T.block("B"):\n            vi, vj = T.axis.remap("SS", [i, j])\n', "").replace(
                "            B[vi, vj] = A[vi, vj] + A[vi, 0]", "        B[i, j] = A[i, j] + A[i, 0]"
            )
        )
    )
    sch.ask("B", buffer="A")  # type: ignore[attr-defined]
    assert SEEN[-1]["buffer"] == ("read", 0) and SEEN[-1]["block"].name == "i"


FULL: dict[str, Any] = {
    "others": ["B"],
    "buffer": ("write", 0),
    "index": 0,
    "index_map": lambda i, j: (i // 4, j),
    "pad": 1.5,
    "scope": "shared",
    "ranges": lambda vi, vj: [vi, (vj, vj + 4)],
    "numbers": [1, 2],
    "weights": [0.2, 1.0],
}


def test_tvms_text() -> None:
    sch, _ = asked(**FULL)
    assert sch.trace.as_python()[-1] == (
        'sch.ask(block=b0, others=[b1], buffer=("write", 0), index=0, index_map=lambda i, j: (i // 4, j,), pad=1.5, '
        'scope="shared", ranges=lambda vi, vj: [vi, (vj, vj + 4)], numbers=[1, 2], weights=[0.20000000000000001, 1], '
        'dtype="int32")'
    )
    assert "others" not in asked()[0].trace.as_python()[-1]


def test_json_and_our_text_are_read_back() -> None:
    sch, before = asked(**FULL)
    assert sch.trace.as_json()[0][-1][2] == [0, 1, 0, 1.5, "shared", [1, 2], [0.2, 1.0], "int32"]
    for dialect in ("tvm", "tirlower"):
        again = tl.Schedule(parse(TEXT))
        Trace.apply_json_to_schedule(json.dumps(sch.trace.as_json(dialect=dialect)), again)
        assert structural_equal(SEEN[-1]["index_map"], before["index_map"])
        assert structural_equal(
            SEEN[-1]["ranges"].final_indices[3], before["ranges"].final_indices[3], map_free_vars=True
        )
        assert {k: SEEN[-1][k] for k in ("buffer", "index", "pad", "scope", "numbers", "weights")} == {
            k: before[k] for k in ("buffer", "index", "pad", "scope", "numbers", "weights")
        }
        assert again.trace.as_python() == sch.trace.as_python()
    scope: dict[str, Any] = {}
    exec(str(sch.trace), scope)
    again = tl.Schedule(parse(TEXT))
    scope["schedule"](again)
    assert str(again.trace) == str(sch.trace)


def test_a_map_with_a_known_inverse() -> None:
    made = IndexMap.from_func(lambda i, j: [i * 8 + j], inverse_index_map=lambda k: [k // 8, k % 8])
    sch, _ = asked(buffer="A", index_map=made)
    assert (
        "index_map=tvm.tir.IndexMap.from_func(lambda i, j: (i * 8 + j,), inverse_index_map=lambda k: (k // 8, k % 8,))"
        in sch.trace.as_python()[-1]
    )
    assert "tl.ir.IndexMap.from_func(lambda i, j: [i * 8 + j]" in str(sch.trace)
