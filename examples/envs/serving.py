"""The answering side of the protocol of README.md, for simulators in Python. Needs msgpack and numpy, and pyzmq for --bind.

A simulator has `name`, `max_steps`, `control_hz`, `autoreset`, `obs` {key: one observation, as an array}, `low`, `high`,
and make, reset, step, as Each has, which makes one of single environments. `saves` and `renders` say whether it also has
save and load, and gives pictures of the environments that `film` of make asks for. `tasks` lists the tasks of one with
language, in words; its rows then have `task`, one's index for each environment.

A picture among the observations is uint8 (H, W, 3), rows from the top; of float32 it is a depth (H, W, 1), which policies
take as meters along the camera's axis, 0 where nothing is: a simulator that has millimeters or a z-buffer converts them.
"""
import argparse
import os
import re
import shlex
import sys
import traceback


def missing(error):
    """A ModuleNotFoundError as a sentence with the command that installs the package: NAME_env.py has NAME.txt beside it."""
    listed = re.sub(r"(_env|_demos|)\.py$", ".txt", os.path.abspath(sys.argv[0]))
    what = ["-r", listed] if os.path.exists(listed) else [error.name]
    return f"{error}, for {sys.executable}: {shlex.join([sys.executable, '-m', 'pip', 'install', *what])}, or name another Python in env.command"


try:
    import msgpack
    import numpy as np
except ModuleNotFoundError as e:
    sys.exit(f"{os.path.basename(sys.argv[0])}: error: {missing(e)}")

VERSION = 1


class Fault(Exception):
    """What an environment does that it must not, as a sentence for those who wrote it."""


def lacks(error):
    """A simulator whose package is missing: to every question it answers so."""
    return Fault(missing(error))


class Later(dict):
    """Observations that see() -> {key: array} makes when one is read: of a decision's steps, after the last alone. Drawing
    takes most of the time."""

    def __init__(self, see):
        super().__init__()
        self.see = see

    def now(self):
        self.update(self.see())
        return self

    def __missing__(self, key):
        return self.now().get(key)


def decode(m):
    return np.frombuffer(m[b"data"], m[b"type"]).reshape(m[b"shape"]) if m.get(b"nd") else m


def encode(a):
    a = np.ascontiguousarray(a)
    return {b"nd": True, b"type": a.dtype.str, b"kind": b"", b"shape": a.shape, b"data": a.tobytes()}


class Each:
    """n single environments. One has reset(seed, episode) -> obs, step(action) -> obs, reward, terminated, truncated,
    success, its `task` where Each has tasks (its `number` among all environments is set), and where it can state() -> bytes, restore(bytes) -> obs, image() -> uint8 (H, W, 3), always of one size."""

    autoreset = "same_step"

    def __init__(self, create, name, max_steps, control_hz, low, high, obs, saves=False, renders=False, tasks=()):
        self.saves, self.renders, self.tasks = saves, renders, tasks
        self.create, self.name, self.max_steps, self.control_hz = create, name, max_steps, control_hz
        self.low, self.high, self.obs, self.ones = low, high, obs, []

    def make(self, n, first, max_steps, keys, film, **_):
        """`first` is the number of environment 0 among all; `keys` are the observations that are wanted; the first `film`
        environments are filmed."""
        while len(self.ones) < n:
            self.ones.append(self.create(first + len(self.ones)))
        for i, one in enumerate(self.ones):
            one.number = first + i
        self.n, self.limit, self.keys, self.film = n, max_steps, keys, film
        self.rows = {k: np.zeros((n, *self.obs[k].shape), self.obs[k].dtype) for k in keys}
        self.clock = np.zeros(n, int)

    def begin(self, i, seed, episode):
        self.see(i, self.ones[i].reset(int(seed), int(episode)))
        self.clock[i] = 0

    def see(self, i, obs):
        for k in self.keys:
            self.rows[k][i] = obs[k]

    def reset(self, which, episode, seed):
        for i in np.flatnonzero(which):
            self.begin(i, seed[i], episode[i])
        return {"obs": self.rows, **self.asked(), **pictures([[one.image()] for one in self.ones[: self.film]], 1)}

    def asked(self):
        return {"task": np.array([one.task for one in self.ones[: self.n]], "i4")} if self.tasks else {}

    def step(self, actions, active, autoreset, episode, seed):
        n, chunk = actions.shape[:2]
        a = {"rewards": np.zeros((n, chunk), "f4"), "success": np.zeros((n, chunk), "u1"), "n_exec": np.zeros(n, "i4"),
             "terminated": np.zeros(n, "u1"), "truncated": np.zeros(n, "u1")}
        over, shots = [], [[] for _ in range(self.film)]
        for i in np.flatnonzero(active):
            for c in range(chunk):
                obs, a["rewards"][i, c], ended, cut, a["success"][i, c] = self.ones[i].step(actions[i, c])
                self.clock[i] += 1
                a["n_exec"][i] += 1
                if i < self.film:
                    shots[i].append(self.ones[i].image())
                a["terminated"][i], a["truncated"][i] = ended, not ended and (cut or self.clock[i] >= self.limit)
                if a["terminated"][i] or a["truncated"][i]:
                    over.append(i)
                    break
            self.see(i, obs)
        if over:
            a["final"] = {k: v.copy() for k, v in self.rows.items()}
        for i in over if autoreset else []:
            self.begin(i, seed[i], episode[i])
        return {"obs": self.rows, **self.asked(), **a, **pictures(shots, chunk)}

    def save(self):
        return [self.clock[i].tobytes() + self.ones[i].state() for i in range(self.n)]

    def load(self, states):
        for i, s in enumerate(states):
            self.clock[i] = np.frombuffer(s[:8], int)[0]
            self.see(i, self.ones[i].restore(s[8:]))
        return {"obs": self.rows, **self.asked()}


def pictures(shots, chunk):
    """{"image": (k, chunk, H, W, 3)} of a list of pictures for each of the k environments that are filmed."""
    some = next((s[0] for s in shots if s), np.zeros((1, 1, 3)))
    image = np.zeros((len(shots), chunk, *np.shape(some)), "u1")
    for i, s in enumerate(shots):
        image[i, : len(s)] = s or 0
    return {"image": image} if shots else {}


def flat(answer):
    """{"obs": {"x": array}, "rewards": array} -> {"obs/x": array, "rewards": array}"""
    out = {}
    for name, v in answer.items():
        out.update({f"{name}/{k}": a for k, a in v.items()} if isinstance(v, dict) else {name: v})
    return out


def answer(sim, q):
    arrays, say = q.get("arrays", {}), q["say"]
    if isinstance(sim, Exception):  # it could not be made
        raise sim
    if say == "hello":
        can = {what: getattr(sim, what, False) for what in ("saves", "renders")}
        if getattr(sim, "tasks", ()):
            can["tasks"] = "\n".join(" ".join(task.split()) for task in sim.tasks)
        return {"say": "spaces", "v": VERSION, "name": sim.name, "max_steps": sim.max_steps, "control_hz": float(sim.control_hz),
                "autoreset": sim.autoreset, **can,
                "arrays": flat({"obs": sim.obs, "action": {"low": np.asarray(sim.low, "f4"), "high": np.asarray(sim.high, "f4")}})}
    if say == "make":
        sim.make(n=q["n"], first=q["first"], max_steps=q["max_steps"], seed=q["seed"], purpose=q["purpose"], film=q.get("film", 0),
                 keys=[k[len("obs/"):] for k in arrays])
        return {"say": "made"}
    if say == "save":
        return {"say": "states", "arrays": {f"state/{i}": np.frombuffer(s, "u1") for i, s in enumerate(sim.save())}}
    if say == "load":
        return {"say": "rows", "arrays": flat(sim.load([arrays[f"state/{i}"].tobytes() for i in range(len(arrays))]))}
    if say == "step":
        arrays["autoreset"] = q["autoreset"]
    if say not in ("reset", "step"):
        raise ValueError(f"unknown request '{say}'")
    return {"say": "rows", "arrays": flat(getattr(sim, say)(**arrays))}


def reply(sim, question):
    q = msgpack.unpackb(question, object_hook=decode) if isinstance(question, bytes) else question
    try:
        a = answer(sim, q)
    except Fault as e:
        a = {"say": "error", "text": str(e)}
    except Exception as e:
        traceback.print_exc()
        a = {"say": "error", "text": f"{type(e).__name__}: {e}"}
    return msgpack.packb({"mf": "env", "seq": q["seq"], **a}, default=encode)


def options(doc):
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bind", metavar="ADDRESS", help="serve at tcp://127.0.0.1:PORT or ipc://PATH, not on stdin and stdout")
    return p


def keep_stdout():
    """A descriptor for the frames. Whatever a library prints goes to stderr from now on."""
    out = os.dup(1)
    os.dup2(2, 1)
    return out


def serve(sim, bind, out):
    if bind:
        try:
            import zmq
        except ModuleNotFoundError as e:
            sys.exit(f"{os.path.basename(sys.argv[0])}: error: --bind: {missing(e)}")

        socket = zmq.Context().socket(zmq.REP)
        socket.ipv6 = "[" in bind
        socket.bind(bind)
        while True:
            socket.send(reply(sim, socket.recv()))
    # .raw, because a buffered read waits for more than the question that is there.
    for q in msgpack.Unpacker(sys.stdin.buffer.raw, object_hook=decode, max_buffer_size=0, read_size=1 << 20):
        data = memoryview(reply(sim, q))
        while data:
            data = data[os.write(out, data):]
