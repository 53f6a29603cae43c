#!/usr/bin/python3
"""Small streams for the tests, written and read by msgpack and numpy alone.

stream.py make [key=value ..] >STREAM     stream.py get ARRAY <STREAM     stream.py kept BEFORE AFTER
"""
import sys

import msgpack
import numpy as np


def ndarray(a):
    a = np.ascontiguousarray(a)
    return {b"nd": True, b"type": a.dtype.str, b"kind": b"", b"shape": list(a.shape), b"data": a.tobytes()}


def numpy_of(m):
    return np.frombuffer(m[b"data"], m[b"type"]).reshape(m[b"shape"])


def table(o):
    """The rollout of the reference tables: r = 1, v = .5...8, last .9."""
    T, N = 4, 1
    a = {
        "rewards": np.ones((T, N, 1), "<f4"),
        "terminated": np.zeros((T, N), "u1"),
        "truncated": np.zeros((T, N), "u1"),
        "prev_values": np.array([[0.5], [0.6], [0.7], [0.8]], "<f4"),
        "last_values": np.array([0.9], "<f4"),
    }
    for end in ("terminated", "truncated"):
        if end in o:
            a[end][int(o[end])] = 1
    if "truncated" in o:
        a["final_values"] = np.full((T, N), np.nan, "<f4")
        a["final_values"][int(o["truncated"])] = 0.65
    return a


def random(o):
    """T steps of N environments, with ends, masked rows full of `dirt`, an image and an array nobody knows."""
    T, N, C = int(o.get("T", 9)), int(o.get("N", 6)), int(o.get("C", 2))
    dirt = float(o.get("dirt", 0))
    rng = np.random.default_rng(int(o.get("seed", 1)))
    a = {
        "obs/state": rng.standard_normal((T, N, 1, 3)).astype("<f4"),
        "obs/image": rng.integers(0, 256, (T, N, 1, 2, 2, 3), "u1"),
        "rewards": rng.standard_normal((T, N, C)).astype("<f4"),
        "terminated": (rng.random((T, N)) < 0.2).astype("u1"),
        "truncated": (rng.random((T, N)) < 0.2).astype("u1"),
        "valid": np.ones((T, N), "u1"),
        "n_exec": np.full((T, N), C, "<i4"),
        "prev_values": rng.standard_normal((T, N)).astype("<f4"),
        "last_values": rng.standard_normal(N).astype("<f4"),
        "final_values": rng.standard_normal((T, N)).astype("<f4"),
        "mystery": rng.standard_normal((N, 2)).astype(">f8"),
    }
    end = a["terminated"] | a["truncated"]
    for t in range(1, T):
        a["valid"][t] = 1 - (a["valid"][t - 1] & end[t - 1])
    dead = a["valid"] == 0
    for name in ("rewards", "prev_values", "final_values", "obs/state"):
        a[name][dead] = dirt
    a["final_values"][(a["truncated"] == 0) | (a["terminated"] == 1)] = dirt
    return a


def spoil(o, a):
    """spoil=ARRAY: a NaN in its first element."""
    if "spoil" in o:
        a[o["spoil"]].reshape(-1)[0] = np.nan
    if "drop" in o:
        del a[o["drop"]]
    return a


def cut(a, k, of):
    """Slice k of `of` over the environments."""
    N = a["rewards"].shape[1]
    lo, hi = N * k // of, N * (k + 1) // of
    return lo, hi - lo, {n: x[lo:hi] if n in ("last_values", "mystery") else x[:, lo:hi] for n, x in a.items()}


def make(o):
    put = lambda m: sys.stdout.buffer.write(msgpack.packb(m))
    frames, samples, slices = 0, 0, int(o.get("slices", 1))
    head = {"mf": "head", "v": int(o.get("v", 1)), "run": "", "src": "", "seed": 1, "spec": {}, "chain": [], "more": [1]}
    stream = [head] if o.get("head", "1") == "1" else []
    for i in range(int(o.get("iters", 1))):
        a = spoil(o, table(o) if o.get("case", "table") == "table" else random(o))
        for k in range(slices):
            first, n, part = cut(a, k, slices)
            stream.append({"mf": "rollout", "iter": i, "src": "", "slice": [k, slices], "envs": [first, n],
                           "policy": {"version": i, "digest": "x"}, "extra": {"kept": True},
                           "arrays": {name: ndarray(x) for name, x in part.items()}})
            samples += a["rewards"].shape[0] * n
        stream.append({"mf": "round", "iter": i, "src": "", "slices": slices + int(o.get("missing", 0)),
                       "episodes": {"n": 4, "return": 1.5, "length": 8, "success": 0.25}})
    stream.append({"mf": "news", "text": "what nobody knows"})
    stream += [dict(head)] * int(o.get("heads", 0))
    for m in stream:
        put(m)
    if o.get("end", "1") == "1":
        put({"mf": "end", "src": "", "frames": len(stream) + int(o.get("lie", 0)), "samples": samples, "stopped": False})
    for _ in range(int(o.get("after", 0))):
        put({"mf": "news"})


def read(f):
    return list(msgpack.Unpacker(f, max_buffer_size=0, strict_map_key=False))


def get(name):
    """All environments in order, a line for each step."""
    parts = [numpy_of(m["arrays"][name]) for m in read(sys.stdin.buffer) if m["mf"] == "rollout"]
    whole = np.concatenate(parts, axis=1)
    for row in whole.reshape(whole.shape[0], -1):
        print(" ".join("%.9g" % x for x in row))


def kept(before, after):
    """Is all of `before` still in `after`, byte for byte and in order?"""
    old, new = read(open(before, "rb")), read(open(after, "rb"))
    assert [m["mf"] for m in old] == [m["mf"] for m in new], "other frames"
    for a, b in zip(old, new):
        assert list(b)[: len(a)] == list(a), "other fields"
        for key in a:
            if key == "arrays":
                assert list(b[key])[: len(a[key])] == list(a[key]), "other arrays"
                assert all(msgpack.packb(b[key][n]) == msgpack.packb(x) for n, x in a[key].items()), "changed arrays"
            elif key != "chain":
                assert msgpack.packb(a[key]) == msgpack.packb(b[key]), "changed field " + key


if __name__ == "__main__":
    what, words = sys.argv[1], sys.argv[2:]
    if what == "make":
        make(dict(w.split("=", 1) for w in words))
    elif what == "get":
        get(*words)
    else:
        kept(*words)
