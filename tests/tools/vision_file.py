#!/usr/bin/env python3
"""Policies that see, as shapes by name, and their numbers.

    vision_file.py FILE.safetensors 'python'     does the file hold the tensors of the dictionary that the code makes?

The code is an expression of the functions below. torch_zip.py's code imports them for a PyTorch file.
"""
import json
import struct
import sys
import zlib
from math import prod


def values(name, shape):
    """Small numbers, exact in float32; of variances, positive ones."""
    seed = zlib.crc32(name.encode())
    if name.endswith("num_batches_tracked"):
        return [0] * prod(shape)
    return [((k * 7919 + seed) % 257) / 64 - (-0.25 if name.endswith("running_var") else 2) for k in range(prod(shape))]


def layer(name, *shape, bias=True):
    return {f"{name}.weight": list(shape), **({f"{name}.bias": [shape[0]]} if bias else {})}


def unet(prefix, cond, action=2, dims=(4, 6), e=4, kernel=3):
    """ConditionalUnet1D."""
    def res(name, a, b):
        return {**layer(f"{name}.blocks.0.block.0", b, a, kernel), **layer(f"{name}.blocks.0.block.1", b),
                **layer(f"{name}.blocks.1.block.0", b, b, kernel), **layer(f"{name}.blocks.1.block.1", b),
                **layer(f"{name}.cond_encoder.1", 2 * b, e + cond), **(layer(f"{name}.residual_conv", b, a, 1) if a != b else {})}

    a, b = dims
    out = {**layer("diffusion_step_encoder.1", 4 * e, e), **layer("diffusion_step_encoder.3", e, 4 * e),
           **res("down_modules.0.0", action, a), **res("down_modules.0.1", a, a), **layer("down_modules.0.2.conv", a, a, 3),
           **res("down_modules.1.0", a, b), **res("down_modules.1.1", b, b), **res("mid_modules.0", b, b),
           **res("mid_modules.1", b, b), **res("up_modules.0.0", 2 * b, a), **res("up_modules.0.1", a, a),
           **layer("up_modules.0.2.conv", a, a, 4), **layer("final_conv.0.block.0", a, a, kernel),
           **layer("final_conv.0.block.1", a), **layer("final_conv.1", action, a, 1)}
    return {prefix + name: shape for name, shape in out.items()}


def plain(prefix, channels, out, pixels=0):
    """PlainConv; pixels of its last map, 0: pooled."""
    made, a = {}, channels
    for i, b in enumerate((16, 32, 64, 128)):
        made |= layer(f"{prefix}cnn.{3 * i}", b, a, 3, 3)
        a = b
    return made | layer(f"{prefix}cnn.12", 128, 128, 1, 1) | layer(f"{prefix}fc.0", out, 128 * max(pixels, 1))


def norm(name, n, frozen):
    return layer(name, n) | ({f"{name}.running_mean": [n], f"{name}.running_var": [n], f"{name}.num_batches_tracked": []}
                             if frozen else {})


def resnet(prefix, widths=(2, 2, 4, 6), frozen=False, stem=("conv1", "bn1"), stage="layer{}", first=1):
    """ResNet-18, with group norms or frozen batch norms."""
    made = layer(prefix + stem[0], widths[0], 3, 7, 7, bias=False) | norm(prefix + stem[1], widths[0], frozen)
    for i, (a, b) in enumerate(zip((widths[0], *widths), widths)):
        for k in range(2):
            at, a = f"{prefix}{stage.format(first + i)}.{k}.", b if k else a
            made |= layer(at + "conv1", b, a, 3, 3, bias=False) | norm(at + "bn1", b, frozen)
            made |= layer(at + "conv2", b, b, 3, 3, bias=False) | norm(at + "bn2", b, frozen)
            if not k and i:
                made |= layer(at + "downsample.0", b, a, 1, 1, bias=False) | norm(at + "downsample.1", b, frozen)
    return made


def spatial(key, pixels, points=3, out=5, again=True):
    """robomimic's VisualCore: its parts under two names each."""
    at = f"obs_encoder.obs_nets.{key}."
    made = layer(f"{at}nets.3", out, 2 * points)
    for trunk, heat in (("backbone.", "pool."), ("nets.0.", "nets.1."))[not again:]:
        made |= resnet(f"{at}{trunk}", stem=("nets.0", "nets.1"), stage="nets.{}", first=4)
        made |= layer(f"{at}{heat}nets", points, 6, 1, 1) | {f"{at}{heat}pos_{d}": [1, pixels] for d in "xy"}
    return made


if __name__ == "__main__":
    path, code = sys.argv[1:]
    raw = open(path, "rb").read()
    n, = struct.unpack("<Q", raw[:8])
    head = json.loads(raw[8:8 + n])
    for name, shape in eval(code).items():
        assert name in head, f"{name} is missing"
        assert head[name]["shape"] == shape, f"{name} is {head[name]['shape']} and should be {shape}"
        begin, end = head[name]["data_offsets"]
        got = struct.unpack(f"<{(end - begin) // 4}f", raw[8 + n:][begin:end])
        assert list(got) == values(name, shape), f"{name}: {got[:4]}"
