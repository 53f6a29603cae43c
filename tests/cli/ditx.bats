# ManiFlow's transformer over point clouds, through every program, at a size for tests.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    words=(--config-dir "$ROOT/configs" --config-name train_maniflow_pointcloud_rl policy.n_layer=1 policy.n_head=2 policy.n_emb=16 policy.time_dim=8
        policy.encoder_output_dim=8 "policy.critic_hidden=[16]" policy.num_inference_steps=2 training.num_envs=2
        training.num_steps_per_rollout=2 training.total_timesteps=40 training.num_epochs=1 training.batch_size=4
        log.level=warn)
}

# train WORDS: a run's metrics as JSON lines in metrics, its last checkpoint in $last
train() {
    mf-collect "${words[@]}" run.dir=run run.force=true "$@" | mf-gae "${words[@]}" "$@" | mf-ppo "${words[@]}" "$@" |
        mf-view | jq -c 'select(.mf == "metrics").values' >metrics
    last=$(find run/checkpoints -name '[0-9]*.safetensors' | sort | tail -n 1)
    [[ -n $last ]]
}
every() { jq -es "map($1) | all" metrics >/dev/null || { cat metrics && return 1; }; }

@test "the guide's configuration trains; the first ratio of every round is 1" {
    train && [[ $(wc -l <metrics) -ge 2 ]] && every '."train/logratio_gap" == 0 and ."train/grad_norm" > 0'
}

@test "joint chains, learned noise, a pooled cloud and an attending critic" {
    train policy.noise_method=flow_noise policy.denoise=joint policy.objective=chain_mean policy.learned_noise=true \
        policy.min_noise_std=.05 policy.pointwise=false policy.use_pc_color=false policy.value_pool=attention \
        training.critic_warmup_steps=1 && every '."train/logratio_gap" == 0'
}

@test "a frozen encoder stays as it was cloned, to the bit; what was trained is evaluated" {
    mf-collect "${words[@]}" collect.actor=expert collect.episodes=2 | mf-record demos.hdf5 >/dev/null &&
        mf-bc "${words[@]}" clone.dataset=demos.hdf5 clone.loss=consistency clone.steps=3 clone.batch_size=4 \
            run.dir=clone >/dev/null || return 1
    local clone=clone/checkpoints/clone.safetensors
    train policy.checkpoint=$clone policy.weights=raw training.freeze_encoder=true || return 1
    mf-ckpt diff $clone "$last" >changed || true
    grep -q '^model.blocks.0' changed && [[ $(grep -c '^obs_encoder' changed) == 0 ]] &&
        mf-eval "$last" eval.num_episodes=2 eval.num_envs=2 env.max_steps=8 | mf-check
}

@test "a transformer of points is refused without them" {
    run -2 mf-collect "${words[@]}" "policy.obs_keys=[robot0_eef_pos]"
    [[ $output == *"one point cloud"* ]]
}
