"""Random graphs with fixed seeds, and wrong passes that they find; ``python -m tests.graph.fuzz`` runs any number."""

from __future__ import annotations

import pytest

from tests.graph.fuzz.faults import FAULTS, Fault
from tests.graph.fuzz.generate import generate
from tests.graph.fuzz.runner import POOL, Failure, Report, run_one
from tirlower.graph.core.analysis import inner_graphs
from tirlower.graph.core.control import If, While
from tirlower.graph.core.effects import Load, Store
from tirlower.graph.core.nodes import Const
from tirlower.ir.structural import structural_equal


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.nightly) for first in (20, 40, 60, 80, 100))]
)
def test_random_graphs_through_random_passes(first: int) -> None:
    report = Report()
    for seed in range(first, first + 20):
        run_one(seed, native=seed % 50 == 7, report=report)  # raises a Failure where a pass is wrong
    assert report.count == 20 and len(report.passes) > 3


@pytest.mark.parametrize("seed", [201005, 202134, 310064])
def test_types_of_what_reads_a_replaced_slice_are_inferred_again(seed: int) -> None:
    run_one(seed)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_wrong_pass_is_found_and_named(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.plant(monkeypatch)
    pool = [pass_ for pass_ in POOL if pass_.info.name == fault.guilty]
    with pytest.raises(Failure) as caught:
        for seed in range(fault.seed, fault.seed + 200):
            run_one(seed, pool=pool)
    assert caught.value.guilty == fault.guilty and f"seed {caught.value.seed}:" in str(caught.value)


def test_a_seed_makes_one_graph_and_all_that_is_promised_occurs() -> None:
    several = [generate(seed) for seed in range(60)]
    assert all(structural_equal(graph, generate(seed)) for seed, graph in enumerate(several[:10]))
    values = [v for g in several for v in (*g.params, *(v for n in g.nodes for v in n.results))]
    kinds = {str(v.dtype) for v in values}
    assert kinds >= {"bool", "int8", "int64", "uint8", "uint64", "float16", "bfloat16", "float32", "float64"}
    extents = {e for v in values for e in v.shape if isinstance(e, int)}
    assert {0, 1, 5} <= extents and any(not isinstance(e, int) for v in values for e in v.shape)
    assert {"reshape", "transpose", "slice", "concat", "split", "matmul", "softmax", "sum", "cast", "where"} <= {
        op.name for g in several for op in g.ops
    }
    inside = [n for g in several for one in (g, *inner_graphs(g)) for n in one.nodes]
    assert {If, While, Load, Store} <= {type(n) for n in inside}
    assert any(n.graphs for g in several for one in inner_graphs(g) for n in one.nodes)
    assert any(isinstance(n, Const) and n.data.value is None for g in several for n in g.nodes)
    assert max(len(g.ops) for g in several) > 40
