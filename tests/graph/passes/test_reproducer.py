"""The file that shows a wrong pass: constants and inputs of every dtype come back as they were."""

import runpy

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg
from tirlower.graph.passes.reproducer import write_graph_reproducer
from tirlower.graph.passes.shrink import GraphCase


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int8", "uint64", "bool"])
def test_the_file_has_the_graph_and_its_inputs(dtype, tmp_path):
    kind = tl.ir.DataType(dtype).numpy
    weights = np.arange(6).astype(kind).reshape(2, 3)
    b = tg.GraphBuilder("f")
    x = b.param("x", (2, 3), dtype)
    graph = b.finish(b.op("where", b.op("equal", x, weights), x, weights))
    inputs = (np.zeros((2, 3), kind),)
    with tl.PassContext(config={"tir.validate.reproducer_dir": str(tmp_path)}) as ctx:
        path = write_graph_reproducer(GraphCase(graph, inputs), tg.passes.DCE(), graph, 'it """did" nothing', ctx)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path))
    assert ended.value.code == 0  # nothing differs
