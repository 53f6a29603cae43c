#!/usr/bin/env python3
"""Makes tests/fixtures/vision_conv.bin: what PyTorch says of convolutional encoders of pictures, in double precision.
Run: python3 tests/reference/vision_conv.py

Networks are written from their descriptions: the plain convolutions of ManiSkill's baselines, Mnih et al. (2015), and
He et al. (2016) with group norms and a mean or a spatial softmax (Finn et al., 2016). Weights, pictures, states and the
loss's targets follow from their names and places by `noise`, which tests/unit/test_encoder.c has as well: the file
holds the joined observation and, of each gradient, at most 40 numbers spread over it.
"""
import struct
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
OUT = Path(__file__).parents[1] / "fixtures" / "vision_conv.bin"
B, KEPT = 2, 40


def noise(name, n):
    """n numbers of [-1/2, 1/2), exact in float32."""
    h = 2166136261
    for c in name.encode():
        h = (h ^ c) * 16777619 & 0xffffffff
    x = (np.arange(n, dtype=np.uint64) * 2654435761 + h) & 0xffffffff
    for _ in range(2):
        x = ((x ^ (x >> 16)) * 0x45d9f3b) & 0xffffffff
    return ((x ^ (x >> 16)) >> 8).astype(np.float64) / 2**24 - 0.5


def fill(module, prefix):
    """A weight: 2 sqrt(6/fan in) noise, a norm's: 1 + noise, a bias: noise. A convolution's is (out, kh, kw, in)."""
    for name, p in module.named_parameters():
        full = f"{prefix}.{name}"
        u = noise(full, p.numel())
        if p.dim() == 1:
            v = u + (name.endswith("weight"))
        else:
            v = np.float32(2 * np.sqrt(1.5 / (p.numel() / p.shape[0]))).astype(np.float64) * u
            v = v.astype(np.float32).astype(np.float64)
        shape = [p.shape[0], *p.shape[2:], p.shape[1]] if p.dim() == 4 else list(p.shape)
        v = torch.from_numpy(v.reshape(shape).copy())
        p.data = v.permute(0, 3, 1, 2).contiguous() if p.dim() == 4 else v


def ours(g):
    return (g.permute(0, 2, 3, 1) if g.dim() == 4 else g).reshape(-1)


# ---- encoders: (n, C, H, W) -> (n, features) ----


class Plain(nn.Module):
    def __init__(self, channels, out, pooled, size):
        super().__init__()
        layers, a = [], channels
        for b in (16, 32, 64, 128):
            layers += [nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2, 2)]
            a = b
        self.cnn = nn.Sequential(*layers, nn.Conv2d(a, a, 1), nn.ReLU())
        self.pooled = pooled
        self.fc = nn.Sequential(nn.Linear(a if pooled else a * (size[0] // 16) * (size[1] // 16), out), nn.ReLU())

    def forward(self, x):
        x = self.cnn(x)
        return self.fc(x.amax((2, 3)) if self.pooled else x.flatten(1))


class Nature(nn.Module):
    def __init__(self, channels, widths, out, size):
        super().__init__()
        a, b, c = widths
        convs = nn.Sequential(nn.Conv2d(channels, a, 8, 4), nn.ReLU(), nn.Conv2d(a, b, 4, 2), nn.ReLU(),
                              nn.Conv2d(b, c, 3), nn.ReLU(), nn.Flatten())
        n = convs(torch.zeros(1, channels, *size)).shape[1]
        self.rgb = nn.Sequential(convs, nn.Sequential(nn.Linear(n, out), nn.ReLU()))

    def forward(self, x):
        return self.rgb(x)


class Block(nn.Module):
    def __init__(self, a, b, stride, norm):
        super().__init__()
        bias = norm is None
        self.conv1, self.bn1 = nn.Conv2d(a, b, 3, stride, 1, bias=bias), (norm or nn.Identity)(b)
        self.conv2, self.bn2 = nn.Conv2d(b, b, 3, 1, 1, bias=bias), (norm or nn.Identity)(b)
        if stride > 1 or a != b:
            self.downsample = nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=bias), (norm or nn.Identity)(b))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (self.downsample(x) if hasattr(self, "downsample") else x))


class ResNet(nn.Module):
    """The trunk with the plain names, and the mean."""

    def __init__(self, channels, widths, group):
        super().__init__()
        norm = (lambda c: nn.GroupNorm(c // group, c)) if group else None
        self.conv1 = nn.Conv2d(channels, widths[0], 7, 2, 3, bias=norm is None)
        self.bn1 = (norm or nn.Identity)(widths[0])
        for i, (a, b) in enumerate(zip([widths[0]] + list(widths), widths)):
            setattr(self, f"layer{i + 1}", nn.Sequential(Block(a, b, 2 if i else 1, norm), Block(b, b, 1, norm)))

    def trunk(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for i in range(1, 5):
            x = getattr(self, f"layer{i}")(x)
        return x

    def forward(self, x):
        return self.trunk(x).mean((2, 3))


class Spatial(nn.Module):
    """The trunk as robomimic numbers its parts, heat maps, and a layer."""

    def __init__(self, channels, widths, group, points, out):
        super().__init__()
        r = ResNet(channels, widths, group)
        parts = [r.conv1, r.bn1, nn.ReLU(), nn.MaxPool2d(3, 2, 1), r.layer1, r.layer2, r.layer3, r.layer4]
        trunk, heat = nn.Module(), nn.Module()
        trunk.nets, heat.nets = nn.Sequential(*parts), nn.Conv2d(widths[-1], points, 1)
        self.nets = nn.ModuleList([trunk, heat, nn.Flatten(), nn.Linear(2 * points, out)])

    def forward(self, x):
        heat = self.nets[1].nets(self.nets[0].nets(x))
        p = F.softmax(heat.flatten(2), -1)
        y, x = torch.meshgrid(*(torch.linspace(-1, 1, n) for n in heat.shape[2:]), indexing="ij")
        places = torch.stack([(p * x.flatten()).sum(-1), (p * y.flatten()).sum(-1)], -1)
        return F.relu(self.nets[3](places.flatten(1)))


# ---- observations ----


def picture(name, shape, b, step):
    """(H, W, C) bytes, or metres up to 2."""
    u = noise(f"{name}.{b}.{step}", int(np.prod(shape))).reshape(shape)
    return 1 + 2 * u if shape[2] == 1 else np.floor((u + 0.5) * 256)


def window(x, crop):
    """The middle of (H, W, C)."""
    at = [int(round((n - crop) / 2)) if crop else 0 for n in x.shape[:2]]
    return x[at[0]:at[0] + (crop or x.shape[0]), at[1]:at[1] + (crop or x.shape[1])]


def seen(name, shape, crop, affine, b, step):
    x = window(picture(name, shape, b, step), crop)
    scale, offset = (1 / 1.024, 0) if shape[2] == 1 else affine
    return torch.from_numpy(x * np.float32(scale).astype(np.float64) + np.float64(offset)).permute(2, 0, 1)


def observe(case, encode, state=None):
    """The observation as the network reads it: step by step, each code in the place of its picture. encode(pictures)
    gives one code of all of them, or one of each. state: a layer over the other numbers, which then come last."""
    rows = []
    for b in range(B):
        row = []
        for step in range(case["steps"]):
            keys = [(k, shape) for k, shape in case["obs"].items()]
            pictures = {k: seen(k, s, case.get("crop", 0), case["affine"], b, step)[None] for k, s in keys if len(s) == 3}
            codes = encode(pictures)
            if state:
                numbers = [torch.from_numpy(noise(f"{k}.{b}.{step}", s[0])) for k, s in keys if len(s) == 1]
                row += [codes.pop()[0], state(torch.cat(numbers))]
                continue
            for k, shape in keys:
                if len(shape) == 1:
                    row.append(torch.from_numpy(noise(f"{k}.{b}.{step}", shape[0])))
                elif codes:
                    row.append(codes.pop(0)[0])
        rows.append(torch.cat(row))
    return torch.stack(rows)


def record(out, name, value):
    v = np.asarray(value.detach() if torch.is_tensor(value) else value, np.float32).reshape(-1)
    out.write(struct.pack("<I", len(name)) + name.encode() + struct.pack("<I", v.size) + v.tobytes())


def write(out, name, case, nets, encode, state=None):
    """nets: {prefix of its parameters: module}"""
    for prefix, net in nets.items():
        fill(net, prefix)
    cond = observe(case, encode, state)
    target = torch.from_numpy(noise("target", cond.numel())).reshape(cond.shape)
    ((cond - target) ** 2).mean(1).sum().backward()
    record(out, f"{name}.cond", cond)
    for prefix, net in nets.items():
        for key, p in net.named_parameters():
            g = ours(p.grad)
            record(out, f"{name}.grad/{prefix}.{key}", g[:: max(1, -(-g.numel() // KEPT))])


UNIT = (1 / 255, 0.0)


def plain(out, name, case, width, pooled):
    shapes = [s for s in case["obs"].values() if len(s) == 3]
    net = Plain(sum(s[2] for s in shapes), width, pooled, shapes[0])
    write(out, name, case, {"visual_encoder": net}, lambda pictures: [net(torch.cat(list(pictures.values()), 1))])


def nature(out, name, case, width, widths, state=0):
    shapes = [s for s in case["obs"].values() if len(s) == 3]
    size = [case.get("crop") or n for n in shapes[0][:2]]
    net = Nature(sum(s[2] for s in shapes), widths, width, size)
    nets = {"feature_net.extractors": net}
    if state:
        nets["feature_net.extractors.state"] = nn.Linear(sum(s[0] for s in case["obs"].values() if len(s) == 1), state)
    write(out, name, case, nets, lambda pictures: [net(torch.cat(list(pictures.values()), 1))],
          nets.get("feature_net.extractors.state"))


def resnet(out, name, case, make, prefix):
    """A network of its own for each camera."""
    nets = {k: make(s[2]) for k, s in case["obs"].items() if len(s) == 3}
    write(out, name, case, {f"{prefix}.{k}": net for k, net in nets.items()},
          lambda pictures: [nets[k](x) for k, x in pictures.items()])


SIGNED = (2 / 255, -1.0)

if __name__ == "__main__":
    with open(OUT, "wb") as file:
        plain(file, "pooled", dict(steps=1, affine=UNIT, obs={"image": (33, 29, 3), "state": (3,)}), 6, True)
        plain(file, "flat", dict(steps=2, affine=UNIT, obs={"arm": (2,), "a": (21, 38, 3), "b": (21, 38, 3),
                                                              "a_depth": (21, 38, 1), "b_depth": (21, 38, 1),
                                                              "hand": (1,)}), 5, False)
        nature(file, "nature", dict(steps=2, affine=UNIT, crop=37, obs={"a": (42, 40, 3), "state": (2,),
                                                                        "b": (42, 40, 3)}), 7, (8, 6, 5))
        nature(file, "nature_state", dict(steps=2, affine=UNIT, obs={"arm": (2,), "a": (38, 36, 3), "hand": (1,)}), 7,
               (8, 6, 5), 6)
        resnet(file, "mean", dict(steps=1, affine=SIGNED, obs={"a": (45, 38, 3), "state": (2,), "b": (45, 38, 3)}),
               lambda c: ResNet(c, (4, 4, 8, 12), 4), "obs_encoder.key_model_map")
        resnet(file, "spatial", dict(steps=2, affine=SIGNED, obs={"a": (71, 100, 3), "hand": (1,)}),
               lambda c: Spatial(c, (4, 8, 8, 8), 4, 5, 3), "obs_encoder.obs_nets")
        resnet(file, "folded", dict(steps=1, affine=SIGNED, obs={"a": (34, 34, 3)}),
               lambda c: ResNet(c, (4, 4, 6, 10), 0), "obs_encoder.key_model_map")
