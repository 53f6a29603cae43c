# A frozen flow steered by its initial noise.
# shellcheck disable=SC2016 # the variables are jq's
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    small=(env=point training.num_envs=16 training.num_steps_per_rollout=12 training.total_timesteps=4000 threads=2
        training.batch_size=64 training.num_epochs=2 training.critic_warmup_steps=4 'policy.hidden=[32,32,32]')
    steer=(policy.steer=ppo 'policy.steer_hidden=[24,16]' training.clip_range=.2)
}

# A policy to start from, without a latent actor: $clone.
clone() {
    mf-collect env=point collect.actor=expert collect.episodes=60 2>/dev/null | mf-record demos.hdf5 2>/dev/null &&
        mf-bc clone.dataset=demos.hdf5 clone.steps=200 'policy.hidden=[32,32,32]' run.dir=bc >/dev/null 2>&1
    clone=bc/checkpoints/clone.safetensors
    [[ -e $clone ]]
}

# flow FILE: the checksums of the flow's tensors, of the averaged ones where there are any.
flow() {
    python3 - "$1" <<'END'
import hashlib, json, struct, sys
b = open(sys.argv[1], "rb").read()
n, = struct.unpack("<Q", b[:8])
h = {k: b[8 + n:][slice(*v["data_offsets"])] for k, v in json.loads(b[8:8 + n]).items() if k != "__metadata__"}
for k in sorted(k for k in h if k.startswith("network.")):
    print(k, hashlib.md5(h.get("ema/" + k, h[k])).hexdigest())
END
}

@test "mf-ppo trains the latent actor of a frozen clone: the first ratios are exactly 1, the flow keeps its bytes" {
    clone && train a "${steer[@]}" policy.checkpoint="$clone" && mf-check a.mf &&
        mf-view a.mf | jq -es 'map(select(.mf == "metrics").values) | length > 2 and
            all(.[]; .["train/logratio_gap"] == 0 and .["train/entropy"] > 0 and (has("train/noise") or has("rollout/action_saturation") | not)) and
            .[-1]["train/approx_kl"] > 0' >/dev/null || { cat a.err; return 1; }
    cmp <(flow "$clone") <(flow "$last") && mf-ckpt show "$last" | grep -q 'latent actor' || return 1
    run ! cmp "$(find a/checkpoints -name '[0-9]*' | sort | head -n 1)" "$last"
}

@test "the stream has the chosen noise and no chain; threads, slices and the level of the ratio" {
    mf-collect "${small[@]}" "${steer[@]}" run.dir=s 2>err | tee s.mf | mf-gae | mf-ppo run.dir=s >/dev/null 2>>err
    mf-check s.mf && mf-view view.arrays=whole <s.mf | jq -es 'map(select(.mf == "rollout"))[0].arrays |
        (.samples.shape == [12, 16, 4, 1]) and (.prev_logprobs.shape == [12, 16, 4, 1]) and (has("chains") or has("denoise_inds") or has("draws") | not)' >/dev/null || { cat err; return 1; }
    train a "${steer[@]}" && cp "$last" want && train b "${steer[@]}" collect.slices=5 threads=1 && cmp "$last" want || return 1
    train c "${steer[@]}" training.level=chunk && ! cmp "$last" want || return 1
    train d "${steer[@]}" policy.steer_logprob=all && mf-view d.mf |
        jq -es 'map(select(.mf == "metrics").values) | all(.[]; .["train/logratio_gap"] == 0)' >/dev/null
}

@test "SIGKILL of any stage, then a resume: the same bytes; evaluation takes the mean and repeats itself" {
    small+=("${steer[@]}" training.total_timesteps=20000)
    train want && want=$last
    local stages=(mf-collect mf-gae mf-ppo) i shell end=k/checkpoints/${want##*/}
    for i in {0..40}; do
        bash -c 'mf-collect "$@" run.dir=k run.resume=auto | mf-gae | mf-ppo "$@" run.dir=k run.resume=auto' _ \
            "${small[@]}" >/dev/null 2>>k.err &
        shell=$!
        sleep "0.$((RANDOM % 60 + 20))"
        ((i > 3)) || kill -9 "$(pgrep -P "$shell" -x "${stages[i % 3]}")" 2>/dev/null || true
        wait "$shell" || true
        [[ ! -e $end || $i -le 3 ]] || break
    done
    cmp "$want" "$end" || { tail -n 5 k.err; return 1; }
    mf-eval k env=point eval.num_episodes=20 eval.json=a.json >/dev/null 2>&1 && mf-eval k env=point eval.num_episodes=20 eval.json=b.json threads=1 >/dev/null 2>&1 &&
        cmp <(jq .results a.json) <(jq .results b.json)
}

# refuses STATUS TEXT COMMAND..
refuses() {
    run --separate-stderr "${@:3}"
    [[ $status == "$1" && $stderr == *"$2"* && $(grep -c error <<<"$stderr") == 1 ]] || { echo "$status: $stderr"; return 1; }
}

@test "words that go without steering are refused, in a sentence" {
    refuses 2 'policy.learned_noise=true does not go with policy.steer=ppo' mf-collect "${steer[@]}" policy.learned_noise=true &&
        refuses 2 'policy.noise_method=flow_sde does not go with policy.steer=ppo' mf-collect "${steer[@]}" policy.noise_method=flow_sde &&
        refuses 2 'policy.objective=fpo does not go with policy.steer=ppo' mf-collect "${steer[@]}" policy.objective=fpo &&
        refuses 2 'policy.steer_hidden=[] is no network' mf-collect policy.steer=ppo 'policy.steer_hidden=[]' || return 1
    mf-collect env=point collect.actor=expert collect.episodes=60 2>/dev/null | mf-record demos.hdf5 2>/dev/null
    refuses 2 'mf-bc trains the flow' mf-bc clone.dataset=demos.hdf5 policy.steer=ppo run.dir=bc
}

# sac DIR WORD..: mf-collect | mf-sac to its end; the last checkpoint's path in $last.
sac() {
    local dir=$1 status
    shift
    mf-collect "${small[@]}" "${off[@]}" run.dir="$dir" "$@" 2>"$dir.err" | mf-sac "${small[@]}" "${off[@]}" run.dir="$dir" "$@" >"$dir.mf" 2>>"$dir.err"
    status=${PIPESTATUS[*]}
    last=$(newest "$dir")
    [[ $status == "0 0" ]] || { cat "$dir.err"; echo "status $status"; return 1; }
}
off=(policy.steer=sac 'policy.steer_hidden=[24,16]' 'sac.critic_hidden=[32,32]' sac.batch_size=32 sac.warmup_decisions=300
    sac.updates=.2 sac.replay_decisions=700 training.num_steps_per_rollout=12)

@test "mf-sac trains the latent actor off-policy, in both forms: the flow keeps its bits, threads and slices give the same" {
    clone && sac a policy.checkpoint="$clone" && mf-check a.mf &&
        mf-view a.mf | jq -es 'map(select(.mf == "metrics").values) | (.[0]["train/minibatches"] == 0) and
            .[-1]["train/minibatches"] > 20 and .[-1]["train/replay"] == 700 and (.[-1] | has("train/q") and has("train/distill_loss") and has("train/alpha")
            and (has("train/ratio_mean") or has("train/noise") or has("train/explained_variance") | not))' >/dev/null || { cat a.err; return 1; }
    cmp <(flow "$clone") <(flow "$last") && cp "$last" want && sac b policy.checkpoint="$clone" collect.slices=5 threads=1 && cmp "$last" want || return 1
    sac c policy.checkpoint="$clone" sac.form=noise && ! cmp -s "$last" want &&
        mf-view c.mf | jq -es 'map(select(.mf == "metrics").values)[-1] | has("train/q") and (has("train/distill_loss") | not)' >/dev/null &&
        mf-eval c env=point eval.num_episodes=20 >/dev/null 2>&1
}

@test "SIGKILL of mf-collect or mf-sac, then a resume: the same bytes, replay buffer and all" {
    small+=("${off[@]}" training.total_timesteps=9000)
    sac want && want=$last
    local stages=(mf-collect mf-sac) i shell end=k/checkpoints/${want##*/}
    for i in {0..40}; do
        bash -c 'mf-collect "$@" run.dir=k run.resume=auto | mf-sac "$@" run.dir=k run.resume=auto' _ "${small[@]}" >/dev/null 2>>k.err &
        shell=$!
        sleep "0.$((RANDOM % 60 + 20))"
        ((i > 5)) || kill -9 "$(pgrep -P "$shell" -x "${stages[i % 2]}")" 2>/dev/null || true
        wait "$shell" || true
        [[ ! -e $end || $i -le 5 ]] || break
    done
    cmp "$want" "$end" && cmp <(cd want/replay && md5sum ./*) <(cd k/replay && md5sum ./*) || { tail -n 5 k.err; ls want/replay k/replay; return 1; }
    [[ $(find k/replay -name '0*' | wc -l) -le 6 ]] # 192 decisions each
    # files of another iteration in their place
    local newest
    newest=$(find k/replay -name '0*' | sort | tail -n 1)
    cp "$newest" "${newest%/*}/$(printf %06d $((10#$(basename "$newest" .safetensors) - 1))).safetensors"
    mf-collect "${small[@]}" training.total_timesteps=9300 run.dir=k run.resume=auto 2>/dev/null | mf-sac "${small[@]}" training.total_timesteps=9300 run.dir=k run.resume=auto >/dev/null 2>said ||
        [[ $? == 3 ]] && grep -q "is of iteration [0-9]*, not [0-9]*: it was moved or replaced" said || { cat said; return 1; }
}

@test "training.save_every: mf-sac is killed between two checkpoints and resumes to the same bytes" {
    small+=("${off[@]}" training.total_timesteps=5400)
    mf-collect "${small[@]}" run.dir=want 2>/dev/null | tee s.mf | mf-sac "${small[@]}" run.dir=want >/dev/null 2>&1
    mf-collect "${small[@]}" run.dir=k 2>/dev/null | { echo $BASHPID >holder && stdbuf -o0 head -c $(($(stat -c %s s.mf) * 75 / 100)) && exec sleep 100; } |
        mf-sac "${small[@]}" run.dir=k training.save_every=3 >/dev/null 2>&1 & local sac=$! end
    until_there test -e k/replay/000004.safetensors && kill -9 $sac "$(cat holder)" && ended_by 137 $sac && [[ $(newest k) == */000003.safetensors ]] &&
        sac k training.save_every=3 run.resume=auto && cmp "$(newest want)" "$last" && end=${last##*/} && cmp {want,k}/replay/state."$end" &&
        [[ $(find k/checkpoints -name '0*.safetensors' | wc -l) -le 3 ]] || { ls k/* want/*; return 1; }
}

@test "mf-sac and mf-ppo refuse each other's streams, and buffers that do not fit" {
    mf-collect "${small[@]}" "${off[@]}" run.dir=s 2>/dev/null | tee s.mf | mf-sac run.dir=s "${off[@]}" >/dev/null 2>&1
    mf-collect "${small[@]}" "${steer[@]}" run.dir=p 2>/dev/null | tee p.mf | mf-gae | tee adv.mf | mf-ppo run.dir=p >/dev/null 2>&1
    mf-view view.arrays=whole s.mf | jq -es 'map(select(.mf == "rollout").arrays | [.begins.data, .ends.data]) |
        length > 2 and (. as $r | all(range(1; length); $r[.][0] == $r[. - 1][1])) and all(.[]; .[0] != .[1])' >/dev/null || return 1 # each begins where the one before ended
    mf-check s.mf && refuses 2 'policy.steer=sac is for mf-sac' mf-ppo --in s.mf run.dir=x &&
        refuses 2 'mf-sac trains the latent actor of policy.steer=sac' mf-sac --in adv.mf run.dir=x &&
        refuses 2 'a round of 192 decisions exceeds sac.replay_decisions=100' mf-sac --in s.mf run.dir=y sac.replay_decisions=100 &&
        refuses 1 'more than the machine has: lower sac.replay_decisions' mf-sac --in s.mf run.dir=z sac.replay_decisions=40000000000 &&
        refuses 2 'sac.critic_hidden needs 1 to' mf-sac --in s.mf run.dir=v 'sac.critic_hidden=[]' &&
        refuses 2 'set collect.reward_scale=none, and sac.reward_shift' mf-collect "${off[@]}" collect.reward_scale=running run.dir=u
}

@test "rounds of one decision: no gradient step before a decision has a successor, and those that are due then" {
    sac a training.num_steps_per_rollout=1 sac.warmup_decisions=0 training.total_timesteps=256 && mf-view a.mf |
        jq -es 'map(select(.mf == "metrics").values["train/minibatches"]) | .[0] == 0 and .[1] == 6 and .[2] == 3' >/dev/null ||
        { mf-view a.mf | jq -c 'select(.mf == "metrics").values["train/minibatches"]'; return 1; }
}
