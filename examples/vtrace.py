#!/usr/bin/env python3
"""V-trace: advantages and returns, corrected for data that an older policy made (Espeholt et al. 2018, eq. 1).

    mf-collect | examples/vtrace.py | mf-ppo
    ... | examples/vtrace.py advantage.gamma=.99 advantage.gae_lambda=.95 vtrace.rho=1 vtrace.c=1 | ...

    v_t = V_t + d_t + g c_t (v_{t+1} - V_{t+1}),  d_t = rho_t (r_t + g V_{t+1} - V_t),  A_t = rho_t (r_t + g v_{t+1} - V_t)

rho_t and c_t are pi(a_t) / mu(a_t), clipped; c_t times lambda. mu is who acted (`prev_logprobs`); pi is the policy that
learns, and a stage before this one must know it and add `target_logprobs` of the same shape. Without them the data
count as the policy's own: every ratio is 1, and v_t is TD(lambda)'s, as mf-gae's returns are.
"""
import numpy as np

from stream import fail, frames, send, sign, words

np.seterr(all="ignore")  # masked entries may hold anything


def ratios(a):
    if "target_logprobs" not in a:
        return 1.0
    if a["target_logprobs"].shape != a["prev_logprobs"].shape:
        fail(3, "target_logprobs and prev_logprobs have different shapes")
    log = a["target_logprobs"].astype("f8") - a["prev_logprobs"]
    return np.exp(log.reshape(*log.shape[:2], -1).sum(2))


def vtrace(a, gamma, lam, rho_max, c_max):
    value = a["prev_values"].astype("f8")
    T, N = value.shape
    reward = a["rewards_scaled"] if "rewards_scaled" in a else a["rewards"].sum(2)
    on, off = np.ones((T, N), bool), np.zeros((T, N), "f4")
    keep = (a.get("valid", on) != 0) & (a.get("loss_mask", on) != 0)
    dead = a["terminated"] != 0
    cut = (a["truncated"] != 0) & ~dead
    more = np.vstack([keep[1:], on[:1]])  # the row after is a transition too, or the rollout ends here
    # What is masked may hold anything, NaN too: it is selected away, never multiplied by 0.
    follows = np.where(more, np.vstack([value[1:], a["last_values"][None]]), 0)
    follows = np.where(dead, 0, np.where(cut, a.get("final_values", off), follows))
    goes_on = keep & more & ~dead & ~cut
    goes_on[-1] = False
    reward, value, follows = (np.where(keep, x, 0) for x in (reward, value, follows))
    ratio = np.where(keep, ratios(a), 0)
    rho, c = np.minimum(ratio, rho_max), lam * np.minimum(ratio, c_max)
    delta = rho * (reward + gamma * follows - value)

    excess = np.zeros((T + 1, N))  # v_t - V_t
    advantages = np.zeros((T, N))
    for t in reversed(range(T)):
        after = np.where(goes_on[t], excess[t + 1], 0)
        excess[t] = delta[t] + gamma * c[t] * after
        advantages[t] = delta[t] + rho[t] * gamma * after
    return advantages.astype("f4"), (excess[:-1] + value).astype("f4")


def main():
    o = words()
    names = {"advantage.gamma": 0.99, "advantage.gae_lambda": 0.95, "vtrace.rho": 1, "vtrace.c": 1}
    try:
        settings = [float(o.get(name, default)) for name, default in names.items()]
    except ValueError as why:
        fail(2, why)
    for frame in frames():
        if frame["mf"] == "head":
            sign(frame, "1.0")
        if frame["mf"] == "rollout":
            a = frame["arrays"]
            missing = [x for x in ("rewards", "prev_values", "last_values", "terminated", "truncated") if x not in a]
            if missing:
                fail(3, f"the rollout of iteration {frame['iter']} has no array '{missing[0]}'")
            a["advantages"], a["returns"] = vtrace(a, *settings)
        send(frame)


main()
