# pipelines/compare and mf-compare: methods from one clone, under equal conditions.
# shellcheck disable=SC2016 # the variables are jq's
load helpers

setup() {
    cd "$T" || return 1
    small=(env=point 'policy.hidden=[8]' 'policy.critic_hidden=[8]' training.num_envs=16 training.num_steps_per_rollout=12 threads=1
        training.total_timesteps=3000 training.batch_size=64 training.critic_warmup_steps=0 collect.episodes=16 clone.steps=150
        clone.batch_size=32 clone.warmup_steps=0 eval.num_episodes=30)
    two=(--methods "ppo_flow_noise grpo" --seeds "0 1")
}
compare() { "$ROOT/pipelines/compare" "$@" >out 2>err; }
told() { grep -qF -- "$1" err || { cat err; return 1; }; }

# recompute DIR: table.json again, from the evaluations of the runs and the metrics of their learners alone.
recompute() {
    /usr/bin/python3 - "$1" <<'PY'
import json, math, sys
import msgpack
table = json.load(open(f"{sys.argv[1]}/table.json"))
def near(a, b): assert abs(a - b) < 1e-6, (a, b)
def wilson(k, n, z=1.959963984540054):
    p, d = k / n, 1 + z * z / n
    m, h = (p + z * z / (2 * n)) / d, z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / d
    return m - h, m + h
first = None
for row in table:
    once, ret, steps, seconds = {}, [], [], []
    for seed in (0, 1):
        run = f"{sys.argv[1]}/{row['method']}/{seed}"
        (r,) = json.load(open(f"{run}/logs/eval.json"))["results"]
        assert r["seed"] == seed and r["n"] == 30
        once[seed], ret = r["trials"]["success_once"], ret + r["trials"]["return"]
        frames = [m for m in msgpack.Unpacker(open(f"{run}/logs/metrics.mf", "rb")) if m["mf"] == "metrics"]
        steps.append(frames[-1]["step"]), seconds.append(frames[-1]["time"])
        assert row["runs"][seed]["digest"] == r["digest"] and row["runs"][seed]["state"] == "done"
    all_trials = once[0] + once[1]
    k, n = sum(all_trials), len(all_trials)
    low, high = wilson(k, n)
    rates = sorted(sum(v) / len(v) for v in once.values())
    assert (row["n"], row["seeds"], row["runs_done"]) == (60, 2, 2)
    near(row["success_once"], k / n), near(row["success_once_low"], low), near(row["success_once_high"], high)
    near(row["median"], sum(rates) / 2), near(row["lowest"], rates[0]), near(row["highest"], rates[1])
    near(row["return"], sum(ret) / n), near(row["steps"]["mean"], sum(steps) / 2), near(row["seconds"]["mean"], sum(seconds) / 2)
    if first:
        won = sum(b > a for s in once for a, b in zip(first[s], once[s]))
        lost = sum(b < a for s in once for a, b in zip(first[s], once[s]))
        p = min(1, 2 * sum(math.comb(won + lost, i) for i in range(min(won, lost) + 1)) / 2 ** (won + lost))
        assert (row["won"], row["lost"]) == (won, lost), row
        near(row["difference"], (won - lost) / n), near(row["p"], p)
    else:
        first, cost = once, row["seconds_per_iteration"]["mean"]
        assert row["p"] is None and row["cost"] == 1
    if row["method"] == "clone":
        assert row["unit"] == "minibatches" and row["cost"] is None
    else:
        assert row["unit"] == "control steps" and 3000 <= row["steps"]["low"] < 3000 + 16 * 12 * 4
        near(row["cost"], row["seconds_per_iteration"]["mean"] / cost)
print([row["method"] for row in table])
PY
}

@test "two methods and two seeds from one clone a seed: table, picture; the same command again computes nothing" {
    compare "${two[@]}" "${small[@]}" && [[ $(recompute outputs/compare) == "['ppo_flow_noise', 'grpo', 'clone']" ]] || { cat err; return 1; }
    cd outputs/compare && diff table.txt "$T/out" && [[ $(head -c 4 curve.png | tail -c 3) == PNG ]] && [[ $(awk 'NR < 5 { print $1, $2, $3, $4 }' table.txt | xargs) == \
"method seeds success, 95 ppo_flow_noise 2 of 2 grpo 2 of 2 clone 2 of 2" ]] && grep -qF "clone, seed 1: weights $(jq -r '.results[0].digest' clone/1/logs/eval.json)" table.txt || { cat table.txt; return 1; }
    local seed m
    for seed in 0 1; do
        for m in ppo_flow_noise grpo; do
            [[ $(mf-conf --config $m/$seed/configs/mf-ppo.yaml policy.checkpoint) == outputs/compare/clone/$seed/checkpoints/clone.safetensors ]] || return 1
        done
    done
    mf-view grpo/0/logs/metrics.mf | jq -es '.[0].chain | map(.stage) == ["mf-collect", "mf-grpo", "mf-ppo"]' >/dev/null &&
        mf-plot ppo_flow_noise grpo 2>&1 | grep -qF 'grpo (2 seeds)' || return 1 # though each seed has another clone
    cd "$T" && sha256sum outputs/compare/*/*/checkpoints/* outputs/compare/results.jsonl outputs/compare/table.json >before &&
        compare "${two[@]}" "${small[@]}" && sha256sum -c --quiet before && told "grpo/1: finished" && ! grep 'mf-bc' err
}

@test "a comparison that was killed goes on, and ends with the same numbers" {
    compare "${two[@]}" "${small[@]}" --out whole || { cat err; return 1; }
    local tries=600 pid sig
    for sig in KILL TERM; do
        env --default-signal=INT setsid "$ROOT/pipelines/compare" "${two[@]}" "${small[@]}" training.total_timesteps=3000 --out cut >out 2>err &
        pid=$!
        until [[ -s cut/ppo_flow_noise/0/logs/metrics.mf && ($sig == KILL || -s cut/grpo/1/logs/metrics.mf) ]] || ((tries-- == 0)); do sleep .02; done
        # shellcheck disable=SC2046 # of the session that we started
        if [ $sig = KILL ]; then kill -9 $(pgrep -s $pid) && ended_by 137 $pid; else kill $pid 2>/dev/null; wait $pid || true; fi
    done
    compare "${two[@]}" "${small[@]}" --out cut || { cat err; return 1; }
    numbers() { jq -c 'map({method, success_once, return, won, lost, s: .steps.mean, d: [.runs[].digest]})' "$1/table.json"; }
    [[ $(numbers whole) == "$(numbers cut)" ]] || { numbers whole; numbers cut; return 1; }
}

@test "a method that fails keeps its row and gives the reason; the others are compared" {
    cp -r "$ROOT/configs" . && printf '# @package _global_\ncollect: {group: 5}\nadvantage: {advantage_type: grpo}\n' >configs/method/unfit.yaml
    ! compare --config-dir configs --methods "ppo_flow_noise unfit" --seeds "0 1" "${small[@]}" && told "pipelines/compare: some runs failed; the same command again goes on" || { cat err; return 1; }
    cat out && grep -qE '^unfit +0 of 2 +-' out && grep -qE '^ppo_flow_noise +2 of 2 +[01]\.' out &&
        grep -qF "unfit, seed 1: not begun; mf-collect: error: training.num_envs=16 environments are not whole groups of collect.group=5" out &&
        jq -e '.[1] | .method == "unfit" and .runs_done == 0 and .success_once == null and .p == null and
            (.runs | map(.state) == ["not begun", "not begun"]) and (.runs[0].said | contains("whole groups"))' outputs/compare/table.json >/dev/null &&
        [[ -s outputs/compare/curve.png ]]
}

@test "from a given policy; a run that is cut or not evaluated does not count" {
    compare "${two[@]}" "${small[@]}" --out c || { cat err; return 1; }
    compare --methods grpo --seeds "0 1" "${small[@]}" policy.checkpoint=c/clone/0 --out d && [[ ! -e d/demos && $(grep -c '^clone, seed' out) == 2 ]] &&
        [[ $(jq -r '.[1].runs | map(.state) | unique[]' d/table.json) == evaluated && $(jq '[.[1].runs[].digest] | unique | length' d/table.json) == 1 ]] || { cat out err; return 1; }
    rm c/grpo/1/logs/eval.json && truncate -s -20 c/ppo_flow_noise/0/logs/metrics.mf
    mf-compare c/ppo_flow_noise c/grpo c/none compare.seeds=[0,1] >out && cat out && grep -qE '^ppo_flow_noise +1 of 2 ' out && grep -qE '^grpo +1 of 2 ' out && grep -qE '^none +0 of 2 ' out &&
        grep -qx 'grpo, seed 1: not evaluated; .*' out && grep -qx 'ppo_flow_noise, seed 0: cut; .*' out && grep -qx 'none, seed 1: missing' out &&
        mf-compare c/ppo_flow_noise c/grpo compare.seeds=[0,1] eval.format=csv | /usr/bin/python3 -c 'import csv, sys
a, b = csv.DictReader(sys.stdin)
assert (a["method"], a["n"], b["n"], b["won"], a["cost"]) == ("ppo_flow_noise", "30", "30", "", "1"), (a, b)' &&
        mf-compare c/ppo_flow_noise compare.seeds=[0,1] eval.format=markdown | head -2 | grep -qF '| :-- | --: |'
}

@test "a task without successes: returns are compared, by the paired t test, in mf-eval too" {
    local hop=(env=hopper env.model="$ROOT/tests/fixtures/gym/hopper.xml" "${small[@]:1}" eval.num_episodes=10 env.max_steps=40)
    mf-collect "${hop[@]}" training.total_timesteps=100 run.dir=p 2>err | mf-gae | mf-ppo "${hop[@]}" run.dir=p >out 2>>err
    compare "${two[@]/grpo/fpo}" "${hop[@]}" policy.checkpoint=p --out c && grep -q '^method .* return, 95 % .* against the first' out && ! grep success out | grep -v 'no trial succeeded' &&
        [[ $(head -c 4 c/curve.png | tail -c 3) == PNG ]] || { cat out err; return 1; }
    mf-eval c/{ppo_flow_noise,fpo}/0 "${hop[@]}" eval.seed=0 eval.compare=true eval.format=json log.level=error 2>e.json >out || { cat e.json; return 1; }
    /usr/bin/python3 - <<'PY'
import json, math, statistics as st
first, second, _ = json.load(open("c/table.json"))
got = [[json.load(open(f"c/{m}/{s}/logs/eval.json"))["results"][0]["trials"]["return"] for s in (0, 1)] for m in ("ppo_flow_noise", "fpo")]
def check(row, x, t, name):
    half = t * st.stdev(x) / math.sqrt(len(x))
    for key, want in ((name, st.mean(x)), (name + "_low", st.mean(x) - half), (name + "_high", st.mean(x) + half)):
        assert abs(row[key] - want) < 1e-4, (key, row[key], want)
every = [a + b for a, b in got]
difference = [b - a for a, b in zip(*every)]
check(first, every[0], 2.093024, "return"), check(second, every[1], 2.093024, "return"), check(second, difference, 2.093024, "difference")
assert first["measure"] == second["measure"] == "return" and first["p"] is None and 0 < second["p"] <= 1, (first, second)
assert (second["won"], second["lost"]) == (sum(d > 0 for d in difference), sum(d < 0 for d in difference))
means = sorted(st.mean(x) for x in got[1])
assert abs(second["median"] - sum(means) / 2) < 1e-4 and abs(second["lowest"] - means[0]) < 1e-4
rows = json.load(open("e.json"))
check(rows[1], difference[:10], 2.262157, "difference"), check(rows[0], got[0][0], 2.262157, "return")
assert (rows[0]["measure"], rows[1]["measure"]) == ("return", "return")
PY
}

@test "words that do not make a comparison are refused in a sentence" {
    refused() { ! compare "${@:2}" && told "$1" && [[ ! -e outputs && $(wc -l <err) == 1 ]]; }
    cp -r "$ROOT/configs" . && printf '# @package _global_\ntraining: {total_timesteps: 7}\n' >configs/method/short.yaml
    refused 'pipelines/compare: --methods "A B" names the methods to compare' env=point && refused "no method/nope.yaml" env=point --methods "grpo nope" &&
        refused "grpo, leave_one_out" env=point --methods nope && refused "pipelines/compare: --seeds 'x': give numbers" env=point --methods grpo --seeds x &&
        refused "pipelines/compare: --methods needs a value" env=point --methods && refused "unknown key 'training.gama'" env=point --methods grpo training.gama=1 &&
        refused "method short changes the conditions that all share: training.total_timesteps=7" --config-dir configs env=point --methods "grpo short" || return 1
    run -2 mf-compare && [[ $output == *"give the folders of the methods"* ]] && run -2 mf-compare x compare.seeds=[] && [[ $output == *"compare.seeds=[] is empty"* ]] && mkdir none && run -2 mf-compare none && [[ $output == *"none has no run of a seed"* ]] && run -2 mf-compare none 'compare.seeds=[0,0]' && [[ $output == *"compare.seeds=[..]: has 0 twice"* ]] && run -2 mf-compare none none && [[ $output == *"none is there twice"* ]]
}

@test "an evaluation of several policies or denoising steps does not count as one run's" {
    mkdir -p m/0/logs
    # evaluation KEY VALUE: two results, of which the second has another value.
    evaluation() {
        jq -n --arg key "$1" --argjson value "$2" '{checkpoint: "c", digest: "a", weights: "raw", env: "point", denoising_steps: 4, seed: 0,
            max_steps: 50, n: 2, trials: {success_once: [1, 0], success_at_end: [1, 0], return: [1, 0], length: [2, 2]}} | {results: [., .[$key] = $value]}' >m/0/logs/eval.json
    }
    one() { run -2 mf-compare m compare.seeds=[0] && [[ $output == *"m/0/logs/eval.json holds results of several policies"*"evaluate it alone, by mf-eval m/0"* && ${#lines[@]} == 1 ]]; }
    evaluation digest '"b"' && one && evaluation denoising_steps 1 && one && evaluation suite '"unseen"' && one &&
        evaluation seed 0 && [[ $(mf-compare m compare.seeds=[0] eval.format=json | jq -c '.[0] | [.runs_done, .n]') == "[1,2]" ]] &&
        evaluation seed 1 && [[ $(mf-compare m compare.seeds=[0] eval.format=json | jq -c '.[0] | [.runs_done, .n]') == "[1,4]" ]]
}

@test "methods that were evaluated on different tasks are refused" {
    mkdir -p a/0/logs b/0/logs
    evaluated() { # KEY VALUE: of b
        jq -n '{checkpoint: "c", digest: "a", weights: "raw", env: "lift", denoising_steps: 4, seed: 0, max_steps: 50, n: 2,
            trials: {success_once: [1, 0], success_at_end: [1, 0], return: [1, 0], length: [2, 2]}} | {results: [.]}' >a/0/logs/eval.json &&
            jq --arg key "$1" --argjson value "$2" '.results[0][$key] = $value' a/0/logs/eval.json >b/0/logs/eval.json
    }
    refused() { run -2 mf-compare a b compare.seeds=[0] && [[ $output == *"b/0 was evaluated in $1, but a/0 in env=lift with env.max_steps=50"* && ${#lines[@]} == 1 ]]; }
    evaluated env '"hopper"' && refused "env=hopper with env.max_steps=50" && evaluated max_steps 40 && refused "env=lift with env.max_steps=40" &&
        evaluated suite '"unseen"' && refused "env=lift, eval.suites=unseen with env.max_steps=50" && evaluated digest '"b"' &&
        [[ $(mf-compare a b compare.seeds=[0] eval.format=json | jq -c 'map(.n)') == "[2,2]" ]]
}
