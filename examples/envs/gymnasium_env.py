#!/usr/bin/env python3
"""Gymnasium environments, by Gymnasium's vector API.

    mf-collect env=exec env.command='python3 examples/envs/gymnasium_env.py Pendulum-v1' | mf-gae | mf-ppo

Box or Dict-of-Box observations, Box actions. A decision's chunk of actions is executed inside each sub-environment, so
that one whose episode ends within it stops there. `success` is what the environment's info calls is_success or success.
Ran with: gymnasium.txt beside this file.
"""
import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import serving

MODES = {"same_step": AutoresetMode.SAME_STEP, "next_step": AutoresetMode.NEXT_STEP, "disabled": AutoresetMode.DISABLED}


class Chunk(gym.Wrapper):
    """A step executes a chunk of actions (C, A), up to the end of the episode. Rows of NaN: it stays as it is."""

    film = False

    def shoot(self):
        if self.film:
            self.pictures.append(self.env.render())

    def reset(self, **kw):
        self.seen, info = self.env.reset(**kw)
        self.shoot()
        return self.seen, info

    def step(self, actions):
        ended = cut = False
        for a in actions if np.isfinite(actions).all() else []:
            self.seen, reward, ended, cut, info = self.env.step(a)
            self.rewards.append(reward)
            self.success.append(info.get("is_success", info.get("success", False)))
            self.shoot()
            if ended or cut:
                break
        return self.seen, sum(self.rewards), ended, cut, {}


class Gymnasium:
    def __init__(self, args):
        self.args, self.autoreset = args, args.autoreset
        self.name = args.id.rpartition(":")[2]  # of a module of the path
        one = self.create(None, False)
        self.renders = "rgb_array" in (one.metadata.get("render_modes") or [])
        if not isinstance(one.action_space, gym.spaces.Box) or len(one.action_space.shape) != 1:
            raise SystemExit(f"{args.id}: actions are {one.action_space}; a flow policy needs a Box of one dimension")
        self.low, self.high = one.action_space.low, one.action_space.high
        self.obs = {k: np.zeros(np.shape(v), "u1" if np.asarray(v).dtype == np.uint8 else "f4")
                    for k, v in self.named(one.observation_space.sample()).items()}
        self.max_steps = one.spec.max_episode_steps or 1000
        self.control_hz = one.metadata.get("render_fps") or 20
        one.close()

    def create(self, max_steps, film):
        env = gym.make(self.args.id, max_episode_steps=max_steps, **({"render_mode": "rgb_array"} if film else {}))
        return Chunk(gym.wrappers.RescaleAction(env, np.float32(-1), np.float32(1)) if self.args.rescale else env)

    def named(self, obs):
        return obs if isinstance(obs, dict) else {self.args.key: obs}

    def make(self, n, max_steps, keys, film, **_):
        self.n, self.keys = n, keys
        self.vec = SyncVectorEnv([lambda: self.create(max_steps, film > 0)] * n, autoreset_mode=MODES[self.autoreset])
        self.filmed = self.vec.envs[:film]
        for one in self.filmed:
            one.film = True
        self.over, self.fresh = np.zeros(n, bool), True

    def rows(self, obs):
        obs = self.named(obs)
        return {k: np.asarray(obs[k]).astype(self.obs[k].dtype) for k in self.keys}

    def reset(self, which, episode, seed):
        again = (which > 0) | self.fresh  # a vector that was never reset cannot be reset in part
        self.over[again], self.fresh = False, False
        for one in self.filmed:
            one.pictures = []
        obs, _ = self.vec.reset(seed=[int(s) for s in seed], options={"reset_mask": again})
        return {"obs": self.rows(obs), **serving.pictures([one.pictures[:1] for one in self.filmed], 1)}

    def step(self, actions, active, autoreset, episode, seed):
        if self.autoreset == "disabled" and self.over.any():  # of those whose trial is over: the vector wants it so
            self.reset(self.over.astype("u1"), episode, seed)
        for one in self.vec.envs:
            one.rewards, one.success, one.pictures = [], [], []
        obs, _, ended, cut, info = self.vec.step(np.where(active[:, None, None] > 0, actions, np.nan))
        self.over = ended | cut
        rewards, success = np.zeros((2, *actions.shape[:2]), "f4")
        for i, one in enumerate(self.vec.envs):
            rewards[i, : len(one.rewards)], success[i, : len(one.success)] = one.rewards, one.success
        answer = {"obs": self.rows(obs), "rewards": rewards, "success": success.astype("u1"),
                  "n_exec": np.array([len(one.rewards) for one in self.vec.envs], "i4"),
                  "terminated": ended.astype("u1"), "truncated": (cut & ~ended).astype("u1"),
                  **serving.pictures([one.pictures[: actions.shape[1]] for one in self.filmed], actions.shape[1])}
        if "final_obs" in info:
            answer["final"] = {k: v.copy() for k, v in answer["obs"].items()}
            for i in np.flatnonzero(info["_final_obs"]):
                for k in self.keys:
                    answer["final"][k][i] = self.named(info["final_obs"][i])[k]
        return answer


if __name__ == "__main__":
    p = serving.options(__doc__)
    p.add_argument("id", help="of gymnasium.make, as Pendulum-v1 or my_package:Mine-v0")
    p.add_argument("--autoreset", choices=MODES, default="disabled", help="disabled: our seeds for every episode")
    p.add_argument("--key", default="state", help="name of an observation that is a Box")
    p.add_argument("--rescale", action="store_true", help="actions in [-1, 1], whatever the environment's bounds")
    args, out = p.parse_args(), serving.keep_stdout()
    serving.serve(Gymnasium(args), args.bind, out)
