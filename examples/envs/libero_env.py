#!/usr/bin/env python3
"""LIBERO's task suites, from their fixed initial states: trial i of an evaluation begins in state i of one task; without
a task, in the state i / T of task i modulo T of a suite's T tasks.

    mf-eval env=exec env.command='python3 examples/envs/libero_env.py libero_spatial' outputs/run/latest
    mf-eval env=exec env.command='python3 examples/envs/libero_env.py libero_spatial 3' outputs/run/latest

--keys takes the names of LIBERO's demonstrations (ee_pos, ee_ori, ee_states, gripper_states, joint_states, agentview_rgb,
eye_in_hand_rgb), computed as its scripts compute them, and those of its environment (robot0_eef_quat, ..); for the commas
env.command has quotes of its own:

    mf-eval env=exec env.command="'python3 libero_env.py libero_spatial 3 --keys ee_pos,agentview_rgb'" outputs/run/latest

LIBERO draws its pictures upside down, and so they are in its demonstrations; policy.turn_images=true turns both, as openpi
does. policy.tokenizer makes the observation `tokens` of a task's words.

Ran with libero.txt beside this file in Python 3.11 and MUJOCO_GL=osmesa
(hf-libero 0.1.4 comes without the models that it needs): a round of mf-collect | mf-gae | mf-ppo in a task of
libero_spatial, of both cameras and the words of the task, with a tiny pi0.5 of fresh weights. No trained policy and no
evaluation of a suite were tried. Without a GPU a reset takes half a minute or more, for the pictures.
"""
import serving  # first: it says what is missing

import numpy as np

KEYS = "ee_pos,ee_ori,gripper_states"
# LIBERO's demonstrations have other names than its environment: its create_dataset.py makes these of those.
NAMES = {"ee_pos": "robot0_eef_pos", "gripper_states": "robot0_gripper_qpos", "joint_states": "robot0_joint_pos",
         "agentview_rgb": "agentview_image", "eye_in_hand_rgb": "robot0_eye_in_hand_image"}
SETTLE = 10  # steps in which objects come to rest, as LIBERO's own evaluation has them


def axis_angle(quat):
    """(x, y, z, w) as the axis of the rotation times its angle in radians, [0, 2 pi]."""
    sine = np.linalg.norm(quat[:3])
    return np.zeros(3) if sine < 1e-9 else np.asarray(quat[:3]) / sine * 2 * np.arctan2(sine, quat[3])


def value(obs, key):
    """The observation `key` of LIBERO's files, or of its environment."""
    if key == "ee_ori":
        return axis_angle(obs["robot0_eef_quat"])
    if key == "ee_states":
        return np.hstack([obs["robot0_eef_pos"], axis_angle(obs["robot0_eef_quat"])])
    if NAMES.get(key, key) not in obs:
        raise serving.Fault(f"LIBERO has no observation {key!r}; it has {', '.join(sorted({*obs, *NAMES, 'ee_ori', 'ee_states'}))}")
    return np.asarray(obs[NAMES.get(key, key)])


class Libero:
    """One environment. It has one task at a time: its simulation is made anew where the next trial has another one."""

    def __init__(self, suite, tasks, number, args):
        self.suite, self.tasks, self.number, self.keys, self.size = suite, tasks, number, args.keys, args.size
        self.env, self.task = None, -1  # an index of tasks

    def open(self, task):
        from libero.libero.envs import OffScreenRenderEnv

        self.close()
        self.task = task
        self.states = self.suite.get_task_init_states(self.tasks[task])
        self.env = OffScreenRenderEnv(bddl_file_name=self.suite.get_task_bddl_file_path(self.tasks[task]),
                                      camera_heights=self.size, camera_widths=self.size)

    def close(self):
        if self.env:
            self.env.close()

    def see(self, obs):
        values = {k: value(obs, k) for k in self.keys}
        return {k: v if v.dtype == np.uint8 else v.astype("f4") for k, v in values.items()}

    def reset(self, seed, episode=0):
        trial = self.number + episode
        if self.task != trial % len(self.tasks):
            self.open(trial % len(self.tasks))
        self.env.seed(seed)
        self.env.reset()
        obs = self.env.set_init_state(self.states[trial // len(self.tasks) % len(self.states)])
        for _ in range(SETTLE):
            obs, _, _, _ = self.env.step([0.0] * 6 + [-1.0])
        return self.see(obs)

    def step(self, action):
        obs, reward, success, _ = self.env.step(action)
        return self.see(obs), reward, bool(success), False, bool(success)


def words(task):
    return getattr(task, "language", None) or task.name.replace("_", " ")  # editions of LIBERO differ


if __name__ == "__main__":
    p = serving.options(__doc__)
    p.add_argument("suite", help="libero_spatial, libero_object, libero_goal, libero_10, libero_90, ..")
    p.add_argument("task", type=int, nargs="?", help="its number in the suite; none: all tasks, in turn")
    p.add_argument("--keys", default=KEYS, help="observations, by commas, as LIBERO's files or its environment call them")
    p.add_argument("--size", type=int, default=128, help="of a picture, pixels")
    p.add_argument("--max-steps", type=int, default=300)
    args, out = p.parse_args(), serving.keep_stdout()
    args.keys = args.keys.split(",")
    try:
        from libero.libero import benchmark

        suite = benchmark.get_benchmark_dict()[args.suite]()
        tasks = [args.task] if args.task is not None else list(range(suite.n_tasks))
        name = args.suite if args.task is None else suite.get_task(args.task).name
        spare = [Libero(suite, tasks, 0, args)]
        sim = serving.Each(lambda i: spare.pop() if spare else Libero(suite, tasks, i, args), name, args.max_steps, 20,
                           -np.ones(7), np.ones(7), spare[0].reset(0), tasks=[words(suite.get_task(t)) for t in tasks])
    except ModuleNotFoundError as e:
        sim = serving.lacks(e)
    except serving.Fault as e:
        sim = e  # which answers every question
    serving.serve(sim, args.bind, out)
