# Numbers are read and written with a point by every program and script, also where the locale has a decimal comma.
# shellcheck disable=SC2016 # what is in single quotes is for eval
load helpers

WORDS=(env=point training.num_envs=4 training.num_steps_per_rollout=4 training.total_timesteps=192 threads=1
    'policy.hidden=[8]' 'policy.critic_hidden=[8]' policy.n_action_steps=2 training.batch_size=16 training.target_kl=.5
    training.learning_rate=1.5e-3 log.level=error eval.num_episodes=8 clone.steps=20 clone.batch_size=16)

setup_file() {
    cd "$BATS_FILE_TMPDIR" && mkdir locales || return
    localedef -i de_DE -f UTF-8 "$PWD/locales/de_DE.UTF-8" 2>/dev/null || true
}

setup() {
    export LOCPATH=$BATS_FILE_TMPDIR/locales
    export ASAN_OPTIONS=detect_leaks=0 # the C library keeps what it made of LOCPATH
    [[ $(LC_ALL=de_DE.UTF-8 printf %.1f 1,5 2>/dev/null) == 1,5 ]] || skip "localedef makes no German locale here"
    cd "$T" || return
}

# both 'COMMANDS': what they print under either locale, each in a folder of its own; "" where both do the same.
both() {
    local l
    for l in C.UTF-8 de_DE.UTF-8; do
        mkdir -p "$l"
        if ! (cd "$l" && export LC_ALL=$l && eval "$1") >"$l.out" 2>&1; then echo "$l:" && cat "$l.out" && return 1; fi
    done
    diff C.UTF-8.out de_DE.UTF-8.out
}

# metrics FILE: all but what a clock says.
metrics() { mf-view "$1" | jq -c 'select(.mf == "metrics") | del(.time) | .values | with_entries(select(.key | test("perf|time") | not))'; }

@test "every program reads 0.0015 and writes it" {
    for p in "$ROOT"/bin/mf-*; do
        both "$p training.learning_rate=.0015 training.clip_range=2.5e-1 --cfg && $p --help" || { echo "$p"; return 1; }
    done
    grep -qx '  learning_rate: 0.0015' de_DE.UTF-8.out && grep -qx '  clip_range: 0.25' de_DE.UTF-8.out
}

@test "a run, what looks at it, and what is made of it have the same numbers" {
    both 'mf-collect "${WORDS[@]}" run.dir=run | tee r.mf | mf-gae | mf-ppo "${WORDS[@]}" >m.mf && metrics m.mf &&
        sha256sum run/checkpoints/*.safetensors && mf-view view.arrays=whole r.mf | sha256sum &&
        mf-mc <r.mf | mf-view view.arrays=whole | sha256sum && mf-nstep <r.mf | mf-view view.arrays=whole | sha256sum &&
        mf-stat run | sed -E "s/[0-9.]+ s\$//" | grep -v " s, " && mf-check run && mf-top run | sed -E "s/(perf|time)[^ ]*//g" && mf-ckpt show run' &&
        [[ $(head -1 de_DE.UTF-8.out) == *'":0.'* ]]
}

@test "other programs' formats: TensorBoard, CSV, JSON, pictures, pages, HDF5, PyTorch" {
    both 'mf-collect "${WORDS[@]}" run.dir=run collect.actor=expert | mf-record demos.hdf5 >/dev/null &&
        mf-bc "${WORDS[@]}" clone.dataset=demos.hdf5 run.dir=bc >bc.mf && metrics bc.mf && mf-data demos.hdf5 &&
        mf-replay demos.hdf5 | mf-view view.arrays=whole | sha256sum &&
        mkdir logs && mf-log log.formats=[csv,prometheus] log.dir=logs <bc.mf >/dev/null && sed "s/,[^,]*//2" logs/*.csv | head -3 | cut -d, -f1-4 &&
        mf-eval bc/checkpoints/clone.safetensors "${WORDS[@]}" eval.json=e.json eval.results=e.jsonl eval.format=csv >e.csv && jq -c ".results[0].return" e.json &&
        mf-ckpt export bc/checkpoints/clone.safetensors x.pt >/dev/null && mf-ckpt show x.pt | head -20 &&
        mf-plot bc plot.x=iter | head -3 && mf-plot bc plot.x=iter plot.out=c.svg && sha256sum c.svg && mf-report bc | grep -o "<svg.*" | sha256sum' &&
        ! grep -E '>[0-9]+,[0-9]+<' de_DE.UTF-8/c.svg
}

@test "mf-top on a terminal" {
    mf-collect "${WORDS[@]}" run.dir=run | mf-gae | mf-ppo "${WORDS[@]}" >/dev/null
    run -0 bash -c "(sleep 0.5; printf q) | TERM=xterm LC_ALL=de_DE.UTF-8 script -qec 'stty cols 80 rows 24; mf-top run' /dev/null"
    [[ $output == *"of 0.5"* && $output == *"1.50e-03"* && $output == *⠤* && ! $output =~ \ [0-9]+,[0-9] ]]
}

@test "a server of environments, and what a pipeline's scripts print" {
    both 'mf-collect "${WORDS[@]}" run.dir=run env=exec env.command="mf-env point" | mf-gae | mf-ppo "${WORDS[@]}" >m.mf && metrics m.mf' &&
        [[ $(LC_ALL=de_DE.UTF-8 bash -c 'source "$0"; printf "%.1f %s" 1.5 "$LC_CTYPE"' "$ROOT/pipelines/common.bash") == "1.5 de_DE.UTF-8" ]]
}
