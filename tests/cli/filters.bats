# The estimators as programs, and how streams pass through them.
load helpers

FILTERS=(mf-gae mf-mc mf-nstep)

# close_to A B: the same numbers, within 1e-6 of 1 + |number|.
close_to() {
    paste -d' ' "$1" "$2" | awk '{ n = NF / 2
        for (i = 1; i <= n; i++) { d = $i - $(i + n); if (d < 0) d = -d; s = $i < 0 ? -$i : $i; if (!(d <= 1e-6 * (1 + s))) bad = 1 }
    } END { exit bad || NR == 0 }'
}
is() { printf '%s\n' "$@" >"$T/want" && close_to "$T/want" "$T/got"; }

@test "mf-gae gives the reference numbers" {
    stream make | mf-gae | numbers advantages >"$T/got"
    is 3.995498378 3.085059413 2.1180855 1.091
    stream make terminated=1 | mf-gae | numbers advantages >"$T/got"
    is 1.4702 .4 2.1180855 1.091
    stream make truncated=1 | mf-gae | numbers advantages >"$T/got"
    is 2.07541175 1.0435 2.1180855 1.091
    stream make truncated=1 | mf-gae | numbers returns >"$T/got"
    is 2.57541175 1.6435 2.8180855 1.891
    stream make truncated=1 terminated=1 | mf-gae | numbers advantages >"$T/got"
    is 1.4702 .4 2.1180855 1.091
    stream make truncated=3 | mf-gae | numbers advantages >"$T/got"
    is 3.789600627 2.866135701 1.88531175 .8435
}

@test "advantage.compat reproduces published treatments of time limits" {
    stream make truncated=1 | mf-gae advantage.compat=cleanrl | numbers advantages >"$T/got"
    is 1.4702 .4 2.1180855 1.091
    stream make truncated=1 | mf-gae advantage.compat=dppo | numbers advantages >"$T/got"
    is 3.995498378 3.085059413 2.1180855 1.091
    stream make truncated=1 | mf-gae advantage.compat=seed | numbers advantages >"$T/got"
    is 1.4702 .4 1.2801 .2
}

@test "mf-gae with lambda 1 is mf-mc, with lambda 0 mf-nstep of one step" {
    stream make case=random T=30 N=7 >"$T/in"
    mf-gae advantage.gae_lambda=1 <"$T/in" | numbers advantages >"$T/a"
    mf-mc <"$T/in" | numbers advantages >"$T/b"
    close_to "$T/a" "$T/b"
    mf-nstep advantage.n_step=1000 <"$T/in" | numbers advantages >"$T/a"
    cmp "$T/a" "$T/b"
    mf-gae advantage.gae_lambda=0 <"$T/in" | numbers returns >"$T/a"
    mf-nstep advantage.n_step=1 <"$T/in" | numbers returns >"$T/b"
    close_to "$T/a" "$T/b"
}

@test "masked entries change no bit" {
    for dirt in 0 nan 1e30; do stream make case=random dirt=$dirt >"$T/$dirt"; done
    for f in "${FILTERS[@]}"; do
        $f <"$T/0" | numbers advantages >"$T/want"
        for dirt in nan 1e30; do $f <"$T/$dirt" | numbers advantages | cmp - "$T/want"; done
    done
}

@test "slices of a round give the numbers of the whole round" {
    stream make case=random N=7 >"$T/1"
    stream make case=random N=7 slices=3 >"$T/3"
    for f in "${FILTERS[@]}"; do
        $f <"$T/1" | stream get advantages >"$T/want"
        $f <"$T/3" | stream get advantages | cmp - "$T/want"
    done
}

@test "unknown arrays, fields and frames pass unchanged" {
    stream make case=random iters=2 slices=2 >"$T/in"
    for f in "${FILTERS[@]}"; do
        $f <"$T/in" >"$T/out"
        stream kept "$T/in" "$T/out"
        mf-check <"$T/out"
    done
    mf-gae <"$T/in" | mf-mc | mf-nstep >"$T/out"
    stream kept "$T/in" "$T/out"
    mf-view <"$T/out" | head -1 | jq -e '[.chain[].stage] == ["mf-gae", "mf-mc", "mf-nstep"]'
}

@test "pipe, file, FIFO and socket carry the same bytes" {
    stream make case=random >"$T/in"
    mf-gae <"$T/in" >"$T/want"
    mf-gae --in "$T/in" --out "$T/out"
    cmp "$T/out" "$T/want"
    mkfifo "$T/fifo"
    mf-gae --in="$T/in" --out="$T/fifo" &
    cmp "$T/fifo" "$T/want"
    wait $!
    mf-mc <"$T/want" >"$T/want2"
    mf-mc --in "ipc://$T/s" --out "$T/out" &
    mf-gae --in "$T/in" --out "ipc://$T/s"
    wait $!
    cmp "$T/out" "$T/want2"
}

refused() { # refused 'WORDS OF make' 'SENTENCE'
    run -3 bash -c "'$ROOT/tests/tools/stream.py' make $1 | mf-gae >/dev/null" && [[ $output == "mf-gae: error: "*"$2"* ]]
}

@test "an incomplete stream exits 3 with the reason" {
    refused end=0 "is truncated: it ends after 4 frames without an end frame"
    refused lie=1 "frame 5: the end frame counts 5 frames and 4 samples, but 4 and 4 arrived"
    refused heads=1 "frame 5: a second head"
    refused after=1 "frame 6: it follows the end frame"
    refused v=2 "the stream's format is 2"
    local field low high
    while read -r field low high; do
        for x in $((low - 1)) $((high + 1)) $((1 << 62)) $((-1 << 63)); do
            refused "head.$field=$x" "the head's $field is $x, not within $low..$high" || return 1
        done
        stream make head."$field"="$low" | mf-gae >/dev/null && stream make head."$field"="$high" | mf-gae >/dev/null || return 1
    done <<<$'num_envs 1 1048576\nsteps 1 1048576\nmax_lag 0 1\niter 0 4611686018427387903'
    refused spoil=prev_values "frame 2: the rollout of iteration 0: prev_values[0,0] is NaN"
    refused "case=random drop=last_values" "there is no array 'last_values'"
    stream make >"$T/in"
    head -c 400 "$T/in" >"$T/cut"
    run -3 mf-gae --in "$T/cut" --out /dev/null
}

@test "an episode that runs into masked rows without an end exits 3" {
    run -3 bash -c "'$ROOT/tests/tools/stream.py' make case=open | mf-gae >/dev/null"
    [[ $output == *"environment 0 goes from a valid step 1 to a masked one"* ]]
}

@test "choices that contradict each other exit 2" {
    run -2 bash -c "'$ROOT/tests/tools/stream.py' make | mf-gae advantage.reward=max advantage.discount=step >/dev/null"
    [[ $output == *"advantage.reward=max needs advantage.discount=chunk"* ]]
}

@test "a full disk is an error" {
    stream make >"$T/in"
    run -1 bash -c "mf-gae <'$T/in' >/dev/full"
    [[ $output == *"No space left on device" ]]
}

@test "a reader that exits ends the writer by SIGPIPE" {
    stream make case=random T=2000 N=50 >"$T/in"
    pipe "mf-gae --in '$T/in' | head -c 100 >/dev/null"
    [[ ${lines[-1]} == "141 0" ]]
    pipe "mf-view view.arrays=whole --in '$T/in' | head -c 100 >/dev/null"
    [[ ${lines[-1]} == "141 0" ]]
}

@test "every filter detects the death of its reader while it waits for input" {
    mkfifo "$T/never"
    bash -c "mf-gae <'$T/never' | mf-mc | mf-nstep | sleep 0.3; echo \"\${PIPESTATUS[*]}\"" >"$T/status" &
    exec 9>"$T/never"
    wait $!
    exec 9>&-
    [[ $(cat "$T/status") == "141 141 141 0" ]]
}

@test "INT drains to the end of the stream, then dies by INT" {
    mkfifo "$T/in"
    mf-gae <"$T/in" >"$T/out" 2>"$T/err" &
    pid=$!
    exec 9>"$T/in"
    stream make case=random >"$T/whole"
    head -c 500 "$T/whole" >&9
    sleep 0.2
    kill -INT $pid
    sleep 0.2
    tail -c +501 "$T/whole" >&9
    exec 9>&-
    ended_by 130 $pid
    mf-check <"$T/out"
    [[ ! -s $T/err ]]
}

@test "a second INT kills at once" {
    mkfifo "$T/in"
    mf-gae <"$T/in" >/dev/null &
    pid=$!
    exec 9>"$T/in"
    sleep 0.2
    kill -INT $pid
    sleep 0.2
    kill -INT $pid
    ended_by 130 $pid
    exec 9>&-
}

@test "keys of other programs are accepted" {
    stream make | mf-gae training.num_envs=8 env=lift collect.slices=4 | mf-check
}

@test "mf-view prints JSON, with arrays in three formats" {
    stream make case=random dirt=nan >"$T/in"
    mf-view <"$T/in" | jq -e -s 'length == 5 and .[1].arrays.rewards.shape == [9, 6, 2] and .[-1].mf == "end"'
    mf-view view.arrays=whole <"$T/in" | jq -e -s '.[1].arrays["obs/image"].data | flatten | length == 648'
    local dirt # what is masked is in no extreme and no mean
    for dirt in 0 nan 1e30; do
        stream make case=random dirt=$dirt | mf-view | jq -c 'select(.mf == "rollout").arrays | [.rewards, .prev_values]' >"$T/$dirt"
    done
    cmp "$T/0" "$T/nan" && cmp "$T/0" "$T/1e30" && jq -e '.[0].masked == 24 and .[0].nan == 0 and .[0].max < 4' "$T/0" || return 1
    mf-view view.arrays=none <"$T/in" | jq -e -s '.[1].arrays.rewards == {"dtype": "<f4", "shape": [9, 6, 2]}'
    stream make | mf-view view.arrays=whole | jq -c 'select(.mf == "rollout").arrays.prev_values.data' >"$T/got"
    [[ $(cat "$T/got") == "[[0.5],[0.6],[0.7],[0.8]]" ]]
}

@test "mf-check distinguishes complete streams from others" {
    run -0 bash -c "'$ROOT/tests/tools/stream.py' make case=random dirt=nan iters=3 slices=2 | mf-check"
    [[ $output == "whole: 12 frames, 162 samples" ]]
    checks() { run -3 bash -c "'$ROOT/tests/tools/stream.py' make $1 | mf-check" && [[ $output == *"$2"* ]]; }
    checks "end=0" "is truncated"
    checks "case=random spoil=obs/state" "frame 2: 'obs/state' is NaN at step 0 of environment 0"
    checks "case=random spoil=rewards" "rewards[0,0,0] is NaN"
    checks "missing=1" "frame 3: inconsistent: a round of 2 slices, but 1 came"
    checks "iters=2 C2=1" "frame 4: inconsistent: 'rewards' has another shape or dtype"
}

@test "a flag is 0 or 1: mf-check and every filter refuse others, but for what is masked" {
    "$ROOT/tests/tools/stream.py" make case=random >"$T/whole" && "$ROOT/tests/tools/stream.py" spoil "$T/whole" "$T" <<'END' || return 1
terminated: a['terminated'].flat[a['valid'].flat.index(1)] = 2
truncated: a['truncated'].flat[a['valid'].flat.index(1)] = 255
valid: a['valid'].flat[3] = 7
masked: a['terminated'].flat[a['valid'].flat.index(0)] = 9
END
    local name
    for name in terminated truncated valid; do
        run -3 mf-check <"$T/$name" && [[ $output =~ $name\[[0-9]+,[0-9]+\]\ is\ (2|255|7),\ not\ within\ 0..1 ]] && run -3 bash -c "mf-gae <'$T/$name' >/dev/null" || { echo "$name: $output"; return 1; }
    done
    mf-check <"$T/masked"
}

@test "mf-stat counts" {
    run -0 bash -c "'$ROOT/tests/tools/stream.py' make case=random iters=2 slices=3 | mf-stat"
    [[ $output == *"rollout    6"* && $output == *"samples    108"* && $output == *"episodes   8"* && $output == *"success    0.25"* ]]
}
@test "mf-stat counts an incomplete stream, and says so" {
    "$ROOT/tests/tools/stream.py" make case=random iters=2 slices=3 | head -c -40 >"$T/cut"
    run -3 --separate-stderr mf-stat "$T/cut"
    [[ $output == *"rollout    6"* && $stderr == *"/cut"* ]]
}

@test "a socket in a missing folder is refused, and no folder is made" {
    run -1 timeout 10 mf-gae --in "ipc://$T/nowhere/x"
    [[ $output == *"there is no folder $T/nowhere"* && ! -e $T/nowhere ]]
}

@test "no program writes over what it reads" {
    cd "$T" && "$ROOT/tests/tools/stream.py" make case=random >kept && cp kept x && ln -s x y && ln x z || return 1
    # refuses COMMAND ..: and what is read stays
    refuses() {
        run -2 --separate-stderr "$@"
        [[ $stderr == *" is read, and would be written over: give the output another name"* ]] || { echo "$* $stderr"; return 1; }
    }
    for out in x y z ./x; do
        refuses mf-gae --in x --out "$out" && refuses bash -c "exec mf-gae --out $out <x" && cmp x kept || return 1
    done
    mf-gae --in x --out other && mf-gae <x --out /dev/null || return 1
    mf-bc clone.dataset="$ROOT/tests/fixtures/point.hdf5" clone.steps=2 'policy.hidden=[8]' threads=1 run.dir=run >/dev/null 2>&1 && cp run/checkpoints/clone.safetensors kept || return 1
    for words in "ema run" "export run" "import run/checkpoints/clone.safetensors"; do
        # shellcheck disable=SC2086 # two words
        refuses mf-ckpt $words run/checkpoints/clone.safetensors && cmp run/checkpoints/clone.safetensors kept || return 1
    done
    small=(training.num_envs=2 training.num_steps_per_rollout=4 training.total_timesteps=8 'policy.hidden=[8]' 'policy.critic_hidden=[8]' threads=1 run.dir=ppo)
    mf-collect "${small[@]}" 2>/dev/null | mf-gae | mf-ppo "${small[@]}" >/dev/null 2>&1 || return 1
    mf-eval ppo eval.num_episodes=2 eval.results=results >/dev/null 2>&1 && cp results kept &&
        refuses mf-eval ppo eval.num_episodes=2 eval.results=results eval.json=./results && cmp results kept
}
