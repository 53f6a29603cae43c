"""PickCube-v1 of ManiSkill 3.0.1 as a policy sees it: the same observations, shapes, types and actions, and no physics.

The hand moves by 5 cm times the action; holding the goal ends the task. Red of every pixel is the number of pictures that
were drawn since the reset, green lies in the upper half alone, and the depth is 1250 mm, or 0 where nothing is (top left).
"""
import gymnasium
import numpy as np

MODES = {"pd_ee_delta_pose": 7, "pd_joint_delta_pos": 8}


class PickCube:
    control_freq = 20

    def __init__(self, num_envs, obs_mode, control_mode, reward_mode, sim_backend, render_backend, render_mode, sensor_configs):
        assert (num_envs, sim_backend, render_backend) == (1, "physx_cpu", "cpu"), "one environment on the CPU"
        assert (reward_mode, render_mode) == ("normalized_dense", "rgb_array")
        self.textures, self.size = obs_mode.split("+"), (sensor_configs["height"], sensor_configs["width"])
        bound = np.ones(MODES[control_mode], "f4")
        self.action_space = gymnasium.Box(-bound, bound)

    def reset(self, seed):
        rng = np.random.RandomState(seed)
        self.hand, self.goal = rng.uniform(-0.1, 0.1, (2, 3)).astype("f4")
        self.drawn = 0
        return self.get_obs({}), {}

    def step(self, action):
        self.hand = self.hand + np.float32(0.05) * np.clip(action[:3], -1, 1)
        distance = np.linalg.norm(self.hand - self.goal)
        success = np.array([distance < 0.05])
        obs = self.get_obs({"success": success}, unflattened=True)
        return obs, np.array([1 - np.tanh(5 * distance)], "f4"), success, np.zeros(1, bool), {"success": success}

    def get_obs(self, info=None, unflattened=False):
        def row(*x):
            return np.concatenate([np.ravel(v) for v in x]).astype("f4")[None]

        extra = {"is_grasped": np.zeros(1, bool), "tcp_pose": row(self.hand, [1, 0, 0, 0]), "goal_pos": row(self.goal)}
        if "state_dict" in self.textures:
            extra.update(obj_pose=row(self.goal, [1, 0, 0, 0]), tcp_to_obj_pos=row(self.goal - self.hand),
                         obj_to_goal_pos=row([0] * 3))
        obs = {"agent": {"qpos": row(self.hand, [0] * 6), "qvel": row([0] * 9)}, "extra": extra}
        if self.textures != ["state_dict"]:
            obs.update(sensor_param={"base_camera": {"intrinsic_cv": np.eye(3)[None]}}, sensor_data={"base_camera": self.draw()})
        return obs

    def draw(self):
        self.drawn += 1
        rgb, depth = np.zeros((1, *self.size, 3), "u1"), np.full((1, *self.size, 1), 1250, "i2")
        rgb[..., 0] = self.drawn
        rgb[:, : self.size[0] // 2, :, 1] = 200
        depth[0, 0, 0] = 0
        return {k: v for k, v in {"rgb": rgb, "depth": depth}.items() if k in self.textures}

    def render(self):
        return np.full((1, 16, 16, 3), 90, "u1")


gymnasium.registry["PickCube-v1"] = gymnasium.Spec(PickCube, 50)
