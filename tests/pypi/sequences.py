#!/usr/bin/env python3
"""sequences.py FILE COUNTS: read all of a file by robomimic's own data set, against h5py; how many samples it cuts.

Lines of COUNTS: "frame_stack seq_length pad_frame_stack pad_seq_length samples".
"""
import json
import sys

import h5py
import numpy
import robomimic.utils.obs_utils as ObsUtils
from robomimic.utils.dataset import SequenceDataset

path, counts = sys.argv[1:]
with h5py.File(path) as file:
    names = sorted(file["data"], key=lambda name: int(name[5:]))
    demos = {name: {key: x[()] for key, x in file["data"][name].items() if isinstance(x, h5py.Dataset)} for name in names}
    obs = {name: {key: x[()] for key, x in file["data"][name]["obs"].items()} for name in names}
    args = json.loads(file["data"].attrs["env_args"])
    assert file["data"].attrs["total"] == sum(len(demo["actions"]) for demo in demos.values())
keys = list(obs[names[0]])
assert args["env_name"] == "Lift" and args["type"] == 1 and args["env_kwargs"] == {}, args
ObsUtils.initialize_obs_utils_with_obs_specs({"obs": {"low_dim": keys, "rgb": []}})


def padded(x, begin, end):
    return x[numpy.clip(numpy.arange(begin, end), 0, len(x) - 1)]


for stack, length, before, after in [(1, 1, 1, 1), (2, 16, 1, 1), (2, 16, 0, 1), (2, 8, 1, 0), (3, 8, 0, 0)]:
    data = SequenceDataset(
        path, obs_keys=keys, dataset_keys=["actions", "rewards", "dones"], frame_stack=stack, seq_length=length,
        pad_frame_stack=bool(before), pad_seq_length=bool(after), load_next_obs=False, hdf5_cache_mode="low_dim")
    at = 0
    for name in sorted(names, key=data.demos.index):
        n = len(demos[name]["actions"])
        for t in range(0 if before else stack - 1, n if after else n - length + 1):
            item = data[at]
            at += 1
            for key in keys:
                assert numpy.array_equal(item["obs"][key], padded(obs[name][key], t + 1 - stack, t + length)), key
            assert numpy.array_equal(item["actions"], padded(demos[name]["actions"], t + 1 - stack, t + length))
            assert item["rewards"].shape == (stack - 1 + length,)
    assert at == len(data)
    with open(counts, "a") as to:
        print(stack, length, before, after, len(data), file=to)
