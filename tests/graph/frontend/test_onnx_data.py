"""Data in files beside a model: read whole, from the model's folder alone, whoever changes it meanwhile or later."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models are read by the onnx package (extra `graph`)")

import onnx
from onnx import TensorProto, helper

import tirlower.graph as tg
from tirlower.graph.frontend import onnx_data
from tirlower.graph.ops.interpret import interpret


def with_weights(weights: TensorProto) -> onnx.ModelProto:
    """x + w."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "outside", [x], [y], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def outside(folder: Path, location: str, **entries: str) -> Path:
    """A model whose weights stand in another file."""
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    weights.dims.extend([2, 3])
    for key, value in {"location": location, **entries}.items():
        weights.external_data.add(key=key, value=value)
    path = folder / "model.onnx"
    path.write_bytes(with_weights(weights).SerializeToString())
    return path


def test_data_in_the_models_folder_is_read(tmp_path: Path) -> None:
    w = np.arange(6, dtype=np.float32).reshape(2, 3)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "w.bin").write_bytes(b"\0" * 3 + w.tobytes())
    graph = tg.from_onnx(outside(tmp_path, "below/w.bin", offset="3", length="24"))
    np.testing.assert_array_equal(interpret(graph, np.ones((2, 3), np.float32)), w + 1)


@pytest.mark.parametrize(
    "location",
    ["../secret.bin", "below/../../secret.bin", "{root}/secret.bin", "link.bin", "linked/secret.bin", "", ".", "none.bin",
     "C:/secret.bin", "..\\secret.bin", "model\0.onnx", "fifo", "x" * 300, "a/" * 3000 + "b", "w.bin\n"],
)  # fmt: skip
def test_data_elsewhere_is_not_read(tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret.bin").write_bytes(b"\0" * 24)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "linked").symlink_to(tmp_path)
    os.mkfifo(folder / "fifo")
    path = outside(folder, location.format(root=tmp_path))
    opened: list[object] = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda name, *rest, **more: (opened.append(name), real(name, *rest, **more))[1])
    with pytest.raises(tg.GraphError, match="nothing is read"):
        tg.from_onnx(path)
    assert opened == []


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"offset": "8"}, "ends at byte 32"),
        ({"offset": "-4"}, "is a number of bytes"),
        ({"length": "1e9"}, "is a number of bytes"),
        ({"length": "12"}, "has 24 bytes, stated are 12"),
    ],
)
def test_places_beyond_the_data_are_refused(tmp_path: Path, entries: dict[str, str], message: str) -> None:
    (tmp_path / "w.bin").write_bytes(b"\0" * 24)
    with pytest.raises(tg.GraphError, match=message):
        tg.from_onnx(outside(tmp_path, "w.bin", **entries))


def test_whoever_changes_the_data_later_changes_no_model(tmp_path: Path) -> None:
    """A mapped file would end the process (bus error) where it was shortened, and give other numbers where written."""
    w = np.arange(6, dtype=np.float32).reshape(2, 3)
    (tmp_path / "w.bin").write_bytes(w.tobytes())
    graph = tg.from_onnx(outside(tmp_path, "w.bin"))
    exe = tg.compile(graph)
    (tmp_path / "w.bin").write_bytes(b"\1" * 24)
    np.testing.assert_array_equal(interpret(graph, np.ones((2, 3), np.float32)), w + 1)
    os.truncate(tmp_path / "w.bin", 0)
    np.testing.assert_array_equal(interpret(graph, np.ones((2, 3), np.float32)), w + 1)
    np.testing.assert_array_equal(exe(np.ones((2, 3), np.float32)), w + 1)


def test_a_file_that_shrinks_while_it_is_read_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w.bin").write_bytes(b"\0" * 24)
    path = outside(tmp_path, "w.bin")

    def shortened(descriptor: int) -> os.stat_result:
        status = os.stat(descriptor)
        os.truncate(tmp_path / "w.bin", 12)
        return status

    monkeypatch.setattr(os, "fstat", shortened)
    with pytest.raises(tg.GraphError, match="was shortened meanwhile"):
        tg.from_onnx(path)


def test_a_link_in_place_of_a_checked_file_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "w.bin").write_bytes(b"\0" * 24)
    path = outside(tmp_path, "w.bin")
    real = onnx_data._inside

    def swapped(*args: object) -> Path:
        found = real(*args)
        found.unlink()
        found.symlink_to("/etc/hostname")
        return found

    monkeypatch.setattr(onnx_data, "_inside", swapped)
    with pytest.raises(tg.GraphError, match="cannot be read"):
        tg.from_onnx(path)


def test_a_file_of_holes_longer_than_memory_is_refused(tmp_path: Path) -> None:
    """Such a file costs its maker a few bytes; reading it would end the process for want of memory."""
    extent = 2**40
    with open(tmp_path / "w.bin", "wb") as file:
        try:
            file.truncate(4 * extent)
        except OSError:
            pytest.skip("files of holes are shorter here")
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    weights.dims.extend([extent])
    weights.external_data.add(key="location", value="w.bin")
    path = tmp_path / "model.onnx"
    path.write_bytes(with_weights(weights).SerializeToString())
    with pytest.raises(tg.GraphError, match="more than the memory of this process"):
        tg.from_onnx(path)


def test_data_outside_needs_a_folder(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"\0" * 24)
    loaded = onnx.load(outside(tmp_path, "w.bin"), load_external_data=False)
    with pytest.raises(tg.GraphError, match="has no folder"):
        tg.from_onnx(loaded)
