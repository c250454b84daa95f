"""Compiled graphs beside onnxruntime: a call on 16 floats, the models at full size, what compiling costs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping

import numpy as np

import tirlower.graph as tg
from bench import peers
from bench.measure import Call, Candidate, Timing, interleave, table

MODELS = ("mlp", "resnet18", "mobilenet_v2", "bert_layer", "gpt2_block", "vit_block")
LIMITS = {"resnet18": (5.0, 0.5), "bert_layer": (3.0, 0.5)}
"""Seconds that compiling may take: cold, and from the disk cache."""

_COMPILE = """
import sys, time
import numpy, onnx
from tests.graph.models import MODELS
model = MODELS[sys.argv[1]]("full")
start = time.perf_counter()
import tirlower.graph as tg
tg.compile(tg.from_onnx(model), options=tg.Options(num_threads=1))
print(time.perf_counter() - start)
"""


def _session(model: object) -> Callable[[Mapping[str, object]], object] | None:
    ort = peers.find("onnxruntime")
    if ort is None:
        return None
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, inputs)


def calls() -> dict[str, dict[str, Timing]]:
    """An addition of 16 floats: at most 2 us are asked."""
    x, y = np.ones(16, "float32"), np.ones(16, "float32")
    spec = tg.spec((16,), "float32")
    exe = tg.compile(tg.trace(lambda a, b: a + b, spec, spec))
    found: dict[str, Candidate] = {"tirlower": Call(exe, (x, y))}
    ort = peers.find("onnxruntime")
    if ort is not None:
        from onnx import TensorProto, helper

        a, b, c = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [16]) for name in "abc")
        made = helper.make_graph([helper.make_node("Add", ["a", "b"], ["c"])], "g", [a, b], [c])
        run = _session(helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=10))
        assert run is not None
        found["onnxruntime"] = lambda: run({"a": x, "b": y})
    return {"16 floats": interleave(found)}


def models(batches: tuple[int, ...] = (1, 3)) -> dict[str, dict[str, Timing]]:
    """Each model at its full size, static, one thread; results are compared before anything is timed."""
    from tests.graph.models import MODELS as builders
    from tests.graph.models import inputs

    rows: dict[str, dict[str, Timing]] = {}
    for name in MODELS:
        for batch in batches:
            model = builders[name]("full", batch=batch)
            given = inputs(model)
            exe = tg.compile(tg.from_onnx(model), options=tg.Options(num_threads=1))
            found: dict[str, Candidate] = {"tirlower": lambda exe=exe, given=given: exe(**given)}
            run = _session(model)
            if run is not None:
                _compare(f"{name}, batch {batch}", exe(**given), run(given))
                found["onnxruntime"] = lambda run=run, given=given: run(given)
            rows[f"{name}, batch {batch}"] = interleave(found, rounds=3, slice_seconds=0.1)
    return rows


def _compare(what: str, ours: object, theirs: object) -> None:
    made = list(ours.values()) if isinstance(ours, dict) else list(ours) if isinstance(ours, tuple) else [ours]
    for a, b in zip(made, theirs, strict=True):
        worst = float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30))
        if not worst < 1e-4:
            raise SystemExit(f"{what}: our result differs from onnxruntime's by {worst:.2g} of the largest value")


def compile_seconds(name: str) -> tuple[float, float]:
    """Reading and compiling a model in a fresh process: with an empty disk cache, and with what that one left there."""
    with tempfile.TemporaryDirectory() as cache:
        env = {**os.environ, "TIRLOWER_CACHE_DIR": cache}
        cold, warm = (
            float(subprocess.run([sys.executable, "-c", _COMPILE, name], env=env, capture_output=True, text=True, check=True).stdout)
            for _ in range(2)
        )  # fmt: skip
    return cold, warm


def report() -> str:
    """The tables."""
    parts = [table("a call of a graph (median; asked: 2 us)", calls())]
    parts.append(table("models, static, one thread (median; above 1x: tirlower is faster)", models()))
    lines = ["compiling a model in a fresh process, imports included (seconds)"]
    for name in MODELS:
        cold, warm = compile_seconds(name)
        asked = "  asked: {} cold, {} cached".format(*LIMITS[name]) if name in LIMITS else ""
        lines.append(f"{name:<20}{cold:8.2f} cold {warm:8.2f} cached{asked}")
    return "\n\n".join([*parts, "\n".join(lines)])
