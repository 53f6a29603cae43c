"""HalfCheetah in other vectors, 64 environments on two cores: envs.py async|envpool|model. Needs envs.txt beside it."""
import os
import resource
import sys
import time

import numpy as np

N, TURNS = 64, 5


def timed(reset, step, steps):
    rng = np.random.default_rng(1)
    reset()
    best, best_cpu = 1e9, 1e9
    for _ in range(TURNS):
        t, c = time.perf_counter(), cpu()
        for _ in range(steps):
            step(rng.uniform(-1, 1, (N, 6)).astype(np.float32))
        best, best_cpu = min(best, time.perf_counter() - t), min(best_cpu, cpu() - c)
    return N * steps / best, N * steps / best_cpu


def cpu():
    """Of this process and, by /proc, of its children that run."""
    total = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    tick = os.sysconf("SC_CLK_TCK")
    for pid in open(f"/proc/self/task/{os.getpid()}/children").read().split():
        fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / tick
    return total


def main(which):
    if which == "envpool":
        import envpool

        vec = envpool.make_gymnasium("HalfCheetah-v4", num_envs=N, num_threads=2)
        return timed(vec.reset, vec.step, 200)
    import gymnasium

    if which == "model":
        print(os.path.join(os.path.dirname(gymnasium.__file__), "envs/mujoco/assets/half_cheetah.xml"))
        sys.exit()
    vec = gymnasium.vector.AsyncVectorEnv([lambda: gymnasium.make("HalfCheetah-v5")] * N)
    result = timed(vec.reset, vec.step, 30)
    vec.close()
    return result


if __name__ == "__main__":
    print(f"{sys.argv[1]} steps_per_s=%.0f steps_per_cpu_s=%.0f" % main(sys.argv[1]))
