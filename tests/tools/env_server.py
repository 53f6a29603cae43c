#!/usr/bin/python3
"""A server of environments in plain Python, and every way in which one can go wrong: env_server.py [FAULT[:AT]] [FILE].

FAULT happens in step AT (3) of a process. With FILE it happens once: in the process that makes the file. An environment
is a counter: obs/count is (first + row) * 10**5 + episode * 100 + steps; an episode has 3 steps of reward 1, and the last
one is a success. A picture of one is 40 x 60 pixels of grey 60 * steps. MODE=next_step and so on sets the autoreset, CHUNK nothing: chunks are executed as they come.
"""
import os
import signal
import sys
import time

import msgpack
import numpy as np

fault, _, at = (sys.argv[1] if len(sys.argv) > 1 else "").partition(":")
once = sys.argv[2] if len(sys.argv) > 2 else None
mode = os.environ.get("MODE", "same_step")
steps, kept = 0, None


def decode(m):
    return np.frombuffer(m[b"data"], m[b"type"]).reshape(m[b"shape"]) if m.get(b"nd") else m


def encode(a):
    a = np.ascontiguousarray(a)
    return {b"nd": True, b"type": a.dtype.str, b"kind": b"", b"shape": a.shape, b"data": a.tobytes()}


def send(say, seq, arrays=None, **fields):
    m = {"mf": "env", "say": say, "seq": seq, **fields, "arrays": arrays or {}}
    os.write(1, msgpack.packb(m, default=encode))


def now():
    """Is it the moment of the fault?"""
    if not fault or steps != int(at or 3) or (once and os.path.exists(once)):
        return False
    if once:
        open(once, "w").close()
    return True


class Counters:
    def make(self, n, first, film):
        self.n, self.first, self.film = n, first, film
        self.clock, self.episode, self.over = np.zeros(n, "i4"), np.zeros(n, "i4"), np.zeros(n, bool)

    def obs(self):
        return ((self.first + np.arange(self.n)) * 10**5 + self.episode % 1000 * 100 + self.clock).astype("f4")[:, None]

    def pictures(self, clock):
        """(film, C, 60, 40, 3) of clock (n, C)"""
        grey = (60 * clock[: self.film, :, None, None, None]).astype("u1")
        return {"image": np.broadcast_to(grey, (*grey.shape[:2], 60, 40, 3))} if self.film else {}

    def begin(self, which, episode):
        self.clock[which], self.episode[which], self.over[which] = 0, episode[which], False

    def step(self, actions, active, autoreset, episode, seed):
        n, chunk = actions.shape[:2]
        again = self.over & (mode == "next_step") & (active > 0)
        go = (active > 0) & ~again
        did = np.where(go, np.minimum(chunk, 3 - self.clock), 0).astype("i4")
        self.clock += did
        ran = np.arange(chunk) < did[:, None]
        last = go & (self.clock == 3)
        success = ran & (np.arange(chunk) == did[:, None] - 1) & last[:, None]
        self.over |= last
        a = {"rewards": ran.astype("f4"), "success": success.astype("u1"), "n_exec": did, "terminated": np.zeros(n, "u1"),
             "truncated": last.astype("u1"), "final/count": self.obs(),
             **self.pictures(np.minimum(3, self.clock[:, None] - did[:, None] + 1 + np.arange(chunk)))}
        if mode == "same_step" and autoreset:
            self.begin(last, episode)
        self.begin(again, episode)
        return {"obs/count": self.obs(), **a}


def wrong(seq, a):
    """The answer of a server at fault, instead of a."""
    if fault == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "exit":
        sys.exit(7)
    if fault == "never":
        time.sleep(1000)
    if fault == "late":
        time.sleep(1.5)
    if fault == "raise":
        return send("error", seq, text="the gripper fell off")
    if fault == "print":
        os.write(1, b"Warning: joint limits\n")
    if fault == "nan":
        a["obs/count"][1] = np.nan
    if fault == "inf":
        a["rewards"][0, 0] = np.inf
    if fault == "shape":
        a["rewards"] = a["rewards"][:, :0]
    if fault == "type":
        a["obs/count"] = a["obs/count"].astype("f8")
    if fault == "missing":
        del a["n_exec"]
    if fault == "count":
        a["n_exec"] = a["n_exec"] + 1
    if fault == "picture":
        a["image"] = a["image"][..., :2]
    if fault in ("last", "cut-last"):  # what an episode ended with: read where the clock ended it
        if fault == "last":
            a["terminated"] = a["truncated"].copy()
        a["final/count"][:] = np.nan
    if fault == "final":
        del a["final/count"]
    if fault == "cut":
        os.write(1, b"\x84\xa2mf\xa3env")
        sys.exit(0)
    send("rows", seq + (fault == "other"), a)
    if fault == "twice":
        send("rows", seq, a)


sim = Counters()
for q in msgpack.Unpacker(sys.stdin.buffer.raw, object_hook=decode):
    say, seq, arrays = q["say"], q["seq"], q.get("arrays", {})
    if say == "hello":
        low = np.full(2, 2 if fault == "bounds" else -1, "f4")
        send("spaces", seq, {"obs/count": np.zeros(1, "f4"), "action/low": low, "action/high": np.ones(2, "f4")},
             v=9 if fault == "version" else 1, name="../../x" if fault == "name" else "counter", max_steps=3, control_hz=np.nan if fault == "hz" else 10.0, saves=False, renders=True,
             autoreset="sometimes" if fault == "mode" else mode)
    elif say == "make":
        sim.make(q["n"], q["first"], q["film"])
        send("made", seq)
    elif say == "reset":
        sim.begin(arrays["which"] > 0, arrays["episode"])
        send("rows", seq, {"obs/count": sim.obs(), **sim.pictures(sim.clock[:, None])})
    elif say == "step":
        steps += 1
        a = sim.step(autoreset=q["autoreset"], **arrays)
        wrong(seq, a) if now() else send("rows", seq, a)
    else:
        send("error", seq, text=f"cannot {say}")
