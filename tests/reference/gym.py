"""Gymnasium's locomotion tasks on the models of tests/fixtures/gym, by Gymnasium's own classes: observations, rewards and
ends for tests/unit/test_gym.c.

    python tests/reference/gym.py tests/fixtures/gym        # writes gym.bin there

Made with gymnasium 1.4.0 and mujoco 2.3.2, whose dynamics agree with those of 2.2.2. A record is TASK/start (positions,
velocities), TASK/actions, TASK/obs, TASK/rewards, TASK/ends; their form is that of tests/unit/fixture.h.
"""
import os
import struct
import sys

import numpy as np
from gymnasium.envs.mujoco.ant_v5 import AntEnv
from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv
from gymnasium.envs.mujoco.hopper_v5 import HopperEnv
from gymnasium.envs.mujoco.walker2d_v5 import Walker2dEnv

TASKS = {"hopper": HopperEnv, "walker2d": Walker2dEnv, "half_cheetah": HalfCheetahEnv, "ant": AntEnv}
EPISODES, STEPS = 2, 24


def episode(env, rng, push):
    """push: of velocity 2, the pitch, or z of ant, so that the robot falls or leaps."""
    env.reset(seed=1)
    start = np.concatenate([env.data.qpos, env.data.qvel + push * np.eye(env.model.nv)[2]]).astype("f4")
    env.set_state(*np.split(start, [env.model.nq]))
    rows = []
    for _ in range(STEPS):
        action = rng.uniform(-1, 1, env.model.nu).astype("f4")
        obs, reward, ended, _, _ = env.step(action)
        rows.append((action, obs, reward, ended))
    return start, *map(np.array, zip(*rows))


folder = sys.argv[1]
rng = np.random.default_rng(0)
with open(os.path.join(folder, "gym.bin"), "wb") as f:
    for task, make in TASKS.items():
        env = make(xml_file=os.path.abspath(os.path.join(folder, f"{task}.xml")))
        parts = [episode(env, rng, 12 * i) for i in range(EPISODES)]
        for name, values in zip(("start", "actions", "obs", "rewards", "ends"), zip(*parts)):
            key, flat = f"{task}/{name}".encode(), np.concatenate([np.ravel(v) for v in values]).astype("<f4")
            f.write(struct.pack("<I", len(key)) + key + struct.pack("<I", flat.size) + flat.tobytes())
        ends = np.array([p[4] for p in parts])
        print(task, "healthy, not healthy:", (~ends).sum(), ends.sum(), "largest of an observation:", np.abs(parts[1][2]).max())
