"""Reports of compiled graphs."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg


def test_the_report_counts_kernels_calls_and_bytes() -> None:
    w = np.ones((8, 8), "float32")
    n = tg.dim("N", 1, 64, hints=(4,))
    exe = tg.compile(tg.trace(lambda x: (np.maximum(x @ w, 0) @ w).sum(), tg.spec((n, 8), "float32")))
    report = exe.report()
    assert report.dims == {"N": 4}
    assert [(row.name, row.calls) for row in report.kernels] == [
        ("matmul_Nx8", 2),
        ("maximum_Nx8", 1),
        ("sum_scalar", 1),
    ]
    product = report.kernels[0].cost
    assert (product.flops, product.read, product.written) == (2 * 4 * 64, (32 + 64) * 4, 32 * 4)
    assert report.constants == 256 and report.checked == ("1 <= N <= 64",)
    assert exe.report(N=8).flops > report.flops >= 2 * product.flops
    lines = str(report).splitlines()
    assert lines[0].startswith("main: 4 kernels (3 distinct), ") and "at N = 4, arena 0.4 KB" in lines[0]
    assert lines[1].split() == ["kernel", "calls", "MFLOP", "read", "KB", "written", "KB", "scratch", "from"]
    assert "test_report.py:" in lines[2] and lines[-1] == "checked at the entry: 1 <= N <= 64"
    with pytest.raises(tl.ArgumentTypeError, match="no dim 'M'"):
        exe.report(M=1)


def test_what_is_assumed_of_extents_is_in_the_report() -> None:
    a, b = tg.dim("A", 1, 8), tg.dim("B", 1, 8)
    exe = tg.compile(tg.trace(lambda x, y: x @ y, tg.spec((2, a), "float32"), tg.spec((b, 2), "float32")))
    assert exe.report().checked == ("1 <= A <= 8", "1 <= B <= 8", "A == B")
