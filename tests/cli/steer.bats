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
    ! cmp "$(find a/checkpoints -name '[0-9]*' | sort | head -n 1)" "$last"
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
