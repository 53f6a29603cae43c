"""A tiny policy of ManiFlow's published code, as tests/unit/test_ditx.c reads it.

    python tests/reference/maniflow.py official_tiny.ckpt official_tiny_io.npz tests/fixtures/maniflow.safetensors

The checkpoint is one of its training workspace (needs omegaconf and dill); the arrays are what that code computed with
it: a sampled trajectory, both losses of a batch, their gradients, and one step of AdamW (of which a part is kept).
"""
import sys

import numpy as np
import torch
from safetensors.torch import save_file

model = torch.load(sys.argv[1], map_location="cpu", weights_only=False)["state_dicts"]["model"]
out = {f"weight/{k}": v for k, v in model.items() if k.startswith(("model.", "obs_encoder."))}
for key in ("point_cloud", "agent_pos", "action"):
    for what in ("scale", "offset"):
        out[f"normalizer/{key}/{what}"] = model[f"normalizer.params_dict.{key}.{what}"]
for name, a in np.load(sys.argv[2]).items():
    kept = not name.startswith("after_adamw/") or ".blocks.0." in name or "mlp.0." in name or "pos_emb" in name
    if kept:
        out[name] = torch.from_numpy(np.array(a, dtype=np.float32))
save_file({k: v.detach().float().contiguous().clone() for k, v in out.items()}, sys.argv[3])
