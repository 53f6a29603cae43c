# The estimated memory of a program against its peak.
load helpers

setup() {
    cd "$T" || return 1
    ! ldd "$ROOT/bin/mf-ppo" | grep -q 'lib[at]san' || skip "a sanitizer keeps memory of its own"
    point=(env=point training.num_epochs=1 training.target_kl=inf)
    ditx=(--config-dir "$ROOT/configs" --config-name train_maniflow_pointcloud_rl policy.time_dim=16 "policy.critic_hidden=[64]"
        policy.num_inference_steps=2 env.max_steps=20 training.num_envs=4 training.num_steps_per_rollout=2
        training.num_epochs=1 training.batch_size=8 training.total_timesteps=200 clone.batch_size=8 clone.steps=3)
}

# near NAME: the estimate in NAME.err, in MiB, is within 10 % of NAME.peak, plus 8 MiB for libraries.
near() {
    awk -v name="$1" '
        FILENAME ~ /err$/ && match($0, /takes about [0-9.]+ [MG]iB/) { split(substr($0, RSTART), w, " "); said = w[3] * (w[4] == "GiB" ? 1024 : 1) }
        FILENAME ~ /peak$/ { peak = $1 }
        END {
            off = said > peak ? said - peak : peak - said
            printf "%s: %.0f MiB said, %.1f at the end\n", name, said, peak >"/dev/stderr"
            exit !(said > 0 && peak > 0 && off <= .1 * peak + 8)
        }' "$1.err" "$1.peak"
}

# train WORDS..: a run whose collector and learner are watched
train() {
    "$ROOT/tests/tools/peak.py" collect.peak mf-collect run.dir=run run.force=true "$@" 2>collect.err | mf-gae |
        "$ROOT/tests/tools/peak.py" ppo.peak mf-ppo "$@" 2>ppo.err >/dev/null || { cat collect.err ppo.err && return 1; }
}

@test "MLPs: a large minibatch, wide layers" {
    train "${point[@]}" "policy.hidden=[128,128,128]" "policy.critic_hidden=[128,128,128]" training.num_envs=40 \
        training.num_steps_per_rollout=250 training.total_timesteps=80000 training.batch_size=20000 \
        training.repeat_samples=10 && near ppo && near collect || return 1
    train "${point[@]}" "policy.hidden=[1024,1024,1024]" "policy.critic_hidden=[1024,1024,1024]" training.num_envs=8 \
        training.num_steps_per_rollout=4 training.batch_size=64 training.total_timesteps=512 training.ema_decay=.9 && near ppo && near collect
}

@test "transformers of point clouds: PPO and cloning, with a teacher" {
    train "${ditx[@]}" policy.n_layer=2 policy.n_emb=128 env.num_points=256 && near ppo && near collect || return 1
    train "${ditx[@]}" policy.n_layer=3 policy.n_emb=256 training.recompute_logprobs=true && near ppo && near collect || return 1
    mf-collect "${ditx[@]}" collect.actor=expert collect.episodes=8 | mf-record demos.hdf5 >/dev/null || return 1
    "$ROOT/tests/tools/peak.py" bc.peak mf-bc "${ditx[@]}" policy.n_layer=3 policy.n_emb=256 clone.loss=consistency \
        clone.dataset=demos.hdf5 run.dir=clone 2>bc.err >/dev/null && near bc
}

@test "pi0.5 whose language model stays bf16 in a file, which float copies of it alone would exceed" {
    local blocks=(env=blocks policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model" policy.prompt_length=20 env.image_size=28 "policy.obs_keys=[image,tokens]")
    local sizes=(policy.network=pi05 policy.n_layer=2 policy.n_head=2 policy.n_emb=32 policy.head_dim=16 policy.mlp_dim=48 policy.expert_width=32
        policy.expert_mlp=48 policy.encoder_width=16 policy.encoder_heads=2 policy.encoder_layers=1 policy.encoder_mlp=32)
    mf-collect "${blocks[@]}" collect.actor=expert collect.episodes=2 2>err | mf-record demos.hdf5 >/dev/null 2>>err &&
        mf-bc "${blocks[@]}" "${sizes[@]}" clone.dataset=demos.hdf5 clone.steps=1 clone.batch_size=2 run.dir=clone >/dev/null 2>>err &&
        mf-ckpt export clone floats.safetensors 2>>err &&
        "$ROOT/tests/tools/halve.py" floats.safetensors half.safetensors paligemma_with_expert.paligemma.lm_head.weight 2000 &&
        mf-ckpt import half.safetensors start ckpt.keep_bf16=true normalizer=identity policy.encoder_heads=2 "${blocks[@]}" 2>>err || { cat err; return 1; }
    local words=("${blocks[@]}" policy.checkpoint=start training.freeze_encoder=true training.save_frozen=false training.num_envs=4
        training.num_steps_per_rollout=4 training.total_timesteps=60 training.batch_size=16) program
    train "${words[@]}" && "$ROOT/tests/tools/peak.py" bc.peak mf-bc "${words[@]}" clone.dataset=demos.hdf5 clone.steps=2 clone.batch_size=8 run.dir=bc 2>bc.err >/dev/null || return 1
    for program in collect ppo bc; do
        near $program && awk '{ exit !($1 < 2000 * 416 * 32 * 4 / 1048576) }' $program.peak || return 1
    done
}

@test "SAC: rounds, a replay buffer and minibatches of long observations" {
    local sac=(env=point policy.steer=sac policy.n_obs_steps=64 "policy.hidden=[16]" "policy.steer_hidden=[16]" "sac.critic_hidden=[16]" training.num_envs=100
        training.num_steps_per_rollout=100 training.total_timesteps=60000 sac.replay_decisions=10000 sac.warmup_decisions=9990 sac.updates=1e-4 sac.batch_size=20000)
    mf-collect "${sac[@]}" run.dir=run 2>collect.err | "$ROOT/tests/tools/peak.py" sac.peak mf-sac "${sac[@]}" 2>sac.err >/dev/null || { cat collect.err sac.err && return 1; }
    near sac
}

@test "demonstrations that are more than their cache" {
    mf-collect "${ditx[@]}" collect.actor=expert collect.episodes=200 | mf-record demos.hdf5 >/dev/null || return 1
    for mib in 16 1024; do
        "$ROOT/tests/tools/peak.py" bc.peak mf-bc "${ditx[@]}" policy.n_layer=1 policy.n_emb=32 policy.n_head=2 clone.dataset=demos.hdf5 \
            clone.cache_mib=$mib run.dir=c$mib 2>bc.err >/dev/null && near bc || return 1
    done
}

@test "what no machine has is refused before it is taken, and what to lower is said" {
    local huge="policy.hidden=[65536,65536,65536,65536,65536,65536,65536]"
    run -1 mf-collect "$huge" run.dir=x --out y && [[ $output == *"more than the machine has: lower policy."* ]] || return 1
    run -1 mf-bc "$huge" clone.dataset="$ROOT/tests/fixtures/point.hdf5" run.dir=z && [[ $output == *"more than the machine has"* ]]
}
