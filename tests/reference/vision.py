#!/usr/bin/env python3
"""Makes tests/fixtures/vision_vit.bin and vision_vit*.pt: what PyTorch says of small image policies with a ViT and a
SpatialEmb. Run: python3 tests/reference/vision.py; with --count it prints the parameters of the published sizes.

The networks are written from their description: patches by two convolutions (8x8 by 4, 3x3 by 2), a transformer with
norms before its layers, and of each camera z = sum over e of w_e relu(LN(W [tokens^T, states] + b))_e. Observations are
recorded as the flat vectors of our policies: the bytes of each picture, four in the place of a float, then the state.
Gradients are those of three losses, each alone: mean (velocity - target)^2, mean (value - returns)^2 and mean (log of
the noise's standard deviation * noise_weight).
"""
import math
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from flow import MLP, ResidualMLP, Sinusoid, act_of, f32, record

OUT = Path(__file__).parents[1] / "fixtures"
LOW, HIGH, B, K = 0.08, 0.14, 3, 4
CASES = {
    "reflow": dict(shortcut=0, size=(24, 32), cameras=1, steps=1, seen=1, S=3, E=6, heads=3, layers=2, d=5, critic_d=4,
                   act="relu", state=[]),
    "steps": dict(shortcut=0, size=(16, 16), cameras=1, steps=3, seen=2, S=2, E=4, heads=2, layers=1, d=6, critic_d=6,
                  act="mish", state=[]),
    "shortcut": dict(shortcut=1, size=(16, 24), cameras=2, steps=2, seen=2, S=3, E=4, heads=4, layers=1, d=5, critic_d=3,
                     act="mish", state=[7, 4]),
    "cameras": dict(shortcut=1, size=(24, 24), cameras=2, steps=1, seen=1, S=2, E=4, heads=1, layers=1, d=3, critic_d=3,
                    act="relu", state=[5]),
}
H, A, TIME, HIDDEN, NOISE, CRITIC = 3, 2, 8, 10, 7, 9  # of every case
D = H * A


class Embed(nn.Module):
    def __init__(self, channels, E):
        super().__init__()
        self.embed = nn.Sequential(nn.Conv2d(channels, E, 8, 4), nn.Identity(), nn.ReLU(), nn.Conv2d(E, E, 3, 2))

    def forward(self, x):
        return self.embed(x).flatten(2).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self, E, heads):
        super().__init__()
        self.heads, self.qkv_proj, self.out_proj = heads, nn.Linear(E, 3 * E), nn.Linear(E, E)

    def forward(self, x):
        n, P, E = x.shape
        q, k, v = self.qkv_proj(x).reshape(n, P, 3, self.heads, E // self.heads).permute(2, 0, 3, 1, 4)
        return self.out_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, P, E))


class Layer(nn.Module):
    def __init__(self, E, heads):
        super().__init__()
        self.layer_norm1, self.layer_norm2 = nn.LayerNorm(E), nn.LayerNorm(E)
        self.mha, self.linear1, self.linear2 = Attention(E, heads), nn.Linear(E, 4 * E), nn.Linear(4 * E, E)

    def forward(self, x):
        x = x + self.mha(self.layer_norm1(x))
        return x + self.linear2(F.gelu(self.linear1(self.layer_norm2(x))))


def patches(size):
    h, w = (((n - 8) // 4 + 1 - 3) // 2 + 1 for n in size)
    return h * w


class ViT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.patch_embed = Embed(3 * c["seen"], c["E"])
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, patches(c["size"]), c["E"]))
        self.net = nn.Sequential(*(Layer(c["E"], c["heads"]) for _ in range(c["layers"])))
        self.norm = nn.LayerNorm(c["E"])

    def forward(self, x):
        return self.norm(self.net(self.patch_embed(x) + self.pos_embed))


class SpatialEmb(nn.Module):
    def __init__(self, c, d):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, c["E"], d))
        n_in = patches(c["size"]) + c["steps"] * c["S"]
        self.input_proj = nn.Sequential(nn.Linear(n_in, d), nn.LayerNorm(d), nn.ReLU())

    def forward(self, tokens, states):
        x = tokens.transpose(1, 2)
        return (self.weight * self.input_proj(torch.cat([x, states[:, None].expand(-1, x.shape[1], -1)], -1))).sum(1)


class Wrapped(nn.Module):
    def __init__(self, vit):
        super().__init__()
        self.vit = vit


class Seeing(nn.Module):
    """What the policy and the critic have in common."""

    def __init__(self, c, d):
        super().__init__()
        self.c, self.backbone = c, Wrapped(ViT(c))
        self.names = ["compress"] if c["cameras"] == 1 else [f"compress{i + 1}" for i in range(c["cameras"])]
        for name in self.names:
            setattr(self, name, SpatialEmb(c, d))

    def codes(self, pictures, states):
        """pictures (B, steps, cameras, H, W, 3), states (B, steps * S)"""
        x = (pictures / 255 - 0.5)[:, self.c["steps"] - self.c["seen"]:].permute(2, 0, 1, 5, 3, 4).flatten(2, 3)
        return [getattr(self, n)(self.backbone.vit(p), states) for n, p in zip(self.names, x)]


class FlowViT(Seeing):
    def __init__(self, c):
        super().__init__(c, c["d"])
        self.F = c["cameras"] * c["d"] + c["steps"] * c["S"]
        self.time_embedding = nn.Sequential(Sinusoid(TIME), nn.Linear(TIME, 2 * TIME), nn.Mish(),
                                            nn.Linear(2 * TIME, TIME))
        self.mlp_mean = ResidualMLP(D + TIME + self.F, [HIDDEN] * 3, D, c["act"])

    def forward(self, x, t, d, pictures, states):
        cond = torch.cat(self.codes(pictures, states) + [states], -1)
        return self.mlp_mean(torch.cat([x, self.time_embedding(t), cond], -1)), cond


class ShortcutViT(Seeing):
    def __init__(self, c):
        super().__init__(c, c["d"])
        self.F, self.map_noise = TIME, Sinusoid(TIME)
        self.td_emb = nn.Sequential(nn.Linear(2 * TIME, TIME), nn.Mish(), nn.Linear(TIME, TIME))
        self.prop_emb = MLP([c["steps"] * c["S"]] + c["state"], c["act"])
        n_in = c["cameras"] * c["d"] + c["state"][-1]
        self.cond_embed = nn.Sequential(nn.Linear(n_in, 2 * TIME), nn.ReLU(), nn.Linear(2 * TIME, TIME))
        self.vel_head = ResidualMLP(D + TIME, [HIDDEN] * 3, D, c["act"])

    def forward(self, x, t, d, pictures, states):
        cond = self.cond_embed(torch.cat(self.codes(pictures, states) + [self.prop_emb(states)], -1))
        time = self.td_emb(torch.cat([self.map_noise(t), self.map_noise(d)], -1))
        return self.vel_head(torch.cat([x, time + cond], -1)), cond


class ViTCritic(Seeing):
    def __init__(self, c):
        super().__init__(c, c["critic_d"])
        self.Q1 = ResidualMLP(c["cameras"] * c["critic_d"] + c["steps"] * c["S"], [CRITIC] * 3, 1, "mish")

    def forward(self, pictures, states):
        return self.Q1(torch.cat(self.codes(pictures, states) + [states], -1))


class NoiseNet(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.mlp_logvar = MLP([n_in, NOISE, NOISE, D], "tanh")
        self.register_buffer("logvar_min", torch.tensor(LOW**2).log())
        self.register_buffer("logvar_max", torch.tensor(HIGH**2).log())

    def log_std(self, cond):
        return 0.5 * (self.logvar_min + (self.logvar_max - self.logvar_min) * (self.mlp_logvar(cond).tanh() + 1) / 2)


class Policy(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.network = (ShortcutViT if c["shortcut"] else FlowViT)(c)
        self.explore_noise_net, self.critic = NoiseNet(self.network.F), ViTCritic(c)


def shaken(module):
    """Norms begin as the identity, and biases small: nothing may hide behind that."""
    for p in module.parameters():
        p.data += 0.1 * torch.randn_like(p)
    return f32(module)


def looked_at(c, n=B):
    """n observations: pictures, states, and both as flat vectors."""
    h, w = c["size"]
    pictures = torch.randint(0, 256, (n, c["steps"], c["cameras"], h, w, 3), dtype=torch.uint8)
    states = torch.randn(n, c["steps"], c["S"]).float()
    packed = pictures.flatten(2).view(torch.float32)  # whole floats, since sides are multiples of 8
    return pictures.double(), states.double().flatten(1), torch.cat([packed, states], -1)


def ours(name, v):
    """Weights of 2-D convolutions are (out, kh, kw, in)."""
    return v.permute(0, 2, 3, 1) if v.dim() == 4 else v


def case(out, name, c):
    say = lambda what, v: record(out, f"{name}.{what}", v)
    policy = shaken(Policy(c))
    pictures, states, obs = looked_at(c)
    x, target, weight = (torch.randn(B, D).float().double() for _ in range(3))
    t, d, returns = torch.rand(B, 1).float().double(), torch.full((B, 1), 1 / K), torch.randn(B, 1).float().double()
    say("sizes", torch.tensor([c["shortcut"], *c["size"], c["cameras"], c["steps"], c["seen"], c["S"], c["E"],
                               c["heads"], c["layers"], c["d"], c["critic_d"], c["act"] == "mish",
                               H, A, TIME, HIDDEN, NOISE, CRITIC, *c["state"]]))
    for what, v in dict(obs=obs, x=x, t=t, d=d, target=target, returns=returns, noise_weight=weight).items():
        say(what, v)
    for key, v in policy.state_dict().items():
        say(f"param/{key}", ours(key, v))
    velocity, cond = policy.network(x, t, d, pictures, states)
    log_std, value = policy.explore_noise_net.log_std(cond), policy.critic(pictures, states)
    for what, v in dict(code=torch.cat(policy.network.codes(pictures, states), -1), velocity=velocity,
                        noise_std=log_std.exp(), value=value).items():
        say(what, v)
    losses = dict(flow=((velocity - target)**2).mean(), value=((value - returns)**2).mean(),
                  noise=(log_std * weight).mean())
    for what, loss in losses.items():
        policy.zero_grad()
        loss.backward(retain_graph=True)
        for key, p in policy.named_parameters():
            if p.grad is not None:
                say(f"{what}.grad/{key}", ours(key, p.grad))


class Model(nn.Module):
    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)


class Noisy(nn.Module):
    def __init__(self, policy, noise):
        super().__init__()
        self.policy, self.explore_noise_net = policy, noise


@torch.no_grad()
def files(out):
    """A clone of one camera, and a fine-tuned policy of two, with the actions that they sample."""
    f4 = lambda module: {k: v.float() for k, v in module.state_dict().items()}

    def sampled(name, c, policy):
        pictures, states, obs = looked_at(c, 7)
        noise = x = torch.randn(7, D).float().double()
        for k in range(K):
            time, step = torch.full((7, 1), k / K), torch.full((7, 1), 1 / K)
            x = x + policy.network(x, time, step, pictures, states)[0] / K
        for what, v in dict(obs=obs, noise=noise, actions=x, values=policy.critic(pictures, states)).items():
            record(out, f"{name}.{what}", v)

    c = CASES["reflow"] | dict(size=(24, 24))
    raw, ema = shaken(Policy(c)), shaken(Policy(c))
    torch.save(dict(epoch=9, model=f4(Model(network=raw.network)), ema=f4(Model(network=ema.network))),
               OUT / "vision_vit.pt")
    sampled("clone", c, ema)
    c = CASES["cameras"] | dict(steps=2, seen=2)
    old, new = shaken(Policy(c)), shaken(Policy(c))
    model = f4(Model(actor_old=old.network, actor_ft=Noisy(new.network, new.explore_noise_net), critic=new.critic))
    alone = {k.replace("actor_ft.policy", "network"): v for k, v in model.items() if ".policy." in k}
    torch.save(dict(itr=30, model=model, policy=alone), OUT / "vision_vit_tuned.pt")
    sampled("tuned", c, new)


def counts():
    torch.set_default_dtype(torch.float32)
    global D, TIME, HIDDEN, NOISE, CRITIC
    D, TIME, CRITIC = 28, 32, 256
    c = dict(shortcut=0, size=(96, 96), cameras=1, steps=1, seen=1, S=9, E=128, heads=4, layers=1, d=128, critic_d=128,
             act="mish", state=[])
    for HIDDEN in 512, 768:
        policy = Policy(c)
        print(HIDDEN, *(sum(p.numel() for p in m.parameters()) for m in (policy.network, policy.critic)))


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(5)
    if "--count" in sys.argv:
        counts()
    else:
        with open(OUT / "vision_vit.bin", "wb") as file:
            for key, settings in CASES.items():
                case(file, key, settings)
            files(file)
