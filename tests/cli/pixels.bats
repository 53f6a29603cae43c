# Policies that see: pictures from the camera to the checkpoint, at a size for tests.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    keys='policy.obs_keys=[agentview_image,backview_image,robot0_eef_pos]'
    shape=(env=lift policy.encoder=nature "policy.encoder_channels=[4,4,4]" policy.encoder_output_dim=8
        "policy.hidden=[16]" "policy.critic_hidden=[16]" log.level=warn env.max_steps=12)
    small=("$keys" "${shape[@]}" env.image_size=36 training.num_envs=3 training.num_steps_per_rollout=4 training.batch_size=6
        training.num_epochs=2 training.total_timesteps=96 training.critic_warmup_steps=0 training.shift=2
        training.save_interval=1)
}

values() { mf-view "$1" | jq -c 'select(.mf == "metrics").values'; }
every() { values "$1" | jq -es "length > 0 and (map($2) | all)" >/dev/null || { values "$1" && return 1; }; }

@test "pictures train through the pipe: the first ratio is 1, with shifted pictures, with a critic that sees by itself" {
    train run && every run.mf '."train/logratio_gap" == 0 and ."train/grad_norm" > 0' &&
        train own policy.critic_encoder=own && every own.mf '."train/logratio_gap" == 0' &&
        mf-ckpt show "$(newest own)" | grep -q 'critic.feature_net' &&
        train time policy.learned_noise=true policy.min_noise_std=.05 policy.noise_time=false &&
        every time.mf '."train/logratio_gap" == 0'
}

@test "any number of threads, and a run that is resumed, give the same bytes" {
    train one threads=1 && train two threads=2 && cmp "$(newest one)" "$(newest two)" &&
        train part training.total_timesteps=48 && train part run.resume=auto && cmp "$(newest one)" "$(newest part)"
}

@test "two steps of color and depth, halved and pooled" {
    train depth policy.encoder=plain_conv policy.n_obs_steps=2 env.image_size=20 \
        'policy.obs_keys=[robot0_eef_pos,agentview_image,agentview_depth]' && every depth.mf '."train/logratio_gap" == 0'
}

@test "an encoder that was frozen sends its output: smaller rollouts, the same training" {
    mf-collect "${small[@]}" collect.actor=expert collect.episodes=3 | mf-record demos.hdf5 >/dev/null &&
        mf-bc "$keys" "${shape[@]}" clone.dataset=demos.hdf5 clone.steps=4 clone.batch_size=8 clone.shift=2 \
            run.dir=clone >/dev/null || return 1
    small+=(policy.checkpoint=clone/checkpoints/clone.safetensors)
    run -2 mf-collect "${small[@]}" run.dir=none 'policy.obs_keys=[robot0_eef_pos,agentview_image,backview_image]' --out x
    [[ $output == *"reads the same observations in another order, 36x36x3u8:agentview_image,36x36x3u8:backview_image,3:robot0_eef_pos: leave policy.obs_keys to it"* ]] || return 1
    local freeze
    for freeze in true false; do
        mf-collect "${small[@]}" run.dir=$freeze training.freeze_encoder=$freeze | tee $freeze.stream | mf-gae |
            mf-ppo "${small[@]}" training.freeze_encoder=true run.dir=$freeze >$freeze.mf || return 1
    done
    cmp "$(newest true)" "$(newest false)" && (($(stat -c %s true.stream) * 3 < $(stat -c %s false.stream))) &&
        mf-view true.stream | grep -q obs/encoding || return 1
    mf-collect "${small[@]}" run.dir=one training.freeze_encoder=true policy.n_action_steps=1 | mf-record features.hdf5 | mf-gae |
        mf-ppo "${small[@]}" training.freeze_encoder=true policy.n_action_steps=1 run.dir=one >/dev/null || return 1
    run -2 mf-bc clone.dataset=features.hdf5 "policy.obs_keys=[encoding,robot0_eef_pos]" run.dir=none
    [[ $output == *"has the output of a frozen encoder (obs/encoding)"* ]] &&
        mf-eval "$(newest true)" eval.num_episodes=2 eval.num_envs=2 env.max_steps=8 >/dev/null
}

@test "a clone sees a random window of each picture, and evaluates the one in the center" {
    mf-collect "${small[@]}" env.image_size=40 collect.actor=expert collect.episodes=3 | mf-record demos.hdf5 >/dev/null || return 1
    local crop
    for crop in 36 40; do
        mf-bc "$keys" "${shape[@]}" clone.dataset=demos.hdf5 clone.steps=4 clone.batch_size=8 policy.crop=$crop \
            run.dir=clone$crop >/dev/null || return 1
    done
    ! cmp -s clone36/checkpoints/clone.safetensors clone40/checkpoints/clone.safetensors &&
        mf-ckpt show clone36/checkpoints/clone.safetensors | grep -q 'crop.*36' &&
        mf-eval clone36/checkpoints/clone.safetensors eval.num_episodes=2 eval.num_envs=2 env.max_steps=8 | mf-check || return 1
    # augmented pictures: by number of the minibatch, whatever the threads, also after a resume
    local openpi=("$keys" "${shape[@]}" clone.dataset=demos.hdf5 clone.batch_size=8 clone.warmup_steps=8 clone.augment=openpi)
    mf-bc "${openpi[@]}" clone.steps=4 threads=2 run.dir=whole >/dev/null && mf-bc "${openpi[@]}" clone.steps=2 threads=1 run.dir=part >/dev/null &&
        mf-bc "${openpi[@]}" clone.steps=4 threads=1 run.dir=part run.resume=auto run.force=true >/dev/null &&
        mf-bc "${openpi[@]}" clone.steps=4 clone.augment=none run.dir=plain >/dev/null || return 1
    cmp whole/checkpoints/clone.safetensors part/checkpoints/clone.safetensors &&
        ! cmp -s whole/checkpoints/clone.safetensors plain/checkpoints/clone.safetensors || return 1
    run -2 mf-bc clone.dataset=demos.hdf5 clone.augment=openpi 'policy.obs_keys=[robot0_eef_pos]' run.dir=none
    [[ $output == *"clone.augment=openpi is for color pictures"* ]]
}

@test "without an encoder, a network sees every pixel" {
    train run policy.encoder=none env.image_size=8 && every run.mf '."train/logratio_gap" == 0' &&
        grep -q 'mf-collect: warn: the network reads every pixel as a number: policy.encoder=nature' run.err
    run -2 mf-collect "${small[@]}" run.dir=x policy.encoder=none policy.crop=8 --out stream
    [[ $output == *"policy.crop=8 needs an encoder of pictures"* ]]
}

@test "what does not fit is refused before anything runs, in one sentence" {
    local refused=(
        'policy.encoder=vgg|no such encoder; available:'
        'policy.crop=37|policy.crop=37 is larger than the 36 x 36 pixels of agentview_image'
        'env.image_size=30|needs pictures of at least 36 x 36 pixels, and agentview_image has 30 x 30'
        'policy.obs_keys=[object]|policy.encoder=nature needs pictures: name some in policy.obs_keys'
        'policy.encoder_channels=[4]|policy.encoder_channels needs 3 widths, not 1'
        'policy.obs_keys=[agentview_imago]|no observation'
        "policy.obs_keys=[object,agentview_image,object]|lists the observation 'object' twice"
    )
    local case
    for case in "${refused[@]}"; do
        run -2 mf-collect "${small[@]}" run.dir=x "${case%%|*}" --out stream
        [[ $output == *"${case#*|}"* && ${#lines[@]} == 1 && ! -s stream ]] || { echo "$case: $output" && return 1; }
    done
}

@test "a filter that swaps the axes of pictures is found out" {
    cat >swap.py <<'END'
import sys
import msgpack
for frame in msgpack.Unpacker(sys.stdin.buffer, max_buffer_size=0):
    picture = frame.get("arrays", {}).get("obs/agentview_image")
    if picture:
        shape = picture[b"shape"]
        picture[b"shape"] = [*shape[:3], shape[5], *shape[3:5]]
    sys.stdout.buffer.write(msgpack.packb(frame))
END
    mf-collect "${small[@]}" training.total_timesteps=48 run.dir=run | tee stream | mf-gae |
        mf-ppo "${small[@]}" training.total_timesteps=48 run.dir=run >/dev/null || return 1
    /usr/bin/python3 swap.py <stream | mf-gae >swapped
    run -3 mf-ppo "${small[@]}" training.total_timesteps=48 run.dir=again --in swapped --out /dev/null
    [[ $output == *"obs/agentview_image is uint8 (3, 36, 36), the policy needs uint8 (36, 36, 3)"* ]]
}

@test "a policy that was exported comes back the same" {
    train run training.shift=0 && mf-ckpt export "$(newest run)" out.pt &&
        mf-ckpt import out.pt back policy.activation=relu env=lift env.image_size=36 "$keys" 2>/dev/null &&
        ! mf-ckpt diff "$(newest run)" back | grep -E '^(network|critic|feature_net|picture|normalizer|spec.enc|spec.obs)' &&
        mf-ckpt export back again.pt && cmp out.pt again.pt || return 1
    local first='policy.obs_keys=[robot0_eef_pos,agentview_image]'
    train state training.shift=0 "$first" && mf-ckpt export "$(newest state)" state.pt &&
        mf-ckpt import state.pt other policy.activation=relu env=lift env.image_size=36 "$first" 2>/dev/null &&
        ! mf-ckpt diff "$(newest state)" other | grep '^spec.obs'
}
