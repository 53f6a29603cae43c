"""As much of robosuite 1.5.2 as examples/envs/robosuite_env.py asks for: what Lift shows, as MuJoCo draws it, and no physics.

The camera sees red above the horizon, where nothing is, and black below, at 1250 mm.
"""
from types import SimpleNamespace as Some

import numpy as np

macros = Some(IMAGE_CONVENTION="opengl", SIMULATION_TIMESTEP=0.002)
EXTENT, NEAR, FAR = 2.0, 0.005, 50.0


class Sim:
    model = Some(stat=Some(extent=EXTENT), vis=Some(map=Some(znear=NEAR, zfar=FAR)), camera_names=("frontview", "agentview"))

    def render(self, width, height, camera_name, depth=False):
        assert camera_name in self.model.camera_names
        rgb, near, far = np.zeros((height, width, 3), "u1"), EXTENT * NEAR, EXTENT * FAR
        z = np.full((height, width), (1 - near / 1.25) / (1 - near / far), "f4")
        rgb[height // 2:, :, 0], z[height // 2:] = 250, 1  # the first row is the lowest
        return (rgb, z) if depth else rgb


class Lift:
    control_freq = 20
    action_spec = -np.ones(7), np.ones(7)

    def __init__(self, use_camera_obs, has_offscreen_renderer, **_):
        assert not use_camera_obs
        self.rng, self.has_offscreen_renderer = np.random.default_rng(0), has_offscreen_renderer
        if has_offscreen_renderer:
            self.sim = Sim()

    def see(self):
        return {"robot0_eef_pos": self.hand.copy(), "object-state": self.cube - np.arange(10.0)}

    def reset(self):
        self.hand, self.cube = np.zeros(3), self.rng.uniform()
        return self.see()

    def step(self, action):
        self.hand += 0.05 * action[:3]
        return self.see(), 0.0, False, {}

    def _check_success(self):
        return bool(self.hand[2] > 1)


def make(name, **kwargs):
    return {"Lift": Lift}[name](**kwargs)
