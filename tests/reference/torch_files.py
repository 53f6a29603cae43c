#!/usr/bin/env python3
"""Makes tests/fixtures/torch_*: files that PyTorch, OmegaConf and dill wrote, for readers without Python.
Run: python3 tests/reference/torch_files.py (with torch, numpy, omegaconf, dill)

torch_kinds.pt      every kind of tensor and value; numbers follow from their index, so that tests know them
torch_workspace.ckpt  diffusion policy's layout: cfg (OmegaConf), state_dicts, pickles (dill)
"""
import argparse
import zipfile
from collections import OrderedDict
from pathlib import Path

import dill
import numpy as np
import torch
from omegaconf import OmegaConf
from torch import nn

OUT = Path(__file__).parents[1] / "fixtures"


class Odd:
    """Only its name comes through."""

    def __init__(self):
        self.secret = 1


def kinds():
    base = torch.arange(24, dtype=torch.float32) - 3.5
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    with torch.no_grad():
        net[0].weight.copy_(torch.arange(6).reshape(3, 2))
    dtypes = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
              torch.int8, torch.uint8, torch.bool, torch.uint16]
    return {
        "dtype": {str(d).removeprefix("torch."): torch.arange(5).to(d) for d in dtypes},
        "half": torch.tensor([0.1, -65504.0, 6e-8, float("inf")], dtype=torch.float16),
        "brain": torch.tensor([0.1, -3e38, float("-inf")], dtype=torch.bfloat16),
        "strided": {
            "transposed": base.reshape(4, 6).t(),
            "tail": base[20:],
            "every_third": base[1::3],
            "corner": base.reshape(2, 3, 4)[1, 1:, 2:],
            "expanded": base[7:8].expand(3, 2),
            "scalar": base[5],
            "empty": torch.empty(2, 0),
        },
        "parameter": nn.Parameter(base[:3].clone()),
        "module": net,
        "complex": torch.zeros(2, dtype=torch.complex64),
        "list": [torch.ones(1), {"deep": torch.ones(2)}],
        "values": OrderedDict(
            none=None, yes=True, small=7, negative=-70000, wide=1 << 40, number=0.1, text="Grüße\nzwei", pair=(1, "b"),
            nested=[[1, 2], [3]], numpy=np.float64(1.5), whole=np.int64(9), size=torch.Size([2, 3]),
            space=argparse.Namespace(lr=1e-4, name="run"), odd=Odd(), raw=b"\x00\x01"),
        7: {"key": "an integer's"},
    }


def workspace():
    cfg = OmegaConf.create(dict(
        name="small", horizon=8, policy=dict(_target_="some.Policy", horizon="${horizon}", dims=[64, 16], act=None)))
    model = OrderedDict(("net.0." + k, v) for k, v in nn.Linear(3, 2).state_dict().items())
    ema = OrderedDict((k, v + 1) for k, v in model.items())
    torch.save(
        dict(cfg=cfg,
             state_dicts=dict(model=model, ema_model=ema, optimizer=dict(state={}, param_groups=[dict(lr=1e-4)])),
             pickles=dict(global_step=dill.dumps(123), epoch=dill.dumps(4), _output_dir=dill.dumps("/tmp/run"))),
        OUT / "torch_workspace.ckpt", pickle_module=dill)


torch.manual_seed(3)
torch.save(kinds(), OUT / "torch_kinds.pt")
workspace()
with zipfile.ZipFile(OUT / "torch_kinds.pt") as a, zipfile.ZipFile(OUT / "torch_deflated.pt", "w") as b:
    for name in a.namelist():
        b.writestr(name, a.read(name), zipfile.ZIP_DEFLATED)
