"""Writes tests/fixtures/augment.bin: pictures augmented by PyTorch as openpi does it, with draws that are given, as numbers from
0 to 255 before they are rounded (python tests/reference/augment.py; pip: numpy, torch 2.15.0)."""
import struct
import numpy as np
import torch
import torch.nn.functional as F

rng = np.random.default_rng(0)
#       height, width; top, left, height and width of the window (height 0: a wrist camera); degrees; brightness, contrast, saturation
CASES = [(20, 20, 1, 0, 19, 19, 4.5, .8, 1.3, .6),
         (24, 17, 0, 1, 22, 16, -3.25, 1.25, .7, 1.4),
         (32, 40, 1, 2, 30, 38, .05, 1., 1., 1.),
         (21, 21, 0, 0, 0, 0, 0., 1.3, 1.4, 1.5),
         (1, 5, 0, 0, 1, 4, 5., .9, .6, .5)]


def augmented(x, top, left, height, width, degrees, brightness, contrast, saturation):
    t = torch.from_numpy(x).float().permute(2, 0, 1)[None] / 255
    size = t.shape[2:]
    if height:
        t = F.interpolate(t[:, :, top:top + height, left:left + width], size=size, mode="bilinear", align_corners=False)
        if abs(degrees) > .1:
            a = torch.tensor(degrees) * torch.pi / 180
            v, u = torch.meshgrid(*(torch.linspace(-1, 1, n) for n in size), indexing="ij")
            grid = torch.stack([u * a.cos() - v * a.sin(), u * a.sin() + v * a.cos()], -1)
            t = F.grid_sample(t, grid[None], mode="bilinear", padding_mode="zeros", align_corners=False)
    t = t * brightness
    t = (t - t.mean()) * contrast + t.mean()
    grey = t.mean(1, keepdim=True)
    return ((grey + (t - grey) * saturation).clamp(0, 1) * 255)[0].permute(1, 2, 0).numpy()


with open("tests/fixtures/augment.bin", "wb") as f:
    def put(name, x):
        x = np.ascontiguousarray(x, "<f4").ravel()
        f.write(struct.pack("<I", len(name)) + name.encode() + struct.pack("<I", x.size) + x.tobytes())

    for i, case in enumerate(CASES):
        x = rng.integers(0, 256, (*case[:2], 3), "u1")
        put(f"{i}/draws", case)
        put(f"{i}/from", x)
        put(f"{i}/to", augmented(x, *case[2:]))
