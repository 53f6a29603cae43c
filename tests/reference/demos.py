#!/usr/bin/env python3
"""Makes tests/fixtures/point.hdf5: a few demonstrations of the point task in robomimic's layout (numpy, h5py)."""
import json
from pathlib import Path

import h5py
import numpy as np

rng = np.random.default_rng(0)
with h5py.File(Path(__file__).parent.parent / "fixtures" / "point.hdf5", "w", libver="latest") as file:
    data, total = file.create_group("data"), 0
    for i in [0, 2, 3, 10, 11, 12, 20, 21]:
        n = int(rng.integers(20, 40))
        position, velocity, goal = np.zeros((n, 2)), np.zeros((n, 2)), np.repeat(rng.normal(0, 1, (1, 2)), n, 0)
        position[0] = rng.normal(0, 1, 2)
        for t in range(1, n):
            velocity[t] = 0.2 * (goal[t] - position[t - 1])
            position[t] = position[t - 1] + velocity[t]
        demo = data.create_group(f"demo_{i}")
        for name, value in [("position", position), ("velocity", velocity), ("goal", goal)]:
            demo[f"obs/{name}"] = value.astype("f4")
        demo["actions"] = np.clip(goal - position + 0.05 * rng.normal(size=(n, 2)), -1, 1).astype("f4")
        demo.attrs["num_samples"] = n
        total += n
    data.attrs["total"] = total
    data.attrs["env_args"] = json.dumps({"env_name": "Point", "type": 1, "env_kwargs": {}})
    file["mask/train"] = np.array([b"demo_0", b"demo_2"])
