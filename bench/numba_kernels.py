"""Twenty kernels as a user of Numba writes them, none for tirlower: :mod:`bench.from_numba` makes prim funcs of them.

Written before they were tried, and not changed since, so that they say what a first port meets: accumulators, ``while``
loops, powers, float literals, swaps, lists of pairs, defaults, ``len``, ``math`` and ``np`` functions, early returns.
"""

import math

import numpy as np
from numba import njit


@njit
def dot(x, y):
    acc = 0.0
    for i in range(x.shape[0]):
        acc += x[i] * y[i]
    return acc


@njit
def axpy(x, y, a=2.0):
    for i in range(len(x)):
        y[i] = a * x[i] + y[i]


@njit
def rms(x):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] ** 2
    return math.sqrt(total / x.shape[0])


@njit
def mean_and_variance(x, out):
    n = x.shape[0]
    s = 0.0
    s2 = 0.0
    for i in range(n):
        s += x[i]
        s2 += x[i] ** 2
    mean = s / n
    out[0] = mean
    out[1] = s2 / n - mean**2


@njit
def matmul(a, b, c):
    n, k = a.shape
    m = b.shape[1]
    for i in range(n):
        for j in range(m):
            acc = 0.0
            for p in range(k):
                acc += a[i, p] * b[p, j]
            c[i, j] = acc


@njit
def mandelbrot(out, limit=60, scale=0.04):
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            cr = j * scale - 2.0
            ci = i * scale - 1.2
            zr = 0.0
            zi = 0.0
            k = 0
            while k < limit and zr**2 + zi**2 <= 4.0:
                zr, zi = zr**2 - zi**2 + cr, 2.0 * zr * zi + ci
                k += 1
            out[i, j] = k


@njit
def newton_sqrt(x, out, tol=1e-12):
    for i in range(x.shape[0]):
        y = x[i]
        while abs(y * y - x[i]) > tol * x[i]:
            y = 0.5 * (y + x[i] / y)
        out[i] = y


@njit
def collatz(start, steps):
    for i in range(start.shape[0]):
        n = start[i]
        count = 0
        while n != 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            count += 1
        steps[i] = count


@njit
def insertion_sort(x):
    for i in range(1, x.shape[0]):
        j = i
        while j > 0 and x[j - 1] > x[j]:
            x[j - 1], x[j] = x[j], x[j - 1]
            j -= 1


@njit
def gcd(x, y, out):
    for i in range(x.shape[0]):
        a = x[i]
        b = y[i]
        while b:
            a, b = b, a % b
        out[i] = a


@njit
def fibonacci(out):
    a, b = 0, 1
    for i in range(out.shape[0]):
        out[i] = a
        a, b = b, a + b


@njit
def running_sum(x, out):
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i]
        out[i] = total


@njit
def histogram(x, bins, lo=0.0, hi=1.0):
    n = bins.shape[0]
    for k in range(n):
        bins[k] = 0
    for i in range(x.shape[0]):
        if x[i] >= lo and x[i] < hi:
            k = int((x[i] - lo) / (hi - lo) * n)
            if k >= n:
                k = n - 1
            bins[k] += 1


@njit
def neighbours(grid, out):
    rows, cols = grid.shape
    for i in range(1, rows - 1):
        for j in range(1, cols - 1):
            acc = 0.0
            for di, dj in [(-1, 0), (1, 0), (0, -1), (0, 1)]:
                acc += grid[i + di, j + dj]
            out[i, j] = 0.25 * acc


@njit
def argmax(x):
    best = x[0]
    where = 0
    for i in range(1, x.shape[0]):
        if x[i] > best:
            best = x[i]
            where = i
    return where


@njit
def horner(coeffs, x, out):
    for i in range(x.shape[0]):
        acc = 0.0
        for k in range(len(coeffs)):
            acc = acc * x[i] + coeffs[k]
        out[i] = acc


@njit
def pairwise_distance(points, out):
    n, dims = points.shape
    for i in range(n):
        for j in range(n):
            d = 0.0
            for k in range(dims):
                d += (points[i, k] - points[j, k]) ** 2
            out[i, j] = np.sqrt(d)


@njit
def moving_average(x, out, width=8):
    acc = 0.0
    for i in range(x.shape[0]):
        acc += x[i]
        if i >= width:
            acc -= x[i - width]
        out[i] = acc / min(i + 1, width)


@njit
def gravity(pos, mass, acc, soft=1e-3):
    for i in range(pos.shape[0]):
        ax, ay, az = 0.0, 0.0, 0.0
        for j in range(pos.shape[0]):
            dx = pos[j, 0] - pos[i, 0]
            dy = pos[j, 1] - pos[i, 1]
            dz = pos[j, 2] - pos[i, 2]
            r2 = dx**2 + dy**2 + dz**2 + soft
            w = mass[j] * r2**-1.5
            ax += w * dx
            ay += w * dy
            az += w * dz
        acc[i, 0] = ax
        acc[i, 1] = ay
        acc[i, 2] = az


@njit
def binary_search(table, keys, out):
    for i in range(keys.shape[0]):
        lo = 0
        hi = table.shape[0]
        while lo < hi:
            mid = (lo + hi) // 2
            if table[mid] < keys[i]:
                lo = mid + 1
            else:
                hi = mid
        out[i] = lo
