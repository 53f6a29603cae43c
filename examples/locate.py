#!/usr/bin/env python3
"""Demonstrations of where things are, not of what to do: as actions, the position of the named block, and across, of the
named bin. The rollouts are of env=blocks and have the observation goal:

    mf-collect .. collect.actor=expert policy.obs_keys=[image,goal,tokens] | examples/locate.py | mf-record where.hdf5
"""
from stream import fail, frames, send, sign

for frame in frames():
    if frame["mf"] == "head":
        sign(frame, "1")
    elif frame["mf"] == "rollout":
        if "obs/goal" not in frame["arrays"]:
            fail(3, "the rollouts have no obs/goal: collect with env=blocks and policy.obs_keys=[image,goal,tokens]")
        frame["arrays"]["actions"] = frame["arrays"]["obs/goal"][..., :3]
    send(frame)
