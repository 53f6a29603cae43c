#!/usr/bin/env python3
"""Send a run's metrics to Weights & Biases: .. | mf-ppo | examples/wandb_bridge.py [PROJECT [NAME]]

Offline, in ./wandb, unless WANDB_MODE=online; `wandb login` keeps your key, `wandb sync` sends what was offline. The
pipelines do this with use_wandb=true wandb_project=.. wandb_run_name=.. A run that goes on is the same run there: its id
is in logs/wandb.id of the run's folder. SIGTERM finishes it with all that came; Ctrl-C is the collector's affair, and
what still comes is sent. --check only asks whether the packages are there.
"""

import json
import os
import select
import signal
import sys
import uuid

NAME = os.path.basename(sys.argv[0])


def fail(status, why):
    sys.stderr.write(f"{NAME}: error: {why}\n")
    sys.exit(status)


try:
    import msgpack
    import wandb
except ImportError as e:
    fail(2, f"{e}, for {sys.executable}: {sys.executable} -m pip install wandb msgpack, or use_wandb=false")


def run_id(head):
    """Of the folder, for as long as its run goes on; a run that begins anew gets a new one."""
    path = os.path.join(head["run"], "logs", "wandb.id")
    try:
        if "iter" in head:
            with open(path) as f:
                return f.read().strip() or None
    except OSError:
        pass
    fresh = uuid.uuid4().hex[:12]
    try:
        with open(path + ".part", "w") as f:
            f.write(fresh + "\n")
        os.replace(path + ".part", path)
    except OSError:
        pass  # a run without a folder here cannot go on, either
    return fresh


def value(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def configuration(head):
    """The resolved one that the learner left in the run's folder: groups of `key: value` lines."""
    config, group = {}, None
    try:
        folder = os.path.join(head["run"], "configs")
        with open(next(f.path for f in os.scandir(folder) if f.name in ("mf-ppo.yaml", "mf-sac.yaml"))) as f:
            for line in f.read().splitlines():
                key, _, text = line.partition(":")
                if not text.strip():
                    group = config.setdefault(key, {})
                elif line.startswith("  ") and group is not None:
                    group[key.strip()] = value(text.strip())
                else:
                    config[key] = value(text.strip())
    except (OSError, StopIteration):
        pass
    return {**config, "stream": {key: head[key] for key in ("run", "seed", "spec", "chain")}}


def frames(stopped):
    """As they come: what a read returns is what is there. After a stop, what is there already."""
    unpacker = msgpack.Unpacker(max_buffer_size=0, strict_map_key=False)
    while True:
        if not select.select([0], [], [], 0 if stopped else 0.2)[0]:
            if stopped:
                return
            continue
        got = os.read(0, 1 << 16)
        if not got:
            return
        unpacker.feed(got)
        yield from unpacker


def main():
    project, name = (sys.argv[1:] + ["", ""])[:2]
    stopped, run, last = [], None, None
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    os.environ.setdefault("WANDB_MODE", "offline")
    for frame in frames(stopped):
        last = frame["mf"]
        if last == "head" and run is None:
            run = wandb.init(
                project=project or "maniflow",
                name=name or None,
                id=run_id(frame),
                resume="allow",
                config=configuration(frame),
            )
        elif last == "metrics" and run:
            values = {k: v for k, v in frame["values"].items() if isinstance(k, str)}
            run.log({**values, "iteration": frame["iter"]}, step=frame["step"])
        elif last == "video" and run:
            run.log({"eval/video": wandb.Video(frame["path"])})
    if run:
        run.finish()
    if stopped:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
    if last == "failed":
        sys.exit(3)  # who failed has said why
    if last != "end":
        fail(3, "the stream stops without an end frame")


if sys.argv[1:] != ["--check"]:
    main()
