"""How long compiling takes: import, cold, the second kernel, from the disk cache, a fresh process, each pass."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time

import numpy as np

from bench import peers

KERNELS = """
    import numpy as np
    import tirlower as tl
    from tirlower.script import tir as T

    def matmul(n):
        @T.prim_func
        def matmul(A: T.Buffer((n, n), "float32"), B: T.Buffer((n, n), "float32"), C: T.Buffer((n, n), "float32")):
            for i, j, k in T.grid(n, n, n):
                with T.block("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] += A[vi, vk] * B[vk, vj]
        return matmul

    def softmax(n):
        @T.prim_func
        def softmax(X: T.Buffer((n, n), "float32"), Y: T.Buffer((n, n), "float32")):
            for i in range(n):
                m = T.alloc_buffer((1,), "float32", scope="local")
                s = T.alloc_buffer((1,), "float32", scope="local")
                m[0] = T.min_value("float32")
                for j in range(n):
                    m[0] = T.max(m[0], X[i, j])
                s[0] = T.float32(0)
                for j in range(n):
                    Y[i, j] = T.exp(X[i, j] - m[0])
                    s[0] += Y[i, j]
                for j in range(n):
                    Y[i, j] = Y[i, j] / s[0]
        return softmax

    def saxpy(n):
        @T.prim_func
        def saxpy(X: T.Buffer((n,), "float32"), Y: T.Buffer((n,), "float32"), a: T.float32):
            for i in range(n):
                Y[i] = a * X[i] + Y[i]
        return saxpy

    def arrays(*shapes):
        return [np.ones(s, np.float32) for s in shapes]
"""


def _python(code: str, cache: str, repeat: int = 5) -> list[list[float]]:
    """Run a script in fresh processes; each prints numbers on its last line."""
    env = _environment(cache)
    script = _script(code, cache)
    rows = []
    for _ in range(repeat):
        out = subprocess.run([sys.executable, script], capture_output=True, text=True, env=env, check=True)
        rows.append([float(x) for x in out.stdout.strip().splitlines()[-1].split()])
    return rows


def _environment(cache: str) -> dict[str, str]:
    paths = [os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "TIRLOWER_CACHE_DIR": cache, "PYTHONPATH": os.pathsep.join(paths)}


def _script(code: str, folder: str) -> str:
    """A file with the code: decorated functions are read from their source."""
    path = os.path.join(folder, "script.py")
    with open(path, "w") as file:
        file.write(code)
    return path


def _median(rows: list[list[float]]) -> list[float]:
    return [statistics.median(column) for column in zip(*rows, strict=True)]


def import_time() -> float:
    """Milliseconds that importing all of tirlower that a build needs adds to NumPy and llvmlite."""
    code = (
        "import time, numpy, llvmlite.binding; t = time.perf_counter(); import tirlower as tl; "
        "tl.build, tl.interpret, tl.PassContext; from tirlower.script import tir; print((time.perf_counter() - t) * 1e3)"
    )
    with tempfile.TemporaryDirectory() as cache:
        return _median(_python(code, cache))[0]


def in_process() -> dict[str, float]:
    """Milliseconds from script to first result in a warm process: cold, second kernel, from the disk cache."""
    code = textwrap.dedent(KERNELS) + textwrap.dedent("""
        import time
        tl.build(saxpy(8))                                  # packages imported, engine made
        tl.build(softmax(8), schedule="auto")               # and the scheduler
        def whole(factory, n, shapes, schedule):
            args = arrays(*shapes)
            start = time.perf_counter()
            tl.build(factory(n), schedule=schedule)(*args)
            return (time.perf_counter() - start) * 1e3
        n = 64
        kernels = (matmul, [(n, n)] * 3), (softmax, [(n, n)] * 2)
        print(*(whole(make, n, shapes, schedule) for schedule in ("auto", "none") for make, shapes in kernels))
    """)
    rows, warm = [], []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as cache:
            rows += _python(code, cache, 1)
            warm += _python(code, cache, 1)
    cold, second, as_written, second_as_written = _median(rows)
    cached, *_ = _median(warm)
    return {
        "matmul, cold": cold,
        "softmax, second kernel": second,
        "matmul as written, cold": as_written,
        "softmax as written": second_as_written,
        "matmul, from the disk cache": cached,
    }


def fresh_process() -> dict[str, float]:
    """Milliseconds from the start of a process to the result of its third kernel, and to its end, cold and from the disk cache."""
    code = textwrap.dedent(KERNELS) + textwrap.dedent("""
        n = 64
        tl.build(matmul(n))(*arrays((n, n), (n, n), (n, n)))
        tl.build(softmax(n))(*arrays((n, n), (n, n)))
        tl.build(saxpy(n))(*arrays(n, n), 2.0)
        import time
        print(time.time())
    """)

    def run(cache: str) -> tuple[float, float]:
        script, env = _script(code, cache), _environment(cache)
        start = time.time()
        done = subprocess.run([sys.executable, script], env=env, check=True, capture_output=True, text=True)
        return (float(done.stdout) - start) * 1e3, (time.time() - start) * 1e3

    cold, warm = [], []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(run(cache))
            warm.append(run(cache))
    return {
        "process to third kernel, cold": statistics.median([kernels for kernels, _ in cold]),
        "process to third kernel, cached": statistics.median([kernels for kernels, _ in warm]),
        "process to its end, cold": statistics.median([whole for _, whole in cold]),
        "process to its end, cached": statistics.median([whole for _, whole in warm]),
    }


def tensor_cores() -> float:
    """Milliseconds from script to PTX of the example's tensor-core matmul of 4096 rows, imports done, nothing cached."""
    code = textwrap.dedent("""
        import time
        import tirlower as tl
        from examples.gpu.matmul_bf16 import tensor_core_matmul
        from examples.gpu.vector_add import vector_add
        tl.build(vector_add(1024), target="nvptx -arch=sm_80")
        start = time.perf_counter()
        tl.build(tensor_core_matmul(4096, 4096, 4096), target="nvptx -arch=sm_80").source("ptx")
        print((time.perf_counter() - start) * 1e3)
    """)
    rows = []
    for _ in range(5):
        with tempfile.TemporaryDirectory() as cache:
            rows += _python(code, cache, 1)
    return _median(rows)[0]


def numba_cold() -> dict[str, float]:
    """Milliseconds of Numba's first call of the naive matmul and of the softmax, packages imported."""
    if peers.numba() is None:
        return {}
    code = textwrap.dedent("""
        import time, numpy as np, numba as nb
        nb.njit(lambda x: x + 1)(1.0)
        a, b, c = (np.ones((64, 64), np.float32) for _ in range(3))
        @nb.njit
        def matmul(A, B, C):
            for i in range(64):
                for j in range(64):
                    C[i, j] = 0
                    for k in range(64):
                        C[i, j] += A[i, k] * B[k, j]
        @nb.njit
        def softmax(X, Y):
            for i in range(64):
                m = X[i, 0]
                for j in range(64):
                    m = max(m, X[i, j])
                s = np.float32(0)
                for j in range(64):
                    Y[i, j] = np.exp(X[i, j] - m)
                    s += Y[i, j]
                for j in range(64):
                    Y[i, j] /= s
        t0 = time.perf_counter(); matmul(a, b, c)
        t1 = time.perf_counter(); softmax(a, b)
        t2 = time.perf_counter()
        print((t1 - t0) * 1e3, (t2 - t1) * 1e3)
    """)
    with tempfile.TemporaryDirectory() as cache:
        matmul, softmax = _median(_python(code, cache, 3))
    return {"matmul, cold": matmul, "softmax, second kernel": softmax}


def tvm_cold() -> dict[str, float]:
    """Milliseconds of TVM's compilation of the naive matmul, packages imported."""
    if peers.tvm() is None:
        return {}
    import tvm
    from tvm.script import tirx as S

    def make():
        @S.prim_func
        def matmul(
            A: S.Buffer((64, 64), "float32"), B: S.Buffer((64, 64), "float32"), C: S.Buffer((64, 64), "float32")
        ):
            for i in range(64):
                for j in range(64):
                    C[i, j] = S.float32(0)
                    for k in range(64):
                        C[i, j] = C[i, j] + A[i, k] * B[k, j]

        return matmul

    times = []
    arrays = [tvm.runtime.tensor(np.ones((64, 64), np.float32)) for _ in range(3)]
    for _ in range(4):
        start = time.perf_counter()
        tvm.compile(tvm.IRModule({"main": make()}), target="llvm")["main"](*arrays)
        times.append((time.perf_counter() - start) * 1e3)
    return {"matmul, cold": statistics.median(times[1:])}


def report() -> str:
    """The table."""
    ours = {"import beyond numpy and llvmlite": import_time(), **in_process(), **fresh_process()}
    ours["tensor-core matmul to PTX, cold"] = tensor_cores()
    theirs = {"numba": numba_cold(), "tvm": tvm_cold()}
    theirs = {name: rows for name, rows in theirs.items() if rows}
    lines = ["compile time (ms, median)", f"{'':<36}{'tirlower':>12}" + "".join(f"{n:>22}" for n in theirs)]
    for label, ms in ours.items():
        cells = "".join(
            f"{f'{rows[label]:.1f} ({rows[label] / ms:.1f}x)' if label in rows else '-':>22}"
            for rows in theirs.values()
        )
        lines.append(f"{label:<36}{ms:>12.1f}{cells}")
    return "\n".join(lines)
