#!/usr/bin/env python3
"""Scripted demonstrations of robosuite's Lift in robomimic's layout: robosuite_demos.py FILE [N] [SEED]

The script sees the cube where it is not: an error of its own in every episode about an offset that they share. So it
fails in part, and a clone of it has something to learn. Failures are kept. The physics take steps of 5 ms, as the file
says, where robosuite's own are 2 ms: twice as many control steps a second.
"""
import json
import sys

import robosuite_env as rs  # first: it says what is missing

import numpy as np

try:
    import h5py
except ModuleNotFoundError as e:
    sys.exit(f"robosuite_demos.py: error: {rs.serving.missing(e)}")

OFFSET, SPREAD, NOISE = np.array([0.016, 0.0, 0.004]), np.array([0.008, 0.006, 0.003]), 0.1
STEPS, TIMESTEP = 40, 0.005


class Script:
    def __init__(self, rng):
        self.rng, self.closing, self.phase = rng, 0, "above"
        self.error = OFFSET + SPREAD * rng.standard_normal(3)

    def act(self, obs):
        miss = obs["object"][:3] + self.error - obs["robot0_eef_pos"]
        if self.phase == "above" and np.linalg.norm(miss[:2]) < 0.01:
            self.phase = "down"
        if self.phase == "down" and abs(miss[2]) < 0.008:
            self.phase = "grip"
        self.closing += self.phase == "grip"
        if self.closing > 5:
            self.phase = "lift"
        way = {"above": miss + [0, 0, 0.06], "down": miss, "grip": 0 * miss, "lift": np.array([0, 0, 0.1])}[self.phase]
        grip = 1.0 if self.phase in ("grip", "lift") else -1.0
        action = np.concatenate([way / 0.05, np.zeros(3), [grip]])
        action[:3] += NOISE * self.rng.standard_normal(3)
        return np.clip(action, -1, 1)


def main(path, n=50, seed=0):
    env = rs.Robosuite("Lift", {}, rs.KEYS.split(","), TIMESTEP)
    with h5py.File(path, "w") as f:
        data, good = f.create_group("data"), 0
        about = {"env_name": "Lift", "type": 1, "env_kwargs": rs.DEFAULTS, "simulation_timestep": TIMESTEP}
        data.attrs["env_args"] = json.dumps(about)
        for i in range(n):
            rng = np.random.default_rng([seed, i])
            script, rows, done = Script(rng), {"actions": [], "rewards": [], "dones": []}, False
            obs, seen = env.reset(int(rng.integers(2**32))), {k: [] for k in env.keys}
            while not done and len(rows["actions"]) < STEPS:
                action = script.act(obs)
                for k in env.keys:
                    seen[k].append(obs[k])
                obs, reward, done, _, _ = env.step(action)
                for k, v in zip(rows, (action, reward, done)):
                    rows[k].append(v)
            good += done
            demo = data.create_group(f"demo_{i}")
            demo.attrs["num_samples"] = len(rows["actions"])
            for k, v in rows.items():
                demo[k] = np.array(v, "f4" if k != "dones" else "i8")
            for k, v in seen.items():
                demo[f"obs/{k}"] = np.array(v)
            print(f"\r{i + 1} of {n} demonstrations, {good} succeed ", end="", file=sys.stderr, flush=True)
        data.attrs["total"] = sum(d.attrs["num_samples"] for d in data.values())
    print(file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
