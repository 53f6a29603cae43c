"""Steps Gymnasium's tasks and ours (mf-env of the path) from the same states with the same actions, and compares them."""
import os
import subprocess

import gymnasium
import msgpack
import numpy as np

ASSETS = os.path.join(os.path.dirname(gymnasium.__file__), "envs/mujoco/assets")
TASKS = {"hopper": ("Hopper-v5", "hopper"), "walker2d": ("Walker2d-v5", "walker2d_v5"),
         "half_cheetah": ("HalfCheetah-v5", "half_cheetah"), "ant": ("Ant-v5", "ant")}
EPISODES, STEPS = 8, 60
ONE = np.ones(1, "u1")


def encode(a):
    return {b"nd": True, b"type": a.dtype.str, b"kind": b"", b"shape": a.shape, b"data": a.tobytes()}


def decode(m):
    return np.frombuffer(m[b"data"], m[b"type"]).reshape(m[b"shape"]) if m.get(b"nd") else m


class Ours:
    def __init__(self, task, model):
        self.server = subprocess.Popen(["mf-env", task, f"env.model={model}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.answers = msgpack.Unpacker(self.server.stdout, object_hook=decode, read_size=1)
        self.obs = {k: v for k, v in self.ask("hello").items() if k.startswith("obs/")}
        self.ask("make", self.obs, n=1, first=0, seed=1, purpose="train", max_steps=0, film=0)

    def ask(self, say, arrays={}, **fields):
        self.server.stdin.write(msgpack.packb({"mf": "env", "say": say, "seq": 0, **fields, "arrays": arrays}, default=encode))
        self.server.stdin.flush()
        answer = next(self.answers)
        assert answer["say"] != "error", answer
        return answer.get("arrays", {})

    def flat(self, rows):
        return np.concatenate([rows[k][0] for k in self.obs])

    def reset(self, episode):
        return self.flat(self.ask("reset", {"which": ONE, "episode": np.array([episode], "i4"), "seed": np.zeros(1, "u4")}))

    def state(self, nq, nv, nu):
        """Positions and velocities: behind them the state has ctrl and qacc_warmstart."""
        values = np.frombuffer(self.ask("save")["state/0"].tobytes()[-8 * (nq + nv + nu + nv):], "f8")
        return values[:nq], values[nq:nq + nv]

    def step(self, action):
        a = self.ask("step", {"actions": action[None, None], "active": ONE, "episode": np.ones(1, "i4"), "seed": np.zeros(1, "u4")},
                     autoreset=False)
        return self.flat(a), a["rewards"][0, 0], bool(a["terminated"][0])


rng = np.random.default_rng(0)
for task, (name, file) in TASKS.items():
    ours, theirs = Ours(task, f"{ASSETS}/{file}.xml"), gymnasium.make(name).unwrapped
    m, worst, ended = theirs.model, np.zeros(2), 0
    for episode in range(EPISODES):
        seen = ours.reset(episode)
        theirs.reset()
        theirs.set_state(*ours.state(m.nq, m.nv, m.nu))
        assert np.abs(seen - theirs._get_obs()).max() < 1e-6, "the first observation"
        for t in range(STEPS):
            action = rng.uniform(-1, 1, m.nu).astype("f4")
            obs, reward, end = ours.step(action)
            want, wanted, over, _, _ = theirs.step(action)
            worst = np.maximum(worst, [np.abs(obs - want).max(), abs(reward - wanted)])
            assert end == over, (task, episode, t, end, over)
            ended += over
            if over:
                break
    print(f"{task}: {EPISODES} episodes, {ended} ended early; observations differ by {worst[0]:.1e}, rewards by {worst[1]:.1e}")
    assert (worst < [1e-3, 1e-4]).all(), worst
