"""Every operation in PyTorch, in double: values and gradients for tests/unit/test_op_torch.c and
test_adam.c.

    python tests/reference/ops.py tests/fixtures/ops.safetensors

A case is one sample, and a row of tests/unit/op_torch.inc. Its tensors are CASE.x0, x1, .. (operands that get gradients), CASE.g0, .. (their
gradients), CASE.d0, .. (data), CASE.y (the value), CASE.w (what the loss weighs y's elements with).
"""
import math
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

torch.manual_seed(0)
out = {}


def rand(*shape):
    return torch.randn(*shape, dtype=torch.float32).double()


def case(name, fn, xs, ds=()):
    xs, ds = [x.float().double().requires_grad_() for x in xs], [d.float().double() for d in ds]
    y = fn(*xs, *ds)
    w = rand(*y.shape)
    grads = torch.autograd.grad((y * w).sum(), xs) if xs else []
    for i, x in enumerate(xs):
        out[f"{name}.x{i}"] = x.detach()
        out[f"{name}.g{i}"] = grads[i]
    for i, d in enumerate(ds):
        out[f"{name}.d{i}"] = d
    out[f"{name}.y"], out[f"{name}.w"] = y.detach(), w


ACTS = {"none": lambda x: x, "relu": F.relu, "mish": F.mish, "tanh": torch.tanh}
LATER = {"silu": F.silu, "gelu": lambda x: F.gelu(x, approximate="tanh")}
R, D, H, A, C, OFFSET = 4, 12, 4, 3, 2, 1

for act, fn in ACTS.items():
    case(f"linear_{act}", lambda x, W, b, r1, r2, fn=fn: fn(F.linear(x, W[:, 3:], b) + r1 + r2),
         [rand(R, 9), rand(21, 12), rand(1, 21), rand(R, 21), rand(1, 21)])
    case(f"activate_{act}", fn, [3 * rand(R, 13)])
case("add", lambda a, b: a + b, [rand(R, 5), rand(1, 5)])
case("concat", lambda a, b, c: torch.cat([a, b.expand(R, -1), c], 1), [rand(R, 5), rand(1, 3), rand(R, 2)])
case("stack", lambda a, b: torch.cat([a, b], 0), [rand(R, 5), rand(2, 5)])
case("slice_rows", lambda x: x[1:3], [rand(R, 5)])
case("reshape", lambda x: x.reshape(2, 10), [rand(R, 5)])
case("weigh", lambda x, w: x * w, [rand(R, 5)], [rand(1, 1)])


def sinusoid(t):
    f = torch.exp(torch.arange(8, dtype=torch.float64) * -(math.log(1e4) / 7))
    return torch.cat([torch.sin(t * f), torch.cos(t * f)], 1)


case("sinusoid", sinusoid, [], [torch.rand(R, 1).double()])
coef = torch.cat([1 + 0.1 * rand(R, 1), 0.25 * rand(R, 1), 0.2 + torch.rand(R, 1).double()], 1).float().double()
case("flow_mean", lambda x, v, c: (c[:, :1] * x + c[:, 1:2] * v).clamp(-1, 1), [rand(R, D), rand(R, D)], [coef])
bounds = torch.tensor([[-4.0, -1.5]]).double()


def noise_std(u, b):
    return torch.exp(0.5 * (b[0, 0] + (b[0, 1] - b[0, 0]) * (torch.tanh(u) + 1) / 2))


case("noise_std", noise_std, [rand(R, D)], [bounds])
eps = 2 * rand(R, D)
case("flow_noise", lambda m, c, e: (m + c[:, 2:] * e.clamp(-2, 2)).clamp(-1.5, 1.5), [], [rand(R, D), coef, eps])


def logprob(x, m, s):
    return torch.distributions.Normal(m, s).log_prob(x)


case("logprob", lambda m, x, c: logprob(x, m, c[:, 2:]), [rand(R, D)], [rand(R, D), coef])
case("logprob_std", lambda m, s, x, c: logprob(x, m, s * c[:, 2:]), [rand(R, D), 0.5 + torch.rand(R, D).double()],
     [rand(R, D), coef])
case("entropy", lambda s: 0.25 * torch.distributions.Normal(0 * s, s).entropy().sum().reshape(1, 1),
     [0.5 + torch.rand(R, D).double()])


def token(el, first):
    t = el.sum(0) + logprob(first, torch.zeros_like(first), torch.ones_like(first))[0]
    return 0.2 * t.reshape(H, A)[OFFSET:OFFSET + C]


case("reduce_all", lambda el, f: 0.2 * (el.sum() + logprob(f, 0 * f, 1 + 0 * f).sum()).reshape(1, 1), [rand(R, D)],
     [rand(1, D)])
case("reduce_token", lambda el, f: token(el, f).reshape(1, C * A), [rand(R, D)], [rand(1, D)])
case("reduce_action", lambda el, f: token(el, f).sum(1).reshape(1, C), [rand(R, D)], [rand(1, D)])
case("reduce_chunk", lambda el, f: token(el, f).sum().reshape(1, 1), [rand(R, D)], [rand(1, D)])


def ppo(new, old, adv, w, knobs):
    e, dual, clamp = knobs[0, :3].tolist()
    if clamp > 0:
        new, old = new.clamp(-clamp, clamp), old.clamp(-clamp, clamp)
    ratio = torch.exp(new - old)
    loss = torch.max(-adv * ratio, -adv * ratio.clamp(1 - e, 1 + e))
    if dual > 0:
        loss = torch.where(adv < 0, torch.min(loss, dual * adv.abs()), loss)
    return (w * loss).sum().reshape(1, 1)


def value(v, ret, old, w, knobs):
    clip, delta = knobs[0, :2].tolist()

    def cost(x):
        return F.huber_loss(x, ret, delta=delta, reduction="none") if delta > 0 else (x - ret) ** 2

    loss = cost(v)
    if clip > 0:
        loss = torch.max(loss, cost(old + (v - old).clamp(-clip, clip)))
    return w * loss


def knob(*k):
    return torch.tensor([k]).double()


for name, k in {"ppo": knob(.2, 0, 0, 0), "ppo_dual": knob(.2, 1.2, 0, 0), "ppo_clamp": knob(.2, 0, .8, 0)}.items():
    for sign in (1.0, -1.0):
        case(f"{name}_{'up' if sign > 0 else 'down'}", ppo, [rand(1, 24)],
             [rand(1, 24), sign * torch.ones(1, 1).double(), torch.rand(1, 24).double(), k])
for name, k in {"value": knob(0, 0, 0, 0), "value_huber": knob(0, .5, 0, 0), "value_clip": knob(.2, 0, 0, 0),
                "value_both": knob(.2, .5, 0, 0)}.items():
    for i in range(3):
        case(f"{name}_{i}", value, [rand(1, 1)], [rand(1, 1), rand(1, 1), torch.rand(1, 1).double(), k])
case("mse", lambda a, b, w: w * ((a - b) ** 2).mean().reshape(1, 1), [rand(R, D)], [rand(R, D), rand(1, 1)])

# AdamW: five steps, the fourth's gradient scaled by a clip.
p = rand(3, 7).requires_grad_()
out["adam.start"], grads = p.detach().clone(), rand(5, 3, 7)
adam = torch.optim.AdamW([p], lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
for i in range(5):
    p.grad = grads[i] * (0.25 if i == 3 else 1)
    adam.step()
out["adam.grads"], out["adam.end"] = grads, p.detach()
out["adam.m"], out["adam.v"] = adam.state[p]["exp_avg"], adam.state[p]["exp_avg_sq"]

# What transformers add.
for act, fn in LATER.items():
    case(f"linear_{act}", lambda x, W, b, r1, r2, fn=fn: fn(F.linear(x, W[:, 3:], b) + r1 + r2),
         [rand(R, 9), rand(21, 12), rand(1, 21), rand(R, 21), rand(1, 21)])
    case(f"activate_{act}", fn, [3 * rand(R, 13)])
case("slice_cols", lambda x: x[:, 2:5], [rand(R, 7)])
case("param_value", lambda x, e: x + e, [rand(R, 5), rand(R, 5)])
case("pool_max", lambda x: x.reshape(2, 3, 5).amax(1), [rand(6, 5)])
case("pool_mean", lambda x: x.reshape(2, 3, 5).mean(1), [rand(6, 5)])
case("spread", lambda x, a: x + a.repeat_interleave(3, 0), [rand(6, 5), rand(2, 5)])


def heads_of(x, heads):
    return x.reshape(x.shape[0], heads, -1)


def rms(x, w, legacy):
    return x * torch.rsqrt((x.var(-1, keepdim=True) if legacy else (x ** 2).mean(-1, keepdim=True)) + 1e-3) * w


case("norm_layer", lambda x, w, b: F.layer_norm(heads_of(x[:, 3:25], 2), (11,), w[0], b[0], 1e-3).reshape(R, 22),
     [rand(R, 30), rand(1, 11), rand(1, 11)])
case("norm_plain", lambda x: F.layer_norm(x[:, 3:25], (22,), eps=1e-3), [rand(R, 30)])
case("norm_rms", lambda x, w: rms(x[:, 3:25], w, False), [1 + rand(R, 30), rand(1, 22)])
case("norm_legacy", lambda x, w: rms(x[:, 3:25], w, True), [1 + rand(R, 30), rand(1, 22)])


def parts(m, rows):
    return m.repeat_interleave(rows // len(m), 0).split(5, 1)


def modulate(x, m):
    shift, scale, _ = parts(m, len(x))
    return x * (1 + scale) + shift


case("modulate", modulate, [rand(6, 5), rand(2, 15)])
case("gate", lambda h, x, m: h + parts(m, len(x))[2] * x, [rand(6, 5), rand(6, 5), rand(2, 15)])


def attention(q, k, v, blocks, heads, scale):
    q, k, v = (x.reshape(blocks, -1, heads, x.shape[1] // heads).transpose(1, 2) for x in (q, k, v))
    y = F.scaled_dot_product_attention(q, k, v, scale=scale)
    return y.transpose(1, 2).flatten(0, 1).flatten(1)


case("attention_self", lambda x: attention(x[:, :10], x[:, 10:20], x[:, 20:], 2, 2, 5 ** -.5), [rand(8, 30)])
case("attention_cross", lambda q, kv: attention(q[:, 1:33], kv[:, :32], kv[:, 32:], 1, 2, .25),
     [rand(5, 33), rand(9, 64)])

# What convolutions add: blocks of rows are the batch, rows the time.
def in_time(fn, x, blocks):
    y = fn(x.reshape(blocks, -1, x.shape[1]).transpose(1, 2))
    return y.transpose(1, 2).reshape(-1, y.shape[1])


case("conv_same", lambda x, W, b: in_time(lambda u: F.conv1d(u, W.reshape(7, 3, 5), b[0], 1, 2), x, 2),
     [rand(8, 3), rand(7, 15), rand(1, 7)])
case("conv_half", lambda x, W, b: in_time(lambda u: F.conv1d(u, W.reshape(7, 3, 3), b[0], 2, 1), x, 2),
     [rand(8, 3), rand(7, 9), rand(1, 7)])
case("conv_turned", lambda x, W: in_time(lambda u: F.conv_transpose1d(u, W.reshape(3, 7, 4), None, 2, 1), x, 2),
     [rand(8, 3), rand(3, 28)])
case("group_norm", lambda x, w, b: in_time(lambda u: F.group_norm(u, 2, w[0], b[0], 1e-3), x, 2),
     [rand(8, 22), rand(1, 22), rand(1, 22)])

# PPO for samples of an older policy, written in probabilities (lib/rl/proximal.h): it reaches the operation as another
# `old` and other weights, which are what is in the file.
def decoupled(new, prox, adv, weight, knobs, behaviour):
    e = knobs[0, 0].item()
    b, p, q = behaviour.exp(), prox.exp(), new.exp()
    surrogate = torch.min(q / b * adv, p / b * (q / p).clamp(1 - e, 1 + e) * adv)
    return -surrogate.mean().reshape(1, 1)


for alpha in (.25, 1.0):
    for sign in (1.0, -1.0):
        b, now = rand(1, 24), rand(1, 24)
        prox = ((1 - alpha) * b + alpha * now).float().double()
        case(f"ppo_decoupled_{alpha:g}_{'up' if sign > 0 else 'down'}", lambda *x, b=b: decoupled(*x, b),
             [now + .2 * rand(1, 24)],
             [prox, sign * torch.ones(1, 1).double(), (prox - b).exp() / 24, knob(.2, 0, 0, 0)])


# How far a policy has moved: torch.distributions has no k3, so it is written out.
def kl(new, old, w, knobs):
    c = knobs[0, 2].item()
    lr = new.clamp(-c, c) - old.clamp(-c, c)
    return (w * (lr.exp() - 1 - lr)).sum().reshape(1, 1)


case("kl", kl, [], [rand(1, 24), rand(1, 24), torch.rand(1, 24).double(), knob(.2, 0, .8, 0)])

# What pictures add: the rows of a map are its pixels, row by row.
def in_maps(fn, x, H, W):
    y = fn(x.reshape(-1, H, W, x.shape[1]).permute(0, 3, 1, 2))
    return y.permute(0, 2, 3, 1).reshape(-1, y.shape[1])


def conv2d(x, W, b, H, width, kernel, stride, pad):
    W = W.reshape(len(W), kernel, kernel, -1).permute(0, 3, 1, 2)
    return in_maps(lambda u: F.conv2d(u, W, b[0], stride, pad), x, H, width)


def picture(d, scale, offset, bytes, crop):
    numbers = d[:, 1:].float().contiguous()
    numbers = (numbers.view(torch.uint8) if bytes else numbers)[:, :4 * 6 * 3].reshape(-1, 4, 6, 3).double()
    top, left = (round((size - crop) / 2) if crop else 0 for size in (4, 6))
    numbers = numbers[:, top:top + (crop or 4), left:left + (crop or 6)]
    return (numbers * scale[0] + offset[0]).reshape(-1, 3)


def packed(rows, floats):  # bytes as floats that are numbers
    b = torch.randint(0, 256, (rows, floats, 4), dtype=torch.uint8)
    b[:, :, 3] %= 127
    return b.reshape(rows, -1).view(torch.float32).double()


case("linear_gelu_erf", lambda x, W, b, r1, r2: F.gelu(F.linear(x, W[:, 3:], b) + r1 + r2),
     [rand(R, 9), rand(21, 12), rand(1, 21), rand(R, 21), rand(1, 21)])
case("activate_gelu_erf", F.gelu, [3 * rand(R, 13)])
case("picture_bytes", lambda *x: picture(*x, True, 3), [], [packed(2, 20), rand(1, 3), rand(1, 3)])
case("picture_floats", lambda *x: picture(*x, False, 0), [], [rand(2, 74), rand(1, 3), rand(1, 3)])
case("conv2d_same", lambda *x: conv2d(*x, 5, 4, 3, 1, 1), [rand(40, 3), rand(7, 27), rand(1, 7)])
case("conv2d_stem", lambda *x: conv2d(*x, 12, 16, 8, 4, 0), [rand(192, 3), rand(5, 192), rand(1, 5)])
case("conv2d_half", lambda *x: conv2d(*x, 5, 7, 3, 2, 0), [rand(70, 8), rand(5, 72), rand(1, 5)])
case("max_pool2d_half", lambda x: in_maps(lambda u: F.max_pool2d(u, 2, 2), x, 5, 7), [rand(70, 5)])
case("max_pool2d_padded", lambda x: in_maps(lambda u: F.max_pool2d(u, 3, 2, 1), x, 6, 5), [rand(60, 5)])
case("transpose", lambda x: x.reshape(2, 9, 5).transpose(1, 2).reshape(10, 9), [rand(18, 5)])
case("blend", lambda x, W: (x.reshape(3, 6, 5) * W).sum(1), [rand(18, 5), rand(6, 5)])


# The latent actor's Gaussian.
def squashed(m, s, e):
    u = m + s * e
    return torch.distributions.Normal(m, s).log_prob(u) - torch.log(1 - torch.tanh(u) ** 2 + 1e-6)


def positive(*shape):
    return 0.3 + torch.rand(*shape).double()


case("latent_std", lambda x: x.clamp(-0.5, 0.7).exp(), [rand(R, D)])
case("latent_draw_plain", lambda m, s, e: m + s * e, [rand(R, D), positive(R, D)], [rand(R, D)])
case("latent_draw_squashed", lambda m, s, e: 1.5 * torch.tanh(m + s * e), [rand(R, D), positive(R, D)], [rand(R, D)])
case("latent_logpi", squashed, [rand(R, D), positive(R, D)], [rand(R, D)])



# FPO++: SPO's penalty where the advantage is negative.
def aspo(new, old, adv, w, knobs):
    e, ratio = knobs[0, 0], torch.exp(new - old)
    clipped = torch.min(adv * ratio, adv * ratio.clamp(1 - e, 1 + e))
    spo = adv * ratio - adv.abs() / (2 * e) * (ratio - 1) ** 2
    return -(w * torch.where(adv >= 0, clipped, spo)).sum().reshape(1, 1)


for sign in (1, -1):
    case(f"ppo_aspo_{'up' if sign > 0 else 'down'}", aspo, [0.3 * rand(1, 6)],
         [0.3 * rand(1, 6), sign * rand(1, 1).abs(), torch.rand(1, 6).double(), knob(.2, 0, 0, 1)])
# What vision-language-action models add.
times = torch.tensor([[1.0], [.7], [.001], [.333]])


def waves(t, period):
    a = t.float().double() / period
    return torch.cat([a.sin(), a.cos()], 1)


def rope(x, at):
    a = at.repeat(2, 1) * 1e4 ** (-torch.arange(3, dtype=torch.float64) / 3)
    c, s = a.cos()[:, None], a.sin()[:, None]
    p, q = x.reshape(6, 2, 6).split(3, 2)
    return torch.cat([p * c - q * s, q * c + p * s], 2).reshape(6, 12)


def shared_keys(q, k, v, *own):
    *own, mask = own
    own = [o.reshape(2, -1, 6) for o in own] or [torch.zeros(1, 0, 6, dtype=torch.float64)] * 2
    n = len(own[0])
    q = q.reshape(n, -1, 4, 6).transpose(1, 2)
    k, v = (torch.cat([x.expand(n, -1, -1), o], 1)[:, None] for x, o in zip((k, v), own))
    see = torch.cat([mask[:, 0] > 0, torch.ones(own[0].shape[1], dtype=torch.bool)])
    y = F.scaled_dot_product_attention(q, k.expand(-1, 4, -1, -1), v.expand(-1, 4, -1, -1), see.expand(n, 4, q.shape[2], -1), scale=.5)
    return y.transpose(1, 2).reshape(-1, 24)


case("waves", lambda t: waves(t, .004 * 1000 ** (torch.arange(8, dtype=torch.float64) / 7) / (2 * math.pi)), [], [times])
case("rope", rope, [rand(6, 12)], [torch.tensor([[0.0], [968.0], [1023.0]])])
case("lookup", lambda W, i: 8 * W.t()[i[:, 0].long()] * (i >= 0), [rand(5, 4)],
     [torch.tensor([[3.0], [0.0], [3.0], [-1.0]])])
case("places", lambda m: torch.cat([m.repeat_interleave(2, 0), torch.ones(2, 1).double()]).cumsum(0) - 1, [],
     [torch.tensor([[1.0], [0.0], [1.0]])])
case("product", lambda x, y: x * y, [rand(R, 5), rand(R, 5)])
mask = torch.tensor([[1.0], [0.0], [1.0], [1.0], [0.0]])
case("attention_masked", shared_keys, [rand(3, 24), rand(5, 6), rand(5, 6)], [mask])
case("attention_own", shared_keys, [rand(6, 24), rand(5, 6), rand(5, 6), rand(4, 6), rand(4, 6)], [mask])

save_file({k: v.float().contiguous() for k, v in out.items()}, sys.argv[1])
