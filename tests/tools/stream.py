#!/usr/bin/python3
"""Small streams for the tests, written and read by msgpack alone.

stream.py make [key=value ..] >STREAM     stream.py get ARRAY <STREAM     stream.py kept BEFORE AFTER
stream.py spoil STREAM FOLDER <CASES      a case a line: NAME: Python that changes f (frames) or a (arrays of the first rollout)
"""
import math
import random
import signal
import struct
import sys

import msgpack

LETTER = {"<f4": "<%df", "|u1": "%dB", "<i4": "<%di", ">f8": ">%dd", "<f8": "<%dd", "<i8": "<%dq", "<u8": "<%dQ"}


class Array:
    """A dtype, a shape and the elements in C order."""

    def __init__(self, dtype, shape, flat):
        self.dtype, self.shape = dtype, list(shape)
        self.flat = list(flat) if hasattr(flat, "__iter__") else [flat] * math.prod(shape)

    def ndarray(self):
        data = struct.pack(LETTER[self.dtype] % len(self.flat), *self.flat)
        return {b"nd": True, b"type": self.dtype, b"kind": b"", b"shape": self.shape, b"data": data}

    def fill_rows(self, rows, value):
        """Row i is that of (t, n) = divmod(i, N)."""
        inner = len(self.flat) // math.prod(self.shape[:2])
        for i in rows:
            self.flat[i * inner : (i + 1) * inner] = [value] * inner

    def slice(self, axis, lo, hi):
        inner = math.prod(self.shape[axis + 1 :])
        block = self.shape[axis] * inner
        flat = [x for at in range(0, len(self.flat), block) for x in self.flat[at + lo * inner : at + hi * inner]]
        return Array(self.dtype, self.shape[:axis] + [hi - lo] + self.shape[axis + 1 :], flat)


def table(o):
    """The rollout of the reference tables: r = 1, v = .5...8, last .9."""
    a = {
        "rewards": Array("<f4", (4, 1, 1), 1),
        "terminated": Array("|u1", (4, 1), 0),
        "truncated": Array("|u1", (4, 1), 0),
        "prev_values": Array("<f4", (4, 1), [0.5, 0.6, 0.7, 0.8]),
        "last_values": Array("<f4", (1,), 0.9),
    }
    for end in ("terminated", "truncated"):
        if end in o:
            a[end].flat[int(o[end])] = 1
    if "truncated" in o:
        a["final_values"] = Array("<f4", (4, 1), math.nan)
        a["final_values"].flat[int(o["truncated"])] = 0.65
    return a


def open_end(o):
    """A masked row after a valid one that did not end."""
    return {**table(o), "valid": Array("|u1", (4, 1), [1, 1, 0, 1])}


def anything(o):
    """T steps of N environments, with ends, masked rows full of `dirt`, an image and an array nobody knows."""
    T, N, C = int(o.get("T", 9)), int(o.get("N", 6)), int(o.get("C", 2))
    rng = random.Random(int(o.get("seed", 1)))
    normal = lambda dtype, *shape: Array(dtype, shape, [rng.gauss(0, 1) for _ in range(math.prod(shape))])
    ends = lambda: Array("|u1", (T, N), [rng.random() < 0.2 for _ in range(T * N)])
    a = {
        "obs/state": normal("<f4", T, N, 1, 3),
        "obs/image": Array("|u1", (T, N, 1, 2, 2, 3), [rng.randrange(256) for _ in range(T * N * 12)]),
        "rewards": normal("<f4", T, N, C),
        "terminated": ends(),
        "truncated": ends(),
        "valid": Array("|u1", (T, N), 1),
        "n_exec": Array("<i4", (T, N), C),
        "prev_values": normal("<f4", T, N),
        "last_values": normal("<f4", N),
        "final_values": normal("<f4", T, N),
        "mystery": normal(">f8", N, 2),
    }
    valid, dead, cut = a["valid"].flat, a["terminated"].flat, a["truncated"].flat
    for i in range(N, T * N):
        valid[i] = int(not (valid[i - N] and (dead[i - N] or cut[i - N])))
    for name in ("rewards", "prev_values", "final_values", "obs/state"):
        a[name].fill_rows([i for i in range(T * N) if not valid[i]], float(o.get("dirt", 0)))
    a["final_values"].fill_rows([i for i in range(T * N) if not cut[i]], float(o.get("dirt", 0)))
    return a


def rollout(o, i):
    a = {"table": table, "random": anything, "open": open_end}[o.get("case", "table")](o)
    if "spoil" in o:
        a[o["spoil"]].flat[0] = math.nan
    if "drop" in o:
        del a[o["drop"]]
    if i and "C2" in o:
        a["rewards"].shape[2] *= 2
        a["rewards"].flat *= 2
    return a


def cut(a, k, of):
    """Slice k of `of` over the environments."""
    N = a["rewards"].shape[1]
    lo, hi = N * k // of, N * (k + 1) // of
    return lo, hi - lo, {n: x.slice(0 if n in ("last_values", "mystery") else 1, lo, hi) for n, x in a.items()}


def make(o):
    put = lambda m: sys.stdout.buffer.write(msgpack.packb(m))
    samples, slices = 0, int(o.get("slices", 1))
    head = {"mf": "head", "v": int(o.get("v", 1)), "run": "", "src": "", "seed": 1, "spec": {}, "chain": [], "more": [1],
            **{k[5:]: int(v) for k, v in o.items() if k.startswith("head.")}}
    stream = [head] if o.get("head", "1") == "1" else []
    for i in range(int(o.get("iters", 1))):
        a = rollout(o, i)
        for k in range(slices):
            first, n, part = cut(a, k, slices)
            stream.append({"mf": "rollout", "iter": i, "src": "", "slice": [k, slices], "envs": [first, n],
                           "policy": {"version": i, "digest": "x"}, "extra": {"kept": True},
                           "arrays": {name: x.ndarray() for name, x in part.items()}})
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
    parts = []
    for m in read(sys.stdin.buffer):
        if m["mf"] == "rollout":
            x = m["arrays"][name]
            flat = struct.unpack(LETTER[x[b"type"]] % math.prod(x[b"shape"]), x[b"data"])
            steps = x[b"shape"][0]
            parts.append([flat[i * len(flat) // steps : (i + 1) * len(flat) // steps] for i in range(steps)])
    for rows in zip(*parts):
        print(" ".join("%.9g" % x for row in rows for x in row))


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


def spoil(source, folder):
    """FOLDER/NAME for every case: the stream with one thing wrong."""
    for line in sys.stdin:
        name, code = line.split(":", 1)
        f = read(open(source, "rb"))
        rollouts = [m for m in f if m["mf"] == "rollout"]
        a = {}
        for k, x in rollouts[0]["arrays"].items():
            dtype, shape = x[b"type"], x[b"shape"]
            a[k] = Array(dtype, shape, struct.unpack(LETTER[dtype] % math.prod(shape), x[b"data"]))
        exec(code.strip(), {**globals(), "f": f, "a": a, "rollouts": rollouts})
        rollouts[0]["arrays"] = {k: x.ndarray() if isinstance(x, Array) else x for k, x in a.items()}
        with open(f"{folder}/{name.strip()}", "wb") as out:
            for m in f:
                out.write(msgpack.packb(m))


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    what, words = sys.argv[1], sys.argv[2:]
    if what == "make":
        make(dict(w.split("=", 1) for w in words))
    elif what == "get":
        get(*words)
    elif what == "spoil":
        spoil(*words)
    else:
        kept(*words)
