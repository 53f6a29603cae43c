#!/usr/bin/env python3
r"""robosuite tasks, as a robomimic file of demonstrations describes them in its env_args, or by name.

    mf-eval env=exec env.command='python3 examples/envs/robosuite_env.py Lift' outputs/Lift/latest
    mf-eval env=exec env.command='python3 examples/envs/robosuite_env.py low_dim.hdf5' outputs/Lift/latest

Observations have robomimic's names ("object" is robosuite's object-state). An episode ends with success, or with
max_steps. Ran with: robosuite.txt beside this file (robosuite 1.5.2 fails with MuJoCo 4).

--keys takes CAMERA_image, uint8 (H, W, 3), and CAMERA_depth, float32 (H, W, 1) in meters, too, with rows from the top; for
the commas env.command has quotes of its own. On the CPU OSMesa draws them (libosmesa6):

    export MUJOCO_GL=osmesa PYOPENGL_PLATFORM=osmesa
    mf-collect env=exec env.command="'python3 robosuite_env.py Lift --keys robot0_eef_pos,agentview_image'" \
        policy.obs_keys=[robot0_eef_pos,agentview_image] policy.encoder=plain_conv | mf-gae | mf-ppo

One of 84 pixels takes 43 ms of a core of an AMD EPYC, once a decision.
"""
import functools
import json
import os

import serving  # first: it says what is missing

import numpy as np

KEYS = "object,robot0_eef_pos,robot0_eef_quat,robot0_gripper_qpos"
DEFAULTS = {"robots": "Panda", "control_freq": 20, "use_camera_obs": False, "has_renderer": False, "has_offscreen_renderer": False}
DRAWN = ("_image", "_depth")


class Robosuite:
    """One environment. Its random numbers are seeded at every reset, so that a seed is an initial state."""

    def __init__(self, name, kwargs, keys, timestep=None, size=84):
        import robosuite
        from robosuite.controllers.composite.composite_controller_factory import refactor_composite_controller_config

        # It is not asked to draw, which it would do after every step.
        kwargs = {**DEFAULTS, **kwargs, "ignore_done": True, "hard_reset": False, "reward_shaping": False, "use_camera_obs": False,
                  "has_offscreen_renderer": any(k.endswith(DRAWN) for k in keys)}
        arm = kwargs.get("controller_configs")
        if arm and "body_parts" not in arm:  # a file of robosuite 1.4 or before
            kwargs["controller_configs"] = refactor_composite_controller_config(arm, kwargs["robots"], ["right"])
        if timestep:
            robosuite.macros.SIMULATION_TIMESTEP = timestep
        self.env, self.keys, self.size = robosuite.make(name, **kwargs), keys, size
        self.low, self.high = self.env.action_spec

    def value(self, key, obs):
        camera, _, what = key.rpartition("_")
        if key.endswith(DRAWN) and camera in self.env.sim.model.camera_names:
            return self.draw(camera) if what == "image" else meters(self.draw(camera, depth=True)[..., None], self.env.sim.model)
        name = "object-state" if key == "object" else key
        if name not in obs:
            drawn = [f"{camera}_image, {camera}_depth" for camera in self.env.sim.model.camera_names]
            raise serving.Fault(f"robosuite has no observation {key!r}; it has {', '.join([*obs, *drawn])}")
        return obs[name].astype("f4")

    def see(self, obs):
        return serving.Later(lambda: {k: self.value(k, obs) for k in self.keys})

    def draw(self, camera, depth=False, size=None):
        """Rows from the top: those of MuJoCo come from the bottom, whatever robosuite's macros.IMAGE_CONVENTION says of its
        own observations."""
        drawn = self.env.sim.render(camera_name=camera, width=size or self.size, height=size or self.size, depth=depth)
        return (drawn[1] if depth else drawn)[::-1]

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
        return self.draw("agentview", size=256)


def meters(z, model):
    """Along the camera's axis, of the z-buffer: from 0, the near plane, to 1, the far plane, where nothing is: 0 meters."""
    near, far = model.vis.map.znear * model.stat.extent, model.vis.map.zfar * model.stat.extent
    return np.where(z < 1, near / (1 - z.astype("f8") * (1 - near / far)), 0).astype("f4")


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
    p.add_argument("--size", type=int, default=84, help="of a picture, pixels")
    p.add_argument("--max-steps", type=int, default=400, help="of an episode, where env.max_steps says nothing")
    args, out = p.parse_args(), serving.keep_stdout()
    try:
        name, kwargs, timestep = described(args.task)
        create = functools.partial(Robosuite, name, kwargs, args.keys.split(","), timestep, args.size)
        first = create()
        spare = [first]
        sim = serving.Each(lambda i: spare.pop() if spare else create(), name, args.max_steps, first.env.control_freq, first.low,
                           first.high, first.reset(0).now(), renders=first.env.has_offscreen_renderer)
    except ModuleNotFoundError as e:
        sim = serving.lacks(e)
    except serving.Fault as e:
        sim = e  # which answers every question
    serving.serve(sim, args.bind, out)
