"""Writes tests/fixtures/resize.bin: pictures resized with pad by Pillow (bytes) and PyTorch (numbers in [-1, 1]), and some
turned by 180 degrees before; Pillow 13 resizes the columns first where that is cheaper (pip: numpy, Pillow 11.3.0, torch 2.15.0)."""
import struct
import numpy as np
import torch
from PIL import Image

SIDE = 12
rng = np.random.default_rng(0)
with open("tests/fixtures/resize.bin", "wb") as f:
    def put(name, x):
        x = np.ascontiguousarray(x, "<f4").ravel()
        f.write(struct.pack("<I", len(name)) + name.encode() + struct.pack("<I", x.size) + x.tobytes())

    for i, (h, w, turn) in enumerate([(27, 20, 0), (9, 31, 0), (5, 7, 0), (12, 12, 0), (12, 7, 1), (64, 9, 0), (31, 33, 1)]):
        x = rng.integers(0, 256, (h, w, 3), "u1")
        put(f"{i}/size", [h, w, turn])
        put(f"{i}/from", x)
        x = np.ascontiguousarray(x[::-1, ::-1]) if turn else x
        ratio = max(w / SIDE, h / SIDE)
        rows, cols = int(h / ratio), int(w / ratio)
        top, left = (SIDE - rows) // 2, (SIDE - cols) // 2
        y = np.zeros((SIDE, SIDE, 3), "u1")
        y[top:top + rows, left:left + cols] = Image.fromarray(x).resize((cols, rows), Image.BILINEAR)
        put(f"{i}/bytes", y)
        t = torch.from_numpy(x).float().permute(2, 0, 1)[None] / 255 * 2 - 1
        t = torch.nn.functional.interpolate(t, size=(rows, cols), mode="bilinear", align_corners=False).clamp(-1, 1)
        y = np.full((SIDE, SIDE, 3), -1.)
        y[top:top + rows, left:left + cols] = t[0].permute(1, 2, 0)
        put(f"{i}/floats", y)
