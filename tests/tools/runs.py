#!/usr/bin/python3
"""runs.py FOLDER [SEED ...]: a run of 20 iterations for each seed, made without any of our code.

FOLDER/SEED/logs/metrics.mf; success rises by .05 an iteration and with .01 for every seed.
"""
import os
import sys

import msgpack


def run(folder, seed):
    os.makedirs(folder + "/logs", exist_ok=True)
    with open(folder + "/logs/metrics.mf", "wb") as file:

        def put(**frame):
            file.write(msgpack.packb(frame))

        argv = ["mf-collect", "run.seed=%d" % seed]
        chain = [{"stage": "mf-collect", "version": "0.1.0", "argv": argv}]
        put(mf="head", v=1, run=folder, src="", seed=seed, spec={}, chain=chain)
        for i in range(20):
            values = {"rollout/success_once": 0.05 * i + 0.01 * seed, "train/approx_kl": 0.001}
            values.update({"perf/rollout_time": 1.5, "perf/update_time": 0.5})
            put(mf="metrics", iter=i, step=100 * (i + 1), time=2.0 * (i + 1), values=values)
        put(mf="end", src="", frames=21, samples=0, stopped=False)


for word in sys.argv[2:]:
    run(sys.argv[1] + "/" + word, int(word))
