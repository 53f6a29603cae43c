"""The peer of `make bench`: the same work in PyTorch, eager, as ReinFlow structures it (Zhang et al. 2025).

    peer.py make DIR            weights and data for both sides: DIR/data.safetensors, DIR/demos.hdf5
    peer.py check DIR           our numbers (DIR/{ppo,sample,gae,demos}.safetensors) against PyTorch's in double
    peer.py serve DIR [compile] reads "update 4096", "sample 8", "gae 40" lines; answers with seconds a turn

The first turn of a workload tries the settings that matter (threads, kind of AdamW) and keeps the best; they are
told on stderr. malloc's thresholds come from the environment: tests/bench/run sets them.
"""

import json
import math
import struct
import sys
import time

import numpy as np
import torch
import peer_demos
from torch import nn

O, A, H, K = 11, 3, 4, 4  # Hopper: observation, action, horizon; denoising steps
D = H * A
ROWS = 20000  # 40 environments, 500 decisions
CLIP, CLAMP, VALUE, ENTROPY, LOW, HIGH = 0.01, 1.0, 0.5, 0.03, 0.10, 0.24
LR = 1e-8  # so small that no turn leaves the data behind: each one computes the same
T = 256  # decisions of the advantage workload


# ---- networks ----


class Sinusoid(nn.Module):
    def __init__(self, dim):
        super().__init__()
        rate = torch.exp(torch.arange(dim // 2) * -(math.log(10000) / (dim // 2 - 1)))
        self.register_buffer("rate", rate, persistent=False)

    def forward(self, t):
        angle = t[:, None] * self.rate
        return torch.cat([angle.sin(), angle.cos()], -1)


class Block(nn.Module):
    def __init__(self, dim, act):
        super().__init__()
        self.l1, self.l2, self.act = nn.Linear(dim, dim), nn.Linear(dim, dim), act

    def forward(self, x):
        return x + self.l2(self.act(self.l1(self.act(x))))


class ResidualMLP(nn.Module):
    def __init__(self, inputs, hidden, outputs, act):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(inputs, hidden), Block(hidden, act), nn.Linear(hidden, outputs))

    def forward(self, x):
        return self.layers(x)


class Velocity(nn.Module):
    def __init__(self, time_dim=16):
        super().__init__()
        self.time_embedding = nn.Sequential(
            Sinusoid(time_dim), nn.Linear(time_dim, 2 * time_dim), nn.Mish(), nn.Linear(2 * time_dim, time_dim)
        )
        self.mlp_mean = ResidualMLP(D + time_dim + O, 512, D, nn.ReLU())

    def forward(self, x, t, obs):
        time_code = self.time_embedding(t)
        return self.mlp_mean(torch.cat([x, time_code, obs], -1)), time_code


class Named(nn.Module):  # a layer under the name that the published checkpoints give it
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear_1 = nn.Linear(inputs, outputs)

    def forward(self, x):
        return self.linear_1(x)


class Noise(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.mlp_logvar = nn.Module()
        self.mlp_logvar.moduleList = nn.ModuleList([Named(inputs, 64), Named(64, 64), Named(64, D)])
        self.low, self.high = math.log(LOW**2), math.log(HIGH**2)

    def forward(self, feature):
        first, second, last = self.mlp_logvar.moduleList
        u = last(torch.tanh(second(torch.tanh(first(feature)))))
        return torch.exp(0.5 * (self.low + (self.high - self.low) * (torch.tanh(u) + 1) / 2))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.Q1 = ResidualMLP(O, 256, 1, nn.Mish())

    def forward(self, obs):
        return self.Q1(obs).squeeze(-1)


def log_normal(x, mean, std):
    return -0.5 * ((x - mean) / std) ** 2 - std.log() - 0.5 * math.log(2 * math.pi)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.network, self.explore_noise_net, self.critic = Velocity(), Noise(16 + O), Critic()
        self.register_buffer("grid", torch.arange(K) / K, persistent=False)

    def step(self, x, t, obs):
        v, time_code = self.network(x, t, obs)
        std = self.explore_noise_net(torch.cat([time_code.detach(), obs], -1))
        return (x + v / K).clamp(-1, 1), std

    def score(self, obs, chains):
        """All K steps in one pass."""
        B = len(obs)
        x, after = chains[:, :-1].reshape(B * K, D), chains[:, 1:].reshape(B * K, D)
        mean, std = self.step(x, self.grid.repeat(B), obs.repeat_interleave(K, 0))
        steps = log_normal(after, mean, std).view(B, K * D).sum(-1)
        x0 = chains[:, 0]
        first = (-0.5 * x0 * x0 - 0.5 * math.log(2 * math.pi)).sum(-1)
        rate = 0.5 * math.log(2 * math.pi * math.e)
        entropy = rate + std.log().view(B, K * D).sum(-1) / ((K + 1) * D)  # the initial noise has log std 0
        return (first + steps) / ((K + 1) * D), entropy

    def sample(self, obs, noise, eps):
        B = len(obs)
        x, chain, total = noise, [noise], (-0.5 * noise * noise - 0.5 * math.log(2 * math.pi)).sum(-1)
        for k in range(K):
            mean, std = self.step(x, self.grid[k].expand(B), obs)
            x = mean + std * eps[:, k]
            chain.append(x)
            total = total + log_normal(x, mean, std).sum(-1)
        return torch.stack(chain, 1), total / ((K + 1) * D), self.critic(obs)


# ---- one PPO minibatch ----


def losses(agent, data, rows, advantage, old="logprobs"):
    """Sums over rows, so that a large minibatch can also be taken in parts."""
    obs = data["obs"][rows]
    logp, entropy = agent.score(obs, data["chains"][rows])
    log_ratio = logp.clamp(-CLAMP, CLAMP) - data[old][rows].clamp(-CLAMP, CLAMP)
    ratio = log_ratio.exp()
    policy = torch.max(-advantage * ratio, -advantage * ratio.clamp(1 - CLIP, 1 + CLIP))
    value = (agent.critic(obs) - data["returns"][rows]) ** 2
    return (policy + VALUE * value - ENTROPY * entropy).sum(), log_ratio, ratio


def normalized(a):
    return (a - a.mean()) / (a.std() + 1e-8)


def update(agent, optimizer, data, rows):
    loss, log_ratio, ratio = losses(agent, data, rows, normalized(data["advantages"][rows]))
    with torch.no_grad():
        kl = ((ratio - 1) - log_ratio).mean().item()
        clipped = ((ratio - 1).abs() > CLIP).float().mean().item()
    optimizer.zero_grad(set_to_none=True)
    (loss / len(rows)).backward()
    nn.utils.clip_grad_norm_(agent.parameters(), 0.5, foreach=True)
    optimizer.step()
    return kl, clipped


# ---- the file that both sides read ----


def write(path, tensors):
    header, at = {}, 0
    tensors = {name: np.ascontiguousarray(t.detach().numpy()) for name, t in sorted(tensors.items())}
    for name, t in tensors.items():
        kind = {"float32": "F32", "uint8": "U8"}[t.dtype.name]
        header[name] = {"dtype": kind, "shape": list(t.shape), "data_offsets": [at, at + t.nbytes]}
        at += t.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            file.write(t.tobytes())


def read(path):
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header, body = json.loads(file.read(size)), file.read()
    tensors = {}
    for name, t in header.items():
        if name != "__metadata__":
            begin, end = t["data_offsets"]
            kind = {"F32": np.float32, "U8": np.uint8, "U32": np.uint32}[t["dtype"]]
            array = np.frombuffer(body[begin:end], kind).reshape(t["shape"])
            tensors[name] = torch.from_numpy(array.astype(np.int64) if kind == np.uint32 else array.copy())
    return tensors


@torch.no_grad()
def make(folder):
    torch.manual_seed(1)
    agent = Agent()
    data = {"obs": torch.randn(ROWS, O), "noise": torch.randn(ROWS, D), "eps": torch.randn(ROWS, K, D)}
    data["chains"], logp, data["values"] = agent.sample(data["obs"], data["noise"], data["eps"])
    data["logprobs"] = logp
    data["clipped"] = logp + 0.01 * torch.randn(ROWS)  # for the check: some ratios beyond the clip, in turns none
    data["returns"] = data["values"] + torch.randn(ROWS)
    data["advantages"] = torch.randn(ROWS)
    for N in (40, 4096):
        data[f"gae{N}/rewards"], data[f"gae{N}/values"] = torch.randn(T, N), torch.randn(T, N)
        data[f"gae{N}/last"] = torch.randn(N)
        data[f"gae{N}/terminated"] = (torch.rand(T, N) < 0.02).to(torch.uint8)
    write(f"{folder}/data.safetensors", {**data, **agent.state_dict()})
    peer_demos.make(f"{folder}/demos.hdf5")


def load(folder):
    data, agent = read(f"{folder}/data.safetensors"), Agent()
    agent.load_state_dict({name: data[name] for name in agent.state_dict()})
    return agent, data


# ---- ours against PyTorch, before anything is timed ----


def distance(a, b):
    return ((a.double() - b.double()).norm() / b.double().norm()).item()


def gradient(agent, data, minibatches, beta=0.9):
    """AdamW's first moment after one pass over minibatches during which the weights stay."""
    moment = [torch.zeros_like(p) for p in agent.parameters()]
    for rows in minibatches:
        advantage = normalized(data["advantages"][rows])
        agent.zero_grad()
        for part, a in zip(rows.split(2000), advantage.split(2000)):
            (losses(agent, data, part, a, "clipped")[0] / len(rows)).backward()
        for m, p in zip(moment, agent.parameters()):
            m.mul_(beta).add_(p.grad, alpha=1 - beta)
    return moment


def update_errors(folder, agent, data):
    """Of the gradients in DIR/ppo.safetensors; agent and data are in double."""
    ours, error = read(f"{folder}/ppo.safetensors"), {}
    for batch in (50000, 4096, 512):
        minibatches = [ours[name] for name in sorted(ours) if name.startswith(f"rows{batch}/")]
        mine = [ours[f"moment{batch}/{name}"].flatten() for name, _ in agent.named_parameters()]
        torchs = [m.flatten().cpu() for m in gradient(agent, data, minibatches)]
        error[f"gradient of update {batch}"] = distance(torch.cat(mine), torch.cat(torchs))
        worst = max((distance(a, b), name) for a, b, (name, _) in zip(mine, torchs, agent.named_parameters()))
        print("worst tensor of update {}: {:.1e} {}".format(batch, *worst), file=sys.stderr)
    return error


@torch.no_grad()
def sample_errors(folder, agent, data):
    ours, error = read(f"{folder}/sample.safetensors"), {}
    chains, logp, values = agent.sample(data["obs"], data["noise"], data["eps"])
    for N in (1, 8, 40):
        for name, t in (("chains", chains), ("logprobs", logp), ("values", values)):
            error[f"{name} of sample {N}"] = distance(ours[f"{name}{N}"].flatten(), t[:N].flatten().cpu())
    return error


def load_double(folder, device="cpu"):
    agent, data = load(folder)
    return agent.double().to(device), {
        name: (t.double() if t.is_floating_point() else t).to(device) for name, t in data.items()}


def verdict(error, bound=1e-5):
    for what, e in error.items():
        print(f"{what}: relative error {e:.1e}")
    sys.exit(0 if all(e <= bound for e in error.values()) else 1)


def check(folder):
    _, plain = load(folder)
    plain = {name: t.numpy() for name, t in plain.items()}
    agent, data = load_double(folder)
    error = {**update_errors(folder, agent, data), **sample_errors(folder, agent, data)}
    ours = read(f"{folder}/gae.safetensors")
    for N in (40, 4096):
        advantages, _ = gae(plain, N)
        error[f"advantages of gae {N}"] = distance(ours[f"advantages{N}"], torch.from_numpy(advantages).flatten())
    ours = read(f"{folder}/demos.safetensors")
    error["samples of demos"] = peer_demos.check(f"{folder}/demos.hdf5", ours["obs"], ours["actions"])
    verdict(error)


# ---- turns ----


def gae(data, N, gamma=0.99, lam=0.95):
    """Step by step over vectors of N, as CleanRL and Stable-Baselines3 do."""
    rewards, values = data[f"gae{N}/rewards"], data[f"gae{N}/values"]
    last, ended = data[f"gae{N}/last"], data[f"gae{N}/terminated"]
    advantages = np.zeros_like(rewards)
    carried = np.zeros_like(last)
    for t in reversed(range(T)):
        alive = 1 - ended[t].astype(rewards.dtype)
        after = last if t == T - 1 else values[t + 1]
        delta = rewards[t] + gamma * after * alive - values[t]
        advantages[t] = carried = delta + gamma * lam * alive * carried
    return advantages, advantages + values


def timed(turn, least):
    """Seconds of a turn; short ones are repeated for `least` seconds."""
    begin, n = time.perf_counter(), 0
    while True:
        turn()
        n += 1
        seconds = time.perf_counter() - begin
        if seconds >= least:
            return seconds / n


class Updates:
    REPEAT = {50000: 10}

    def __init__(self, agent, data, compiled):
        self.agent, self.data, self.deck, self.at = agent, data, None, 0
        self.optimizer, self.best = None, None
        if compiled:
            agent.score = torch.compile(agent.score)
            agent.critic = torch.compile(agent.critic)

    def set(self, threads, kind):
        torch.set_num_threads(threads)
        kinds = {"foreach": {"foreach": True}, "fused": {"fused": True}, "for-loop": {"foreach": False}}
        self.optimizer = torch.optim.AdamW(self.agent.parameters(), lr=LR, weight_decay=0, **kinds[kind])

    def turn(self, batch):
        repeat = self.REPEAT.get(batch, 1)
        rows = ROWS if repeat > 1 else 4096
        if self.deck is None or self.at + batch > len(self.deck) or len(self.deck) != rows * repeat:
            self.deck, self.at = torch.randperm(rows * repeat) % rows, 0
        update(self.agent, self.optimizer, self.data, self.deck[self.at : self.at + batch])
        self.at += batch

    def __call__(self, batch):
        if self.best is None:
            found = []
            for threads in (2, 1):
                for kind in ("fused", "foreach", "for-loop"):
                    self.set(threads, kind)
                    self.turn(512)
                    found.append((timed(lambda: self.turn(512), 0.3), threads, kind))
            self.best = min(found)[1:]
            print("peer: update: best with {} thread(s), {} AdamW".format(*self.best), file=sys.stderr, flush=True)
        self.set(*self.best)
        if batch != 50000:
            self.turn(batch)
        return timed(lambda: self.turn(batch), 0.5)


class Samples:
    def __init__(self, agent, data, compiled):
        self.data, self.best = data, {}
        self.sample = torch.compile(agent.sample) if compiled else agent.sample

    @torch.inference_mode()
    def __call__(self, N):
        obs, noise, eps = (self.data[name][:N].clone() for name in ("obs", "noise", "eps"))

        def turns(threads, least):
            torch.set_num_threads(threads)
            for _ in range(5):
                self.sample(obs, noise, eps)
            return timed(lambda: self.sample(obs, noise, eps), least)

        if N not in self.best:
            self.best[N] = min((turns(threads, 0.2), threads) for threads in (1, 2))[1]
            print(f"peer: sample {N}: best with {self.best[N]} thread(s)", file=sys.stderr, flush=True)
        return turns(self.best[N], 0.2)


def serve(folder, compiled):
    agent, data = load(folder)
    plain = {name: t.numpy() for name, t in data.items()}
    work = {"update": Updates(agent, data, compiled), "sample": Samples(agent, data, compiled)}
    work["demos"] = peer_demos.Reads(f"{folder}/demos.hdf5")
    work["gae"] = lambda N: timed(lambda: gae(plain, N), 0.2)
    for line in sys.stdin:
        name, size = line.split()
        print(work[name](int(size)), flush=True)


if __name__ == "__main__":
    command, folder = sys.argv[1:3]
    if command == "make":
        make(folder)
    elif command == "check":
        check(folder)
    else:
        serve(folder, "compile" in sys.argv[3:])
