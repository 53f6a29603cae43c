#!/usr/bin/python3
"""Demonstrations in robomimic's layout as h5py writes them, whole or with one thing odd.

demos.py FILE [WHAT] [key=value ..]   WHAT: a function below; demos=6 steps=12 image=0 gzip=0 latest=0
demos.py FILE corrupt OF SEED         a copy of the file OF with one to four bytes changed
"""
import json
import random
import sys

import h5py
import numpy

rng = numpy.random.default_rng(1)
KEYS = {"object": 10, "robot0_eef_pos": 3, "robot0_eef_quat": 4, "robot0_gripper_qpos": 2}


def make(path, demos=6, steps=12, image=0, gzip=0, latest=0):
    f = h5py.File(path, "w", libver="latest" if latest else None)
    data, total, packed = f.create_group("data"), 0, {"compression": "gzip"} if gzip else {}
    for i in range(demos):
        n, demo = steps + i % 3, data.create_group(f"demo_{2 * i}")
        demo.create_dataset("actions", data=rng.uniform(-1, 1, (n, 7)), **packed)
        demo.create_dataset("states", data=rng.normal(size=(n, 32)), **packed)
        demo.create_dataset("rewards", data=numpy.eye(1, n, n - 1)[0])
        demo.create_dataset("dones", data=numpy.eye(1, n, n - 1, dtype="i8")[0])
        for group in ("obs", "next_obs"):
            for key, dim in KEYS.items():
                demo.create_dataset(f"{group}/{key}", data=rng.normal(size=(n, dim)), **packed)
            if image:
                pixels = rng.integers(0, 256, (n, image, image, 3), dtype="u1")
                demo.create_dataset(f"{group}/agentview_image", data=pixels, **packed)
        demo.attrs["num_samples"] = n
        demo.attrs["model_file"] = "<mujoco/>"
        total += n
    data.attrs["total"] = total
    data.attrs["env_args"] = json.dumps({"env_name": "Lift", "type": 1, "env_kwargs": {"robots": ["Panda"]}})
    f["mask/train"] = numpy.array([f"demo_{2 * i}".encode() for i in range(demos) if i % 5])
    f["mask/valid"] = [f"demo_{2 * i}" for i in range(0, demos, 5)]  # strings of variable length
    return f


# ---- as real files may be: each of these is read ----


def good(f):
    pass


def bare(f):
    """Nothing but what must be there."""
    del f["mask"], f["data"].attrs["total"]
    f["data"].attrs["env_args"] = json.dumps({"env_name": "Lift", "type": 1})
    for demo in f["data"].values():
        del demo["rewards"], demo["dones"], demo["next_obs"], demo["states"], demo.attrs["model_file"]


def nested(f):
    for demo in f["data"].values():
        n = len(demo["actions"])
        del demo["states"]
        demo["states/actor/cube"] = numpy.zeros((n, 13))
        demo["datagen_info/target_pose/arm"] = numpy.zeros((n, 4, 4))


def types(f):
    """Half floats, big-endian doubles, booleans, integers, fixed strings."""
    for demo in f["data"].values():
        for key, kind in zip(KEYS, ("f2", ">f8", "i4", "f4")):
            x = demo["obs/" + key][:]
            del demo["obs/" + key]
            demo["obs/" + key] = x.astype(kind)
        dones = demo["dones"][:].astype(bool)
        del demo["dones"]
        demo["dones"] = dones
    f["data"].attrs["env_args"] = numpy.bytes_(f["data"].attrs["env_args"])


def beyond(f):
    f["data/demo_4/actions"][3, 6] = -1.5


def talkative(f):
    f["data"]["readme"] = "what else lies beside the demos"


NAMES = {"observation.state": 3, "policy/joint_pos": 2, "eef pos": 2, "a,b": 1, "robot0:eef": 1, "位置": 2}


def named(f):
    """Observations as other tools name them."""
    f["data"].attrs["env_args"] = json.dumps({"env_name": "named", "type": 2})
    for demo in f["data"].values():
        n = len(demo["actions"])
        del demo["obs"]
        for key, dim in NAMES.items():
            demo["obs/" + key] = rng.normal(size=(n, dim))


def isaaclab(f):
    """Isaac Lab's recorder and MimicGen: rows that are no steps."""
    for demo in f["data"].values():
        n = len(demo["actions"])
        del demo["states"], demo["rewards"], demo["dones"]
        for group, rows in ("initial_state", 1), ("states", n):
            demo[group + "/articulation/robot/joint_position"] = numpy.zeros((rows, 9), "f4")
        demo["src_demo_inds"], demo["seed"] = numpy.arange(2 + n % 3), 7
        demo["initial_state/unknown"] = numpy.full((1, 2), numpy.nan)


def flags(f):
    """One switch in all the types that it is met in, and what nobody sees without being asked to."""
    f["data"].attrs["env_args"] = "{}"
    for demo in f["data"].values():
        switch = numpy.arange(len(demo["actions"]))[:, None] % 2
        for kind in "u1", "i8", "?", "f4":
            demo["obs/switch_" + kind.replace("?", "b1")] = switch.astype(kind)
        demo["obs/camera"] = numpy.zeros((len(switch), 4, 4, 3), "u1")
        demo["obs/line"] = switch[:, 0]


def spread(f):
    """Numbers in other files, in all ways that HDF5 has: FILE.a and FILE.b, beside a raw file of bytes."""
    source = h5py.File(f.filename + ".a", "w")
    for name, demo in f["data"].items():
        for key in "obs/object", "actions":
            x, layout = demo[key][:], h5py.VirtualLayout(demo[key].shape, "f8")
            source[f"{name}/{key}"] = x
            layout[:5] = h5py.VirtualSource(f.filename + ".a", f"{name}/{key}", shape=x.shape)[:5]
            layout[5:] = h5py.VirtualSource(f.filename + ".a", f"{name}/{key}", shape=x.shape)[5:]
            del demo[key]
            f.create_virtual_dataset(f"data/{name}/{key}", layout)
    source.close()
    with h5py.File(f.filename + ".b", "w") as b:
        f.copy("data/demo_2", b, "there")
        b["there/actions"], b["there/obs/object"]  # views of FILE.a too
    del f["data/demo_2"]
    f["data/demo_2"] = h5py.ExternalLink(f.filename + ".b", "/there")
    del f["data/demo_4"]
    f["data/demo_4"] = f["data/demo_0"]
    del f["data/demo_6"]
    f["data/demo_6"] = h5py.SoftLink("/data/demo_0")
    x = f["data/demo_8/obs/robot0_eef_pos"][:]
    x.tofile(f.filename + ".raw")
    del f["data/demo_8/obs/robot0_eef_pos"]
    f.create_dataset("data/demo_8/obs/robot0_eef_pos", x.shape, x.dtype, external=f.filename + ".raw")
    del f["data"].attrs["total"]


# ---- each of these is refused ----


def nan(f):
    f["data/demo_4/obs/object"][2, 5] = numpy.nan


def infinite(f):
    f["data/demo_4/actions"][0, 1] = numpy.inf


def short(f):
    x = f["data/demo_2/obs/object"][:-1]
    del f["data/demo_2/obs/object"]
    f["data/demo_2/obs/object"] = x


def missing(f):
    del f["data/demo_6/obs/robot0_eef_pos"]


def wide(f):
    del f["data/demo_2/obs/object"]
    f["data/demo_2/obs/object"] = numpy.zeros((len(f["data/demo_2/actions"]), 11))


def idle(f):
    del f["data/demo_8/actions"]


def empty(f):
    for name in list(f["data/demo_8"]):
        del f["data/demo_8"][name]
    f["data/demo_8/actions"] = numpy.zeros((0, 7))
    for key, dim in KEYS.items():
        f[f"data/demo_8/obs/{key}"] = numpy.zeros((0, dim))


def miscounted(f):
    f["data/demo_2"].attrs["num_samples"] = 400


def raw(f):
    for demo in f["data"].values():
        del demo["obs"], demo["next_obs"]


def stale(f):
    f["mask/old"] = numpy.array([b"demo_99"])


def lzf(f):
    x = f["data/demo_2/obs/object"][:]
    del f["data/demo_2/obs/object"]
    f["data/demo_2"].create_dataset("obs/object", data=x, compression="lzf")


def looping(f):
    """Done to the bytes: loop()."""


def maniskill(f):
    f["traj_0/actions"] = numpy.zeros((4, 7))
    del f["data"], f["mask"]


def corrupt(path, of, seed):
    rnd, data = random.Random(int(seed)), bytearray(open(of, "rb").read())
    for _ in range(rnd.choice([1, 1, 2, 4])):
        at = rnd.randrange(len(data))
        data[at] = rnd.choice([rnd.randrange(256), 0, 255, data[at] ^ 1 << rnd.randrange(8)])
    open(path, "wb").write(data)


def loop(path):
    """HDF5 1.10 never returns from a collection of texts whose free space has no size."""
    data = bytearray(open(path, "rb").read())
    at = data.index(b"GCOL") + 16
    data[at : at + 16] = bytes(16)
    open(path, "wb").write(data)


if __name__ == "__main__":
    path, words = sys.argv[1], sys.argv[2:]
    if words[:1] == ["corrupt"]:
        corrupt(path, *words[1:])
    else:
        what = words.pop(0) if words and "=" not in words[0] else "good"
        with make(path, **{k: int(v) for k, v in (w.split("=") for w in words)}) as file:
            globals()[what](file)
        if what == "looping":
            loop(path)
