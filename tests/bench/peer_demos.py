"""The peer of the rows `demos`: a data set as robomimic's (h5py, one sample an index, its cache modes) in PyTorch's
DataLoader. A sample is two observations, the first one repeated before the start, and sixteen actions from now on, the
last one repeated after the end. The best of cache modes and numbers of workers is taken.
"""

import sys
import time

import h5py
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

KEYS = {"object": 10, "robot0_eef_pos": 3, "robot0_eef_quat": 4, "robot0_gripper_qpos": 2}
STEPS, HORIZON, BATCH = 2, 16, 256


def make(path, demos=200):
    """Lift as human operators record it: 200 demos of some 48 steps, doubles, contiguous, with next_obs and states."""
    rng = np.random.default_rng(1)
    with h5py.File(path, "w") as file:
        for i in range(demos):
            n, demo = int(rng.integers(36, 60)), file.create_group(f"data/demo_{i}")
            demo["actions"], demo["states"] = rng.uniform(-1, 1, (n, 7)), rng.normal(size=(n, 32))
            demo["rewards"], demo["dones"] = np.zeros(n), np.zeros(n, "i8")
            for group in ("obs", "next_obs"):
                for key, dim in KEYS.items():
                    demo[f"{group}/{key}"] = rng.normal(size=(n, dim))
            demo.attrs["num_samples"] = n


class Sequences(Dataset):
    """cache: None opens the file and reads per sample, "low_dim" holds the arrays, "all" every sample."""

    def __init__(self, path, cache):
        self.path, self.file, self.arrays, self.samples, self.where = path, None, None, None, []
        with h5py.File(path) as file:
            names = sorted(file["data"], key=lambda name: int(name[5:]))
            for name in names:
                self.where += [(name, t) for t in range(file["data"][name].attrs["num_samples"])]
            if cache:
                self.arrays = {name: self.load(file["data"][name]) for name in names}
        if cache == "all":
            self.samples = [self.sample(i) for i in range(len(self.where))]

    @staticmethod
    def load(demo):
        arrays = {key: demo["obs"][key][()].astype("f4") for key in KEYS}
        arrays["actions"] = demo["actions"][()].astype("f4")
        return arrays

    def read(self, name, key, begin, end):
        """Steps [begin, end), padded."""
        if self.arrays:
            x = self.arrays[name][key]
        else:
            if self.file is None:
                self.file = h5py.File(self.path)
            x = self.file["data"][name]["actions" if key == "actions" else "obs/" + key]
        n = len(x)
        part = x[max(begin, 0) : min(end, n)]
        if begin < 0 or end > n:
            part = np.pad(part, ((max(-begin, 0), max(end - n, 0)), (0, 0)), mode="edge")
        return part.astype("f4", copy=False)

    def sample(self, i):
        name, t = self.where[i]
        out = {key: self.read(name, key, t + 1 - STEPS, t + 1) for key in KEYS}
        out["actions"] = self.read(name, "actions", t, t + HORIZON)
        return out

    def __len__(self):
        return len(self.where)

    def __getitem__(self, i):
        return self.samples[i] if self.samples else self.sample(i)


def loader(path, cache, workers):
    return DataLoader(Sequences(path, cache), BATCH, shuffle=True, drop_last=True, num_workers=workers,
                      persistent_workers=workers > 0)


def epoch(batches, most=3):
    """Minibatches that came, of an epoch or of its first seconds."""
    begin, n = time.perf_counter(), 0
    for batch in batches:
        n += 1
        if time.perf_counter() - begin > most:
            break
    return n


def check(path, obs, actions):
    """The largest difference of ours from these samples."""
    data = Sequences(path, "low_dim")
    mine = [data[i] for i in range(len(data))]
    flat = np.stack([np.concatenate([s[key] for key in KEYS], 1).ravel() for s in mine])
    acts = np.stack([s["actions"].ravel() for s in mine])
    return max(np.abs(flat.ravel() - obs.numpy()).max(), np.abs(acts.ravel() - actions.numpy()).max())


class Reads:
    def __init__(self, path):
        self.path, self.best, self.loader = path, {}, None
        torch.set_num_threads(1)

    def steady(self, least, batches):
        epoch(batches)
        begin, n = time.perf_counter(), 0
        while time.perf_counter() - begin < least:
            n += epoch(batches)
        return (time.perf_counter() - begin) / n

    def opened(self, cache, workers):
        begin = time.perf_counter()
        batches = loader(self.path, cache, workers)
        opened = time.perf_counter()
        n = epoch(batches)
        end = time.perf_counter()
        return opened - begin + (end - opened) / n * len(batches)

    def choose(self, what, ways, measure):
        if what not in self.best:
            tried = sorted((measure(*way), way[0] or "none", way) for way in ways)
            self.best[what] = tried[0][2]
            words = ", ".join(f"{t * 1e3:.3g} ms with cache {cache}, {way[1]} workers" for t, cache, way in tried)
            print(f"peer: demos, {what}: {words}", file=sys.stderr, flush=True)
        return self.best[what]

    def __call__(self, batch):
        ways = [(cache, workers) for cache in (None, "low_dim", "all") for workers in (0, 1, 2)]
        if not batch:
            return self.opened(*self.choose("opening and an epoch", ways, self.opened))
        if self.loader is None:
            way = self.choose("a minibatch", ways, lambda *way: self.steady(0.5, loader(self.path, *way)))
            self.loader = loader(self.path, *way)
        return self.steady(0.5, self.loader)
