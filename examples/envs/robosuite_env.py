#!/usr/bin/env python3
"""robosuite tasks, as a robomimic file of demonstrations describes them in its env_args, or by name.

    mf-eval env=exec env.command='python3 examples/envs/robosuite_env.py Lift' outputs/Lift/latest
    mf-eval env=exec env.command='python3 examples/envs/robosuite_env.py low_dim.hdf5' outputs/Lift/latest

Observations have robomimic's names ("object" is robosuite's object-state). An episode ends with success, or with
max_steps. Ran with: robosuite.txt beside this file (robosuite 1.5.2 fails with MuJoCo 4).
"""
import json
import os

import numpy as np

import serving

KEYS = "object,robot0_eef_pos,robot0_eef_quat,robot0_gripper_qpos"
DEFAULTS = {"robots": "Panda", "control_freq": 20, "use_camera_obs": False, "has_renderer": False, "has_offscreen_renderer": False}


class Robosuite:
    """One environment. Its random numbers are seeded at every reset, so that a seed is an initial state."""

    def __init__(self, name, kwargs, keys, timestep=None):
        import robosuite
        from robosuite.controllers.composite.composite_controller_factory import refactor_composite_controller_config

        kwargs = {**DEFAULTS, **kwargs, "ignore_done": True, "hard_reset": False, "reward_shaping": False}
        arm = kwargs.get("controller_configs")
        if arm and "body_parts" not in arm:  # a file of robosuite 1.4 or before
            kwargs["controller_configs"] = refactor_composite_controller_config(arm, kwargs["robots"], ["right"])
        if timestep:
            robosuite.macros.SIMULATION_TIMESTEP = timestep
        self.env, self.keys = robosuite.make(name, **kwargs), keys
        self.low, self.high = self.env.action_spec

    def see(self, obs):
        named = {k: obs["object-state" if k == "object" else k] for k in self.keys}
        return {k: v if v.dtype == np.uint8 else v.astype("f4") for k, v in named.items()}

    def reset(self, seed, episode=0):
        fresh = np.random.default_rng(seed).bit_generator.state
        for rng in {id(r): r for r in self.generators()}.values():
            rng.bit_generator.state = fresh
        np.random.seed(seed)
        return self.see(self.env.reset())

    def generators(self):
        yield self.env.rng
        samplers = [getattr(self.env, "placement_initializer", None)]
        for s in samplers:
            samplers.extend(getattr(s, "samplers", {}).values())
            if hasattr(s, "rng"):
                yield s.rng

    def step(self, action):
        obs, reward, _, _ = self.env.step(action)
        success = bool(self.env._check_success())
        return self.see(obs), reward, success, False, success

    def image(self):
        return self.env.sim.render(camera_name="agentview", width=256, height=256)[::-1]


def described(task):
    """(name, kwargs, timestep) of a robomimic file, or of a task's name. timestep: of the physics, None is robosuite's 2 ms."""
    if not os.path.exists(task):
        return task, {}, None
    import h5py

    with h5py.File(task, "r") as f:
        args = json.loads(f["data"].attrs["env_args"])
    return args["env_name"], args.get("env_kwargs", {}), args.get("simulation_timestep")


if __name__ == "__main__":
    p = serving.options(__doc__)
    p.add_argument("task", help="Lift, Can, .., or a robomimic HDF5 file")
    p.add_argument("--keys", default=KEYS, help="observations, by commas")
    p.add_argument("--max-steps", type=int, default=400, help="of an episode, where env.max_steps says nothing")
    args, out = p.parse_args(), serving.keep_stdout()
    name, kwargs, timestep = described(args.task)
    first = Robosuite(name, kwargs, args.keys.split(","), timestep)
    spare = [first]
    sim = serving.Each(lambda i: spare.pop() if spare else Robosuite(name, kwargs, first.keys), name, args.max_steps,
                       first.env.control_freq, first.low, first.high, first.reset(0))
    serving.serve(sim, args.bind, out)
