#!/usr/bin/env python3
"""PyTorch on the same GPU, beside ours: eager, as a CUDA graph, and compiled. The part `bench` of tests/device/run.

    peer.py DIR [quick]    TAP on stdout; the figures are lines "# row .."; DIR gets the data of both sides

The models, losses and optimisers are those of tests/bench. Eager is their update as it stands, with its two readings of
statistics a minibatch. A graph is the same without these: nothing waits until the end of a turn. Samples begin and end on
the host, on both sides. Gradients and samples are compared before anything is timed, in double precision.

MF_BENCH_DEVICE is our device, MF_BENCH_LIBRARIES the LD_LIBRARY_PATH of our programs, MF_BENCH_SECONDS how long rows
are begun. Without a GPU PyTorch runs on the processor, and all three ways are eager.
"""

import contextlib
import copy
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.join(HERE, "..", "bench")
sys.path.insert(0, BENCH)

import torch  # noqa: E402

import ditx_peer  # noqa: E402
import peer  # noqa: E402

GPU = "cuda" if torch.cuda.is_available() else "cpu"
DRAWN = peer.ROWS  # rows of a round that is drawn tenfold
DISTINCT = 50000  # of one that is not: the first ones come again
PROGRAMS = os.environ.get("MF_BENCH_PROGRAMS", BENCH)
FLOPS = 14197248  # of one sample of an update, see tests/bench/run
WAYS = ("eager", "graph", "compile")


def synchronize():
    if GPU == "cuda":
        torch.cuda.synchronize()


@contextlib.contextmanager
def precision(word):
    """As torch has it: "tf32+lt" is ours by cublasLt."""
    word = word.removesuffix("+lt")
    torch.set_float32_matmul_precision("high" if word == "tf32" else "highest")
    with torch.autocast(GPU, torch.bfloat16, enabled=word == "bf16", cache_enabled=False):
        yield


def captured(step):
    """A function that replays what `step` does."""
    if GPU != "cuda":
        return step
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def seconds(turn, least=0.3):
    """Of a turn; turns are enqueued by tens, so that the host waits for the last of them alone."""
    n, begin = 0, time.perf_counter()
    while True:
        for _ in range(10 if n else 1):
            turn()
            n += 1
        synchronize()
        passed = time.perf_counter() - begin
        if passed >= least:
            return passed / n


def adamw(model, lr):
    return torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0, fused=True, capturable=GPU == "cuda")


def compiled(model, *names):
    for name in names:
        setattr(model, name, torch.compile(getattr(model, name), mode="reduce-overhead" if GPU == "cuda" else "default"))


# ---- the Hopper policy of tests/bench/peer.py ----


def without_reading(agent, optimizer, data, rows):
    """peer.update, whose statistics stay on the device."""
    loss, log_ratio, ratio = peer.losses(agent, data, rows, peer.normalized(data["advantages"][rows]))
    with torch.no_grad():
        statistics = ((ratio - 1) - log_ratio).mean(), ((ratio - 1).abs() > peer.CLIP).float().mean()
    optimizer.zero_grad(set_to_none=True)
    (loss / len(rows)).backward()
    torch.nn.utils.clip_grad_norm_(agent.parameters(), 0.5, foreach=True)
    optimizer.step()
    return statistics


def hopper_update(agent, data, what, size, way):
    agent = copy.deepcopy(agent)
    optimizer, rows = adamw(agent, peer.LR), torch.zeros(size, dtype=torch.int64, device=GPU)
    tenfold = what == "update" and size == DISTINCT
    count = DRAWN if tenfold else max(size, 4096)
    deck, at = None, 0

    def deal():
        nonlocal deck, at
        if deck is None or at + size > len(deck):
            deck, at = torch.randperm(count * (10 if tenfold else 1), device=GPU) % count, 0
        rows.copy_(deck[at : at + size])
        at += size

    deal()
    if way == "compile":
        compiled(agent, "score", "critic")
    step = lambda: without_reading(agent, optimizer, data, rows)  # noqa: E731
    if way == "graph":
        step = captured(step)
    elif way == "eager":
        step = lambda: peer.update(agent, optimizer, data, rows)  # noqa: E731

    def turn():
        deal()
        step()

    return turn


def sampling(sample, data, names, N, way):
    """From the host's inputs to the host's results."""
    host = [data[name][:N].cpu() for name in names]
    if GPU == "cuda":
        host = [t.pin_memory() for t in host]
    inputs, results = [t.to(GPU) for t in host], []

    @torch.no_grad()
    def step():
        results[:] = sample(*inputs)

    if way == "graph":
        step = captured(step)

    def turn():
        for to, at in zip(inputs, host):
            to.copy_(at, non_blocking=True)
        step()
        for t in results:
            t.cpu()

    return turn


class Hopper:
    program = {"update": "ppo", "distinct": "ppo", "sample": "sample"}

    def __init__(self, folder):
        agent, data = peer.load(folder)
        self.agent, self.data = agent.to(GPU), {name: t.to(GPU) for name, t in data.items()}

    def turn(self, what, size, way):
        if what == "sample":
            return sampling(self.agent.sample, self.data, ("obs", "noise", "eps"), size, way)
        return hopper_update(self.agent, self.data, what, size, way)


# ---- the transformer of tests/bench/ditx_peer.py, restructured as ours ----


class Transformer:
    program = {"update": "ditx", "sample128": "ditx", "sample1024": "ditx"}

    def __init__(self, folder):
        self.loaded = {}
        for L in ditx_peer.BATCH:
            policy, data = ditx_peer.load(folder, L, True)
            self.loaded[L] = policy.to(GPU), {name: t.to(GPU) for name, t in data.items()}

    def turn(self, what, size, way):
        if what != "update":
            policy, data = self.loaded[int(what.removeprefix("sample"))]
            return sampling(policy.sample, data, ("points", "state", "noise", "eps"), size, way)
        policy, data = copy.deepcopy(self.loaded[size][0]), self.loaded[size][1]
        optimizer, rows = adamw(policy, ditx_peer.LR), torch.arange(ditx_peer.BATCH[size], device=GPU)
        step = lambda: ditx_peer.update(policy, optimizer, data, rows)  # noqa: E731
        if way == "compile":
            compiled(policy, "score")
        return captured(step) if way == "graph" else step


# ---- ours: a program that answers a line with the seconds of a turn ----


def environment(word, **more):
    libraries = {"LD_LIBRARY_PATH": os.environ.get("MF_BENCH_LIBRARIES", "")}
    return {**os.environ, **libraries, **({"MF_CUBLASLT": "yes"} if word.endswith("+lt") else {}), **more}


class Ours:
    def __init__(self):
        self.running = {}

    def __call__(self, program, folder, word, question):
        key = program, word
        if key not in self.running:
            command = [os.path.join(PROGRAMS, program), folder, "serve", word.removesuffix("+lt")]
            self.running[key] = subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                 env=environment(word))
        server = self.running[key]
        server.stdin.write(question + "\n")
        server.stdin.flush()
        answer = server.stdout.readline().split()
        if not answer:
            raise RuntimeError(f"{program} ended at: {question}")
        return float(answer[0])

    def end(self):
        for server in self.running.values():
            server.stdin.close()
            server.wait(timeout=20)


# ---- TAP ----


class Tap:
    count = failed = 0

    def ok(self, good, text):
        self.count += 1
        self.failed += not good
        print(f"{'' if good else 'not '}ok {self.count} - {text}", flush=True)

    def skip(self, text, why):
        self.count += 1
        print(f"ok {self.count} - {text} # SKIP {why}", flush=True)


def duration(t):
    return f"{t * 1e6:.3g} us" if t < 1e-3 else f"{t * 1e3:.3g} ms" if t < 1 else f"{t:.3g} s"


def written(program, folder, word, **more):
    """The bytes of our side's numbers."""
    command = [os.path.join(PROGRAMS, program), folder, "check", word.removesuffix("+lt")]
    subprocess.run(command, check=True, env=environment(word, **more))
    with open(f"{folder}/{program}.safetensors", "rb") as file:
        return file.read()


def compare(tap, folder, words):
    agent, data = peer.load_double(folder, GPU)
    bounds = {"fp32": 5e-5, "tf32": 2e-3, "bf16": 5e-2}  # a ReLU within rounding of 0 alone makes 1e-5
    for word in words:
        ours = written("ppo", folder, word)
        written("sample", folder, word)
        error = {**peer.update_errors(folder, agent, data), **peer.sample_errors(folder, agent, data)}
        for what, e in error.items():
            print(f"# {word}: {what}: relative error {e:.1e}")
        bound = bounds[word.removesuffix("+lt")]
        tap.ok(all(e <= bound for e in error.values()), f"{word}: gradients and samples are PyTorch's in double")
        tap.ok(ours == written("ppo", folder, word), f"{word}: twice, the same bytes")
    tap.ok(ours == written("ppo", folder, word, MF_CUDA_GRAPHS="no"), f"{word}: without graphs, the same bytes")


def ceilings(word):
    """Multiply-adds a second of a large product times two, and bytes a second of a copy, read and written."""
    word = word.removesuffix("+lt")
    n = 8192 if GPU == "cuda" else 512
    dtype = torch.bfloat16 if word == "bf16" else torch.float32
    a, b = (torch.randn(n, n, device=GPU).to(dtype) for _ in range(2))
    x = torch.randn(n * n * 4, device=GPU)
    y = torch.empty_like(x)
    with precision(word if word != "bf16" else "fp32"):
        a @ b, y.copy_(x)
        return 2 * n**3 / seconds(lambda: a @ b), 2 * x.nbytes / seconds(lambda: y.copy_(x))


# What is timed, the most telling first: model, question, precision, ways, and the least ratios to eager and graph.
ROWS = [
    (Hopper, "update 512", "tf32", WAYS[:2], (10, None)),
    (Hopper, "update 50000", "tf32", WAYS[:2], (None, 1.5)),
    (Hopper, "update 4096", "tf32", WAYS[:2], (None, None)),
    (Hopper, "distinct 50000", "tf32", WAYS[:2], (None, None)),
    (Hopper, "distinct 50000", "tf32+lt", WAYS[1:2], (None, None)),
    (Hopper, "sample 1", "fp32", WAYS[:2], (None, None)),
    (Hopper, "sample 40", "fp32", WAYS[:2], (None, None)),
    (Transformer, "update 128", "tf32", WAYS[:2], (None, None)),
    (Hopper, "update 4096", "tf32", WAYS[2:], (None, None)),  # compiling takes half a minute
    (Hopper, "update 512", "fp32", WAYS[:2], (None, None)),
    (Hopper, "update 50000", "fp32", WAYS[:2], (None, None)),
    (Hopper, "distinct 50000", "fp32", WAYS[:2], (None, None)),
    (Hopper, "distinct 50000", "fp32+lt", WAYS[1:2], (None, None)),
    (Hopper, "distinct 50000", "bf16", WAYS[:2], (None, None)),
    (Hopper, "update 50000", "bf16", WAYS[:2], (None, None)),
    (Hopper, "update 64", "tf32", WAYS[:2], (None, None)),
    (Hopper, "sample 8", "fp32", WAYS[:2], (None, None)),
    (Hopper, "sample 1024", "fp32", WAYS[:2], (None, None)),
    (Transformer, "update 1024", "tf32", WAYS[:2], (None, None)),
    (Transformer, "sample128 1", "fp32", WAYS[:2], (None, None)),
    (Transformer, "sample128 8", "fp32", WAYS[:2], (None, None)),
]
QUICK = [
    (Hopper, "update 64", "fp32", WAYS[:2], (None, None)),
    (Hopper, "sample 1", "fp32", WAYS[:2], (None, None)),
    (Transformer, "sample128 1", "fp32", WAYS[:1], (None, None)),
]


def measure(ours, folder, model, question, word, ways):
    """Rounds of peers, ours, ours, peers: seconds of ours, and of each way."""
    what, size = question.split()
    ask = lambda: ours(model.program[what], folder, word, question)  # noqa: E731
    with precision(word):
        turns = {way: model.turn(what, int(size), way) for way in ways}
        for turn in turns.values():
            for _ in range(3):
                turn()
        first = {way: seconds(turn) for way, turn in turns.items()}
        mine = (ask() + ask()) / 2
        return mine, {way: (first[way] + seconds(turn)) / 2 for way, turn in turns.items()}


def time_rows(tap, folder, rows, until):
    ours, models, roof = Ours(), {}, {}
    for model, question, word, ways, gates in rows:
        name = f"{'ditx ' if model is Transformer else ''}{question}, {word}"
        if time.monotonic() > until:
            tap.skip(name, "no time left")
            continue
        if model not in models:
            models[model] = model(folder)
        if word not in roof:
            roof[word] = ceilings(word)
            print(f"# ceilings, {word}: {roof[word][0] / 1e12:.4g} TFLOP/s of a product, {roof[word][1] / 1e9:.4g} GB/s of a copy")
        mine, theirs = measure(ours, folder, models[model], question, word, ways)
        ratio = {way: t / mine for way, t in theirs.items()}
        what, size = question.split()
        share = f", {100 * FLOPS * int(size) / mine / roof[word][0]:.0f} % of a product" if model is Hopper and what != "sample" else ""
        print(f"# row {name:<26} ours {duration(mine):>9}  " +
              "  ".join(f"{way} {duration(t):>9} ({ratio[way]:.2f}x)" for way, t in theirs.items()) + share, flush=True)
        wanted = dict(zip(ways, gates))
        least = ", ".join(f">= {least}x {way}" for way, least in wanted.items() if least)
        tap.ok(all(ratio[way] >= least for way, least in wanted.items() if least), name + (f": {least}" if least else ""))
    ours.end()


@torch.no_grad()
def make(folder):
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(f"{folder}/made"):
        peer.make(folder)
        ditx_peer.make(folder)
        path = f"{folder}/data.safetensors"
        peer.write(path, {name: torch.cat([t, t, t])[:DISTINCT] if len(t) == DRAWN else t
                          for name, t in peer.read(path).items()})
        with open(f"{folder}/made", "w"):
            pass


def main(folder, quick):
    begin, tap = time.monotonic(), Tap()
    print(f"# PyTorch {torch.__version__}, CUDA {torch.version.cuda}, on {torch.cuda.get_device_name() if GPU == 'cuda' else 'the processor'}")
    make(folder)
    compare(tap, folder, ["fp32"] if quick else ["fp32", "tf32", "bf16", "tf32+lt"])
    until = begin + float(os.environ.get("MF_BENCH_SECONDS", "110"))
    time_rows(tap, folder, QUICK if quick else ROWS, until)
    print(f"1..{tap.count}")
    return tap.failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "quick" in sys.argv[2:]))
