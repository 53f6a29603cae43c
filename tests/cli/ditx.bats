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
    last=$(newest run)
    [[ -n $last ]]
}
every() { jq -es "map($1) | all" metrics >/dev/null || { cat metrics && return 1; }; }

@test "the guide's configuration trains; the first ratio of every round is 1" {
    train && [[ $(wc -l <metrics) -ge 2 ]] && every '."train/logratio_gap" == 0 and ."train/grad_norm" > 0'
}

@test "joint chains, learned noise, a pooled cloud and a critic with attention" {
    train policy.noise_method=flow_noise policy.denoise=joint policy.objective=chain_mean policy.learned_noise=true \
        policy.min_noise_std=.05 policy.pointwise=false policy.use_pc_color=false policy.value_pool=attention \
        training.critic_warmup_steps=1 && every '."train/logratio_gap" == 0'
}

@test "a critic whose attention heads do not divide the tokens is an error, before anything runs" {
    run -2 mf-collect "${words[@]}" run.dir=run policy.value_pool=attention policy.encoder_output_dim=11 --out x
    [[ $output == *"policy.encoder_output_dim=11 must be a multiple"* ]]
}

@test "a frozen encoder keeps its cloned weights, bit for bit; the trained policy is evaluated" {
    mf-collect "${words[@]}" collect.actor=expert collect.episodes=2 | mf-record demos.hdf5 >/dev/null &&
        mf-bc "${words[@]}" clone.dataset=demos.hdf5 clone.loss=consistency clone.steps=3 clone.batch_size=4 \
            run.dir=clone >/dev/null || return 1
    local clone=clone/checkpoints/clone.safetensors
    train policy.checkpoint=$clone policy.weights=raw training.freeze_encoder=true || return 1
    mf-ckpt diff $clone "$last" >changed || true
    grep -q '^model.blocks.0' changed && [[ $(grep -c '^obs_encoder' changed) == 0 ]] &&
        mf-eval "$last" eval.num_episodes=2 eval.num_envs=2 env.max_steps=8 | mf-check
}

# same RUN RUN: their last checkpoints are, to the byte
same() { cmp "$(newest "$1")" "$(newest "$2")"; }

@test "rollouts of a frozen encoder carry encodings of the points: smaller, and the training is the same" {
    words+=(policy.pointwise=false policy.n_obs_steps=2 env.num_points=16 policy.denoise=joint policy.objective=chain_mean
        training.critic_warmup_steps=1 training.num_epochs=2 training.total_timesteps=120)
    mf-collect "${words[@]}" collect.actor=expert collect.episodes=2 | mf-record demos.hdf5 >/dev/null &&
        mf-bc "${words[@]}" clone.dataset=demos.hdf5 clone.loss=consistency clone.steps=3 clone.batch_size=4 \
            run.dir=clone >/dev/null || return 1
    words+=(policy.checkpoint=clone/checkpoints/clone.safetensors)
    local freeze
    for freeze in true false; do
        mf-collect "${words[@]}" run.dir=$freeze training.freeze_encoder=$freeze | tee $freeze.mf | mf-gae |
            mf-ppo "${words[@]}" training.freeze_encoder=true run.dir=$freeze | mf-view >$freeze.json || return 1
        jq -es 'map(select(.mf == "metrics").values) | length > 2 and all(."train/logratio_gap" == 0)' $freeze.json || return 1
        mf-check $freeze.mf && mf-view $freeze.mf >$freeze.frames || return 1
    done
    same true false || return 1
    jq -es '.[0].encoded == true and (map(select(.mf == "rollout")) | length > 2 and
        all(.arrays["obs/encoding"].shape[2:] == [2, 8] and .arrays["obs/point_cloud"] == null))' true.frames &&
        jq -es '.[0].encoded == null and (map(select(.mf == "rollout")) | all(.arrays["obs/point_cloud"].shape[2:] == [2, 16, 6]))' false.frames &&
        [[ $(stat -c %s true.mf) -lt $(($(stat -c %s false.mf) * 9 / 10)) ]] || return 1
    mf-record saved.hdf5 <true.mf >/dev/null && mf-replay saved.hdf5 | cmp - true.mf || return 1
    mf-replay saved.hdf5 | mf-gae | mf-ppo "${words[@]}" training.freeze_encoder=true run.dir=again >/dev/null &&
        same true again
}

@test "encodings that a learner refuses: because it trains the encoder, or has another encoder" {
    words+=(policy.pointwise=false env.num_points=16)
    mf-collect "${words[@]}" run.dir=run training.freeze_encoder=true | tee run.mf | mf-gae |
        mf-ppo "${words[@]}" training.freeze_encoder=true >/dev/null || return 1
    run -2 bash -c 'mf-gae <run.mf | mf-ppo "$@" run.dir=a >/dev/null' _ "${words[@]}"
    [[ $output == *"carries encodings"*"training.freeze_encoder=true"* ]] || return 1
    run -2 bash -c 'mf-gae <run.mf | mf-ppo "$@" run.dir=b training.freeze_encoder=true run.seed=7 >/dev/null' _ "${words[@]}"
    [[ $output == *"round 0 carries encodings by another encoder"*"policy.checkpoint"* ]]
}

@test "a transformer over points is refused without a point cloud" {
    run -2 mf-collect "${words[@]}" "policy.obs_keys=[robot0_eef_pos]"
    [[ $output == *"one point cloud"* ]]
}

# demos NAME POINTS 'numpy': two demonstrations of clouds `p` (8, POINTS, 6), as the code leaves them, in NAME.hdf5
demos() {
    /usr/bin/python3 -c 'import h5py' || skip "no h5py for /usr/bin/python3 (Debian: python3-h5py)"
    /usr/bin/python3 - "$@" <<'PY'
import sys, h5py, numpy as np
rng = np.random.default_rng(0)
with h5py.File(sys.argv[1] + ".hdf5", "w") as f:
    for i in range(2):
        g, p = f.create_group(f"data/demo_{i}"), rng.uniform(-0.2, 0.2, (8, int(sys.argv[2]), 6)).astype("f4")
        exec(sys.argv[3])
        g["obs/point_cloud"], g["actions"], g.attrs["num_samples"] = p, rng.uniform(-1, 1, (8, 7)).astype("f4"), 8
        for k, n in ("eef_pos", 3), ("eef_quat", 4), ("gripper_qpos", 2):
            g["obs/robot0_" + k] = rng.random((8, n), "f4")
    f["data"].attrs["total"] = 16
PY
}
bc() { mf-bc "${words[@]}" clone.dataset="$1.hdf5" clone.loss=consistency clone.steps=3 clone.batch_size=4 run.dir="$1" "${@:2}"; }
judge() { mf-eval "$1/checkpoints/clone.safetensors" env=lift eval.num_episodes=2 env.max_steps=8 "${@:2}"; }

@test "too few or too many points: the error has both numbers and the key" {
    demos few 12 '' && bc few >/dev/null && judge few | mf-check || return 1
    run -2 bc few env.num_points=16 run.dir=other
    [[ $output == *"obs/point_cloud of few.hdf5 has 12 points, and env.num_points=16"* ]] || return 1
    local n stage call collect=(mf-collect policy.checkpoint=few/checkpoints/clone.safetensors env=lift run.dir=run)
    for n in 8 1024; do
        for stage in "judge few" "${collect[*]}"; do
            read -ra call <<<"$stage env.num_points=$n"
            run -2 "${call[@]}"
            [[ $output == *"clone.safetensors has clouds of 12 points, and the environment has $n: leave env.num_points"* ]] || return 1
        done
    done
    judge few "policy.obs_keys=[point_cloud,robot0_eef_pos,robot0_eef_quat,robot0_gripper_qpos]" env.num_points=12 | mf-check
}

@test "a point with NaN ends cloning with its position; clouds of equal points are cloned and acted on" {
    demos nan 12 'p[3, 5, 1] = np.nan'
    run -3 bc nan
    [[ $output == *"nan.hdf5"*"/data/demo_0/obs/point_cloud[3, 31] is nan"* ]] || return 1
    demos equal 12 'p[:] = p[0, 0]' && bc equal >/dev/null && judge equal | mf-check &&
        mf-view equal/logs/metrics.mf | jq -es 'map(select(.mf == "metrics").values["train/loss"]) | all(. > 0 and . < 100)'
}

@test "a policy without a normaliser, or with one for other points, does not act" {
    demos few 12 '' && bc few >/dev/null || return 1
    local spoil='import json, struct, sys
raw = open("few/checkpoints/clone.safetensors", "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
head, data, at, out = json.loads(raw[8 : 8 + n]), raw[8 + n :], 0, b""
for k in sorted(k for k in head if k != "__metadata__"):
    b, e = head[k]["data_offsets"]
    if ".obs." in k and sys.argv[1] == "gone":
        del head[k]
        continue
    if ".obs." in k:
        e, head[k]["shape"] = e - 24, [head[k]["shape"][0] - 6]
    head[k]["data_offsets"], out = [len(out), len(out) + e - b], out + data[b:e]
text = json.dumps(head).encode()
text += b" " * (-len(text) % 8)
open("few/checkpoints/clone.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + out)'
    cp few/checkpoints/clone.safetensors kept
    python3 -c "$spoil" gone
    run -3 judge few --out x
    [[ $output == *normali* ]] || return 1
    cp kept few/checkpoints/clone.safetensors && python3 -c "$spoil" short
    run -3 judge few --out x
    [[ $output == *"normalizer.params_dict.obs"*"is not 81 float32 numbers"* ]]
}
