"""A tiny pi0.5 for tests/unit/test_pi05.c, made of what the published PyTorch code computed at that size.

    python tests/reference/pi05.py FOLDER tests/fixtures

FOLDER holds, of a network with random weights (openpi 15a9616; RLinf's policy around it 5836b27):
pi05_tiny.safetensors (its checkpoint), pi05_tiny_heads.safetensors (value, noise and latent heads), pi05_tiny_io.npz
(inputs, prefix, keys and values, velocities, Euler steps), pi05_tiny_grads.npz (gradients of the flow loss) and
pi05_tiny_rl.npz (chains, log-probabilities, values). The checkpoint is copied. The rest goes to pi05.safetensors:
pictures as (height, width, channel), tokens with 0 where they are masked, and of every gradient its largest number
and those at every `stride`-th place.
"""
import json
import shutil
import struct
import sys
from pathlib import Path

import numpy as np

folder, to = Path(sys.argv[1]), Path(sys.argv[2])
out = {}


def npz(name):
    with np.load(folder / name) as z:
        return {k: z[k] for k in z.files}


def tensors(path):
    b = path.read_bytes()
    n = struct.unpack("<Q", b[:8])[0]
    h = json.loads(b[8:8 + n])
    return {k: np.frombuffer(b[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]], "<f4").reshape(v["shape"])
            for k, v in h.items() if k != "__metadata__"}


def save(path, arrays):
    head, at = {}, 0
    arrays = {k: np.ascontiguousarray(v, "<f4") for k, v in sorted(arrays.items())}
    for k, v in arrays.items():
        head[k] = {"dtype": "F32", "shape": list(v.shape), "data_offsets": [at, at + v.nbytes]}
        at += v.nbytes
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(v.tobytes() for v in arrays.values()))


io, rl = npz("pi05_tiny_io.npz"), npz("pi05_tiny_rl.npz")
out["images"] = io["images"].transpose(0, 1, 3, 4, 2)
assert io["tokens"][io["lang_masks"]].min() > 0
out["image_mask"] = io["image_masks"]
out["tokens"] = np.where(io["lang_masks"], io["tokens"], 0)
pad = io["prefix/pad"][..., None]
for k in ("noise", "actions", "prefix/pad", "loss/time", "loss/v", "loss/mean", "loss/mean_env_dims"):
    out[k] = io[k]
for k in ("prefix/embeddings", "prefix/output"):
    out[k] = np.where(pad, io[k], 0)
for i in range(2):
    for c in "kv":
        out[f"cache/{c}{i}"] = np.where(pad, io[f"cache/{c}{i}"][:, 0], 0)
for t in ("1.0", "0.7", "0.5", "0.25", "0.1", "0.001"):
    out[f"t={t}/v"] = io[f"t={t}/v"]
for n in (10, 4, 3, 2, 1):
    out[f"euler{n}/end"] = io[f"euler{n}/x"][:, -1]
    out[f"euler{n}/x"] = io[f"euler{n}/x"][:, :-1]
    out[f"euler{n}/v"], out[f"euler{n}/t"] = io[f"euler{n}/v"], io[f"euler{n}/t"]


def sample(prefix, name, g):
    stride = max(1, g.size // 300) | 1
    out[f"{prefix}/{name}/most"], out[f"{prefix}/{name}/at"] = np.abs(g).max().reshape(1), g.reshape(-1)[::stride]


for k, g in npz("pi05_tiny_grads.npz").items():
    sample("grad", k, g)
for k, v in tensors(folder / "pi05_tiny_heads.safetensors").items():
    out["head/" + k] = v
for k in ("eps", "advantages", "noise_range", "value/valid_only"):
    out["rl/" + k] = rl[k]
for case in ("ode", "sde_single0", "sde_single1", "sde_single2", "sde_single3", "sde_joint", "cps_single1", "noise_joint"):
    for k in ("chains", "logprobs", "entropy"):
        if f"{case}/{k}" in rl:
            out[f"rl/{case}/{k}"] = rl[f"{case}/{k}"]
for k, g in rl.items():
    if k.startswith(("sde_single2/grad/", "noise_joint/grad/")):
        sample("rl/" + k.split("/")[0] + "/grad", k.split("/grad/")[1], g)
save(to / "pi05.safetensors", out)
shutil.copyfile(folder / "pi05_tiny.safetensors", to / "pi05_tiny.safetensors")
