"""Two hundred index expressions, as programs have them, and the form that each must simplify to.

A case is ``(group, expression, ranges, expected)`` or the same with facts behind. ``ranges`` says what each variable runs
over: ``i:8`` from 0 to 7, ``i:2+8`` from 2 to 9, ``j:n`` from 0 to ``n - 1`` for a symbol; ``n`` alone is a symbol, a
size that is not negative. Facts are conditions that hold besides. In the texts ``//`` and ``%`` floor, ``tdiv`` and ``tmod`` truncate,
``iff`` is ``T.if_then_else``. The expected forms were written by thought, not taken from the simplifier.
"""

from __future__ import annotations

import ast
import itertools
import random
from typing import Any, NamedTuple

from tirlower import ir
from tirlower.arith import Analyzer
from tirlower.ir import BOOL, Expr, IntImm, Range, Var, build


class Case(NamedTuple):
    """One expression, the ranges of its variables, and what it simplifies to."""

    group: str
    text: str
    ranges: str
    expected: str
    facts: str = ""


CASES = [
    Case(*case)
    for case in [
        # -- splitting: one loop as two, and what is left of the divisions that put them together
        ("split", "(io * 4 + ii) // 4", "io:8 ii:4", "io"),
        ("split", "(io * 4 + ii) % 4", "io:8 ii:4", "ii"),
        ("split", "i // 4 * 4 + i % 4", "i:64", "i"),
        ("split", "i % 4 + i // 4 * 4", "i:64", "i"),
        ("split", "i // 4 // 2", "i:64", "i // 8"),
        ("split", "i // 4 % 2", "i:64", "i % 8 // 4"),
        ("split", "i % 8 // 4 * 4 + i % 4", "i:64", "i % 8"),
        ("split", "i // 8 * 8 + i % 8 // 4 * 4 + i % 4", "i:64", "i"),
        ("split", "i // 8 * 2 + i % 8 // 4", "i:64", "i // 4"),
        ("split", "(i * 8 + 3) // 4", "i:64", "i * 2"),
        ("split", "(i * 8 + 5) % 4", "i:64", "1"),
        ("split", "i * 4 % 8", "i:64", "i % 2 * 4"),
        ("split", "(io * 4 + ii) // 8", "io:8 ii:4", "io // 2"),
        ("split", "(io * 4 + ii) % 8", "io:8 ii:4", "io % 2 * 4 + ii"),
        ("split", "(io * 4 + ii) // 2", "io:8 ii:4", "io * 2 + ii // 2"),
        ("split", "(i + 64) // 4", "i:64", "i // 4 + 16"),
        ("split", "(i + 64) % 4", "i:64", "i % 4"),
        ("split", "(i + 5) // 4 * 4 + (i + 5) % 4", "i:64", "i + 5"),
        ("split", "i - i % 4", "i:64", "i // 4 * 4"),
        ("split", "i - i // 4 * 4", "i:64", "i % 4"),
        ("split", "(io * n + ii) // n", "io:8 ii:n n", "io"),
        ("split", "(io * n + ii) % n", "io:8 ii:n n", "ii"),
        ("split", "i // n * n + i % n", "i:64 n", "i", "n > 0"),
        ("split", "(io * 4 + ii) // 4 - io + (io * 4 + ii) % 4 - ii", "io:n ii:4 n", "0"),
        ("split", "i % 4 + 4 * (i // 4)", "i:64", "i"),
        ("split", "(io * 6 + ii) // 3", "io:8 ii:6", "io * 2 + ii // 3"),
        # -- fusing: several loops as one
        ("fuse", "(i * 8 + j) // 8", "i:4 j:8", "i"),
        ("fuse", "(i * 8 + j) % 8", "i:4 j:8", "j"),
        ("fuse", "((i * 4 + j) * 8 + k) // 8", "i:2 j:4 k:8", "i * 4 + j"),
        ("fuse", "((i * 4 + j) * 8 + k) // 32", "i:2 j:4 k:8", "i"),
        ("fuse", "((i * 4 + j) * 8 + k) % 32", "i:2 j:4 k:8", "j * 8 + k"),
        ("fuse", "((i * 4 + j) * 8 + k) // 8 % 4", "i:2 j:4 k:8", "j"),
        ("fuse", "f // 32 * 32 + f // 8 % 4 * 8 + f % 8", "f:256", "f"),
        ("fuse", "f // 8 % 4 * 8 + f % 8", "f:256", "f % 32"),
        ("fuse", "f // 32 * 4 + f // 8 % 4", "f:256", "f // 8"),
        ("fuse", "f // 12 * 12 + f // 4 % 3 * 4 + f % 4", "f:96", "f"),
        ("fuse", "(f // 12 * 3 + f // 4 % 3) * 4 + f % 4", "f:96", "f"),
        ("fuse", "(f // 20 * 20 + f % 20) // 5", "f:100", "f // 5"),
        ("fuse", "(i + j * 8) % 8", "i:8 j:4", "i"),
        ("fuse", "i * 8 + j - i * 8", "i:4 j:8", "j"),
        ("fuse", "(f * 2 + g) // 2 - f", "f:8 g:2", "0"),
        ("fuse", "(i * n + j) // n * n + (i * n + j) % n", "i:4 j:n n", "i * n + j"),
        ("fuse", "(i * n * m + j * m + k) // m", "i:4 j:n k:m n m", "i * n + j"),
        ("fuse", "(i * n * m + j * m + k) % m", "i:4 j:n k:m n m", "k"),
        ("fuse", "((i * n + j) * m + k) // m % n", "i:4 j:n k:m n m", "j"),
        ("fuse", "((i * n + j) * m + k) // m // n", "i:4 j:n k:m n m", "i"),
        ("fuse", "f // 4 % 4 * 16 + f % 4 * 4 + f // 16 - (f // 4 % 4 * 16 + f % 4 * 4)", "f:64", "f // 16"),
        ("fuse", "(i * 16 + j * 4 + k) // 4", "i:4 j:4 k:4", "i * 4 + j"),
        ("fuse", "(i * n * m + j * m + k) // (n * m)", "i:4 j:n k:m n m", "i"),
        ("fuse", "(i * n * m + j * m + k) % (n * m)", "i:4 j:n k:m n m", "j * m + k"),
        ("fuse", "(i + j * n) // n", "i:n j:4 n", "j"),
        ("fuse", "(i * 6 + j * 2 + k) // 4", "i:8 j:3 k:2", "(i * 3 + j) // 2"),
        ("fuse", "(i * 6 + j * 2 + k) % 4", "i:8 j:3 k:2", "(i + j) % 2 * 2 + k"),
        ("fuse", "(f // 4 // 4 * 4 + f // 4 % 4) * 4 + f % 4", "f:256", "f"),
        # -- tiling: blocks, threads and vectors
        ("tile", "(bx * 32 + tx * 4 + v) % 32", "bx:8 tx:8 v:4", "tx * 4 + v"),
        ("tile", "(bx * 32 + tx * 4 + v) // 32", "bx:8 tx:8 v:4", "bx"),
        ("tile", "(bx * 32 + tx * 4 + v) // 4", "bx:8 tx:8 v:4", "bx * 8 + tx"),
        ("tile", "(bx * 32 + tx * 4 + v) // 4 % 8", "bx:8 tx:8 v:4", "tx"),
        ("tile", "(bx * 32 + tx * 4 + v) // 16", "bx:8 tx:8 v:4", "bx * 2 + tx // 4"),
        ("tile", "(bx * 32 + tx * 4 + v) % 16", "bx:8 tx:8 v:4", "tx % 4 * 4 + v"),
        ("tile", "(bx * 32 + tx * 4 + v) // 64", "bx:8 tx:8 v:4", "bx // 2"),
        ("tile", "(bx * 32 + tx * 4 + v) // 32 * 32", "bx:8 tx:8 v:4", "bx * 32"),
        ("tile", "((by * 16 + ty) * 128 + bx * 16 + tx) // 128", "by:8 ty:16 bx:8 tx:16", "by * 16 + ty"),
        ("tile", "((by * 16 + ty) * 128 + bx * 16 + tx) % 128", "by:8 ty:16 bx:8 tx:16", "bx * 16 + tx"),
        ("tile", "((by * 16 + ty) * 128 + bx * 16 + tx) // 2048", "by:8 ty:16 bx:8 tx:16", "by"),
        ("tile", "((by * 16 + ty) * 128 + bx * 16 + tx) // 128 % 16", "by:8 ty:16 bx:8 tx:16", "ty"),
        ("tile", "(ko * 16 + ki) // 16 * 16 + (ko * 16 + ki) % 16 - ki", "ko:8 ki:16", "ko * 16"),
        ("tile", "t // 32 * 128 + t % 32 * 4 + v - t * 4", "t:256 v:4", "v"),
        ("tile", "(t * 4 + v) // 64", "t:256 v:4", "t // 16"),
        ("tile", "(t * 4 + v) % 64", "t:256 v:4", "t % 16 * 4 + v"),
        ("tile", "(t * 4 + v) // 64 * 64 + (t * 4 + v) % 64", "t:256 v:4", "t * 4 + v"),
        ("tile", "(o * 256 + t) // 64 % 4", "o:4 t:256", "t // 64"),
        ("tile", "(o * 256 + t) % 64", "o:4 t:256", "t % 64"),
        ("tile", "(io * 4 + ii) * 4 + (jo * 2 + ji) - ii * 4 - ji", "io:4 ii:4 jo:2 ji:2", "io * 16 + jo * 2"),
        ("tile", "(w * 32 + lane) // 32 * 4 + (w * 32 + lane) % 32 // 8", "w:4 lane:32", "w * 4 + lane // 8"),
        ("tile", "(w * 32 + lane) // 4 % 8 * 4 + (w * 32 + lane) % 4", "w:4 lane:32", "lane"),
        ("tile", "f // 16 % 4 * 4 + f // 4 % 4", "f:256", "f % 64 // 4"),
        # -- padding: sizes rounded up, and what holds of padded positions
        ("pad", "(n + 3) // 4 * 4 % 4", "n", "0"),
        ("pad", "(n + 3) // 4 * 4 // 4", "n", "(n + 3) // 4"),
        ("pad", "(n + 7) // 8 * 8 // 4", "n", "(n + 7) // 8 * 2"),
        ("pad", "(n * 4 + 3) // 4", "n", "n"),
        ("pad", "(n * 8 + 7) // 8 * 8", "n", "n * 8"),
        ("pad", "(n + 3) // 4 * 4 >= n", "n", "True"),
        ("pad", "(n + 3) // 4 * 4 < n + 4", "n", "True"),
        ("pad", "(i + 2) % 16", "i:14", "i + 2"),
        ("pad", "iff(i < 14, i, 0)", "i:14", "i"),
        ("pad", "iff(1 <= i and i < 15, i - 1, 0)", "i:1+14", "i - 1"),
        ("pad", "1 <= i + 1 and i + 1 < 15", "i:14", "True"),
        ("pad", "max(0, min(i - 1, 13))", "i:1+14", "i - 1"),
        ("pad", "(io * 4 + ii + 3) // 4 * 4", "io:4 ii:1", "io * 4"),
        ("pad", "iff(io * 4 + ii < 16, io * 4 + ii, 15)", "io:4 ii:4", "io * 4 + ii"),
        ("pad", "io * 4 + ii < 13", "io:3 ii:4", "True"),
        ("pad", "13 <= io * 4 + ii", "io:3 ii:4", "False"),
        ("pad", "io * 4 + ii < 16", "io:5 ii:4", "io < 4"),
        ("pad", "(n + 15) // 16 * 16 - n < 16", "n", "True"),
        ("pad", "i < n + 4 - 4", "i:8 n", "i < n"),
        ("pad", "(i + n) % n", "i:n n", "i"),
        ("pad", "(i + n) // n", "i:n n", "1"),
        ("pad", "(n + 3) // 4 * 4 - 4 < n", "n", "True"),
        ("pad", "(n + (0 - n) % 4) % 4", "n", "0"),
        ("pad", "(n * 16 - 1) // 16", "n", "n - 1"),
        ("pad", "n - n % 4 + 4 > n", "n", "True"),
        # -- im2col: an image's patches as a matrix
        ("im2col", "(y * 14 + x) // 14", "y:14 x:14", "y"),
        ("im2col", "(y * 14 + x) % 14", "y:14 x:14", "x"),
        ("im2col", "(y * 14 + x) // 14 + (c * 9 + r * 3 + s) % 9 // 3", "y:14 x:14 c:8 r:3 s:3", "y + r"),
        ("im2col", "(y * 14 + x) % 14 + (c * 9 + r * 3 + s) % 3", "y:14 x:14 c:8 r:3 s:3", "x + s"),
        ("im2col", "(c * 9 + r * 3 + s) // 9", "c:8 r:3 s:3", "c"),
        ("im2col", "(c * 9 + r * 3 + s) // 3", "c:8 r:3 s:3", "c * 3 + r"),
        ("im2col", "(c * 9 + r * 3 + s) // 3 % 3", "c:8 r:3 s:3", "r"),
        ("im2col", "k // 9 * 9 + k % 9 // 3 * 3 + k % 3", "k:72", "k"),
        ("im2col", "k // 9 * 3 + k % 9 // 3", "k:72", "k // 3"),
        ("im2col", "m // 196 * 196 + m % 196 // 14 * 14 + m % 14", "m:784", "m"),
        ("im2col", "(b * 196 + y * 14 + x) % 196 // 14", "b:4 y:14 x:14", "y"),
        ("im2col", "(b * 196 + y * 14 + x) % 14", "b:4 y:14 x:14", "x"),
        ("im2col", "(y * 2 + r) // 2", "y:7 r:2", "y"),
        ("im2col", "(y * 2 + r) * 28 + x * 2 + s - y * 56 - r * 28", "y:14 r:2 x:14 s:2", "x * 2 + s"),
        ("im2col", "0 <= y + r - 1 and y + r - 1 < 14", "y:1+12 r:3", "True"),
        ("im2col", "(y * 16 + x + r * 16 + s) // 16", "y:14 x:14 r:3 s:3", "y + r"),
        ("im2col", "(y * 16 + x + r * 16 + s) % 16", "y:14 x:14 r:3 s:3", "x + s"),
        ("im2col", "(y * 30 + x + 31) // 30", "y:28 x:28", "y + 1"),
        ("im2col", "(y * 30 + x + 31) % 30", "y:28 x:28", "x + 1"),
        ("im2col", "((y + r) * 30 + x + s) // 30", "y:28 x:28 r:3 s:3", "y + r"),
        ("im2col", "((y + r) * 30 + x + s) % 30", "y:28 x:28 r:3 s:3", "x + s"),
        ("im2col", "(f // 28 * 30 + f % 28) // 30", "f:784", "f // 28"),
        # -- swizzling: layouts of shared memory and of caches
        ("swizzle", "(r * 8 + (c + r) % 8) // 8", "r:8 c:8", "r"),
        ("swizzle", "(r * 8 + (c + r) % 8) % 8", "r:8 c:8", "(c + r) % 8"),
        ("swizzle", "((c + r) % 8 - r) % 8", "r:8 c:8", "c"),
        ("swizzle", "((c + r) % 8 + 8 - r) % 8", "r:8 c:8", "c"),
        ("swizzle", "(b // 8 * 8 + b % 8) // 64", "b:256", "b // 64"),
        ("swizzle", "(b % 8 * 32 + b // 8) // 32", "b:256", "b % 8"),
        ("swizzle", "(b % 8 * 32 + b // 8) % 32", "b:256", "b // 8"),
        ("swizzle", "(b % 8 * 32 + b // 8) % 32 * 8 + (b % 8 * 32 + b // 8) // 32", "b:256", "b"),
        ("swizzle", "(g * 64 + b) // 64 * 64 + (g * 64 + b) % 64 // 8 + (g * 64 + b) % 8 * 8", "g:4 b:64",
         "g * 64 + b % 8 * 8 + b // 8"),
        ("swizzle", "(p % 4 * 4 + p // 4) % 4 * 4 + (p % 4 * 4 + p // 4) // 4", "p:16", "p"),
        ("swizzle", "(t % 16 * 2 + t // 16) // 2", "t:32", "t % 16"),
        ("swizzle", "(t % 16 * 2 + t // 16) % 2", "t:32", "t // 16"),
        ("swizzle", "(t % 16 * 2 + t // 16) % 2 * 16 + (t % 16 * 2 + t // 16) // 2", "t:32", "t"),
        ("swizzle", "(r % 2 * 4 + c) % 8 // 4", "r:8 c:4", "r % 2"),
        # -- layouts: transposed, blocked and interleaved buffers
        ("layout", "(f % 8 * 16 + f // 8) % 16 * 8 + (f % 8 * 16 + f // 8) // 16", "f:128", "f"),
        ("layout", "(c // 4 * 32 + w * 4 + c % 4) // 32", "c:16 w:8", "c // 4"),
        ("layout", "(c // 4 * 32 + w * 4 + c % 4) % 32 // 4", "c:16 w:8", "w"),
        ("layout", "(c // 4 * 32 + w * 4 + c % 4) % 4", "c:16 w:8", "c % 4"),
        ("layout", "(c // 4 * 32 + w * 4 + c % 4) // 32 * 4 + (c // 4 * 32 + w * 4 + c % 4) % 4", "c:16 w:8", "c"),
        ("layout", "(co * 4 + ci) // 4 * 32 + w * 4 + (co * 4 + ci) % 4", "co:4 ci:4 w:8", "co * 32 + w * 4 + ci"),
        ("layout", "(i // 16 * 4 + j // 16) * 256 + i % 16 * 16 + j % 16 - j % 16", "i:64 j:64",
         "i // 16 * 1024 + j // 16 * 256 + i % 16 * 16"),
        ("layout", "(io * 16 + ii) // 16 * 1024 + (jo * 16 + ji) // 16 * 256", "io:4 ii:16 jo:4 ji:16",
         "io * 1024 + jo * 256"),
        ("layout", "(i * 64 + j) // 64 + (i * 64 + j) % 64 * 32", "i:32 j:64", "j * 32 + i"),
        ("layout", "i * 64 + (63 - j) - (i * 64 + 63)", "i:32 j:64", "0 - j"),
        ("layout", "(63 - j) // 64", "j:64", "0"),
        ("layout", "(63 - j) % 64", "j:64", "63 - j"),
        ("layout", "(i * 4 + j) * 2 + k - (i * 8 + k)", "i:4 j:4 k:2", "j * 2"),
        ("layout", "(x * n + y) % n * m + (x * n + y) // n", "x:m y:n n m", "y * m + x"),
        ("layout", "(2 * i + 1) % 2", "i:8", "1"),
        ("layout", "(i - 8) // 4", "i:16", "i // 4 - 2"),
        # -- guards: conditions of loops that do not divide evenly
        ("guard", "i < 16", "i:16", "True"),
        ("guard", "i * 4 + j < 64", "i:16 j:4", "True"),
        ("guard", "i * 4 + j < 32", "i:16 j:4", "i < 8"),
        ("guard", "i * 4 + j < 30", "i:7 j:4", "True"),
        ("guard", "i * 8 < 20", "i:16", "i < 3"),
        ("guard", "i * 4 <= 8", "i:16", "i <= 2"),
        ("guard", "8 < i * 4", "i:16", "2 < i"),
        ("guard", "i < n", "i:n n", "True"),
        ("guard", "not i < n", "i:8 n", "n <= i"),
        ("guard", "i // 4 < 2", "i:64", "i < 8"),
        ("guard", "i // 4 == 2", "i:4", "False"),
        ("guard", "i % 4 == 5", "i:64", "False"),
        ("guard", "i * 2 == 5", "i:64", "False"),
        ("guard", "i * 2 == j * 2", "i:8 j:8", "i == j"),
        ("guard", "iff(i < n, i, 0)", "i:8 n", "i", "i < n"),
        ("guard", "io * 4 + ii < n", "io:8 ii:4 n", "True", "io * 4 + 4 <= n"),
        ("guard", "io * 4 + ii < n", "io:8 ii:4 n", "True", "io < n // 4"),
        ("guard", "io < (n + 3) // 4", "io:8 n", "True", "io * 4 < n"),
        ("guard", "(i * n + j) * m + k < 4 * n * m", "i:4 j:n k:m n m", "True"),
        ("guard", "i * n + j < n * m", "i:m j:n n m", "True"),
        ("guard", "i * n + j < n * 3", "i:8 j:n n", "i < 3"),
        ("guard", "i * 4 + 1 < j * 4", "i:8 j:8", "i < j"),
        ("guard", "not (i < n and j < m)", "i:8 j:8 n m", "n <= i or m <= j"),
        # -- minima and maxima: the extents of partial tiles
        ("minmax", "min(i, 8)", "i:8", "i"),
        ("minmax", "max(i * 4, i * 4 + 3)", "i:8", "i * 4 + 3"),
        ("minmax", "min(n - io * 4, 4)", "io:8 n", "4", "io * 4 + 4 <= n"),
        ("minmax", "min(16 - io * 4, 4)", "io:4", "4"),
        ("minmax", "min(min(i, 12), 10)", "i:16", "min(i, 10)"),
        ("minmax", "max(min(i, 3), 3)", "i:16", "3"),
        ("minmax", "min(i * 4, 16) // 4", "i:16", "min(i, 4)"),
        ("minmax", "min(i, j) + max(i, j)", "i:8 j:8", "i + j"),
        ("minmax", "min(i + 4, j + 4) - 4", "i:8 j:8", "min(i, j)"),
        ("minmax", "max(0 - i, 0)", "i:8", "0"),
        ("minmax", "min(i * 16 + 16, n) - i * 16", "i:16 n", "16", "i * 16 + 16 <= n"),
        ("minmax", "max(i - 3, 0) + min(i - 3, 0)", "i:16", "i - 3"),
        ("minmax", "min(i * 4 + 4, 64) - i * 4", "i:16", "4"),
        # -- truncated division: indices of C programs
        ("trunc", "tdiv(io * 4 + ii, 4)", "io:8 ii:4", "io"),
        ("trunc", "tmod(io * 4 + ii, 4)", "io:8 ii:4", "ii"),
        ("trunc", "tdiv(i, 4) * 4 + tmod(i, 4)", "i:64", "i"),
        ("trunc", "tdiv(i, 4) * 4 + tmod(i, 4)", "i:-32+64", "i"),
        ("trunc", "tdiv(tdiv(i, 4), 2)", "i:-32+64", "tdiv(i, 8)"),
        ("trunc", "tmod(tmod(i, 8), 4)", "i:-32+64", "tmod(i, 4)"),
        ("trunc", "tdiv(0 - i, 4)", "i:4", "0"),
        ("trunc", "tdiv(i * n + j, n)", "i:4 j:n n", "i"),
        ("trunc", "tmod(i * n + j, n)", "i:4 j:n n", "j"),
        ("trunc", "tdiv(n + 3, 4) * 4 >= n", "n", "True"),
    ]
]  # fmt: skip
CASES_WANTED = 200

_BINARY: dict[type, Any] = {
    ast.Add: ir.Add,
    ast.Sub: ir.Sub,
    ast.Mult: ir.Mul,
    ast.FloorDiv: ir.FloorDiv,
    ast.Mod: ir.FloorMod,
    ast.Lt: ir.LT,
    ast.LtE: ir.LE,
    ast.Gt: ir.GT,
    ast.GtE: ir.GE,
    ast.Eq: ir.EQ,
    ast.NotEq: ir.NE,
    ast.And: ir.And,
    ast.Or: ir.Or,
}
_CALLS: dict[str, Any] = {
    "min": ir.Min,
    "max": ir.Max,
    "tdiv": ir.Div,
    "tmod": ir.Mod,
    "iff": build.if_then_else,
}


def read(text: str, variables: dict[str, Var]) -> Expr:
    """The expression of a text, node for node: nothing is folded."""

    def of(tree: ast.expr) -> Any:
        if isinstance(tree, ast.Name):
            return variables[tree.id]
        if isinstance(tree, ast.Constant):
            return IntImm(BOOL if isinstance(tree.value, bool) else "int32", int(tree.value))
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
            return ir.Not(of(tree.operand))
        if isinstance(tree, ast.UnaryOp):
            return IntImm("int32", ast.literal_eval(tree))
        if isinstance(tree, ast.BinOp):
            return _BINARY[type(tree.op)](of(tree.left), of(tree.right))
        if isinstance(tree, ast.Compare):
            (op,), (right,) = tree.ops, tree.comparators
            return _BINARY[type(op)](of(tree.left), of(right))
        if isinstance(tree, ast.BoolOp):
            result = of(tree.values[0])
            for value in tree.values[1:]:
                result = _BINARY[type(tree.op)](result, of(value))
            return result
        assert isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name)
        return _CALLS[tree.func.id](*[of(arg) for arg in tree.args])

    return of(ast.parse(text, mode="eval").body)


class Problem:
    """A case as expressions: the original, the expected form, and the analyzer that knows the ranges."""

    def __init__(self, case: Case) -> None:
        self.variables: dict[str, Var] = {}
        self.spans: dict[Var, tuple[int, str]] = {}
        words = case.ranges.split()
        for word in words:
            name = word.partition(":")[0]
            self.variables[name] = Var(name, "int32", nonneg=":" not in word)
        self.analyzer = Analyzer()
        for word in words:
            name, colon, span = word.partition(":")
            if colon:
                low, _, extent = span.rpartition("+")
                self.spans[self.variables[name]] = (int(low or 0), extent)
                size = IntImm("int32", int(extent)) if extent.isdigit() else self.variables[extent]
                self.analyzer.bind(self.variables[name], Range(IntImm("int32", int(low or 0)), size))
        self.expr = read(case.text, self.variables)
        self.expected = read(case.expected, self.variables)
        self.fact = read(case.facts, self.variables) if case.facts else None
        if self.fact is not None:
            self.analyzer.enter_constraint(self.fact)

    def points(self, most: int = 3000) -> list[dict[Var, int]]:
        """Values of all variables: every combination, or a sample of them."""
        symbols = [var for var in self.variables.values() if var not in self.spans]
        rng = random.Random(0)
        found: list[dict[Var, int]] = []
        for sizes in itertools.product((1, 2, 3, 5, 8, 13, 40), repeat=len(symbols)):
            env = dict(zip(symbols, sizes, strict=True))
            axes = []
            for low, extent in self.spans.values():
                size = int(extent) if extent.isdigit() else env[self.variables[extent]]
                axes.append(range(low, low + size))
            total = 1
            for axis in axes:
                total *= len(axis)
            if total <= most:
                rows: Any = itertools.product(*axes)
            else:
                rows = [tuple(rng.choice(axis) for axis in axes) for _ in range(most)]
            found += [{**env, **dict(zip(self.spans, row, strict=True))} for row in rows]
        return found
