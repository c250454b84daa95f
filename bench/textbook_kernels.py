"""Algorithms as textbooks write them down: plain loops over arrays, for Numba, for plain Python and as prim funcs."""

from __future__ import annotations

import math


def eliminate(a):
    n = a.shape[0]
    for k in range(n - 1):
        for i in range(k + 1, n):
            a[i, k] = a[i, k] / a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]


def crout(a):
    n = a.shape[0]
    for row in range(n):
        for col in range(n):
            for k in range(min(row, col)):
                a[row, col] -= a[row, k] * a[k, col]
            if col < row:
                a[row, col] /= a[col, col]


def cholesky(a):
    n = a.shape[0]
    for col in range(n):
        for k in range(col):
            for row in range(col, n):
                a[row, col] -= a[row, k] * a[col, k]
        pivot = math.sqrt(a[col, col])
        for row in range(col, n):
            a[row, col] /= pivot


def forward_substitution(lower, rhs, x):
    for i in range(lower.shape[0]):
        x[i] = rhs[i]
        for j in range(i):
            x[i] -= lower[i, j] * x[j]
        x[i] /= lower[i, i]


def orthonormal(a, q, r):
    rows, columns = a.shape[0], a.shape[1]
    for k in range(columns):
        square = 0.0
        for i in range(rows):
            square += a[i, k] ** 2
        r[k, k] = math.sqrt(square)
        for i in range(rows):
            q[i, k] = a[i, k] / r[k, k]
        for j in range(k + 1, columns):
            r[k, j] = 0.0
            for i in range(rows):
                r[k, j] += q[i, k] * a[i, j]
            for i in range(rows):
                a[i, j] -= q[i, k] * r[k, j]


def covariance(samples, mean, cov):
    count, features = samples.shape[0], samples.shape[1]
    for f in range(features):
        mean[f] = 0.0
        for s in range(count):
            mean[f] += samples[s, f]
        mean[f] /= count
    for f in range(features):
        for g in range(f, features):
            total = 0.0
            for s in range(count):
                total += (samples[s, f] - mean[f]) * (samples[s, g] - mean[g])
            cov[f, g] = total / (count - 1)
            cov[g, f] = cov[f, g]


def gram(x, g):
    for i in range(x.shape[0]):
        for j in range(i + 1):
            g[i, j] = 0.0
            for k in range(x.shape[1]):
                g[i, j] += x[i, k] * x[j, k]


def triangular_product(lower, b, c):
    for i in range(lower.shape[0]):
        for j in range(b.shape[1]):
            c[i, j] = 0.0
            for k in range(i + 1):
                c[i, j] += lower[i, k] * b[k, j]


def shortest_paths(length):
    n = length.shape[0]
    for via in range(n):
        for a in range(n):
            for b in range(n):
                if length[a, via] + length[via, b] < length[a, b]:
                    length[a, b] = length[a, via] + length[via, b]


def reachable(edge):
    n = edge.shape[0]
    for via in range(n):
        for a in range(n):
            for b in range(n):
                edge[a, b] = edge[a, b] | (edge[a, via] & edge[via, b])


def common_subsequence(s, t, length):
    for i in range(s.shape[0]):
        for j in range(t.shape[0]):
            if s[i] == t[j]:
                length[i + 1, j + 1] = length[i, j] + 1
            else:
                length[i + 1, j + 1] = max(length[i, j + 1], length[i + 1, j])


def knapsack(weight, worth, best):
    for item in range(weight.shape[0]):
        for room in range(best.shape[0] - 1, weight[item] - 1, -1):
            best[room] = max(best[room], best[room - weight[item]] + worth[item])


def parenthesize(size, cost):
    n = size.shape[0] - 1
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            cost[i, j] = cost[i, i] + cost[i + 1, j] + size[i] * size[i + 1] * size[j + 1]
            for k in range(i + 1, j):
                cost[i, j] = min(cost[i, j], cost[i, k] + cost[k + 1, j] + size[i] * size[k + 1] * size[j + 1])


def diffuse(steps, u, v):
    rows, columns = u.shape[0], u.shape[1]
    for _ in range(steps):
        for i in range(1, rows - 1):
            for j in range(1, columns - 1):
                v[i, j] = u[i, j] + 0.2 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j])
        for i in range(1, rows - 1):
            for j in range(1, columns - 1):
                u[i, j] = v[i, j]


def relax_in_place(steps, u):
    n = u.shape[0]
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                u[i, j] = (u[i - 1, j] + u[i, j - 1] + u[i, j] + u[i, j + 1] + u[i + 1, j]) * 0.2


def power_iteration(steps, a, x, y):
    n = a.shape[0]
    for _ in range(steps):
        largest = 0.0
        for i in range(n):
            y[i] = 0.0
            for j in range(n):
                y[i] += a[i, j] * x[j]
            largest = max(largest, abs(y[i]))
        for i in range(n):
            x[i] = y[i] / largest
