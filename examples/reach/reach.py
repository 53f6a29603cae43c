#!/usr/bin/env python3
"""A two-joint arm that reaches for a target, as a Gymnasium environment; and demonstrations of it: reach.py FILE [N] [SEED]

An episode succeeds, and ends, when the fingertip has stayed on the target for HOLD steps. The demonstrator has the links'
lengths wrong by up to a quarter, anew in every episode, and so it misses about half of the targets: a clone of it has
something to learn. Failed demonstrations are kept.
"""
import json
import sys

import gymnasium as gym
import numpy as np

LINKS, SPEED, NEAR, HOLD, MAX_STEPS = np.array([0.5, 0.5]), 0.15, 0.06, 3, 50


def joints_at(angles, links=LINKS):
    """Where the elbow and the fingertip are, (2, 2)."""
    turned = np.cumsum(angles)
    return np.cumsum(links[:, None] * np.stack([np.cos(turned), np.sin(turned)], 1), 0)


class Reach(gym.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)  # turns both joints by SPEED radians at 1
    observation_space = gym.spaces.Box(-2, 2, (8,), np.float32)  # cosines and sines of the joints, fingertip, target

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def observe(self):
        turned = np.cumsum(self.angles)
        return np.concatenate([np.cos(turned), np.sin(turned), joints_at(self.angles)[1], self.target]).astype("f4")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.angles = self.np_random.uniform([-np.pi, 0.5], [np.pi, 2.5])
        radius, angle = self.np_random.uniform([0.3, -np.pi], [0.9, np.pi])
        self.target, self.held = radius * np.array([np.cos(angle), np.sin(angle)]), 0
        return self.observe(), {}

    def step(self, action):
        self.angles = self.angles + SPEED * np.clip(action, -1, 1)
        near = np.linalg.norm(joints_at(self.angles)[1] - self.target) < NEAR
        self.held = self.held + 1 if near else 0
        success = self.held >= HOLD
        return self.observe(), float(success), success, False, {"is_success": success}

    def render(self):
        """A picture of 240 x 240 pixels: the arm, and the target as it should be touched."""
        y, x = np.mgrid[1.2:-1.2:240j, -1.2:1.2:240j]
        here, image = np.stack([x, y], -1), np.full((240, 240, 3), 255, "u1")
        image[np.linalg.norm(here - self.target, axis=-1) < NEAR] = (40, 160, 70)
        at = np.zeros(2)
        for to, colour in zip(joints_at(self.angles), [(70, 90, 130), (110, 140, 190)]):
            along = np.clip((here - at) @ (to - at) / ((to - at) @ (to - at)), 0, 1)
            image[np.linalg.norm(here - at - along[..., None] * (to - at), axis=-1) < 0.03] = colour
            at = to
        return image


gym.register("Reach-v0", entry_point=Reach, max_episode_steps=MAX_STEPS)


def demonstrate(env, believed, rng):
    """The action of a demonstrator who believes that the links are so long: down the slope of the distance."""
    miss = env.target - joints_at(env.angles, believed)[1]
    slope = [miss @ (joints_at(env.angles + turn, believed)[1] - joints_at(env.angles, believed)[1]) / 1e-3 for turn in 1e-3 * np.eye(2)]
    return np.clip(2 / SPEED * np.array(slope) + 0.2 * rng.standard_normal(2), -1, 1).astype("f4")


def main(path, n=200, seed=0):
    import h5py

    env, good = gym.make("Reach-v0"), 0
    with h5py.File(path, "w") as f:  # robomimic's layout
        data = f.create_group("data")
        data.attrs["env_args"] = json.dumps({"env_name": "Reach-v0", "type": 1, "env_kwargs": {}})
        for i in range(n):
            rng = np.random.default_rng([seed, i])
            believed, rows = LINKS * rng.uniform(0.75, 1.05, 2), {"obs/state": [], "actions": [], "rewards": [], "dones": []}
            obs, _ = env.reset(seed=int(rng.integers(2**31)))
            over = False
            while not over:
                action = demonstrate(env.unwrapped, believed, rng)
                seen, (obs, reward, success, cut, _) = obs, env.step(action)
                for row, x in zip(rows.values(), (seen, action, reward, success)):
                    row.append(x)
                over = success or cut
            good += success
            demo = data.create_group(f"demo_{i}")
            demo.attrs["num_samples"] = len(rows["actions"])
            for key, row in rows.items():
                demo[key] = np.array(row, "f4")
        data.attrs["total"] = sum(d.attrs["num_samples"] for d in data.values())
    print(f"{path}: {n} demonstrations, {good} succeed")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
