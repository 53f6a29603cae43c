#!/usr/bin/env python3
"""Print what TensorBoard's own reader finds below a folder: a line "TAG STEP VALUE" for each scalar,
"TAG STEP WIDTHxHEIGHT DIGEST" for each image."""

import hashlib
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "images": 0, "tensors": 0})
events.Reload()
for tag in events.Tags()["scalars"]:
    for e in events.Scalars(tag):
        print(tag, e.step, f"{e.value:.6g}")
for tag in events.Tags()["images"]:
    for e in events.Images(tag):
        print(tag, e.step, f"{e.width}x{e.height}", hashlib.sha256(e.encoded_image_string).hexdigest())
