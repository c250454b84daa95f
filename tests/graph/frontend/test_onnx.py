"""Models of ONNX are imported: every operator's cases against their judge, the small models against onnxruntime."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models are read by the onnx package (extra `graph`)")
ort = pytest.importorskip("onnxruntime", reason="onnxruntime runs the models, as an independent judge")

import tirlower.graph as tg  # noqa: E402
from tests.graph.models import MODELS, inputs  # noqa: E402
from tests.graph.onnx_cases.case import Case, judge  # noqa: E402
from tests.graph.onnx_cases.table import CASES  # noqa: E402
from tests.graph.test_onnx_cases import TABLE  # noqa: E402
from tests.sampling import by_day  # noqa: E402
from tirlower.graph.api import compile as compiled  # noqa: E402
from tirlower.graph.frontend.onnx_ops.table import row_of  # noqa: E402
from tirlower.graph.ops.interpret import interpret  # noqa: E402

pytestmark = pytest.mark.by_day

ROUNDINGS = 64
"""How many roundings apart a result may be: each operation of a macro, and the sums of a few hundred terms, round."""
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
LEAST = {"float64": 1e-6}
"""Attributes are float32 whatever the operands are, and onnxruntime computes some functions of float64 in float32."""


def compare(results: object, expected: list[np.ndarray]) -> None:
    """Integers and bools alike; floats within roundings of their own size, or of the largest element's."""
    made = list(results) if isinstance(results, tuple) else [results]
    assert len(made) == len(expected)
    for got, want in zip(made, expected, strict=True):
        assert isinstance(got, np.ndarray)
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        if want.dtype.kind in "biu":
            np.testing.assert_array_equal(got, want)
            continue
        close = max(ROUNDINGS * EPSILON[want.dtype.name], LEAST.get(want.dtype.name, 0.0))
        exact = want.astype(np.float64)
        size = np.abs(exact[np.isfinite(exact)]).max(initial=1.0)
        size = min(size, 1e4)  # the greatest finite number among small ones says nothing about those
        np.testing.assert_allclose(got.astype(np.float64), exact, rtol=close, atol=close * size)


NOT_YET: dict[str, tuple[str, ...]] = {
    "training": ("BatchNormalization-15-training", "Dropout-22-training_without_loss"),
    "opsets before 7": ("Clip-6-limits_as_attributes",),
}
"""Why cases are not imported yet, and which: names of cases, or operators. It shrinks to nothing."""
WAITING = {name for names in NOT_YET.values() for name in names}


def waits(given: Case) -> bool:
    return given.name in WAITING or given.op in WAITING


BY_DATA = {
    "Compress-11-axis_1": 1,
    "NonZero-13-int64": 1,
    "NonZero-9-NaN_and_zeros": 1,
    "NonZero-13-bool": 1,
    "NonZero-13-none": 1,
}
"""Cases of a result whose extent depends on data, and the axis of it."""


def imported(given: Case, more: int = 2) -> tg.Graph:
    """With room for some elements more than there are, where their number depends on data."""
    if given.name not in BY_DATA:
        return tg.from_onnx(given.model())
    return tg.from_onnx(given.model(), bounds={"y0": judge(given)[0].shape[BY_DATA[given.name]] + more})


def whole(results: object, given: Case) -> object:
    """The results as far as there are elements, once it is looked at that zeros stand behind them."""
    if given.name not in BY_DATA:
        return results
    assert isinstance(results, tuple)
    found, count = results
    held, rest = np.split(found, [int(count)], BY_DATA[given.name])
    assert rest.shape[BY_DATA[given.name]] == 2
    assert not rest.any()
    return held


@pytest.mark.parametrize("name", BY_DATA)
def test_an_extent_that_depends_on_data_wants_a_bound(name: str) -> None:
    given = CASES[name]
    with pytest.raises(tg.GraphError, match=r"bounds=\{'y0': n\}"):
        tg.from_onnx(given.model())
    with pytest.raises(tg.GraphError, match=r"'y1', which is no tensor[\s\S]*such are 'y0'"):
        tg.from_onnx(given.model(), bounds={"y0": 1, "y1": 1})
    cut = interpret(tg.from_onnx(given.model(), bounds={"y0": 1}), *given.feeds().values())
    assert isinstance(cut, tuple)
    want, axis = judge(given)[0], BY_DATA[name]
    assert cut[0].shape[axis] == 1
    assert cut[1] == want.shape[axis]  # the number of all, also of those for which there is no room
    np.testing.assert_array_equal(
        cut[0].take(range(min(1, want.shape[axis])), axis), want.take(range(min(1, want.shape[axis])), axis)
    )


READY = [name for name, given in CASES.items() if not waits(given)]


def test_every_operator_of_the_table_is_imported_in_three_cases() -> None:
    ready = Counter(CASES[name].op for name in READY)
    operators = [op for text in TABLE.values() for op in text.split()]
    assert len(operators) == len(set(operators)) > 150
    assert {op: ready[op] for op in operators if row_of(op) is None or ready[op] < 3} == {}


@pytest.mark.parametrize("name", READY)
def test_a_case_computes_what_its_judge_says(name: str) -> None:
    given = CASES[name]
    with np.errstate(all="ignore"):
        compare(whole(interpret(imported(given), *given.feeds().values()), given), judge(given))


@pytest.mark.parametrize("name", [name for name, given in CASES.items() if waits(given)])
def test_a_case_that_waits_is_refused_by_a_graph_error(name: str) -> None:
    """Else it leaves the list."""
    with pytest.raises(tg.GraphError):
        tg.from_onnx(CASES[name].model())


@pytest.mark.parametrize("name", by_day(list({CASES[name].op: name for name in reversed(READY)}.values())[::-1]))
def test_one_case_of_each_operator_is_compiled(name: str) -> None:
    given = CASES[name]
    compare(whole(compiled(imported(given))(*given.feeds().values()), given), judge(given))


# Whole models


def run(model: object, feeds: dict[str, np.ndarray]) -> np.ndarray:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, feeds)[0])


@pytest.mark.parametrize("name", MODELS)
def test_a_small_model_computes_what_onnxruntime_does(name: str) -> None:
    model = MODELS[name]("small")
    feeds = inputs(model)
    np.testing.assert_allclose(interpret(tg.from_onnx(model), *feeds.values()), run(model, feeds), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.by_day
def test_a_dynamic_batch_is_one_dim(name: str) -> None:
    model = MODELS[name]("small", batch="N")
    B = tg.dim("B", 1, 64)
    graph = tg.from_onnx(model, dims={"N": B})
    assert [d.name for d in graph.dims] == ["B"]
    assert graph.params[0].shape[0] is B.var
    assert graph.results[0].shape[0] is B.var
    assert not graph.assumed
    for batch in (1, 3, 8):
        feeds = inputs(model, batch=batch)
        np.testing.assert_allclose(interpret(graph, *feeds.values()), run(model, feeds), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["mlp", "small_cnn"])
def test_a_small_model_is_compiled(name: str) -> None:
    model = MODELS[name]("small", batch="B")
    call = compiled(tg.from_onnx(model, dims={"B": tg.dim("B", 1, 64)}))
    for batch in (1, 3, 8):
        feeds = inputs(model, batch=batch)
        np.testing.assert_allclose(call(*feeds.values()), run(model, feeds), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shapes", ["literal", "computed"])
@pytest.mark.parametrize("name", ["bert_layer", "gpt2_block", "vit_block"])
@pytest.mark.by_day
def test_a_dynamic_sequence_is_imported(name: str, shapes: str) -> None:
    model = MODELS[name]("small", batch="B", sequence="S", shapes=shapes)
    graph = tg.from_onnx(model)
    for length in (1, 5, 16):
        feeds = inputs(model, batch=2, S=length)
        np.testing.assert_allclose(interpret(graph, *feeds.values()), run(model, feeds), rtol=1e-4, atol=1e-5)
