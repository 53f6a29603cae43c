"""Paired comparisons by other means than lib/eval/paired.c: the numbers in tests/unit/test_paired.c.

    python3 tests/reference/paired.py

Wilson's bounds are found by bisection of the score equation, McNemar's p is a sum of fractions, and the correlation is
that of the 0/1 vectors themselves, less n/2 as Newcombe's method 10 (Statistics in Medicine 17, 1998, 2635) says.
Student's tail is an integral of cos^(n-1), by Simpson's rule, and its 95 % limit a bisection of that.
"""
from fractions import Fraction
from math import atan, comb, cos, pi, sqrt
from statistics import NormalDist, mean, stdev

Z = NormalDist().inv_cdf(0.975)


def wilson(k, n):
    p = k / n

    def bound(inside, outside):
        for _ in range(200):
            middle = (inside + outside) / 2
            if (p - middle) ** 2 <= Z * Z * middle * (1 - middle) / n:
                inside = middle
            else:
                outside = middle
        return inside

    return (0.0 if k == 0 else bound(p, 0.0)), (1.0 if k == n else bound(p, 1.0))


def correlation(x, y):
    n, mx, my = len(x), mean(x), mean(y)
    spread = sqrt(mx * (1 - mx) * my * (1 - my))
    if spread == 0:
        return 0.0
    covariance = mean(i * j for i, j in zip(x, y)) - mx * my
    if covariance > 0:
        covariance = max(covariance - 1 / (2 * n), 0.0)
    return covariance / spread


def paired(both, won, lost, neither):
    x = [1.0] * (both + won) + [0.0] * (lost + neither)
    y = [1.0] * both + [0.0] * won + [1.0] * lost + [0.0] * neither
    n, phi = len(x), correlation(x, y)
    (xl, xu), (yl, yu) = wilson(both + won, n), wilson(both + lost, n)
    xp, yp = mean(x), mean(y)
    low = xp - yp - sqrt((xp - xl) ** 2 - 2 * phi * (xp - xl) * (yu - yp) + (yu - yp) ** 2)
    high = xp - yp + sqrt((xu - xp) ** 2 - 2 * phi * (xu - xp) * (yp - yl) + (yp - yl) ** 2)
    m = won + lost
    tail = sum(Fraction(comb(m, i), 2**m) for i in range(min(won, lost) + 1))
    return xp - yp, low, high, float(min(Fraction(1), 2 * tail))


for table in [(14, 5, 0, 22), (36, 12, 2, 0), (2, 12, 30, 6), (100, 60, 21, 75), (0, 8, 0, 0), (0, 0, 0, 5), (7, 3, 3, 7)]:
    print("{%d, %d, %d, %d, %.12g, %.12g, %.12g, %.12g}," % (*table, *paired(*table)))


def tails(t, dof):  # P(|T| > t), with T = sqrt(dof) tan(angle)
    def integral(a, b, n=20000):
        h = (b - a) / n
        return h / 3 * sum((1 if i in (0, n) else 4 if i % 2 else 2) * cos(a + i * h) ** (dof - 1) for i in range(n + 1))

    return integral(atan(abs(t) / sqrt(dof)), pi / 2) / integral(0, pi / 2)


def returns(x):
    n, error, inside, outside = len(x), stdev(x) / sqrt(len(x)), 0.0, 13.0
    for _ in range(60):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if tails(middle, n - 1) > 0.05 else (inside, middle)
    return mean(x), mean(x) - inside * error, mean(x) + inside * error, tails(mean(x) / error, n - 1)


for x in [[1, 2], [3, -1, 2], [5, 1, -2, 4, 0, 3, 7], [i % 17 - 7.5 for i in range(256)], [1 + i % 3 for i in range(64)]]:
    print("{%d, %.12g, %.12g, %.12g, %.12g}," % (len(x), *returns(x)))
