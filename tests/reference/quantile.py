"""Writes tests/fixtures/quantile.bin: numbers, their quantiles of 1 and 99 % by openpi's histogram of one batch, and the
numbers normalised by them in double precision (pip: numpy)."""
import struct
import numpy as np

rng = np.random.default_rng(0)
with open("tests/fixtures/quantile.bin", "wb") as f:
    def put(name, x):
        x = np.ascontiguousarray(x, "<f4").ravel()
        f.write(struct.pack("<I", len(name)) + name.encode() + struct.pack("<I", x.size) + x.tobytes())

    for i, x in enumerate([rng.lognormal(0, 1, 700), rng.normal(5, .01, 300), rng.integers(-3, 9, 500), np.array([2., -7])]):
        x = x.astype("f4").astype("f8")
        edges = np.linspace(x.min(), x.max(), 5000 + 1)
        cumulated = np.cumsum(np.histogram(x, bins=edges)[0])
        q = [edges[np.searchsorted(cumulated, p * len(x))] for p in (.01, .99)]
        put(f"{i}/x", x)
        put(f"{i}/quantiles", q)
        put(f"{i}/normalized", 2 * (x - q[0]) / (q[1] - q[0] + 1e-6) - 1)
