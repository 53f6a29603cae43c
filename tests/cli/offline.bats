# Offline reinforcement learning: demonstrations as a stream, weighted cloning, a clone that starts from another.
# shellcheck disable=SC2154,SC2030,SC2031 # bats sets stderr and forks per test
load helpers

h5py() { /usr/bin/python3 -c 'import h5py' 2>/dev/null || skip "no h5py for /usr/bin/python3 (Debian: python3-h5py)"; }

setup_file() {
    load helpers
    cd "$BATS_FILE_TMPDIR" || return
    expert() { mf-collect env=point collect.actor=expert collect.episodes=8 threads=1 collect.src="$1" collect.expert_error="$2"; }
    { expert good 0 && expert poor 9; } 2>/dev/null | mf-record mixed.hdf5 >/dev/null
}

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    cp "$BATS_FILE_TMPDIR/mixed.hdf5" .
    small=(clone.dataset=mixed.hdf5 'policy.hidden=[32,32,32]' clone.batch_size=64 clone.steps=60 clone.warmup_steps=10
        'clone.critic_hidden=[32,32]')
}

bc() { mf-bc "${small[@]}" "$@"; }
clone() { echo "$1/checkpoints/clone.safetensors"; }

# others: demonstrations as other programs write them, foreign.hdf5, by the given lines over the open file g.
others() {
    h5py
    /usr/bin/python3 - "$1" <<'PY'
import h5py, sys
with h5py.File("mixed.hdf5") as f, h5py.File("foreign.hdf5", "w") as g:
    f.copy("data", g)
    del g["data"].attrs["mf_action_chunk"]
    exec(sys.argv[1])
PY
}

@test "demonstrations of any origin are a stream of rollouts, with the rewards and ends of the file" {
    others 'pass' && mf-replay foreign.hdf5 >d.mf && mf-check d.mf || return 1
    [[ $(mf-stat d.mf) == "$(mf-replay mixed.hdf5 | mf-stat | sed 's/^head .*/head       1/; s/^rollout .*/rollout    16/; s/^round .*/round      1/; s/^end .*/end        1/' |
        sed "s/^bytes .*/$(mf-stat d.mf | grep ^bytes)/")" ]] || { mf-stat d.mf; mf-replay mixed.hdf5 | mf-stat; return 1; }
    mf-view view.arrays=whole d.mf >d.json && /usr/bin/python3 - <<'PY'
import h5py, json
rollouts = [r for r in map(json.loads, open("d.json")) if r["mf"] == "rollout"]
with h5py.File("foreign.hdf5") as f:
    assert len(rollouts) == len(f["data"])
    for i, r in enumerate(rollouts):
        demo, a = f[f"data/demo_{i}"], {k: [x[0] for x in v["data"]] for k, v in r["arrays"].items()}
        n = len(demo["rewards"])
        assert a["valid"] == [1] * n + [0] * (40 - n) and a["n_exec"][:n] == [1] * n
        assert [x[0] for x in a["rewards"]][:n] == [float(str(x)) for x in demo["rewards"][:]]
        assert a["terminated"][:n] == list(demo["terminated"][:])
        assert a["truncated"][:n] == list(demo["dones"][:] & ~demo["terminated"][:] & 1)
        assert abs(a["obs/goal"][n - 1][0][0] - demo["obs/goal"][n - 1][0]) < 1e-7
PY
    mf-replay foreign.hdf5 advantage.gamma=.5 | mf-mc advantage.gamma=.5 | mf-view view.arrays=whole | jq -es '
        map(select(.mf == "rollout").arrays | [.rewards.data, .returns.data, .advantages.data, .valid.data])[] |
        . as [$r, $R, $A, $v] | ($v | map(.[0]) | add) as $n | $R == $A and $R[$n - 1][0] == $r[$n - 1][0][0] and
        ($R[0][0] - $r[0][0][0] - .5 * $R[1][0] | fabs) < 1e-6' >/dev/null
}

@test "without terminated a done ends an episode; without dones the file does" {
    count() { mf-view view.arrays=whole "$1" | jq -s --arg a "$2" '[.[] | select(.mf == "rollout").arrays[$a].data[][0]] | add'; }
    others 'for d in g["data"].values(): del d["terminated"]' && mf-replay foreign.hdf5 >a.mf && [[ $(count a.mf terminated) == 16 && $(count a.mf truncated) == 0 ]] &&
        others 'for d in g["data"].values(): del d["terminated"], d["dones"]' && mf-replay foreign.hdf5 >a.mf && [[ $(count a.mf terminated) == 0 && $(count a.mf truncated) == 16 ]]
}

@test "demonstrations without rewards, or with damaged ones: one sentence" {
    others 'del g["data/demo_3/rewards"]' || return 1
    small+=(clone.dataset=foreign.hdf5)
    bc run.dir=plain >/dev/null || return 1
    local command
    for command in "mf-replay foreign.hdf5" "mf-bc ${small[*]} clone.weight=success run.dir=a" "mf-bc ${small[*]} clone.weight=q run.dir=a"; do
        # shellcheck disable=SC2086 # words
        run -3 --separate-stderr $command --out /dev/null && [[ $stderr == *"'foreign.hdf5' has no /data/demo_3/rewards: "*"clone.weight=none"* ]] || { echo "$command: $stderr"; return 1; }
    done
    others 'r = g["data/demo_2/rewards"]; r[4] = float("nan"); del r.attrs["mf_crc32"]' && run -3 --separate-stderr bc clone.weight=return run.dir=a --out /dev/null &&
        [[ $stderr == *"/data/demo_2/rewards"*"[4"*"nan"* ]] &&
        others 'del g["data/demo_2/dones"]; g["data/demo_2/dones"] = [0, 1]' && run -3 --separate-stderr mf-replay foreign.hdf5 --out /dev/null &&
        [[ $stderr == *"/data/demo_2/dones: it has not one number for each of the "*" steps"* ]]
}

@test "each estimator: weights of mean 1, its statistics, and the same bytes with one thread and two" {
    local w
    for w in success return iql q; do
        bc run.dir=$w clone.weight=$w threads=1 >$w.mf && bc run.dir=$w.2 clone.weight=$w threads=2 >/dev/null && cmp "$(clone $w)" "$(clone $w.2)" &&
            mf-view $w.mf | jq -es --arg w $w 'map(select(.mf == "metrics").values) | all(.["train/weight_mean"] - 1 | fabs < 1e-5) and
                all(.["train/weight_std"] > 0) and all(has("train/critic_loss") == ($w != "success")) and all(has("train/q_mean") == ($w == "iql" or $w == "q"))' >/dev/null || { mf-view $w.mf; return 1; }
    done
    run ! cmp -s "$(clone iql)" "$(clone q)" && bc run.dir=ten clone.weight=q clone.critics=5 >/dev/null &&
        mf-ckpt show ten | grep -q 'offline/critic.q_nets.4.0.weight' && mf-ckpt verify ten
}

@test "a killed run resumes to the same bytes, with critics, targets and moments" {
    local w
    small+=(clone.steps=1000)
    for w in q iql; do
        bc run.dir=$w clone.weight=$w >/dev/null && interrupt TERM mf-bc "${small[@]}" run.dir=$w.cut clone.weight=$w &&
            interrupt KILL mf-bc "${small[@]}" run.dir=$w.cut clone.weight=$w run.resume=auto && run ! cmp -s "$(clone $w)" "$(clone $w.cut)" &&
            bc run.dir=$w.cut clone.weight=$w run.resume=auto >/dev/null && cmp "$(clone $w)" "$(clone $w.cut)" || return 1
    done
    run -2 --separate-stderr bc run.dir=q clone.weight=iql run.resume=auto --out /dev/null && [[ $stderr == *"was trained with clone.weight=q, not iql"* ]] &&
        run -2 --separate-stderr bc run.dir=q clone.weight=q clone.beta=1 run.resume=auto --out /dev/null && [[ $stderr == *"now clone.beta=1"*"which was 10"* ]]
}

@test "a clone starts from a checkpoint: its weights, its normaliser, its observations" {
    bc run.dir=a 'policy.obs_keys=[goal,position]' >/dev/null && bc run.dir=b policy.checkpoint=a clone.steps=0 2>log >/dev/null &&
        grep -q 'starting from a/checkpoints/clone.safetensors (averaged weights)' log || return 1
    evaluated() { mf-eval "$1" eval.num_episodes=8 "${@:2}" eval.json=e.json >/dev/null 2>&1 && jq -c '.results[0] | [.success_once, .length, .return]' e.json; }
    [[ $(evaluated a) == "$(evaluated b policy.weights=raw)" ]] && bc run.dir=c policy.checkpoint=a >/dev/null && run ! cmp -s "$(clone a)" "$(clone c)" || return 1
    run -2 --separate-stderr bc run.dir=c policy.checkpoint=c run.resume=auto --out /dev/null && [[ $stderr == *"started from other weights"* ]] &&
        run -2 --separate-stderr bc run.dir=c run.resume=auto 'policy.obs_keys=[goal,position]' --out /dev/null && [[ $stderr == *"started from other weights"* ]] &&
        bc run.dir=c policy.checkpoint=a run.resume=auto clone.steps=60 >/dev/null &&
        run -2 --separate-stderr bc run.dir=d policy.checkpoint=a policy.network=shortcut_mlp 'policy.cond_hidden=[16]' --out /dev/null && [[ $stderr == *"policy.network=shortcut_mlp contradicts a/"* ]] &&
        run -1 --separate-stderr bc run.dir=d policy.checkpoint=nowhere --out /dev/null && [[ $stderr == *nowhere* ]]
}

@test "a clone that starts from a checkpoint has its normaliser: a word that would fit one is refused, a file that would is not" {
    bc run.dir=a clone.steps=0 clone.normalizer=gaussian >/dev/null || return 1
    local word
    for word in clone.normalizer=limits clone.range_floor=.2 clone.normalize_actions=true; do
        run -2 --separate-stderr bc run.dir=b policy.checkpoint=a $word --out /dev/null && [[ $stderr == *"${word%%=*}="*" is for fresh weights"* ]] || { echo "$stderr"; return 1; }
    done
    bc run.dir=b policy.checkpoint=a clone.steps=0 >/dev/null && ! grep -E 'range_floor|normalize_actions|normalizer: limits' b/configs/mf-bc.yaml && mf-bc --config b/configs/mf-bc.yaml run.resume=auto >/dev/null &&
        printf 'clone: {normalizer: limits, range_floor: 0.2}\n' >fit.yaml && bc --config fit.yaml run.dir=f policy.checkpoint=a clone.steps=0 >/dev/null && ! grep range_floor f/configs/mf-bc.yaml &&
        [[ $(mf-ckpt diff a f) != *norm* ]]
}

@test "PPO starts from a clone with critics, and a clone from PPO" {
    local ppo=(policy.checkpoint=q training.num_envs=4 training.num_steps_per_rollout=8 training.total_timesteps=256 run.dir=ppo)
    bc run.dir=q clone.weight=q >/dev/null && mf-collect "${ppo[@]}" 2>log | mf-gae | mf-ppo "${ppo[@]}" >/dev/null 2>>log &&
        ! mf-ckpt show ppo | grep offline/ && mf-ckpt export q q.pt >/dev/null && bc run.dir=again policy.checkpoint=ppo clone.weight=iql >/dev/null
}

@test "demonstrations of one quality: one warning" {
    { mf-collect env=point collect.actor=expert collect.episodes=8 collect.expert_error=0 threads=1; } 2>/dev/null | mf-record same.hdf5 >/dev/null
    small+=(clone.dataset=same.hdf5 clone.steps=500)
    bc run.dir=a clone.weight=success 2>log >/dev/null && [[ $(grep -c 'warn: all samples of 200 minibatches weigh the same: .*clone.weight=success' log) == 1 ]] &&
        bc run.dir=b clone.weight=none 2>log >/dev/null && ! grep warn log
}

@test "invalid requests are refused with an error" {
    refused() { run -2 --separate-stderr bc run.dir=r "${@:2}" --out /dev/null && [[ $stderr == *"$1"* ]] || { echo "$stderr"; return 1; }; }
    refused "clone.weight=best is not one of none, iql, q, return, success" clone.weight=best &&
        refused "clone.critic_hidden=[]" clone.weight=q 'clone.critic_hidden=[]' && refused "clone.beta=-1" clone.beta=-1 &&
        refused "clone.expectile=1" clone.expectile=1 && refused "clone.target_tau=0" clone.target_tau=0 && refused "clone.critics=0" clone.critics=0
}
