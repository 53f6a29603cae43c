#!/usr/bin/env python3
"""Makes tests/fixtures/fork.pt, a small point-cloud policy laid out as ManiFlow's RL fork saves it, and fork.bin, what
that policy does: actions of the ODE, chains and log-probabilities of its SDE, values. Run: python3 tests/reference/fork.py

In NumPy and float64, after the published description alone: time runs from 1 (noise) to 0, the second time embedding
gets 0 at every step, the normaliser lies beside the weights. To see that the network here is the published one:

    python3 tests/reference/fork.py --check    (samples tests/fixtures/maniflow.safetensors, which that code made)
"""
import json
import math
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
OUT = ROOT / "tests/fixtures"
N, TO, POINTS, H, A, C, K, LEVEL = 3, 2, 12, 4, 3, 2, 4, 0.5
E, W, HEADS, LAYERS, TIME = 8, 16, 2, 2, 8
STATE = {"robot0_eef_pos": 3, "robot0_eef_quat": 4, "robot0_gripper_qpos": 2}
rng = np.random.default_rng(11)


# ---- the network: w is its state_dict ----

def linear(w, name, x):
    return x @ w[f"{name}.weight"].T + (w[f"{name}.bias"] if f"{name}.bias" in w else 0)


def norm(x, eps, weight=1, bias=0):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps) * weight + bias


def mish(x):
    return x * np.tanh(np.logaddexp(0, x))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def sinusoid(t, dim):
    f = np.exp(-math.log(1e4) / (dim // 2 - 1) * np.arange(dim // 2))
    return np.concatenate([np.sin(t * f), np.cos(t * f)])


def attention(q, k, v, heads):
    """(B, Q, W), (B, L, W) -> (B, Q, W)"""
    split = lambda x: x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(0, 2, 1, 3)
    q, k, v = split(q), split(k), split(v)
    s = q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1])
    s = np.exp(s - s.max(-1, keepdims=True))
    o = s / s.sum(-1, keepdims=True) @ v
    return o.transpose(0, 2, 1, 3).reshape(o.shape[0], o.shape[2], -1)


def encode(w, cloud, state):
    """(B, TO, POINTS, 3 or 6), (B, TO, S), normalised -> tokens (B, TO*POINTS, E+64)"""
    x = cloud
    for i in (0, 3, 6):
        x = linear(w, f"obs_encoder.extractor.mlp.{i}", x)
        name = f"obs_encoder.extractor.mlp.{i + 1}"
        x = np.maximum(norm(x, 1e-5, w[f"{name}.weight"], w[f"{name}.bias"]), 0)
    if cloud.shape[-1] == 6:
        x = linear(w, "obs_encoder.extractor.mlp.9", x)
    name = "obs_encoder.extractor.final_projection"
    x = norm(linear(w, f"{name}.0", x), 1e-5, w[f"{name}.1.weight"], w[f"{name}.1.bias"])
    s = linear(w, "obs_encoder.state_mlp.2", np.maximum(linear(w, "obs_encoder.state_mlp.0", state), 0))
    s = np.broadcast_to(s[:, :, None], (*x.shape[:3], s.shape[-1]))
    x = np.concatenate([x, s], -1)
    return x.reshape(x.shape[0], -1, x.shape[-1])


def time_code(w, t, target):
    two = []
    for name, value in ("flow_timestep_encoder", t), ("flow_target_t_encoder", target):
        dim = w[f"model.{name}.1.weight"].shape[1]
        two.append(linear(w, f"model.{name}.3", mish(linear(w, f"model.{name}.1", sinusoid(value, dim)))))
    return linear(w, "model.timestep_target_t_adaptor", np.concatenate(two))


def head_norm(w, name, x, heads):
    if f"{name}.weight" not in w:
        return x
    y = x.reshape(*x.shape[:2], heads, -1)
    return norm(y, 1e-5, w[f"{name}.weight"], w[f"{name}.bias"]).reshape(x.shape)


def block(w, i, h, c, ctx, heads):
    b = f"model.blocks.{i}."
    m = np.split(linear(w, f"{b}adaLN_modulation.1", c / (1 + np.exp(-c))), 9)
    enter = lambda j: norm(h, 1e-6) * (1 + m[3 * j + 1]) + m[3 * j]
    q, k, v = np.split(enter(0) @ w[f"{b}self_attn.in_proj_weight"].T + w[f"{b}self_attn.in_proj_bias"], 3, -1)
    h = h + m[2] * linear(w, f"{b}self_attn.out_proj", attention(q, k, v, heads))
    q = head_norm(w, f"{b}cross_attn.q_norm", linear(w, f"{b}cross_attn.q", enter(1)), heads)
    k, v = np.split(linear(w, f"{b}cross_attn.kv", ctx), 2, -1)
    k = head_norm(w, f"{b}cross_attn.k_norm", k, heads)
    h = h + m[5] * linear(w, f"{b}cross_attn.proj", attention(q, k, v, heads))
    return h + m[8] * linear(w, f"{b}mlp.fc2", gelu(linear(w, f"{b}mlp.fc1", enter(2))))


def velocity(w, heads, x, tokens, t, target):
    """x (B, H, A)"""
    h = linear(w, "model.input_emb", x) + w["model.pos_emb"]
    ctx = linear(w, "model.vis_cond_obs_emb", tokens) + w["model.vis_cond_pos_embed"]
    c = time_code(w, t, target)
    i = 0
    while f"model.blocks.{i}.mlp.fc1.weight" in w:
        h = block(w, i, h, c, ctx, heads)
        i += 1
    h = h / np.sqrt((h**2).mean(-1, keepdims=True) + 1e-6) * w["model.final_layer.norm_final.weight"]
    return linear(w, "model.final_layer.ffn_final.fc2", gelu(linear(w, "model.final_layer.ffn_final.fc1", h)))


def value(w, tokens):
    """A learned query attends to the tokens by four heads."""
    q = np.broadcast_to(w["attention_pool.query"], (tokens.shape[0], 1, tokens.shape[-1]))
    iw, ib = w["attention_pool.attn.in_proj_weight"], w["attention_pool.attn.in_proj_bias"]
    (wq, wk, wv), (bq, bk, bv) = np.split(iw, 3), np.split(ib, 3)
    x = attention(q @ wq.T + bq, tokens @ wk.T + bk, tokens @ wv.T + bv, 4)
    x = linear(w, "attention_pool.attn.out_proj", x)[:, 0]
    for i in (0, 2):
        x = np.maximum(linear(w, f"value_head.mlp.{i}", x), 0)
    return linear(w, "value_head.mlp.4", x)[:, 0]


def normalize(w, key, x):
    return x * w[f"normalizer.params_dict.{key}.scale"] + w[f"normalizer.params_dict.{key}.offset"]


def unnormalize(w, key, x):
    return (x - w[f"normalizer.params_dict.{key}.offset"]) / w[f"normalizer.params_dict.{key}.scale"]


# ---- the fork's sampling ----

def step(v, x, i, stochastic):
    """Mean and std of x_{i+1}: t = 1 is noise."""
    t, delta = 1 - i / K, 1 / K
    data, noise = x - t * v, x + (1 - t) * v
    if not stochastic:
        return data * (1 - (t - delta)) + noise * (t - delta), 0.0
    sigma = LEVEL * math.sqrt(t / (1 - (1 - delta if i == 0 else t)))
    return (data * (1 - (t - delta)) + noise * ((t - delta) - sigma**2 * delta / (2 * t)), math.sqrt(delta) * sigma)


def sample(w, tokens, noise, eps, drawn):
    """drawn (n): the one stochastic step of each sample; None: all are. Chain (n, K+1, H, A), log-probs of its elements
    (n, K+1, H, A)."""
    chain, logs = [noise], [-0.5 * noise**2 - 0.5 * math.log(2 * math.pi)]
    for i in range(K):
        x = chain[-1]
        v = velocity(w, HEADS, x, tokens, 1 - i / K, 0.0)
        nxt, lp = np.empty_like(x), np.zeros_like(x)
        for n in range(len(x)):
            mean, std = step(v[n], x[n], i, drawn is None or drawn[n] == i)
            nxt[n] = mean + std * eps[n, i]
            if std:
                lp[n] = -math.log(std) - 0.5 * math.log(2 * math.pi) - 0.5 * eps[n, i] ** 2
        chain.append(nxt)
        logs.append(lp)
    return np.stack(chain, 1), np.stack(logs, 1)


# ---- the file ----

def weights():
    w = {}

    def add(name, *shape):
        w[name] = (rng.normal(size=shape) / math.sqrt(shape[-1]) if len(shape) > 1 else 0.3 * rng.normal(size=shape))

    def layer(name, out, n):
        add(f"{name}.weight", out, n)
        add(f"{name}.bias", out)

    def affine(name, n):
        w[f"{name}.weight"] = 1 + 0.2 * rng.normal(size=n)
        add(f"{name}.bias", n)

    for i, (n, out) in enumerate(((3, 64), (64, 128), (128, 256))):
        layer(f"obs_encoder.extractor.mlp.{3 * i}", out, n)
        affine(f"obs_encoder.extractor.mlp.{3 * i + 1}", out)
    layer("obs_encoder.extractor.final_projection.0", E, 256)
    affine("obs_encoder.extractor.final_projection.1", E)
    layer("obs_encoder.state_mlp.0", 64, sum(STATE.values()))
    layer("obs_encoder.state_mlp.2", 64, 64)
    add("model.pos_emb", 1, H, W)
    add("model.vis_cond_pos_embed", 1, TO * POINTS, W)
    layer("model.input_emb", W, A)
    layer("model.vis_cond_obs_emb", W, E + 64)
    layer("model.timestep_target_t_adaptor", W, 2 * W)
    for name in ("flow_timestep_encoder", "flow_target_t_encoder"):
        layer(f"model.{name}.1", 4 * TIME, TIME)
        layer(f"model.{name}.3", W, 4 * TIME)
    for i in range(LAYERS):
        b = f"model.blocks.{i}."
        add(f"{b}self_attn.in_proj_weight", 3 * W, W)
        add(f"{b}self_attn.in_proj_bias", 3 * W)
        for name, out, n in (("self_attn.out_proj", W, W), ("cross_attn.q", W, W), ("cross_attn.kv", 2 * W, W),
                             ("cross_attn.proj", W, W), ("mlp.fc1", 4 * W, W), ("mlp.fc2", W, 4 * W),
                             ("adaLN_modulation.1", 9 * W, W)):
            layer(b + name, out, n)
        affine(f"{b}cross_attn.q_norm", W // HEADS)
        affine(f"{b}cross_attn.k_norm", W // HEADS)
    w["model.final_layer.norm_final.weight"] = 1 + 0.2 * rng.normal(size=W)
    layer("model.final_layer.ffn_final.fc1", W, W)
    layer("model.final_layer.ffn_final.fc2", A, W)
    F = E + 64
    add("attention_pool.query", 1, 1, F)
    add("attention_pool.attn.in_proj_weight", 3 * F, F)
    add("attention_pool.attn.in_proj_bias", 3 * F)
    layer("attention_pool.attn.out_proj", F, F)
    for i, (out, n) in enumerate(((16, F), (8, 16), (1, 8))):
        layer(f"value_head.mlp.{2 * i}", out, n)
    layer("noise_head.mlp.0", 8, F)
    for key, n in {"action": A, "point_cloud": 3, **STATE}.items():
        w[f"normalizer.params_dict.{key}.scale"] = rng.uniform(0.5, 2, n)
        w[f"normalizer.params_dict.{key}.offset"] = 0.3 * rng.normal(size=n)
    return {k: v.astype(np.float32).astype(np.float64) for k, v in w.items()}


def write_pt(w):
    with tempfile.TemporaryDirectory() as where:
        np.savez(f"{where}/w.npz", **{k: v.astype(np.float32) for k, v in w.items()})
        code = f"""
import numpy as np
d = np.load({where + "/w.npz"!r})
tree = {{"policy_state_dict": OrderedDict((k, T(d[k].ravel().tolist(), d[k].shape)) for k in d.files),
        "optimizer_state_dict": {{"state": {{}}, "param_groups": []}}, "global_step": 4096, "rollout_count": 2,
        "config": {{"policy": {{"n_obs_steps": {TO}, "n_action_steps": {C}, "num_inference_steps": {K}}}}}}}
"""
        subprocess.run([sys.executable, ROOT / "tests/tools/torch_zip.py", OUT / "fork.pt", code], check=True)


def record(out, name, values):
    a = np.ascontiguousarray(values, dtype="<f4").tobytes()
    out.write(struct.pack("<I", len(name)) + name.encode() + struct.pack("<I", len(a) // 4) + a)


def main():
    w = weights()
    cloud = rng.normal(size=(N, TO, POINTS, 3)).astype(np.float32)
    state = {k: rng.normal(size=(N, TO, n)).astype(np.float32) for k, n in STATE.items()}
    noise = rng.normal(size=(N, H, A)).astype(np.float32)
    eps = rng.normal(size=(N, K, H, A)).astype(np.float32)
    drawn = np.array([0, 2, 3])
    tokens = encode(w, normalize(w, "point_cloud", cloud),
                    np.concatenate([normalize(w, k, v) for k, v in state.items()], -1))
    slice_ = slice(TO - 1, TO - 1 + C)
    with open(OUT / "fork.bin", "wb") as out:
        record(out, "obs", np.concatenate([cloud.reshape(N, TO, -1), *state.values()], -1))
        record(out, "noise", noise)
        record(out, "eps", eps)
        record(out, "drawn", drawn)
        record(out, "values", value(w, tokens))
        x = noise
        for i in range(K):
            x = x - velocity(w, HEADS, x, tokens, 1 - i / K, 0.0) / K
        record(out, "ode.actions", unnormalize(w, "action", x[:, slice_]))
        chain, logs = sample(w, tokens, noise, eps, None)
        record(out, "joint.chains", chain)
        record(out, "joint.logprobs", logs.mean((1, 2, 3)))
        record(out, "joint.actions", unnormalize(w, "action", chain[:, -1, slice_]))
        chain, logs = sample(w, tokens, noise, eps, drawn)
        record(out, "single.chains", chain)
        record(out, "single.logprobs", np.stack([logs[n, drawn[n] + 1, slice_] for n in range(N)]))
    write_pt(w)


def check():
    """ManiFlow's own: from 0 (noise) to 1, and the second time embedding gets the step."""
    raw = (OUT / "maniflow.safetensors").read_bytes()
    n = struct.unpack("<Q", raw[:8])[0]
    f = {k: np.frombuffer(raw[8 + n :][slice(*v["data_offsets"])], "<f4").reshape(v["shape"]).astype(np.float64)
         for k, v in json.loads(raw[8 : 8 + n]).items()}
    w = {k[7:]: v for k, v in f.items() if k.startswith("weight/")}
    w |= {"normalizer.params_dict." + k[11:].replace("/", "."): v for k, v in f.items() if k.startswith("normalizer/")}
    tokens = encode(w, normalize(w, "point_cloud", f["obs_point_cloud"]), normalize(w, "agent_pos", f["obs_agent_pos"]))
    x, steps = f["noise"], f["traj"].shape[1] - 1
    for i in range(steps):
        x = x + velocity(w, 4, x, tokens, i / steps, 1 / steps) / steps
        print(f"step {i}: within {np.abs(x - f['traj'][:, i + 1]).max():.1e}")


check() if "--check" in sys.argv else main()
