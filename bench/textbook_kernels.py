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


def standardize(x, scale, y):
    columns = x.shape[1]
    for i in range(x.shape[0]):
        mean = 0.0
        for j in range(columns):
            mean += x[i, j]
        mean /= columns
        spread = 0.0
        for j in range(columns):
            spread += (x[i, j] - mean) ** 2
        inverse = 1.0 / math.sqrt(spread / columns + 1e-5)
        for j in range(columns):
            y[i, j] = (x[i, j] - mean) * inverse * scale[j]


def attend(query, key, value, weight, out):
    for i in range(query.shape[0]):
        for j in range(key.shape[0]):
            weight[i, j] = 0.0
            for c in range(query.shape[1]):
                weight[i, j] += query[i, c] * key[j, c]
        largest = weight[i, 0]
        for j in range(key.shape[0]):
            largest = max(largest, weight[i, j])
        total = 0.0
        for j in range(key.shape[0]):
            weight[i, j] = math.exp(weight[i, j] - largest)
            total += weight[i, j]
        for c in range(value.shape[1]):
            out[i, c] = 0.0
            for j in range(key.shape[0]):
                out[i, c] += weight[i, j] / total * value[j, c]


def attract(px, py, fx, fy):
    for i in range(px.shape[0]):
        ax = 0.0
        ay = 0.0
        for j in range(px.shape[0]):
            dx = px[j] - px[i]
            dy = py[j] - py[i]
            square = dx * dx + dy * dy + 1e-3
            inverse = 1.0 / (square * math.sqrt(square))
            ax += dx * inverse
            ay += dy * inverse
        fx[i] = ax
        fy[i] = ay


def nearest(points, centres, label):
    for i in range(points.shape[0]):
        best = 1e300
        for c in range(centres.shape[0]):
            square = 0.0
            for k in range(points.shape[1]):
                square += (points[i, k] - centres[c, k]) ** 2
            if square < best:
                best = square
                label[i] = c


def fourier(re, im, out_re, out_im):
    n = re.shape[0]
    for k in range(n):
        sum_re = 0.0
        sum_im = 0.0
        for t in range(n):
            angle = -2.0 * math.pi * k * t / n
            sum_re += re[t] * math.cos(angle) - im[t] * math.sin(angle)
            sum_im += re[t] * math.sin(angle) + im[t] * math.cos(angle)
        out_re[k] = sum_re
        out_im[k] = sum_im


def smooth(image, taps, middle, out):
    rows, columns, count = image.shape[0], image.shape[1], taps.shape[0]
    for y in range(rows):
        for x in range(columns - count + 1):
            middle[y, x] = 0.0
            for t in range(count):
                middle[y, x] += image[y, x + t] * taps[t]
    for y in range(rows - count + 1):
        for x in range(columns - count + 1):
            out[y, x] = 0.0
            for t in range(count):
                out[y, x] += middle[y + t, x] * taps[t]


def autocorrelate(x, r):
    for lag in range(r.shape[0]):
        total = 0.0
        for i in range(x.shape[0] - lag):
            total += x[i] * x[i + lag]
        r[lag] = total


def dilate(image, out):
    rows, columns = image.shape[0], image.shape[1]
    for y in range(rows):
        for x in range(columns):
            best = image[y, x]
            for dy in range(-1, 2):
                for dx in range(-1, 2):
                    if 0 <= y + dy < rows and 0 <= x + dx < columns:
                        best = max(best, image[y + dy, x + dx])
            out[y, x] = best


def quantize(x, scale, codes):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            codes[i, j] = int(max(-128.0, min(127.0, round(x[i, j] / scale[i]))))
