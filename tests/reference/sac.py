#!/usr/bin/env python3
"""Makes tests/fixtures/sac.bin: the losses of SAC over a flow's noise and their gradients, in PyTorch on double.
Run: python3 tests/reference/sac.py

Two critics of (Linear, LayerNorm, tanh) and a latent actor of ReLU layers; a batch of observations, actions and noise.
"""
import struct
from pathlib import Path

import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(4)
torch.set_default_dtype(torch.float64)
B, F, D, X, ALPHA, BOUND = 7, 5, 6, 4, 0.3, (-20, 2)


def critic(width):
    layers, n = [], width + F
    for hidden in (9, 8):
        layers += [nn.Linear(n, hidden), nn.LayerNorm(hidden), nn.Tanh()]
        n = hidden
    return nn.Sequential(*layers, nn.Linear(n, 1))


class Critics(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q_nets = nn.ModuleList([critic(width), critic(width)])

    def forward(self, x, s):
        return torch.cat([q(torch.cat([x, s], 1)) for q in self.q_nets], 1)


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(F, 12), nn.ReLU(), nn.Linear(12, 7), nn.ReLU())
        self.mean_head, self.logstd_head = nn.Linear(7, D), nn.Linear(7, D)

    def forward(self, s):
        x = self.trunk(s)
        return Normal(self.mean_head(x), self.logstd_head(x).clamp(*BOUND).exp())


actor, actions, noises = Actor(), Critics(X), Critics(D)
out = {}
for prefix, net in ("latent_actor", actor), ("action_critic", actions), ("noise_critic", noises):
    for p in net.parameters():
        with torch.no_grad():
            p += 0.3 * torch.randn_like(p)
    out.update({f"w/{prefix}.{k}": v for k, v in net.named_parameters()})

s, eps, x, y = torch.randn(B, F), torch.randn(B, D), torch.randn(B, X), 3 * torch.randn(B, 2)
out.update(obs=s, eps=eps, x=x, y=y)

# the actor: alpha log pi - min_j Qw_j, w over its bound is tanh(u)
p = actor(s)
u = p.mean + p.stddev * eps
t = torch.tanh(u)
logpi = (p.log_prob(u) - torch.log(1 - t ** 2 + 1e-6)).sum(1)
least = noises(t, s).min(1).values
loss = (ALPHA * logpi - least).mean()
for k, g in zip(dict(actor.named_parameters()), torch.autograd.grad(loss, list(actor.parameters()))):
    out[f"actor/latent_actor.{k}"] = g
out.update(logpi=logpi, least=least, squashed=t)

# the critics: half the sum of squares
q = actions(x, s)
loss = 0.5 * ((q - y) ** 2).sum(1).mean()
for k, g in zip(dict(actions.named_parameters()), torch.autograd.grad(loss, list(actions.parameters()))):
    out[f"critic/action_critic.{k}"] = g
out.update(q=q, loss=loss.reshape(1))

with open(Path(__file__).parents[1] / "fixtures/sac.bin", "wb") as f:
    for name, value in out.items():
        v = value.detach().float().numpy()
        f.write(struct.pack("<I", len(name)) + name.encode() + struct.pack("<I", v.size) + v.tobytes())
