"""Ramps of narrow types: their lanes wrap in the type, as values, in conditions and as subscripts, whole and in pieces."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.script import parse

B = np.arange(1, 801, dtype="int32") * 3
RAMPS = (
    ("int8", 120, 1),
    ("uint8", 250, 1),
    ("uint8", 5, 255),
    ("int16", 32760, 3),
    ("int8", -3, -50),
    ("uint16", 2, 65535),
)
for n in (3, 16, 24, 100):
    for dtype, base, stride in RAMPS:
        ramp = f"T.Cast('int32x{n}', T.Ramp(T.{dtype}({base}), T.{dtype}({stride}), {n}))"
        lanes = (base + stride * np.arange(n)).astype(dtype).astype("int32")
        func = parse(
            "@T.prim_func\ndef f(B: T.Buffer((800,), 'int32'), C: T.Buffer((3, 800), 'int32')):\n"
            f"    C[0, 0:{n}] = {ramp}\n"
            f"    C[1, 0:{n}] = T.Select({ramp} > T.Broadcast(100, {n}), T.Broadcast(1, {n}), T.Ramp(7, 1, {n}))\n"
            f"    C[2, 0:{n}] = B[({ramp} + T.Broadcast(65536, {n})) % T.Broadcast(256, {n})]\n"
            + (f"    C[2, 0:{n}] = C[2, 0:{n}] + B[{ramp}]\n" if dtype == "uint8" else "")
        )
        want = np.zeros((3, 800), "int32")
        want[0, :n] = lanes
        want[1, :n] = np.where(lanes > 100, 1, 7 + np.arange(n))
        want[2, :n] = B[(lanes + 65536) % 256] + (B[lanes] if dtype == "uint8" else 0)
        for run in (tl.build(func), lambda *args: tl.interpret(func, *args)):  # noqa: B023 (called at once)
            c = np.zeros((3, 800), "int32")
            run(B, c)
            assert (c == want).all(), (n, dtype, base, stride)
