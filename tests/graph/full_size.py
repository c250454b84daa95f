"""``python -m tests.graph.full_size``: the models at full size compute what onnxruntime and the reference say.

Each is imported with static shapes, and with dims (batches of 1, 3 and 8; the three transformers also with other sequences),
compiled as the graph stands and optimised. ``--only NAME`` (again and again) takes some of them, ``--size small`` the small ones.

The measure is the reference in float64. The error of a program may be four times that of the reference in float32, and four
units of the last place of the largest result more. Ends with 1 where one is greater.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

import tirlower.graph as tg
from tests.graph.models import MODELS, inputs
from tirlower.graph.ops.interpret import interpret

__all__ = ["Comparison", "compared", "main"]

TRANSFORMERS = ("bert_layer", "gpt2_block", "vit_block")
SIX = ("mlp", "resnet18", "mobilenet_v2", *TRANSFORMERS)
BATCHES = (1, 3, 8)
LENGTHS = {"full": (1, 37, 128), "small": (1, 5, 16)}
"""Sequences of the transformers: one token, a prime, the usual length."""


@dataclass(frozen=True)
class Comparison:
    """The greatest error of a program against the reference in float64, and what is allowed."""

    what: str
    error: float
    allowed: float

    @property
    def good(self) -> bool:
        """Whether it is within what is allowed."""
        return bool(self.error <= self.allowed)  # not where it is NaN

    def __str__(self) -> str:
        verdict = "" if self.good else "  WRONG"
        return f"{self.what:78} error {self.error:.2e}, allowed {self.allowed:.2e}{verdict}"


def judged(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """What onnxruntime gives."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, feeds)[0])


def error(result: object, exact: np.ndarray) -> float:
    """The greatest absolute error; infinite where the shapes differ."""
    found = np.asarray(result)
    return float(np.abs(found.astype(np.float64) - exact).max()) if found.shape == exact.shape else np.inf


def programs(name: str, size: str) -> Iterator[tuple[str, onnx.ModelProto, dict[str, tg.Dim], list[dict[str, int]]]]:
    """The forms of a model: what it is called, the model, its dims, and the extents of each call."""
    make = MODELS[name]
    yield f"{name}, static", make(size), {}, [{}]
    batch = tg.dim("B", 1, 64)
    yield f"{name}, dynamic batch", make(size, batch="B"), {"B": batch}, [{"batch": b} for b in BATCHES]
    if name in TRANSFORMERS:
        dims = {"B": batch, "S": tg.dim("S", 1, 512)}
        calls = [{"batch": 2, "S": length} for length in LENGTHS[size]]
        for shapes in ("literal", "computed"):
            made = make(size, batch="B", sequence="S", shapes=shapes)
            yield f"{name}, dynamic sequence, {shapes} shapes", made, dims, calls


def compared(name: str, size: str = "full") -> Iterator[Comparison]:
    """All comparisons of a model."""
    for what, model, dims, calls in programs(name, size):
        graph = tg.from_onnx(model, dims=dims)
        exes = {
            "as it stands": tg.compile(graph, options=tg.Options(optimize=False, num_threads=1)),
            "optimised": tg.compile(graph, options=tg.Options(num_threads=1)),
        }
        for extents in calls:
            feeds = inputs(model, **extents)
            exact = np.asarray(interpret(graph, *feeds.values(), precise=True))
            reference = error(interpret(graph, *feeds.values()), exact)
            ulp = 4 * float(np.spacing(np.float32(np.abs(exact).max(initial=0))))
            allowed = 4 * reference + ulp
            shown = ", ".join(f"{k} {v}" for k, v in extents.items())
            where = f"{what}{', ' if shown else ''}{shown}"
            theirs = judged(model, feeds)
            # That the judge is as near to the same numbers shows that it is the same model; its sums have another order.
            yield Comparison(f"{where}: onnxruntime", error(theirs, exact), 4 * allowed)
            for how, exe in exes.items():
                yield Comparison(f"{where}: {how}", error(exe(*feeds.values()), exact), allowed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print, and say whether all is well."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", action="append", choices=SIX, help="this model (again and again)")
    parser.add_argument("--size", choices=("full", "small"), default="full")
    args = parser.parse_args(arguments)
    wrong = 0
    for name in args.only or SIX:
        start = time.perf_counter()
        for one in compared(name, args.size):
            print(one, flush=True)
            wrong += not one.good
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    print(f"{wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
