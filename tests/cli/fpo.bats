# Flow policy optimisation: actions scored by their flow-matching loss.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    small=(env=point training.num_envs=8 training.num_steps_per_rollout=12 training.total_timesteps=1500 policy.objective=fpo
        training.batch_size=32 training.num_epochs=2 'policy.hidden=[32,32,32]' training.clip_range=.05 threads=2)
}

# has FILE JQ: true of the first rollout of the stream.
has() { mf-view view.arrays=whole <"$1" | jq -es "map(select(.mf == \"rollout\"))[0].arrays | $2" >/dev/null; }

# exact DIR: every first minibatch had the ratio 1.
exact() { mf-view "$1.mf" | jq -es 'map(select(.mf == "metrics").values) | length > 0 and all(.[]; .["train/logratio_gap"] == 0)' >/dev/null; }

# rollouts FILE WORD..: a stream of one round.
rollouts() {
    local to=$1
    shift
    mf-collect "${small[@]}" training.total_timesteps=10 run.dir="$to.run" "$@" 2>"$to.err" | mf-gae | tee "$to" |
        mf-ppo run.dir="$to.run" >/dev/null 2>>"$to.err"
}

@test "a rollout has the last point and the name of its draws, and no chain" {
    rollouts a && mf-check a && has a '(has("chains") or has("denoise_inds") | not) and (.samples.shape | length) == 4 and
        .draws.dtype == "<u8" and (.draws.shape | length) == 2 and (.prev_logprobs.shape | length) == 2' || { cat a.err; return 1; }
    rollouts b policy.objective=fpo_each policy.fpo_draws=5 && has b '.prev_logprobs.shape[2] == 5' || { cat b.err; return 1; }
    [[ $(mf-view a | head -n 1 | jq -r '.spec | "\(.noise_method) \(.objective) \(.fpo_draws)"') == "none fpo 8" ]]
}

@test "the first ratio is 1 for each form, network and convention; threads and slices change no byte" {
    train a && exact a && cp "$last" want && train b threads=1 collect.slices=3 && cmp "$last" want || return 1
    train c policy.objective=fpo_each training.trust_region=aspo && exact c || return 1
    train d policy.convention=noise1 policy.final_limit=1 && exact d || return 1
    train e policy.network=shortcut_mlp 'policy.cond_hidden=[8,16]' policy.fpo_draws=1 && exact e || return 1
    [[ $(mf-ckpt show a | grep -c 'spec.fpo_draws *8') == 1 ]] && mf-eval a eval.num_episodes=8 >/dev/null 2>err
}

@test "a resumed run ends with the same bytes" {
    train want && want=$last
    train k training.total_timesteps=400 && [[ $last != "${want/want/k}" ]] && train k run.resume=auto &&
        [[ $last == "${want/want/k}" ]] && cmp "$last" "$want"
}

@test "it learns on the point mass" {
    train l training.num_envs=32 training.num_steps_per_rollout=32 training.total_timesteps=60000 training.batch_size=512 \
        training.num_epochs=4 'policy.hidden=[64,64,64]' training.clip_range=.1 run.seed=1 && exact l &&
        mf-view l.mf | jq -es 'map(select(.mf == "metrics").values["rollout/success_once"]) | .[0] < .2 and .[-1] > .35' >/dev/null ||
        { mf-view l.mf | jq -r '.values["rollout/success_once"]?'; return 1; }
}

@test "masked rows may hold NaN" {
    rollouts a && "$ROOT/tests/tools/stream.py" spoil a . <<'END' || { cat a.err; return 1; }
masked: a["loss_mask"].fill_rows(range(0, 96, 5), 0)
nan: a["loss_mask"].fill_rows(range(0, 96, 5), 0); [a[k].fill_rows(range(0, 96, 5), float("nan")) for k in ("samples", "prev_logprobs", "advantages", "returns", "prev_values")]
END
    mf-ppo --in masked run.dir=m >/dev/null 2>err && mf-ppo --in nan run.dir=n >/dev/null 2>>err || { cat err; return 1; }
    cmp m/checkpoints/000001.safetensors n/checkpoints/000001.safetensors
}

@test "a clone becomes a policy of FPO, and one of PPO again" {
    train a policy.objective=chain_mean && start=$last && train b "policy.checkpoint=$start" && exact b &&
        train c "policy.checkpoint=$last" policy.objective=chain_sum && exact c &&
        [[ $(mf-ckpt show c | grep -c 'spec.noise_method *flow_noise') == 1 ]]
}

@test "streams and objectives that do not go together are refused" {
    rollouts a && rollouts b policy.objective=chain_mean || { cat a.err b.err; return 1; }
    run -2 mf-ppo policy.objective=chain_mean --in a run.dir=x --out out
    [[ $output == *"policy.objective=chain_mean contradicts the stream's head, where it is fpo"* ]]
    run -2 mf-ppo policy.objective=fpo --in b run.dir=x --out out
    [[ $output == *"policy.objective=fpo contradicts the stream's head, where it is chain_mean"* ]]
    "$ROOT/tests/tools/stream.py" spoil a . <<'END'
drawless: del a["draws"]
END
    run -3 mf-ppo --in drawless run.dir=y --out out
    [[ $output == *"there is no array 'draws', which policy.objective=fpo needs"* ]]
    run -2 mf-collect "${small[@]}" policy.fpo_draws=65 run.dir=z --out out
    [[ $output == *"policy.fpo_draws"* ]]
}
