#!/usr/bin/env python3
"""Send a run's metrics to Weights & Biases: .. | mf-ppo | python3 examples/wandb_bridge.py [PROJECT [NAME]]

Offline, in ./wandb, unless WANDB_MODE=online; `wandb login` keeps your key, `wandb sync` sends what was offline. The
pipelines do this with use_wandb=true wandb_project=.. wandb_run_name=..
"""

import os
import sys

import msgpack
import wandb

os.environ.setdefault("WANDB_MODE", "offline")
project, name = (sys.argv[1:] + ["", ""])[:2]
run = None
for frame in msgpack.Unpacker(sys.stdin.buffer, max_buffer_size=0):
    if frame["mf"] == "head":
        config = {"run": frame["run"], "seed": frame["seed"], "spec": frame["spec"], "chain": frame["chain"]}
        run = wandb.init(project=project or "maniflow", name=name or None, config=config, resume="allow")
    elif frame["mf"] == "metrics":
        run.log({**frame["values"], "iteration": frame["iter"]}, step=frame["step"])
    elif frame["mf"] == "video":
        run.log({"eval/video": wandb.Video(frame["path"])})
if run:
    run.finish()
