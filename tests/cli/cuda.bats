# device=cuda, by the plugin over the emulator: the very files of lib/cuda, without a GPU.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    export MF_CUDA="$ROOT/build/emu/mf_cuda.so"
    small=(env=point training.num_envs=8 training.num_steps_per_rollout=8 training.total_timesteps=300 training.batch_size=32
        training.num_epochs=2 'policy.hidden=[32,32,32]' 'policy.critic_hidden=[32,32,32]' threads=1 device=cuda:0)
}

# gaps FILE: every |log ratio| before the first step of an update.
gaps() { mf-view "$1" | jq -r 'select(.mf == "metrics") | .values["train/logratio_gap"]' | sort -u; }

@test "the pipe trains on a GPU: first ratios are exactly 1; numbers as on the processor; the device and its memory are logged" {
    train gpu && [[ $(gaps gpu.mf) == 0 ]] && [[ $(grep -c "computes on emulated GPU" gpu.err) -eq 2 ]] &&
        grep -q "MiB on the device" gpu.err && [[ $(mf-view gpu.mf | jq '.values["device/memory"] // empty | . > 0' | sort -u) == true ]] &&
        train cpu device=cpu &&
        paste <(mf-view gpu.mf | jq '.values["train/grad_norm"] // empty') <(mf-view cpu.mf | jq '.values["train/grad_norm"] // empty') |
        awk '{ d = ($1 - $2) / $2; bad += d * d > 1e-10 } END { exit NR < 2 || bad }'
}

@test "the same bytes again: other orders of blocks and warps, late, unrecorded, from guarded memory, on two and four GPUs" {
    local words kl=training.target_kl=.5
    train a "$kl" && cp "$last" want
    # Late with the other stream first: a GPU that runs ahead may overwrite what another has still to copy.
    for words in CUEMU_ORDER=1 CUEMU_ORDER=5 CUEMU_LATE=1 CUEMU_GUARD=1 MF_CUDA_GRAPHS=no CUEMU_DEVICES=2 CUEMU_DEVICES=4 \
        "CUEMU_DEVICES=2 CUEMU_LATE=2"; do
        # shellcheck disable=SC2086,SC2163 # several of them
        (export $words && train "$words" "$kl" "device=cuda:0-$((${CUEMU_DEVICES:-1} - 1))" && cmp "$last" want) || { echo "$words" && return 1; }
    done
    [[ $(grep -c "computes on 4 GPUs: " CUEMU_DEVICES=4.err) -eq 2 ]]
}

@test "a plan of fewer lanes than GPUs" {
    CUEMU_DEVICES=4 MF_TEST_DEVICE=cuda:0-3 "$ROOT/build/tests/unit/test_plan" >log && ! grep '^not ok' log
}

@test "SIGKILL of any stage on a GPU, then a resume: the same bytes as the run that was never killed" {
    local end=training.total_timesteps=1000
    train want $end && want=$last
    local stages=(mf-collect mf-gae mf-ppo) shell victim
    for stage in "${stages[@]}"; do
        bash -c 'mf-collect "$@" run.dir=k run.resume=auto | mf-gae | mf-ppo "$@" run.dir=k run.resume=auto' _ "${small[@]}" "$end" >/dev/null 2>>k.err &
        shell=$!
        until [[ -n $(newest k 2>/dev/null) ]] && victim=$(pgrep -P "$shell" -x "$stage"); do sleep .02; done
        kill -9 "$victim"
        wait "$shell" || true
    done
    train k $end run.resume=auto && cmp "$last" "$want" && mf-check k/logs/metrics.mf
}

@test "mf-bc clones on a GPU, in every precision, and mf-eval runs there" {
    mf-collect env=point collect.actor=expert training.num_envs=4 training.num_steps_per_rollout=20 training.total_timesteps=80 | mf-record d.hdf5 >/dev/null || return 1
    local bc=(clone.dataset=d.hdf5 clone.steps=6 clone.batch_size=16 'policy.hidden=[32,32,32]' threads=1) p
    for p in fp32 tf32 bf16; do
        mf-bc "${bc[@]}" device=cuda precision=$p run.dir=$p >/dev/null && mf-bc "${bc[@]}" device=cuda precision=$p run.dir=$p-again >/dev/null &&
            cmp $p/checkpoints/clone.safetensors $p-again/checkpoints/clone.safetensors || return 1
    done
    mf-eval fp32/checkpoints/clone.safetensors env=point eval.num_episodes=4 device=cuda threads=1 >on.gpu && mf-check on.gpu
}

@test "a collector on the processor beside a learner on a GPU: log-probabilities are computed again" {
    mf-collect "${small[@]}" device=cpu run.dir=a 2>err | mf-gae | mf-ppo "${small[@]}" training.recompute_logprobs=true run.dir=a >a.mf 2>>err &&
        [[ $(gaps a.mf) == 0 ]]
}

@test "what is missing is one sentence, and exit 2" {
    local no=(env=point run.dir=x)
    # shellcheck disable=SC2154 # run sets stderr
    says() { run -2 --separate-stderr "${@:2}" && [[ $(wc -l <<<"$stderr") -eq 1 && $stderr == *"$1"* ]] || { echo "$stderr" && return 1; }; }
    says "there is no GPU 7; this machine has 1, from 0" mf-collect "${no[@]}" device=cuda:7 &&
        says "there is no GPU 1; this machine has 1, from 0" mf-collect "${no[@]}" device=cuda:0-3 &&
        says "give the number of a GPU, or of at most 16 as cuda:0-3" mf-collect "${no[@]}" device=cuda:0-x &&
        CUEMU_DEVICES=0 says "this machine has no usable GPU" mf-collect "${no[@]}" device=cuda &&
        MF_CUDA=$T/none.so says "the plugin cannot be loaded" mf-collect "${no[@]}" device=cuda &&
        CUEMU_MEMORY=500000 run -2 --separate-stderr mf-collect "${no[@]}" run.force=true device=cuda &&
        [[ $stderr == *"on the device, which has "*"lower training.num_envs"* ]]
}

@test "programs link no CUDA library" {
    for p in "$ROOT"/bin/mf-*; do ! ldd "$p" | grep -i -E 'cuda|cublas|nvidia' || return 1; done
}
