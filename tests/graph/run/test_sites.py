"""Where kernels are called in `main`, and what each is given there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg
from tirlower.graph.errors import GraphError
from tirlower.graph.run.sites import Arguments, Site, marked, sites_of, written_by
from tirlower.ir import verify_well_formed
from tirlower.ir.expr import Call


def program(x: Any) -> Any:
    y = np.exp(x) @ x
    return y.sum(axis=0), np.exp(x) + y


def executable() -> tg.Executable:
    return tg.compile(tg.trace(program, tg.spec((tg.dim("N", 1, 9), tg.dim("N", 1, 9)), "float32")))


def test_a_kernel_called_twice_has_two_sites_in_order() -> None:
    twice = tg.compile(tg.trace(lambda x: np.exp(np.exp(x)), tg.spec((4,), "float32")))
    assert [(site.number, site.kernel) for site in sites_of(twice.module)] == [(1, "exp_4"), (2, "exp_4")]


def test_marks_change_nothing_that_main_computes() -> None:
    exe = tg.compile(tg.trace(program, tg.spec((3, 3), "float32")))
    module = marked(exe.module)
    verify_well_formed(module)
    text = module["main"].script()
    calls = len(sites_of(exe.module))
    assert text.count("start_profile_intrinsic") == text.count("end_profile_intrinsic") == calls
    assert sites_of(module) != () and [s.kernel for s in sites_of(module)] == [s.kernel for s in sites_of(exe.module)]
    x = np.random.default_rng(0).random((3, 3), "float32")
    results: list[Any] = [np.empty(3, "float32"), np.empty((3, 3), "float32")]
    tl.build(module)["main"](x, *results, tl.aligned_empty((exe.plan.arena + 64,), "uint8"))
    for got, wanted in zip(results, program(x), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_kernels_write_their_results_alone() -> None:
    exe = tg.compile(tg.trace(lambda x: (x @ x, x.sum(axis=1)), tg.spec((3, 3), "float32")))
    for kernel in exe.kernels.values():
        assert [b.name for b in written_by(kernel.func)] == ["out"]


def test_what_is_no_array_of_the_call_is_an_error() -> None:
    exe = tg.compile(tg.trace(lambda x: x + 1, tg.spec((4,), "float32")))
    other = tg.compile(tg.trace(lambda x: x + 1, tg.spec((4,), "float32")))
    given = Arguments(exe.module, [np.zeros(4, "float32"), np.zeros(4, "float32"), np.zeros(64, "uint8")])
    site = sites_of(exe.module)[0]
    assert [a.shape for part in given.views(site) for a in part] == [(4,), (4,)]
    foreign = sites_of(other.module)[0].call
    assert isinstance(foreign, Call)
    with pytest.raises(GraphError, match="no array of a call"):
        given.views(Site(1, site.kernel, foreign))
