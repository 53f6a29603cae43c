#!/usr/bin/env python3
"""Makes tests/fixtures/offline.bin: critics of AW-shortcut, twins and an ensemble, from the reference values of an
independent program (aw_shortcut_tiny.npz: weights, data, draws, losses, gradients), without its velocity network.
Run: python3 tests/reference/offline.py aw_shortcut_tiny.npz

PyTorch recomputes each number from the formulas here, in double, and stops where the two disagree. A record of the
file: u32 length, name, u32 count, float32 values.
"""
import struct
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
io = {k: torch.tensor(v.astype(np.float64)) for k, v in np.load(sys.argv[1]).items()}
B, C = 10, int(io["C"])
records = {}


def near(name, got, want, bound):
    error = (got - want).abs().max().item() / max(1.0, want.abs().max().item())
    assert error < bound, (name, error)


def tree(prefix):
    return {k[len(prefix):]: v for k, v in io.items() if k.startswith(prefix)}


def ours(name):
    """q1_net.3.weight -> q_nets.0.3.weight"""
    return name.replace("q1_net", "q_nets.0").replace("q2_net", "q_nets.1")


def critics(weights, action, obs):
    """(B, n) from names q_nets.I.J.{weight,bias}: Linear, LayerNorm, Mish for every hidden layer, then Linear."""
    x, out = torch.cat([action.flatten(1), obs], 1), []
    for i in sorted({int(k.split(".")[1]) for k in weights}):
        layer, y = {k.split(".", 2)[2]: v for k, v in weights.items() if k.startswith(f"q_nets.{i}.")}, x
        for j in sorted({int(k.split(".")[0]) for k in layer}):
            w, b = layer[f"{j}.weight"], layer[f"{j}.bias"]
            y = F.linear(y, w, b) if w.ndim == 2 else F.mish(F.layer_norm(y, b.shape, w, b, 1e-5))
        out.append(y[:, 0])
    return torch.stack(out, 1)


for kind in ("double", "ensemble"):
    weights = {ours(k): v.clone().requires_grad_() for k, v in tree(f"{kind}/critic.").items()}
    target = {ours(k): v for k, v in tree(f"{kind}/critic_target.").items()}
    after = io[f"{kind}/next_actions"][:, :C]
    q = critics(weights, io["actions"][:, :C], io["obs"])
    next_q = critics(target, after, io["next_obs"])
    least = q.detach().min(1).values
    w = (io["beta"] * (least - least.mean())).exp().clamp(max=io["weight_clip"])
    w = w / w.mean()
    y = io["reward_scale"] * io["reward"] + (1 - io["done"]) * io["discount"] * next_q.min(1).values
    y = y.clamp(-io["q_target_clip"], io["q_target_clip"])
    mse = ((q - y[:, None]) ** 2).mean(0)
    loss = mse.sum() if kind == "double" else mse.mean()
    loss.backward()
    near("q", least, io[f"{kind}/q"], 1e-6)
    near("weights", w, io[f"{kind}/weights"], 1e-5)
    near("critic_loss", loss.detach(), io[f"{kind}/out/critic_loss"], 1e-6)
    scale = max(v.abs().max() for v in tree(f"{kind}/grad/critic.").values())
    for k, v in tree(f"{kind}/grad/critic.").items():
        near(k, weights[ours(k)].grad / scale, v / scale, 1e-5)
        records[f"{kind}.grad/critic.{ours(k)}"] = v
    for k, v in weights.items():
        records[f"{kind}.param/critic.{k}"] = v.detach()
    for k, v in target.items():
        records[f"{kind}.target/critic.{k}"] = v
    records |= {f"{kind}.q": io[f"{kind}/q"], f"{kind}.weights": io[f"{kind}/weights"], f"{kind}.y": y,
                f"{kind}.all_q": q.detach(), f"{kind}.next_q": next_q, f"{kind}.after": after,
                f"{kind}.loss": io[f"{kind}/out/critic_loss"], f"{kind}.stats": torch.stack(
                    [io[f"{kind}/out/{k}"] for k in ("q_mean", "weight_mean", "weight_std", "advantage_mean")])}
for k in ("obs", "next_obs", "reward", "done", "discount"):
    records[k] = io[k]
records["actions"] = io["actions"][:, :C]
records["options"] = torch.stack([io[k] for k in ("beta", "weight_clip", "reward_scale", "q_target_clip")])

# IQL (Kostrikov et al. 2021) on the same data: V by expectiles of the targets' smaller value, and its gradients.
torch.manual_seed(3)
value = nn.Sequential(nn.Linear(6, 20), nn.LayerNorm(20), nn.Mish(), nn.Linear(20, 16), nn.LayerNorm(16), nn.Mish(),
                      nn.Linear(16, 1))
target = {ours(k): v for k, v in tree("double/critic_target.").items()}
low = critics(target, io["actions"][:, :C], io["obs"]).min(1).values
for name, tau in (("iql7", .7), ("iql9", .9)):
    value.zero_grad()
    u = low - value(io["obs"])[:, 0]
    loss = ((tau - (u < 0).double()).abs() * u ** 2).mean()
    loss.backward()
    records |= {f"{name}.loss": loss.detach()} | {f"{name}.grad/value.q_nets.0.{k}": v.grad.clone()
                                                  for k, v in value.named_parameters()}
records |= {f"iql.param/value.q_nets.0.{k}": v.detach() for k, v in value.named_parameters()}
records["iql.low"] = low
records["iql.v"] = value(io["obs"])[:, 0].detach()

with open(Path(__file__).parent.parent / "fixtures" / "offline.bin", "wb") as file:
    for name, v in records.items():
        v = v.detach().numpy().astype("<f4").tobytes()
        file.write(struct.pack("<I", len(name)) + name.encode() + struct.pack("<I", len(v) // 4) + v)
