#!/usr/bin/env python3
"""Makes tests/fixtures/unet.bin and unet.pt: what PyTorch says of small conditional 1-D U-Nets.
Run: python3 tests/reference/unet.py; with --count it prints the parameters of the published sizes.

The network is written from its description (Chi et al., 2023), with PyTorch's convolutions over channels first; scoring,
cloning and draws are those of flow.py, at a horizon that can be halved. unet.pt is a file in the layout of the
stages that clone and tune on this network, its average among the weights; unet.bin has the actions that it samples.
"""
import sys
from pathlib import Path

import torch
from torch import nn

import flow
from flow import A, K, O, Sinusoid

flow.H, flow.D = 4, 4 * A
OUT = Path(__file__).parents[1] / "fixtures"


class ConvBlock(nn.Module):
    def __init__(self, n_in, n_out, kernel, groups):
        super().__init__()
        self.block = nn.Sequential(nn.Conv1d(n_in, n_out, kernel, padding=kernel // 2), nn.GroupNorm(groups, n_out),
                                   nn.Mish())

    def forward(self, x):
        return self.block(x)


class Residual(nn.Module):
    def __init__(self, n_in, n_out, n_cond, kernel, groups):
        super().__init__()
        self.blocks = nn.ModuleList([ConvBlock(n_in, n_out, kernel, groups), ConvBlock(n_out, n_out, kernel, groups)])
        self.cond_encoder = nn.Sequential(nn.Mish(), nn.Linear(n_cond, 2 * n_out))
        self.residual_conv = nn.Conv1d(n_in, n_out, 1) if n_in != n_out else nn.Identity()

    def forward(self, x, g):
        scale, bias = self.cond_encoder(g)[..., None].chunk(2, 1)
        return self.blocks[1](scale * self.blocks[0](x) + bias) + self.residual_conv(x)


class Sampled(nn.Module):
    """conv, under the name that the published networks give it."""

    def __init__(self, conv):
        super().__init__()
        self.conv = conv

    def forward(self, x):
        return self.conv(x)


class UNet(nn.Module):
    def __init__(self, n_action, n_cond, dims, e, kernel, groups):
        super().__init__()
        res = lambda i, o: Residual(i, o, e + n_cond, kernel, groups)
        self.diffusion_step_encoder = nn.Sequential(Sinusoid(e), nn.Linear(e, 4 * e), nn.Mish(), nn.Linear(4 * e, e))
        self.down_modules = nn.ModuleList()
        for i, (a, b) in enumerate(zip([n_action] + dims, dims)):
            down = Sampled(nn.Conv1d(b, b, 3, 2, 1)) if i < len(dims) - 1 else nn.Identity()
            self.down_modules.append(nn.ModuleList([res(a, b), res(b, b), down]))
        self.mid_modules = nn.ModuleList([res(dims[-1], dims[-1]), res(dims[-1], dims[-1])])
        self.up_modules = nn.ModuleList()
        for a, b in reversed(list(zip(dims, dims[1:]))):
            up = Sampled(nn.ConvTranspose1d(a, a, 4, 2, 1))
            self.up_modules.append(nn.ModuleList([res(2 * b, a), res(a, a), up]))
        self.final_conv = nn.Sequential(ConvBlock(dims[0], dims[0], kernel, groups), nn.Conv1d(dims[0], n_action, 1))

    def time(self, t):
        return self.diffusion_step_encoder(100 * t)

    def forward(self, x, time, obs):
        """x (B, H, A) -> (B, H, A)"""
        g, x, kept = torch.cat([time, obs], 1), x.transpose(1, 2), []
        for one, two, down in self.down_modules:
            x = two(one(x, g), g)
            kept.append(x)
            x = down(x)
        for mid in self.mid_modules:
            x = mid(x, g)
        for one, two, up in self.up_modules:
            x = up(two(one(torch.cat([x, kept.pop()], 1), g), g))
        return self.final_conv(x).transpose(1, 2)


class Velocity(nn.Module):
    """Flat chunks, as flow.py has them; with a step size where `shortcut`."""

    def __init__(self, shortcut, n_action=A, n_cond=O, dims=(4, 6, 8), e=8, kernel=3, groups=2):
        super().__init__()
        self.F, self.shortcut = n_cond, shortcut
        self.unet = UNet(n_action, n_cond, list(dims), e, kernel, groups)
        if shortcut:
            self.step_size_embed = nn.Sequential(nn.Linear(1, e), nn.Mish(), nn.Linear(e, e))
            self.combine_embed = nn.Sequential(nn.Linear(2 * e, e))

    def forward(self, x, t, d, obs):
        e = self.unet.time(t)
        if self.shortcut:
            e = self.combine_embed(torch.cat([e, self.step_size_embed(d)], 1))
        return self.unet(x.reshape(len(x), -1, A), e, obs).reshape(x.shape), e, obs


def shaken(module):
    """Norms begin as the identity: nothing may hide behind that."""
    for p in module.parameters():
        p.data += 0.1 * torch.randn_like(p)
    return module


for name, shortcut in ("unet", False), ("shortcut_unet", True):
    flow.NETWORKS[name] = ("velocity_net", lambda *_, shortcut=shortcut: shaken(Velocity(shortcut)))


@torch.no_grad()
def file_of_stage(out):
    nets = {k: flow.f32(shaken(Velocity(True))) for k in ("agent", "ema_agent")}
    torch.save({"iteration": 7, **{k: {f"velocity_net.{name}": v.float() for name, v in net.state_dict().items()} |
                                   {f"velocity_net_ema.{name}": v.float() for name, v in net.state_dict().items()}
                                   for k, net in nets.items()}}, OUT / "unet.pt")
    obs, noise = torch.randn(7, O).float().double(), torch.randn(7, flow.D).float().double()
    for case, heeds in ("heedful", True), ("plain", False):  # the published forward does not heed the step size
        net, x = nets["ema_agent"], noise
        net.shortcut = heeds
        for k in range(K):
            x = x + net(x, torch.full((7, 1), k / K), torch.full((7, 1), 1 / K), obs)[0] / K
        for what, rows in ("obs", obs), ("noise", noise), ("actions", x):
            flow.record(out, f"{case}.{what}", rows)


def counts():
    torch.set_default_dtype(torch.float32)
    for n_action, n_cond, dims, e in (2, 10, (256, 512, 1024), 256), (7, 256, (64, 128, 256), 64):
        for shortcut in False, True:
            net = Velocity(shortcut, n_action, n_cond, dims, e, 5, 8)
            print(n_action, n_cond, dims, e, shortcut, sum(p.numel() for p in net.parameters()))


if __name__ == "__main__":
    if "--count" in sys.argv:
        counts()
    else:
        torch.manual_seed(3)
        with open(OUT / "unet.bin", "wb") as file:
            flow.scoring(file, "score", dict(net="shortcut_unet", act="mish", cond=[], noise0=True, method="noise",
                                             learned=True, limit=0.0))
            flow.cloning(file, "flow", "unet", "flow", "uniform", True)
            flow.cloning(file, "shortcut", "shortcut_unet", "shortcut", "uniform", True)
            file_of_stage(file)
