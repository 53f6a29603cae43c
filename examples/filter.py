#!/usr/bin/env python3
"""A stage in Python: scales the rewards. mf-collect | examples/filter.py 0.1 | mf-gae | mf-ppo"""
import signal
import sys

import msgpack
import numpy

try:
    from msgpack_numpy import decode, encode
except ImportError:  # what of it is needed here

    def decode(m):
        return numpy.frombuffer(m[b"data"], m[b"type"]).reshape(m[b"shape"]) if m.get(b"nd") else m

    def encode(a):
        return {b"nd": True, b"type": a.dtype.str, b"kind": b"", b"shape": a.shape, b"data": a.tobytes()}


scale = float(sys.argv[1]) if len(sys.argv) > 1 else 0.1
signal.signal(signal.SIGINT, signal.SIG_IGN)  # as every stage: drain to the end frame
signal.signal(signal.SIGPIPE, signal.SIG_DFL)

# .raw, because a buffered read waits for more than the frame that is there.
for frame in msgpack.Unpacker(sys.stdin.buffer.raw, object_hook=decode, max_buffer_size=0, read_size=1 << 20):
    if frame["mf"] == "rollout":
        frame["arrays"]["rewards"] = frame["arrays"]["rewards"] * scale
    sys.stdout.buffer.write(msgpack.packb(frame, default=encode))
    sys.stdout.flush()
