"""The transformer's peer of `make bench`: ManiFlow's DiTX behind its encoder of points, in PyTorch, eager.

    ditx_peer.py make DIR          weights and data for both sides: DIR/ditx128.safetensors, DIR/ditx1024.safetensors
    ditx_peer.py check DIR         our numbers (DIR/ditx.safetensors) against PyTorch's in double precision
    ditx_peer.py serve DIR plain   as the authors structure it: tokens are repeated for every denoising step
    ditx_peer.py serve DIR shared  restructured: keys and values once per observation, for all its steps

Reads "update 128" and "sample1024 8" lines and answers with the seconds of a turn. The first turn of a workload tries
the settings that matter and keeps the best.
"""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

from peer import Sinusoid, distance, log_normal, normalized, read, timed, write

A, H, K, S = 10, 16, 4, 9  # action, horizon, denoising steps, state
W, LAYERS, HEADS, POINT, TIME = 256, 4, 8, 64, 64
CLIP, VALUE, LEVEL, LR = 0.2, 0.5, 0.5, 1e-8
BATCH = {128: 32, 1024: 8}
ROWS = {L: 2 * B for L, B in BATCH.items()}


def mlp(*dims, act):
    layers = []
    for i, (a, b) in enumerate(zip(dims, dims[1:])):
        layers += [nn.Linear(a, b)] + ([act()] if i < len(dims) - 2 else [])
    return nn.Sequential(*layers)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.extractor, layers = nn.Module(), []
        for a, b in ((6, 64), (64, 128), (128, 256)):
            layers += [nn.Linear(a, b), nn.LayerNorm(b), nn.ReLU()]
        self.extractor.mlp = nn.Sequential(*layers, nn.Linear(256, 512))
        self.extractor.final_projection = nn.Sequential(nn.Linear(512, POINT), nn.LayerNorm(POINT))
        self.state_mlp = mlp(S, 64, 64, act=nn.ReLU)

    def forward(self, points, state):
        x = self.extractor.final_projection(self.extractor.mlp(points))
        return torch.cat([x, self.state_mlp(state)[:, None].expand(-1, x.shape[1], -1)], -1)


class Cross(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.kv, self.proj = nn.Linear(W, W), nn.Linear(W, 2 * W), nn.Linear(W, W)
        self.q_norm, self.k_norm = nn.LayerNorm(W // HEADS), nn.LayerNorm(W // HEADS)

    def keys(self, tokens):
        k, v = self.kv(tokens).view(len(tokens), -1, 2, HEADS, W // HEADS).permute(2, 0, 3, 1, 4)
        return self.k_norm(k), v

    def forward(self, x, k, v):
        B, steps = len(k), len(x) // len(k)
        q = self.q_norm(self.q(x).view(B, -1, HEADS, W // HEADS)).transpose(1, 2)  # an observation's steps in a row
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(B * steps, -1, W))


class Feed(nn.Module):
    def __init__(self, inner, outputs):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(W, inner), nn.Linear(inner, outputs)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(W, HEADS, batch_first=True)
        self.cross_attn, self.mlp = Cross(), Feed(4 * W, W)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(W, 9 * W))

    def forward(self, h, c, k, v):
        m = self.adaLN_modulation(c)[:, None].chunk(9, -1)

        def enter(j):
            return F.layer_norm(h, (W,), eps=1e-6) * (1 + m[3 * j + 1]) + m[3 * j]

        y = enter(0)
        h = h + m[2] * self.self_attn(y, y, y, need_weights=False)[0]
        h = h + m[5] * self.cross_attn(enter(1), k, v)
        return h + m[8] * self.mlp(enter(2))


class Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_final, self.ffn_final = nn.RMSNorm(W, eps=1e-6), Feed(W, A)

    def forward(self, h):
        return self.ffn_final(self.norm_final(h))


class DiTX(nn.Module):
    def __init__(self, L):
        super().__init__()
        self.pos_emb = nn.Parameter(0.02 * torch.randn(1, H, W))
        self.vis_cond_pos_embed = nn.Parameter(0.02 * torch.randn(1, L, W))
        self.input_emb, self.vis_cond_obs_emb = nn.Linear(A, W), nn.Linear(POINT + 64, W)
        self.flow_timestep_encoder, self.flow_target_t_encoder = (
            nn.Sequential(Sinusoid(TIME), nn.Linear(TIME, 4 * TIME), nn.Mish(), nn.Linear(4 * TIME, W)) for _ in "td")
        self.timestep_target_t_adaptor = nn.Linear(2 * W, W)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.final_layer = Last()

    def keys(self, tokens):
        tokens = self.vis_cond_obs_emb(tokens) + self.vis_cond_pos_embed
        return [b.cross_attn.keys(tokens) for b in self.blocks]

    def forward(self, x, t, keys):
        d = torch.full_like(t, 1 / K)
        c = self.timestep_target_t_adaptor(torch.cat([self.flow_timestep_encoder(t), self.flow_target_t_encoder(d)], -1))
        h = self.input_emb(x) + self.pos_emb
        for block, (k, v) in zip(self.blocks, keys):
            h = block(h, c, k, v)
        return self.final_layer(h)


def coefficients():
    """Of x' = a x + b v + s eps, flow_sde with noise at t = 1."""
    rows = []
    for i in range(K):
        t, after = 1 - i / K, 1 - (i + 1) / K
        variance = LEVEL**2 * t / (1 - (after if i == 0 else t))
        pull = variance / K / (2 * t)
        rows.append((1 - pull, -1 / K - pull * (1 - t), math.sqrt(variance / K)))
    return torch.tensor(rows)


class Policy(nn.Module):
    def __init__(self, L, shared):
        super().__init__()
        self.obs_encoder, self.model, self.shared = Encoder(), DiTX(L), shared
        self.value_head = nn.Module()
        self.value_head.mlp = mlp(POINT + 64, 256, 128, 1, act=nn.ReLU)
        self.register_buffer("grid", 1 - torch.arange(K) / K, persistent=False)
        self.register_buffer("coef", coefficients(), persistent=False)

    def score(self, points, state, chains):
        B, tokens = len(points), self.obs_encoder(points, state)
        keys = self.model.keys(tokens if self.shared else tokens.repeat_interleave(K, 0))
        x, after = chains[:, :-1].reshape(B * K, H, A), chains[:, 1:].reshape(B * K, H, A)
        v = self.model(x, self.grid.repeat(B), keys)
        a, b, s = (self.coef[:, i].repeat(B)[:, None, None] for i in range(3))
        steps = log_normal(after, a * x + b * v, s).reshape(B, -1).sum(-1)
        first = log_normal(chains[:, 0], 0, torch.ones(())).reshape(B, -1).sum(-1)
        return (first + steps) / ((K + 1) * H * A), self.value_head.mlp(tokens.mean(1)).squeeze(-1)

    def sample(self, points, state, noise, eps):
        B, tokens = len(points), self.obs_encoder(points, state)
        keys = self.model.keys(tokens) if self.shared else None
        x, chain = noise, [noise]
        total = log_normal(noise, 0, torch.ones(())).reshape(B, -1).sum(-1)
        for k in range(K):
            v = self.model(x, self.grid[k].expand(B), keys if self.shared else self.model.keys(tokens))
            a, b, s = self.coef[k]
            mean = a * x + b * v
            x = mean + s * eps[:, k]
            chain.append(x)
            total = total + log_normal(x, mean, s).reshape(B, -1).sum(-1)
        return torch.stack(chain, 1), total / ((K + 1) * H * A), self.value_head.mlp(tokens.mean(1)).squeeze(-1)


def loss_of(policy, data, rows, old):
    advantage = normalized(data["advantages"][rows])
    logp, value = policy.score(data["points"][rows], data["state"][rows], data["chains"][rows])
    ratio = (logp - data[old][rows]).exp()
    surrogate = torch.max(-advantage * ratio, -advantage * ratio.clamp(1 - CLIP, 1 + CLIP))
    return (surrogate + VALUE * (value - data["returns"][rows]) ** 2).mean()


def update(policy, optimizer, data, rows):
    loss = loss_of(policy, data, rows, "logprobs")
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 0.5, foreach=True)
    optimizer.step()


@torch.no_grad()
def make(folder):
    for L, n in ROWS.items():
        torch.manual_seed(L + 2)  # no point within rounding of a ReLU's kink, where both sides are right
        policy = Policy(L, True)
        data = {"points": torch.randn(n, L, 6), "state": torch.randn(n, S)}
        data["noise"], data["eps"] = torch.randn(n, H, A), torch.randn(n, K, H, A)
        data["chains"], data["logprobs"], data["values"] = policy.sample(
            *(data[k] for k in ("points", "state", "noise", "eps")))
        data["moved"] = data["logprobs"] + 0.02 * torch.randn(n)
        data["returns"], data["advantages"] = data["values"] + torch.randn(n), torch.randn(n)
        write(f"{folder}/ditx{L}.safetensors", {**data, **policy.state_dict()})


def load(folder, L, shared):
    data, policy = read(f"{folder}/ditx{L}.safetensors"), Policy(L, shared)
    policy.load_state_dict({name: data[name] for name in policy.state_dict()})
    return policy, data


def check(folder):
    ours, error = read(f"{folder}/ditx.safetensors"), {}
    for L in BATCH:
        for shared in (False, True):
            policy, data = load(folder, L, shared)
            data = {k: v.double() for k, v in data.items()}
            policy.double()
            rows = ours[f"rows{L}"]
            loss_of(policy, data, rows, "moved").backward()
            mine = torch.cat([ours[f"grad{L}/{name}"].flatten() for name, _ in policy.named_parameters()])
            torchs = torch.cat([p.grad.flatten() for p in policy.parameters()])
            how = "shared" if shared else "plain"
            error[f"gradient of ditx update {L}, {how}"] = distance(mine, torchs)
        with torch.no_grad():
            chains, logp, values = policy.sample(*(data[k] for k in ("points", "state", "noise", "eps")))
        for N in (1, 8):
            for name, t in (("chains", chains), ("logprobs", logp), ("values", values)):
                error[f"{name} of ditx sample{L} {N}"] = distance(ours[f"{name}{L}x{N}"].flatten(), t[:N].flatten())
    for what, e in error.items():
        print(f"{what}: relative error {e:.1e}")
    sys.exit(0 if max(error.values()) <= 1e-5 else 1)


class Work:
    def __init__(self, folder, shared):
        self.loaded = {L: load(folder, L, shared) for L in BATCH}
        self.best = {}

    def update(self, L, _):
        policy, data = self.loaded[L]
        rows = torch.arange(BATCH[L])

        def turns(threads, least):
            torch.set_num_threads(threads)
            optimizer = torch.optim.AdamW(policy.parameters(), lr=LR, weight_decay=0, fused=True)
            update(policy, optimizer, data, rows)
            return timed(lambda: update(policy, optimizer, data, rows), least)

        return self.tried(("update", L), turns)

    @torch.inference_mode()
    def sample(self, L, N):
        policy, data = self.loaded[L]
        x = [data[k][:N].clone() for k in ("points", "state", "noise", "eps")]

        def turns(threads, least):
            torch.set_num_threads(threads)
            policy.sample(*x)
            return timed(lambda: policy.sample(*x), least)

        return self.tried(("sample", L, N), turns)

    def tried(self, what, turns):
        if what not in self.best:
            self.best[what] = min((turns(threads, 0.2), threads) for threads in (1, 2))[1]
            print(f"peer: ditx {what}: best with {self.best[what]} thread(s)", file=sys.stderr, flush=True)
        return turns(self.best[what], 0.5)


def serve(folder, shared):
    work = Work(folder, shared)
    for line in sys.stdin:
        name, size = line.split()
        if name == "update":
            print(work.update(int(size), None), flush=True)
        else:
            print(work.sample(int(name.removeprefix("sample")), int(size)), flush=True)


if __name__ == "__main__":
    command, folder = sys.argv[1:3]
    if command == "make":
        make(folder)
    elif command == "check":
        check(folder)
    else:
        serve(folder, sys.argv[3] == "shared")
