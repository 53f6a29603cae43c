# Reflow consistency beside PPO, and the straightness that mf-eval measures.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    small=(env=point training.num_envs=8 training.num_steps_per_rollout=16 training.total_timesteps=1600 training.batch_size=64
        training.num_epochs=2 'policy.hidden=[32,32,32]' 'policy.critic_hidden=[32,32,32]' threads=2
        training.critic_warmup_steps=0 training.target_kl=inf)
    rfc=(training.rfc_coef=.5 training.rfc_mask=advantage_positive)
}

# metrics DIR JQ: true of the list of its metrics' values.
metrics() { mf-view "$1.mf" | jq -es "map(select(.mf == \"metrics\").values) | $2" >/dev/null; }

@test "coefficient 0 changes no byte; with another one threads and slices do not, and first ratios are exactly 1" {
    train off && cp "$last" off.want && train zero training.rfc_coef=0 training.rfc_mask=advantage_topk && cmp "$last" off.want || return 1
    metrics off 'all(.[]; has("train/rfc_loss") or has("train/reflow_mask_ratio") | not)' || return 1
    train on "${rfc[@]}" && cp "$last" want && run ! cmp -s want off.want || return 1
    train one "${rfc[@]}" threads=1 collect.slices=3 && cmp "$last" want &&
        metrics on 'all(.[]; .["train/logratio_gap"] == 0 and .["train/rfc_loss"] > 0 and .["train/reflow_mask_ratio"] > .1 and
            .["train/reflow_mask_ratio"] < .9)'
}

@test "every mask trains, joint or of one denoising step" {
    local mask sde=(policy.noise_method=flow_sde policy.denoise=single policy.objective=step policy.convention=noise1 training.clip_range=.2)
    for mask in success_only success_chunk advantage_positive advantage_topk; do
        train $mask training.rfc_coef=.05 training.rfc_mask=$mask training.rfc_topk=.25 &&
            train $mask.sde "${sde[@]}" training.rfc_coef=.05 training.rfc_mask=$mask training.rfc_topk=.25 &&
            metrics $mask '(map(.["train/reflow_mask_ratio"]) | max) > 0' || { echo $mask; return 1; }
    done
    metrics advantage_topk 'all(.[]; .["train/reflow_mask_ratio"] > .24 and .["train/reflow_mask_ratio"] < .3)' || return 1
}

@test "SIGKILL of any stage, then a resume: the same bytes" {
    small+=(training.total_timesteps=12000 "${rfc[@]}")
    KILLS=3 survives
}

@test "what it needs and lacks is said in a sentence" {
    mf-collect "${small[@]}" training.total_timesteps=10 run.dir=a 2>/dev/null | tee a.mf | mf-gae | mf-ppo run.dir=a >/dev/null 2>&1
    "$ROOT/tests/tools/stream.py" spoil a.mf . <<<'old: del a["success"]' || return 1
    mf-gae --in old --out old.gae || return 1
    run -3 mf-ppo --in old.gae run.dir=b training.rfc_coef=.05 --out /dev/null
    [[ $output == *"there is no array 'success', expected (T="*": mf-collect sends it"* ]] || { echo "$output"; return 1; }
    mf-ppo --in old.gae run.dir=c training.rfc_coef=.05 training.rfc_mask=advantage_positive --out /dev/null || return 1
    local status=0 fpo=(policy.objective=fpo run.dir=f training.rfc_coef=.05 "${small[@]}")
    mf-collect "${fpo[@]}" 2>/dev/null | mf-gae 2>/dev/null | mf-ppo "${fpo[@]}" >/dev/null 2>err || status=$?
    [[ $status -eq 2 ]] && grep -q "training.rfc_coef=0.05 needs both ends of denoising chains" err || { cat err; return 1; }
    run -2 mf-ppo training.rfc_topk=0 && [[ $output == *"training.rfc_topk"* ]] || return 1
    run -2 mf-ppo training.rfc_mask=all && [[ $output == *"success_only"*"advantage_topk"* ]]
}
