#!/usr/bin/env python3
"""halve.py IN OUT [NAME TIMES]: a safetensors file's float32 as bfloat16, cut off; the rows of one tensor so many times."""
import json
import struct
import sys

with open(sys.argv[1], "rb") as f:
    head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
    body = f.read()
head.pop("__metadata__", None)
out, parts = {}, []
at = 0
for name, t in head.items():
    x = body[slice(*t["data_offsets"])]
    half = bytearray(len(x) // 2)
    half[0::2], half[1::2] = x[2::4], x[3::4]
    shape = t["shape"]
    if sys.argv[3:4] == [name]:
        half, shape = half * int(sys.argv[4]), [shape[0] * int(sys.argv[4]), *shape[1:]]
    out[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + len(half)]}
    parts.append(half)
    at += len(half)
text = json.dumps(out).encode()
with open(sys.argv[2], "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
