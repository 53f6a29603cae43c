#!/usr/bin/env python3
"""Gymnasium environments, by Gymnasium's vector API.

    mf-collect env=exec env.command='python3 examples/envs/gymnasium_env.py Pendulum-v1' | mf-gae | mf-ppo

Observations are Boxes of up to 3 dimensions, Discrete, MultiDiscrete, MultiBinary, and Dicts of them: "robot/pos" is pos in
the Dict robot. Bytes of 2 dimensions and more stay bytes, all else becomes float32. Actions are a Box. A decision's chunk of
actions is executed inside each sub-environment, so that one whose episode ends within it stops there. `success` is what
the environment's info calls is_success or success. Ran with: gymnasium.txt beside this file.
"""
import sys

import serving  # first: it says what is missing
from serving import Fault

try:
    import gymnasium as gym
    import numpy as np
    from gymnasium.vector import AutoresetMode, SyncVectorEnv
except ModuleNotFoundError as e:
    if any(word.startswith("--bind") for word in sys.argv):
        sys.exit(f"gymnasium_env.py: error: {serving.missing(e)}")
    serving.serve(serving.lacks(e), None, serving.keep_stdout())
    sys.exit()

MODES = {"same_step": AutoresetMode.SAME_STEP, "next_step": AutoresetMode.NEXT_STEP, "disabled": AutoresetMode.DISABLED}


def number(what, x):
    """A finite number, whatever holds it: a scalar, an array of one."""
    try:
        a = np.asarray(x, dtype=float).ravel()
    except (TypeError, ValueError):
        a = np.empty(0)
    if isinstance(x, str) or a.size != 1 or not np.isfinite(a[0]):
        raise Fault(f"{what} is {x!r:.60}, and must be one finite number")
    return float(a[0])


def truth(what, x):
    """True or False in the same holders; None is False."""
    return x is not None and number(what, x) != 0


def flat(x, key, dicts):
    """{key: what is not of the type `dicts`}, of an observation or a space."""
    if not isinstance(x, dicts):
        return {key: x}
    return {a: v for k, y in x.items() for a, v in flat(y, f"{key}/{k}" if key else str(k), dicts).items()}


def box_of(key, space):
    """The Box that a policy sees of a space."""
    known = (gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiDiscrete, gym.spaces.MultiBinary)
    if not isinstance(space, known) or len(space.shape) > 3:
        raise Fault(f"observation {key!r} is {space}, and a policy sees numbers of up to 3 dimensions: convert it in a gymnasium.ObservationWrapper")
    shape = space.shape or (1,)
    if space.dtype == np.uint8 and len(shape) > 1:
        return gym.spaces.Box(0, 255, shape, np.uint8)
    return gym.spaces.Box(-np.inf, np.inf, shape, np.float32)


class Chunk(gym.Wrapper):
    """A step executes a chunk of actions (C, A), up to the end of the episode. Rows of NaN: it stays as it is.
    Observations are a Dict of Boxes."""

    film = False

    def __init__(self, env, key):
        super().__init__(env)
        self.key = "" if isinstance(env.observation_space, gym.spaces.Dict) else key
        spaces = flat(env.observation_space, self.key, gym.spaces.Dict)
        self.observation_space = gym.spaces.Dict({k: box_of(k, s) for k, s in spaces.items()})

    def shoot(self):
        if self.film:
            self.pictures.append(self.env.render())

    def see(self, obs):
        values, self.seen = flat(obs, self.key, dict), {}
        if set(values) != set(self.observation_space):
            raise Fault(f"its observation has {sorted(values)}, and its observation_space {sorted(self.observation_space)}")
        for k, box in self.observation_space.items():
            x = np.asarray(values[k])
            if x.dtype.kind not in "biuf" or x.shape not in (box.shape, ()) or x.size != np.prod(box.shape):
                raise Fault(f"observation {k!r} is {x.dtype} of shape {x.shape}, and its space says {box.shape}")
            if box.dtype == np.float32 and (np.abs(x[np.isfinite(x)]) > np.finfo("f4").max).any():
                raise Fault(f"observation {k!r} has {np.abs(x).max():g}, which is more than float32 holds: scale it")
            self.seen[k] = x.astype(box.dtype).reshape(box.shape)

    def reset(self, **kw):
        answer = self.env.reset(**kw)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise Fault("its reset() must return (observation, info)")
        self.see(answer[0])
        self.shoot()
        return self.seen, {}

    def one_step(self, action):
        box = self.env.action_space
        answer = self.env.step(action.astype(box.dtype).reshape(box.shape))
        if not isinstance(answer, tuple) or len(answer) != 5 or not isinstance(answer[4], dict):
            raise Fault("its step() must return (observation, reward, terminated, truncated, info), info a dict")
        obs, reward, ended, cut, info = answer
        name = "is_success" if "is_success" in info else "success"
        self.rewards.append(number("the reward of its step()", reward))
        self.success.append(truth(f"info[{name!r}]", info.get(name)))
        self.see(obs)
        self.shoot()
        return truth("terminated", ended), truth("truncated", cut)

    def step(self, actions):
        ended = cut = False
        for a in actions if np.isfinite(actions).all() else []:
            ended, cut = self.one_step(a)
            if ended or cut:
                break
        return self.seen, sum(self.rewards), ended, cut, {}


class Gymnasium:
    def __init__(self, args):
        self.args, self.autoreset = args, args.autoreset
        self.name = args.id.rpartition(":")[2]  # of a module of the path
        one = self.create(None, False)
        self.renders = "rgb_array" in (one.metadata.get("render_modes") or [])
        self.low, self.high = np.ravel(one.action_space.low), np.ravel(one.action_space.high)
        self.obs = {k: np.zeros(box.shape, box.dtype) for k, box in one.observation_space.items()}
        self.max_steps = one.spec.max_episode_steps or 1000
        self.control_hz = one.metadata.get("render_fps") or 20
        one.close()

    def create(self, max_steps, film):
        env = gym.make(self.args.id, max_episode_steps=max_steps, **({"render_mode": "rgb_array"} if film else {}))
        box = env.action_space
        if not isinstance(box, gym.spaces.Box):
            raise Fault(f"{self.name}: its actions are {box}, and a flow policy makes those of a Box")
        if self.args.rescale and not np.isfinite([box.low, box.high]).all():
            raise Fault(f"{self.name}: --rescale needs actions with bounds, and these go from {box.low.min()} to {box.high.max()}")
        return Chunk(gym.wrappers.RescaleAction(env, np.float32(-1), np.float32(1)) if self.args.rescale else env, self.args.key)

    def make(self, n, max_steps, keys, film, **_):
        self.n, self.keys = n, keys
        self.vec = SyncVectorEnv([lambda: self.create(max_steps, film > 0)] * n, autoreset_mode=MODES[self.autoreset])
        self.filmed = self.vec.envs[:film]
        for one in self.filmed:
            one.film = True
        self.over, self.fresh = np.zeros(n, bool), True

    def rows(self, obs):
        return {k: np.array(obs[k]) for k in self.keys}

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
                    answer["final"][k][i] = info["final_obs"][i][k]
        return answer


if __name__ == "__main__":
    p = serving.options(__doc__)
    p.add_argument("id", help="of gymnasium.make, as Pendulum-v1 or my_package:Mine-v0")
    p.add_argument("--autoreset", choices=MODES, default="disabled", help="disabled: our seeds for every episode")
    p.add_argument("--key", default="state", help="name of an observation that is a Box")
    p.add_argument("--rescale", action="store_true", help="actions in [-1, 1], whatever the environment's bounds")
    args, out = p.parse_args(), serving.keep_stdout()
    try:
        sim = Gymnasium(args)
    except ModuleNotFoundError as e:  # of my_package:Mine-v0
        sim = Fault(f"{e}, for {sys.executable}, which {args.id} needs: it has to be installed, or on PYTHONPATH")
    except Fault as e:
        sim = e  # which answers every question
    serving.serve(sim, args.bind, out)
