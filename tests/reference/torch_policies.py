#!/usr/bin/env python3
"""Makes tests/fixtures/policy_*.pt: small policies in the layouts of ReinFlow's and DPPO's files, and in policy.bin the
actions that PyTorch samples from them. Run: python3 tests/reference/torch_policies.py

The networks are those of flow.py; policy.npz is their normalization.npz. Actions are of N observations and initial
noises, K Euler steps without further noise, in the units of the environment.
"""
from pathlib import Path

import numpy as np
import torch
from torch import nn

from flow import A, D, H, K, MLP, O, Critic, Reflow, Shortcut, record

torch.set_default_dtype(torch.float32)
OUT = Path(__file__).parents[1] / "fixtures"
N = 7
LOW, HIGH = 0.08, 0.16


class NoiseNet(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.mlp_logvar = MLP([n_in, 6, 6, D], "tanh")
        self.logvar_min = nn.Parameter(torch.log(torch.tensor(LOW**2)), requires_grad=False)
        self.logvar_max = nn.Parameter(torch.log(torch.tensor(HIGH**2)), requires_grad=False)


class Noisy(nn.Module):
    def __init__(self, policy):
        super().__init__()
        self.policy = policy
        self.explore_noise_net = NoiseNet(8 + policy.F)


class Model(nn.Module):
    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)


rng = np.random.default_rng(5)
RANGE = {"obs": O, "action": A}
low = {k: rng.normal(size=n).astype(np.float32) for k, n in RANGE.items()}
high = {k: (low[k] + rng.uniform(0.5, 3, size=n)).astype(np.float32) for k, n in RANGE.items()}
np.savez(OUT / "policy.npz", **{f"{k}_min": low[k] for k in RANGE}, **{f"{k}_max": high[k] for k in RANGE})


def normalize(key, x):
    return 2 * (x - torch.from_numpy(low[key])) / torch.from_numpy(high[key] - low[key] + 1e-6) - 1


def unnormalize(key, x):
    return (x + 1) / 2 * torch.from_numpy(high[key] - low[key] + 1e-6) + torch.from_numpy(low[key])


@torch.no_grad()
def sampled(out, name, network, critic=None):
    obs = torch.from_numpy(rng.uniform(low["obs"], high["obs"], size=(N, O)).astype(np.float32))
    noise = x = torch.randn(N, D)
    for k in range(K):
        v = network(x, torch.full((N, 1), k / K), torch.full((N, 1), 1 / K), normalize("obs", obs))[0]
        x = x + v / K
    record(out, f"{name}.obs", obs)
    record(out, f"{name}.noise", noise)
    record(out, f"{name}.actions", unnormalize("action", x.reshape(N, H, A)))
    if critic:
        record(out, f"{name}.values", critic.Q1(normalize("obs", obs)))


def shaken(module):
    """Initial biases of PyTorch are small: nothing may hide behind that."""
    for p in module.parameters():
        p.data += 0.1 * torch.randn_like(p)
    return module


def main():
    torch.manual_seed(9)
    with open(OUT / "policy.bin", "wb") as out:
        raw, ema = (shaken(Reflow(8, [16, 16, 16], [], "relu")) for _ in range(2))
        torch.save(dict(epoch=9, model=Model(network=raw).state_dict(), ema=Model(network=ema).state_dict()),
                   OUT / "policy_clone.pt")
        sampled(out, "clone.raw", raw)
        sampled(out, "clone.ema", ema)

        old, new = (shaken(Shortcut(8, [16] * 5, [10, 8], "mish")) for _ in range(2))
        critic = shaken(Critic())
        model = Model(actor_old=old, actor_ft=Noisy(new), critic=critic)
        adam = torch.optim.AdamW(model.actor_ft.policy.parameters())
        torch.save(dict(itr=30, model=model.state_dict(), policy=new.state_dict(), actor_optimizer=adam.state_dict()),
                   OUT / "policy_tuned.pt")
        sampled(out, "tuned", new, critic)

        net = shaken(Reflow(8, [16, 16, 16], [7, 5], "mish"))
        old = shaken(Reflow(8, [16, 16, 16], [7, 5], "mish"))
        torch.save(dict(itr=1, model=Model(network=old, actor=old, actor_ft=net, critic=Critic()).state_dict()),
                   OUT / "policy_dppo.pt")
        sampled(out, "dppo", net)


main()
