#!/usr/bin/env python3
"""Makes tests/fixtures/steer.bin: the latent actor of DSRL by PPO, as published, over three observations.

    python3 tests/reference/steer.py FOLDER

FOLDER holds pi05_tiny_heads.safetensors and pi05_tiny_rl.npz, the weights of a tiny pi0.5's heads and the numbers that
RLinf's own code computed with them: features (72), the noise's mean and std (5, 8), the draw z, its log-probabilities by
element and those of the executed 2 x 3, and the entropy. Held here against PyTorch's distributions once more.
"""
import json
import struct
import sys
from pathlib import Path

import numpy as np
import torch

FOLDER = Path(sys.argv[1])
raw = (FOLDER / "pi05_tiny_heads.safetensors").read_bytes()
size = struct.unpack("<Q", raw[:8])[0]
heads = {k: np.frombuffer(raw[8 + size:][slice(*v["data_offsets"])], "<f4").reshape(v["shape"])
         for k, v in json.loads(raw[8:8 + size]).items() if k.startswith("latent_actor.")}
with np.load(FOLDER / "pi05_tiny_rl.npz") as z:
    rl = {k[5:]: z[k] for k in z.files if k.startswith("dsrl/")}

w = {k: torch.tensor(v).double() for k, v in heads.items()}
linear = lambda name, x: x @ w[f"latent_actor.{name}.weight"].T + w[f"latent_actor.{name}.bias"]
x = torch.tensor(rl["feature"]).double()
for i in (0, 2, 4):
    x = linear(f"trunk.{i}", x).relu()
noise = torch.distributions.Normal(linear("mean_head", x), linear("logstd_head", x).clamp(-5, 2).exp())
z = torch.tensor(rl["z"]).double().flatten(1)
close = lambda a, b: np.abs(a.numpy() - b).max() < 1e-5
assert close(noise.mean.reshape(rl["mean"].shape), rl["mean"]) and close(noise.stddev.reshape(rl["std"].shape), rl["std"])
assert close(noise.log_prob(z).reshape(rl["logprobs_all"].shape), rl["logprobs_all"])
assert close(noise.entropy().reshape(3, 5, 8)[:, :2, :3].mean((1, 2)), rl["entropy"])

with open(Path(__file__).parents[1] / "fixtures/steer.bin", "wb") as f:
    rows = {**{f"w/{k}": v for k, v in heads.items()},
            **{k: rl[k] for k in ("feature", "mean", "std", "z", "logprobs", "logprobs_all", "entropy")}}
    for name, value in rows.items():
        f.write(struct.pack("<I", len(name)) + name.encode() + struct.pack("<I", value.size))
        f.write(np.ascontiguousarray(value, "<f4").tobytes())
