"""Hooks around kernels: they see what the reference computes at each node."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import tirlower.graph as tg


def program(x: Any, w: Any) -> Any:
    y = np.maximum(x @ w, 0)
    return np.concatenate([y, y * 2], axis=1).sum(axis=1), np.arange(3) + y.argmax(axis=1)


def executable(rows: object) -> tg.Executable:
    return tg.compile(tg.trace(program, tg.spec((rows, 4), "float32"), np.eye(4, 5, dtype="float32")))


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_hook_sees_what_each_kernel_reads_and_writes(dynamic: bool) -> None:
    exe = executable(tg.dim("N", 3, 3) if dynamic else 3)
    x = np.random.default_rng(1).standard_normal((3, 4), dtype="float32")
    seen: dict[str, tuple[list[Any], list[Any]]] = {}

    def hook(kernel: Any, inputs: Any, outputs: Any) -> None:
        seen[kernel.name.split("_")[0]] = [a.copy() for a in inputs], [a.copy() for a in outputs]

    with exe.trace(hook):
        results = exe(x)
    product = x @ np.eye(4, 5, dtype="float32")
    np.testing.assert_allclose(seen["matmul"][1][0], product)
    np.testing.assert_array_equal(seen["maximum"][0][0], seen["matmul"][1][0])
    np.testing.assert_array_equal(seen["maximum"][1][0], np.maximum(product, 0))
    assert [a.shape for a in seen["concat"][0]] == [(3, 5), (3, 5)]
    np.testing.assert_array_equal(seen["sum"][1][0], results[0])
    assert set(seen) == {"matmul", "maximum", "multiply", "concat", "sum", "max", "add"}
    seen.clear()
    again = exe(x)
    assert not seen and all(np.array_equal(a, b) for a, b in zip(results, again, strict=True))


def test_what_a_hook_raises_is_raised_by_the_call_and_the_hook_ends_with_its_block() -> None:
    exe = executable(3)
    x = np.ones((3, 4), "float32")
    calls = []

    def hook(kernel: Any, inputs: Any, outputs: Any) -> None:
        calls.append(kernel.name)
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"), exe.trace(hook):
        exe(x)
    assert len(calls) == 1
    exe(x)
    exe.trace(hook)
    with pytest.raises(ValueError, match="enough"):
        exe(x)
    exe.trace(None)
    exe(x)
    assert len(calls) == 2


def test_two_threads_see_their_own_calls() -> None:
    exe = executable(3)
    wrong: list[str] = []

    def work(number: int) -> None:
        x = np.full((3, 4), number, "float32")

        def hook(kernel: Any, inputs: Any, outputs: Any) -> None:
            if kernel.name.startswith("matmul") and inputs[0].tolist() != x.tolist():
                wrong.append(f"{inputs[0].tolist()} in thread {number}")

        mine = executable(3)
        with mine.trace(hook):
            for _ in range(20):
                if mine(x)[0].tolist() != exe(x)[0].tolist():
                    wrong.append(f"result of thread {number}")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


def test_empty_values_and_half_precision_are_seen() -> None:
    exe = tg.compile(tg.trace(lambda x: (x + x) * x, tg.spec((tg.dim("N", 0, 4), 3), "bfloat16")))
    shapes: list[Any] = []
    with exe.trace(lambda kernel, inputs, outputs: shapes.append((outputs[0].shape, str(outputs[0].dtype)))):
        for rows in (0, 2):
            exe(np.ones((rows, 3), "float32").astype(exe.graph.params[0].dtype.numpy))
    assert shapes == [((0, 3), "bfloat16")] * 2 + [((2, 3), "bfloat16")] * 2


def test_a_process_that_finds_the_marked_driver_in_the_disk_cache_traces_too(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIRLOWER_CACHE_DIR", str(tmp_path))
    program = (
        "import sys, numpy as np, tirlower.graph as tg\n"
        "exe = tg.compile(tg.trace(lambda x: np.exp(x), tg.spec((3,), 'float32')))\n"
        "with exe.trace(lambda kernel, inputs, outputs: print(kernel.name, outputs[0].tolist())):\n"
        "    exe(np.zeros(3, 'float32'))"
    )
    for _ in range(2):
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
        assert ran.stdout == "exp_3 [1.0, 1.0, 1.0]\n", ran


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_option_prints_inputs_before_and_outputs_behind_each_kernel(dynamic: bool, capsys: Any) -> None:
    rows = tg.dim("N", 1, 3) if dynamic else 2
    graph = tg.trace(lambda x: (np.negative(x + 1), x[:0]), tg.spec((rows, 2), "float32"))
    exe = tg.compile(graph, options=tg.Options(trace=True, optimize=False))
    y, z = exe(np.array([[1, 2], [3, 4]], "float32"))
    assert y.tolist() == [[-2, -3], [-4, -5]] and z.shape == (0, 2)
    lines = capsys.readouterr().err.splitlines()
    told = [line.removeprefix("== ") for line in lines if line.startswith("== ")]
    kernels = [name.split(":")[0] for name in told]
    assert kernels[::2] == kernels[1::2] and [name.split(": ")[1] for name in told] == ["inputs", "outputs"] * 3
    first = [name.split("_")[0] for name in kernels[::2]]
    assert sorted(first) == ["add", "negative", "slice"] and first.index("add") < first.index("negative")
    at = lines.index(f"== {kernels[2 * first.index('negative')]}: inputs")
    text = "\n".join(lines[at:])
    assert text.startswith(lines[at] + "\nfloat32[2, 2] [[2., 3.],\n [4., 5.]]\n== negative")
    assert "outputs\nfloat32[2, 2] [[-2., -3.],\n [-4., -5.]]" in text and "float32[0, 2] []" in "\n".join(lines)
    seen: list[str] = []
    with exe.trace(lambda kernel, inputs, outputs: seen.append(kernel.name)):
        exe(np.ones((2, 2), "float32"))
    assert seen == kernels[::2] and not capsys.readouterr().err
    exe(np.ones((2, 2), "float32"))
    assert len(capsys.readouterr().err) > 100


def test_states_of_an_executable_that_prints(capsys: Any) -> None:
    total = tg.state("total", (), "int64", 2)

    def add_up(x: Any) -> Any:
        total.store(total.load() + x)
        return total.load()

    exe = tg.compile(tg.trace(add_up, tg.spec((), "int64")), options=tg.Options(trace=True))
    assert [int(exe(1)), int(exe(4))] == [3, 7] and exe.state["total"].item() == 7  # type: ignore[call-overload]
    exe.reset()
    assert int(exe(1)) == 3  # type: ignore[call-overload]
    told = capsys.readouterr().err
    assert told.count(": inputs") == told.count(": outputs") > 2
