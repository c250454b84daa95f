"""The command that compares models at full size: run on a small one, and that it would see an error."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the models are built by the onnx package (extra `graph`)")
pytest.importorskip("onnxruntime", reason="onnxruntime runs the models, as an independent judge")

from tests.graph import full_size
from tests.graph.models import MODELS


def test_a_small_model_is_right_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert full_size.main(["--size", "small", "--only", "mlp"]) == 0
    shown = capsys.readouterr().out
    for form in (
        "static: as it stands",
        "static: optimised",
        *(f"dynamic batch, batch {b}: optimised" for b in (1, 3, 8)),
    ):
        assert f"mlp, {form} " in shown
    assert "WRONG" not in shown


def test_a_wrong_result_is_seen(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    right = full_size.judged
    monkeypatch.setattr(full_size, "judged", lambda model, feeds: right(model, feeds) + np.float32(1e-3))
    assert full_size.main(["--size", "small", "--only", "mlp"]) == 1
    assert capsys.readouterr().out.count("WRONG") == 4


def test_the_measure() -> None:
    assert full_size.error(np.zeros(3), np.array([0.0, -2.0, 1.0])) == 2
    assert full_size.error(np.zeros((1, 3)), np.zeros(3)) == np.inf
    assert not full_size.Comparison("NaN", float("nan"), 1.0).good
    assert full_size.Comparison("alike", 1.0, 1.0).good
    assert set(full_size.SIX) == MODELS.keys() - {"small_cnn"}


def test_forms_of_a_transformer_have_a_dynamic_sequence() -> None:
    forms = list(full_size.programs("vit_block", "small"))
    assert [sorted(dims) for _, _, dims, _ in forms] == [[], ["B"], ["B", "S"], ["B", "S"]]
    assert [call["S"] for call in forms[-1][3]] == [1, 5, 16]
