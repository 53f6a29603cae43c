#!/usr/bin/env python3
"""A stage in Python: scales the rewards. mf-collect | examples/filter.py 0.1 | mf-gae | mf-ppo"""
import sys

from stream import frames, send

scale = float(sys.argv[1]) if len(sys.argv) > 1 else 0.1

for frame in frames():
    if frame["mf"] == "rollout":
        frame["arrays"]["rewards"] = frame["arrays"]["rewards"] * scale
    send(frame)
