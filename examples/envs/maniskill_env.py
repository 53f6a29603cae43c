#!/usr/bin/env python3
r"""ManiSkill 3's tasks on the CPU: a robot's state, and what its cameras see.

    mf-collect env=exec env.command='python3 examples/envs/maniskill_env.py PickCube-v1' | mf-gae | mf-ppo
    mf-collect env=exec env.command='python3 examples/envs/maniskill_env.py PickCube-v1 --obs rgb+depth --size 64' \
        policy.obs_keys=[state,base_camera_image,base_camera_depth] policy.encoder=plain_conv | mf-gae | mf-ppo

`--obs state` has `state`, all that the simulator knows (PickCube-v1: 42 numbers); `--obs rgb` and `--obs rgb+depth` have
`state`, what the robot knows (29), and for each camera CAMERA_image, uint8 (H, W, 3), and CAMERA_depth, float32 (H, W, 1) in
meters, 0 where nothing is; `--obs rgb+depth+state` has them with all 42. An episode ends with success, or with max_steps.

Ran with: maniskill.txt beside this file, which takes 6.5 GB. A Vulkan driver must be there, even if nothing is drawn.
On the CPU that is Mesa's lavapipe, from version 24.3 on. Debian 12 has libvulkan1, and in bookworm-backports
mesa-vulkan-drivers 25.0.7 (with libdrm2 and libdrm-amdgpu1 2.4.123); its own 22.3.6 gives "Failed to find a supported
physical device". Unpacked into a folder they need VK_ICD_FILENAMES, a copy of lvp_icd.json in which library_path is
absolute, and LD_LIBRARY_PATH, the folder of that library.

Measured, PickCube-v1, a second of a core of an AMD EPYC: 240 to 270 steps without pictures; 41 pictures of 64 pixels, 29 of
128; with depth 27 and 17 to 22. Pictures are drawn once a decision, whatever number of steps it has.
"""
import os
import warnings

import serving  # first: it says what is missing

import numpy as np


def numbers(tree):
    """All numbers of a dict of dicts of arrays (1, ..), in its order."""
    return np.concatenate([numbers(v) if isinstance(v, dict) else np.asarray(v, "f4").ravel() for v in tree.values()])


class ManiSkill:
    """One environment."""

    task = 0  # the only one, where it has words

    def __init__(self, args):
        import gymnasium
        import mani_skill.envs  # noqa: F401  (registers the tasks)

        # Unwrapped: max_steps ends an episode, not the wrapper's time limit.
        self.env = gymnasium.make(
            args.id, num_envs=1, obs_mode=args.obs.replace("state", "state_dict"), control_mode=args.control,
            reward_mode=args.reward, sim_backend="physx_cpu", render_backend="cpu", render_mode="rgb_array",
            sensor_configs={"width": args.size, "height": args.size}).unwrapped
        self.look, self.env.get_obs = self.env.get_obs, lambda *_, **__: {}
        self.max_steps = gymnasium.spec(args.id).max_episode_steps or 100
        self.low, self.high = self.env.action_space.low, self.env.action_space.high

    def see(self):
        obs = self.look()
        seen = {"state": numbers({k: obs[k] for k in ("agent", "extra")})}
        for camera, drawn in obs.get("sensor_data", {}).items():
            if "rgb" in drawn:
                seen[f"{camera}_image"] = np.asarray(drawn["rgb"])[0]
            if "depth" in drawn:
                seen[f"{camera}_depth"] = np.asarray(drawn["depth"])[0].astype("f4") / 1000
        return seen

    def reset(self, seed, episode=0):
        self.env.reset(seed=seed)
        return serving.Later(self.see)

    def step(self, action):
        _, reward, ended, cut, info = self.env.step(action)
        return serving.Later(self.see), float(reward), bool(ended), bool(cut), bool(info["success"])

    def image(self):
        return np.asarray(self.env.render())[0]


if __name__ == "__main__":
    p = serving.options(__doc__)
    p.add_argument("id", nargs="?", default="PickCube-v1", help="PickCube-v1, PushCube-v1, ..")
    p.add_argument("--obs", default="state", help="state, rgb, rgb+depth, or rgb+depth+state")
    p.add_argument("--size", type=int, default=128, help="of a picture, pixels")
    p.add_argument("--task", help="the task in words, of which policy.tokenizer makes the observation tokens")
    p.add_argument("--control", default="pd_ee_delta_pose", help="control mode")
    p.add_argument("--reward", default="normalized_dense", help="or sparse, dense")
    args, out = p.parse_args(), serving.keep_stdout()
    warnings.filterwarnings("ignore")
    try:
        first = ManiSkill(args)
        spare, obs = [first], first.reset(0).now()
        sim = serving.Each(lambda i: spare.pop() if spare else ManiSkill(args), args.id, first.max_steps, first.env.control_freq,
                           first.low, first.high, obs, renders=True, tasks=[args.task] if args.task else [])
    except ModuleNotFoundError as e:
        sim = serving.lacks(e)
    except RuntimeError as e:
        sim = serving.Fault(f"{args.id}: {e}. ManiSkill needs a Vulkan driver, even if it draws nothing: see maniskill_env.py")
    except Exception as e:
        sim = e  # which answers every question
    serving.serve(sim, args.bind, out)
