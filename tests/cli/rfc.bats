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

@test "mf-eval measures straightness: in the table, as JSON and in metrics, of a chain's steps; older results have none" {
    train a && mf-eval a eval.num_episodes=8 'eval.num_inference_steps=[1,4]' eval.json=a.json eval.results=a.jsonl 2>table | mf-view >frames || return 1
    grep -q 'length  straightness  weights' table && grep -q ' 1 .* 0.0000  raw' table &&
        jq -e '[.results[].straightness] | .[0] == 0 and .[1] > 0' a.json && jq -e '.results[1].trials.straightness | length == 8 and (add / 8 > 0)' a.json &&
        jq -es 'map(select(.mf == "metrics").values["eval/straightness"]) | .[0] == 0 and .[1] > 0' frames || { cat table; return 1; }
    mf-eval a eval.num_episodes=8 eval.results=a.jsonl eval.json=again.json 2>table >/dev/null &&
        [[ $(jq .results[0].straightness again.json) == $(jq .results[1].straightness a.json) ]] || return 1
    jq -c 'del(.straightness, .trials.straightness)' a.jsonl | sed 's/":/": /g' >old.jsonl
    mf-eval a eval.num_episodes=8 eval.results=old.jsonl eval.json=old.json 2>table >/dev/null && jq -e '.results[0].straightness == null' old.json &&
        [[ $(wc -l <old.jsonl) -eq 2 ]] || { cat table; return 1; }
}
