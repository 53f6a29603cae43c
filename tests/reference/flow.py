#!/usr/bin/env python3
"""Makes tests/fixtures/{flow,clone,fpo,reflow}.bin: what PyTorch says of small flow policies. Run: python3 tests/reference/flow.py

Networks are the published ones (ReinFlow), inputs concatenated as there, so that our sums by columns are held
against the plain form. A record of the file: u32 length, name, u32 count, float32 values.
"""
import math
import struct
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
O, H, A, C, OFFSET, K = 5, 3, 2, 2, 1, 4
D = H * A
LOW, HIGH, LEVEL = 0.1, 0.24, 0.24  # the level of sde and of a constant sigma is the upper bound
CASES = {
    "reflow": dict(net="reflow", act="relu", cond=[], noise0=True, method="noise", learned=True, limit=1.0),
    "sde": dict(net="reflow", act="mish", cond=[7, 5], noise0=False, method="sde", learned=False, limit=0.0),
    "shortcut": dict(net="shortcut", act="mish", cond=[10, 8], noise0=True, method="noise", learned=True, limit=0.0),
}


class Sinusoid(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, t):
        half = self.dim // 2
        f = torch.exp(torch.arange(half) * -(math.log(10000) / (half - 1)))
        return torch.cat([torch.sin(t * f), torch.cos(t * f)], -1)


def act_of(name):
    return {"relu": nn.ReLU(), "mish": nn.Mish(), "tanh": nn.Tanh()}[name]


class Block(nn.Module):
    def __init__(self, h, act):
        super().__init__()
        self.l1, self.l2, self.act = nn.Linear(h, h), nn.Linear(h, h), act_of(act)

    def forward(self, x):
        return x + self.l2(self.act(self.l1(self.act(x))))


class ResidualMLP(nn.Module):
    def __init__(self, n_in, hidden, out, act):
        super().__init__()
        blocks = [Block(hidden[0], act) for _ in range((len(hidden) - 1) // 2)]
        self.layers = nn.ModuleList([nn.Linear(n_in, hidden[0]), *blocks, nn.Linear(hidden[0], out)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class MLP(nn.Module):
    def __init__(self, dims, act):
        super().__init__()
        self.act = act_of(act)
        self.moduleList = nn.ModuleList(
            nn.ModuleDict({"linear_1": nn.Linear(a, b)}) for a, b in zip(dims, dims[1:]))

    def forward(self, x):
        for i, m in enumerate(self.moduleList):
            x = m["linear_1"](x if i == 0 else self.act(x))
        return x


class Reflow(nn.Module):
    def __init__(self, e, hidden, cond, act):
        super().__init__()
        self.time_embedding = nn.Sequential(Sinusoid(e), nn.Linear(e, 2 * e), nn.Mish(), nn.Linear(2 * e, e))
        if cond:
            self.cond_mlp = MLP([O] + cond, act)
        self.F = cond[-1] if cond else O
        self.mlp_mean = ResidualMLP(D + e + self.F, hidden, D, act)

    def forward(self, x, t, d, obs):
        c = self.cond_mlp(obs) if hasattr(self, "cond_mlp") else obs
        e = self.time_embedding(t)
        return self.mlp_mean(torch.cat([x, e, c], -1)), e, c


class Shortcut(nn.Module):
    def __init__(self, e, hidden, cond, act):
        super().__init__()
        self.map_noise = Sinusoid(e)
        self.t_emb = nn.Sequential(nn.Linear(2 * e, e), nn.Mish(), nn.Linear(e, e))
        self.cond_emb = MLP([O] + cond, act)
        self.F = e
        self.vel_head = ResidualMLP(D + e, hidden, D, act)

    def forward(self, x, t, d, obs):
        e = self.t_emb(torch.cat([self.map_noise(t), self.map_noise(d)], -1))
        c = self.cond_emb(obs)
        return self.vel_head(torch.cat([x, e + c], -1)), e, c


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.Q1 = ResidualMLP(O, [9, 9, 9], 1, "mish")


class NoiseNet(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.mlp_logvar = MLP([n_in, 6, 6, D], "tanh")

    def forward(self, x):
        low, high = math.log(LOW**2), math.log(HIGH**2)
        return torch.exp(0.5 * (low + (high - low) * (torch.tanh(self.mlp_logvar(x)) + 1) / 2))


NETWORKS = {"reflow": ("network", Reflow), "shortcut": ("network", Shortcut)}  # where a policy has it, and what


class Policy(nn.Module):
    def __init__(self, net, cond, act, learned, **_):
        super().__init__()
        self.part, make = NETWORKS[net]
        setattr(self, self.part, make(8, [16, 16, 16], cond, act))
        if learned:
            self.explore_noise_net = NoiseNet(8 + self.velocity().F)
        self.critic = Critic()

    def velocity(self):
        return getattr(self, self.part)


def coefficients(c, k):
    """The step as spec'd for its own convention: (mean's x and v factor, std)."""
    if c["method"] == "noise":
        return 1, (1 if c["noise0"] else -1) / K, HIGH
    t, delta = 1 - k / K, 1 / K
    sigma = LEVEL * math.sqrt(t / (1 - (1 - delta if t == 1 else t)))
    pull = sigma**2 * delta / (2 * t)
    return 1 - pull, -delta - pull * (1 - t), math.sqrt(delta) * sigma


def record(out, name, value):
    v = torch.as_tensor(value).detach().to(torch.float32).reshape(-1)
    out.write(struct.pack("<I", len(name)) + name.encode() + struct.pack("<I", v.numel()) + v.numpy().tobytes())


def records_of(out, prefix, policy, what, only=""):
    for name, p in policy.named_parameters():
        if only not in name:
            continue
        v = p if what == "param" else p.grad if p.grad is not None else torch.zeros_like(p)
        record(out, f"{prefix}.{what}/{name}", v)


def f32(policy):
    for p in policy.parameters():
        p.data = p.data.float().double()
    return policy


def scoring(out, name, c):
    B = 3
    policy = f32(Policy(**c))
    obs = torch.randn(B, O).float().double()
    chain = (0.6 * torch.randn(B, K + 1, D)).float().double()
    v, mean, std = [], [], []
    for k in range(K):
        t = torch.full((B, 1), k / K if c["noise0"] else 1 - k / K)
        vk, e, f = policy.velocity()(chain[:, k], t, torch.full((B, 1), 1 / K), obs)
        cx, cv, s = coefficients(c, k)
        m = cx * chain[:, k] + cv * vk
        mean.append(m.clamp(-c["limit"], c["limit"]) if c["limit"] else m)
        v.append(vk)
        std.append(policy.explore_noise_net(torch.cat([e.detach(), f], -1)) if c["learned"] else torch.full_like(vk, s))
    mean, std = torch.stack(mean, 1), torch.stack(std, 1)
    dist, first = torch.distributions.Normal(mean, std), torch.distributions.Normal(0.0, 1.0)
    elements, x0 = dist.log_prob(chain[:, 1:]), first.log_prob(chain[:, 0])
    total = elements.sum((1, 2)) + x0.sum(1)
    executed = (elements.sum(1) + x0).reshape(B, H, A)[:, OFFSET:OFFSET + C] / (K + 1)
    value = policy.critic.Q1(obs)
    loss = (total / ((K + 1) * D)).sum() + value.sum()
    record(out, f"{name}.obs", obs)
    record(out, f"{name}.chain", chain)
    record(out, f"{name}.v", torch.stack(v, 1))
    record(out, f"{name}.elements", elements)
    record(out, f"{name}.chain_mean", total / ((K + 1) * D))
    record(out, f"{name}.chain_sum", total)
    record(out, f"{name}.step_mean", executed)
    record(out, f"{name}.value", value)
    if c["learned"]:
        entropy = (dist.entropy().sum((1, 2)) + D * first.entropy()) / ((K + 1) * D)
        record(out, f"{name}.entropy", entropy)
        loss = loss + 0.5 * entropy.sum()
    loss.backward()
    records_of(out, name, policy, "param")
    records_of(out, name, policy, "grad")


# ---- cloning: the draws are those of Philox 4x32-10, key seed, counter [draw, step, episode, row << 8 | purpose] ----


class Rng:
    CLONE = 6

    def __init__(self, seed, row, step):
        self.key, self.counter, self.words = [seed, 0], [0, step, 0, row << 8 | self.CLONE], []

    def u32(self):
        if not self.words:
            c, k = list(self.counter), list(self.key)
            for _ in range(10):
                a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
                c = [b >> 32 ^ c[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k[1], a & 0xFFFFFFFF]
                k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
            self.words = c
            self.counter[0] += 1
        return self.words.pop(0)

    def below(self, n):
        while True:
            x = self.u32()
            if x >= 2**32 % n:
                return x % n

    def uniform(self):
        return (self.u32() >> 8) / 2**24

    def normal(self, n):
        x = []
        while len(x) < n:
            r, a = math.sqrt(-2 * math.log(1 - self.uniform())), 2 * math.pi * self.uniform()
            x += [r * math.cos(a), r * math.sin(a)]
        return torch.tensor(x[:n])


def draw_time(rng, sampling):
    if sampling == "logit_normal":
        return 1 / (1 + math.exp(-rng.normal(2)[0].item()))
    if sampling == "beta":
        return 0.999 * (1 - rng.uniform() ** (1 / 1.5))
    return rng.uniform()


def cloning(out, name, net, kind, sampling, noise0, seed=11, step=3, B=8):
    make = lambda: f32(Policy(net=net, cond=[] if net == "reflow" else [10, 8], act="mish", learned=False))
    policy, teacher = make(), make()
    obs, data = torch.randn(B, O).float().double(), torch.randn(B, D).float().double()
    sign = 1 if noise0 else -1

    def velocity(p, x, t, d, o):  # in noise0's sense
        one = lambda a: torch.as_tensor(float(a)).reshape(1, 1)
        return sign * p.velocity()(x[None], one(t if noise0 else 1 - t), one(d), o[None])[0][0]

    flow, taught = [], []
    for i in range(B):
        rng = Rng(seed, i, step)
        noise = rng.normal(D)
        mix = lambda t: (1 - t) * noise + t * data[i]
        if kind == "flow" or i < (int(0.75 * B) if kind == "cfm" else B - B // 4):
            t = draw_time(rng, sampling)
            flow.append(((velocity(policy, mix(t), t, 0, obs[i]) - (data[i] - noise)) ** 2).mean())
            continue
        with torch.no_grad():
            if kind == "shortcut":
                k = rng.below(7)
                d = 2.0**-k
                t = rng.below(2**k) * d
                v1 = velocity(teacher, mix(t), t, d / 2, obs[i])
                v2 = velocity(teacher, mix(t) + v1 * d / 2, t + d / 2, d / 2, obs[i])
                target = (v1 + v2) / 2
            elif kind == "cfm":  # published in noise1
                t1 = 1e-3 + (1 - 2e-3) * rng.uniform()
                r = max(t1 - (0.01 + 0.09 * rng.uniform()), 1e-3)
                t, d = 1 - t1, 0
                action = mix(1 - r) - r * -velocity(teacher, mix(1 - r), 1 - r, 0, obs[i])
                target = -(mix(t) - action) / t1
            else:
                t = rng.below(10) / 10
                d = rng.uniform()
                t2 = min(t + d, 1)
                end = mix(t2) + (1 - t2) * velocity(teacher, mix(t2), t2, d, obs[i])
                target = (end - mix(t)) / (1 - t)
        taught.append(((velocity(policy, mix(t), t, d, obs[i]) - target) ** 2).mean())
    if kind == "consistency":
        loss = sum(flow) / len(flow) + sum(taught) / len(taught)
    else:
        loss = sum(flow + taught) / B
    loss.backward()
    record(out, f"{name}.obs", obs)
    record(out, f"{name}.actions", data)
    record(out, f"{name}.loss", loss)
    records_of(out, name, policy, "param", policy.part)
    records_of(out, name, policy, "grad", policy.part)
    records_of(out, f"{name}.teacher", teacher, "param", policy.part)


def fpo(out, name, c, M=5):
    """Flow-matching losses of samples (arXiv 2507.21053), of given draws."""
    B = 3
    policy = f32(Policy(**c))
    obs, sample = torch.randn(B, O).float().double(), (0.6 * torch.randn(B, D)).float().double()
    noise, time = torch.randn(B, M, D).float().double(), torch.rand(B, M).float().double()
    losses = []
    for m in range(M):
        t = time[:, m : m + 1]
        x, u = ((1 - t) * noise[:, m] + t * sample, sample - noise[:, m]) if c["noise0"] else (
            t * noise[:, m] + (1 - t) * sample, noise[:, m] - sample)
        v, _, _ = policy.velocity()(x, t, torch.full((B, 1), 1 / K), obs)
        losses.append(((v - u) ** 2).mean(-1))
    losses = torch.stack(losses, 1)
    (-losses.mean(1)).sum().backward()
    for what, value in dict(obs=obs, sample=sample, noise=noise, time=time, losses=losses).items():
        record(out, f"{name}.{what}", value)
    records_of(out, name, policy, "param")
    records_of(out, name, policy, "grad", policy.part)


def reflow(out, name, c):
    """Reflow consistency of three chains' ends, the second one masked; t is noise1's."""
    weight = torch.tensor([0.3, 0.0, 0.7])
    policy = f32(Policy(**c))
    obs, ends = torch.randn(3, O).float().double(), torch.randn(3, 2, D).float().double()
    t = torch.rand(3, 1).float().double()
    z1, z0 = ends[:, 0], ends[:, 1]
    x = t * z1 + (1 - t) * z0
    v = policy.velocity()(x, 1 - t if c["noise0"] else t, torch.full((3, 1), 1 / K), obs)[0]
    loss = ((v - (z0 - z1 if c["noise0"] else z1 - z0)) ** 2).mean(1) * weight
    loss.sum().backward()
    for what, value in (("obs", obs), ("ends", ends), ("t", t), ("weight", weight), ("loss", loss)):
        record(out, f"{name}.{what}", value)
    records_of(out, name, policy, "param", policy.part)
    records_of(out, name, policy, "grad", policy.part)


if __name__ == "__main__":
    with open(Path(__file__).parent.parent / "fixtures" / "flow.bin", "wb") as file:
        for case, settings in CASES.items():
            scoring(file, case, settings)
    with open(Path(__file__).parent.parent / "fixtures" / "clone.bin", "wb") as file:
        cloning(file, "flow0", "reflow", "flow", "uniform", True)
        cloning(file, "flow1", "reflow", "flow", "logit_normal", False)
        cloning(file, "shortcut0", "shortcut", "shortcut", "uniform", True)
        cloning(file, "shortcut1", "shortcut", "shortcut", "uniform", False)
        cloning(file, "consistency0", "shortcut", "consistency", "beta", True)
        cloning(file, "consistency1", "shortcut", "consistency", "beta", False)
        cloning(file, "cfm0", "reflow", "cfm", "beta", True)
        cloning(file, "cfm1", "shortcut", "cfm", "uniform", False, B=7)
    with open(Path(__file__).parent.parent / "fixtures" / "fpo.bin", "wb") as file:
        fpo(file, "reflow", CASES["reflow"] | dict(learned=False))
        fpo(file, "noise1", CASES["sde"])
        fpo(file, "shortcut", CASES["shortcut"] | dict(learned=False))
    with open(Path(__file__).parent.parent / "fixtures" / "reflow.bin", "wb") as file:
        for case, settings in CASES.items():
            reflow(file, case, settings)
