# mf-top watches runs: on a terminal with curves, elsewhere with a line for each iteration.
load helpers

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return
    mf-collect run.dir=run training.total_timesteps=8000 training.num_steps_per_rollout=16 | mf-gae | mf-ppo >metrics.mf
}

# screen 'COMMAND' KEYS: its output on a terminal of 80 columns and 24 rows.
screen() { (sleep 0.5; printf %s "$2") | TERM=xterm LC_ALL=C.UTF-8 script -qec "stty cols 80 rows 24; $1" /dev/null; }

@test "without a terminal a run is a line for each iteration, and it ends with the run" {
    run -0 bash -c "mf-top '$BATS_FILE_TMPDIR/run' | cat"
    [[ ${#lines[@]} -eq $(mf-view "$BATS_FILE_TMPDIR/metrics.mf" | grep -c '"metrics"') ]] &&
        [[ ${lines[1]} == *"run iteration=2 step="*" train/approx_kl="* ]]
}

@test "at the end of a pipe it shows the incoming metrics" {
    run -0 bash -c "mf-top <'$BATS_FILE_TMPDIR/metrics.mf' | tail -1"
    [[ $output == run\ iteration=*perf/fps=* ]]
}

@test "on a terminal it draws success, KL with its limit, numbers and shares, and q ends it" {
    run -0 screen "mf-top '$BATS_FILE_TMPDIR/run'" q
    [[ $output == *success* && $output == *" of 8k "* && $output == *"of 0.01"* && $output == *"expl. var"* ]] &&
        [[ $output == *"rollout "*"update "* && $output == *⠤* ]]
}

@test "a run's folder stands for its metrics: mf-check finds no trouble, mf-stat counts" {
    run -0 mf-check "$BATS_FILE_TMPDIR/run" && [[ ${#lines[@]} -eq 1 && $output =~ ^whole:\ [0-9]+\ frames$ ]]
    run -0 mf-stat "$BATS_FILE_TMPDIR/run" && [[ $output == *"iteration 4, "* && $output != *samples* && $output != *episodes* ]]
}

@test "several runs are shown side by side" {
    cp -r "$BATS_FILE_TMPDIR/run" "$T/other"
    run -0 screen "mf-top '$BATS_FILE_TMPDIR/run' '$T/other'" q
    [[ $output == *"run ended"* || $output == *run*ended* ]] && [[ $output == *other*ended* ]]
}

@test "a growing run is followed" {
    mkdir -p "$T/grows/logs"
    head -c 3000 "$BATS_FILE_TMPDIR/run/logs/metrics.mf" >"$T/grows/logs/metrics.mf"
    exec 9>"$T/grows/lock"
    flock -n 9 # as a run in progress does
    (sleep 0.6; cp "$BATS_FILE_TMPDIR/run/logs/metrics.mf" "$T/grows/logs/new"
        mv "$T/grows/logs/new" "$T/grows/logs/metrics.mf"; sleep 0.5) &
    exec 9>&-
    run -0 bash -c "mf-top top.interval=.1 '$T/grows' | cat"
    [[ $(grep -c ' iteration=2 ' <<<"$output") -eq 1 && $output == *"iteration=4 "* ]]
}

@test "a run that died before its first round, or never started, is an error without a wait" {
    mkdir "$T/none"
    mf-collect run.dir="$T/source" 2>/dev/null | head -c 3000 | mf-ppo run.dir="$T/dead" >/dev/null 2>&1 || [[ -s $T/dead/logs/metrics.mf ]]
    run -1 bash -c "timeout 10 mf-top '$T/dead' | cat; exit \${PIPESTATUS[0]}"
    [[ ${#lines[@]} -eq 1 && $output == "mf-top: error: $T/dead: no process is running, and no round"* ]] || return 1
    run -2 mf-top "$T/none"
    [[ $output == "mf-top: error: $T/none is not a run's folder: it has no checkpoints/ and no logs/metrics.mf"* ]] || return 1
    run -1 bash -c "timeout 10 mf-top '$BATS_FILE_TMPDIR/run' '$T/dead' | cat; exit \${PIPESTATUS[0]}" && [[ $output == *"run iteration=4 "* && $output == *"dead: no process"* ]]
}

@test "errors for input that is no run, no stream, or incomplete" {
    run -1 mf-top "$T/none" && [[ $output == "mf-top: error: cannot open $T/none: No such file or directory" ]]
    echo hello >"$T/hello"
    run -3 bash -c "mf-top '$T/hello' | cat; exit \${PIPESTATUS[0]}" && [[ $output == *"$T/hello: 1 bytes that are not one whole frame" ]]
    run -3 bash -c "head -c 3000 '$BATS_FILE_TMPDIR/metrics.mf' | mf-top | cat; exit \${PIPESTATUS[1]}" &&
        [[ $output == *"is truncated"* ]]
    run -2 script -qec "TERM=xterm mf-top" /dev/null </dev/null && [[ $output == *"give the runs to watch"* ]]
    run -2 script -qec "TERM=nonsense mf-top '$BATS_FILE_TMPDIR/run'" /dev/null && [[ $output == *"cannot be drawn on"* ]]
}

# raw: does a C0 or C1 control character stand in it, but for line ends?
raw() { LC_ALL=C grep -qP '[\x00-\x1f\x7f]|\xc2[\x80-\x9f]' "$1"; }

@test "names of folders, checkpoints and series send the terminal no commands" {
    local name=$'a\e[31m\xc2\x9b2Jb' shown='a?[31m?2Jb'
    cp -r "$BATS_FILE_TMPDIR/run" "$T/$name" && cd "$T" || return 1
    mf-top "$name" >lines && ! raw lines && grep -qF "$shown iteration=2 " lines &&
        screen "mf-top '$name'" q >drawn && grep -qF "$shown ended" drawn || return 1
    for format in text markdown; do
        mf-eval "$name" eval.num_episodes=2 eval.format=$format 2>table >/dev/null && ! raw table && grep -qF "$shown/checkpoints/" table || return 1
    done
    mf-ckpt ls "$name" >list && ! raw list && mf-ckpt verify "$name"/checkpoints/*.safetensors >good && ! raw good && grep -qF "$shown" list good &&
        mf-ckpt prune "$name" ckpt.keep=1 >removed && ! raw removed && grep -qF "$shown" removed &&
        cp "$ROOT/tests/fixtures/point.hdf5" "$name.hdf5" && mf-data "$name.hdf5" >data && ! raw data && grep -qF "$shown" data
}

@test "names of series in a stream send the terminal no commands" {
    /usr/bin/python3 -c 'import msgpack, sys
for m in msgpack.Unpacker(sys.stdin.buffer, raw=False, strict_map_key=False):
    if m["mf"] == "metrics":
        m["values"]["x\x1b[31m"] = 1.0
    sys.stdout.buffer.write(msgpack.packb(m))' <"$BATS_FILE_TMPDIR/metrics.mf" >"$T/series.mf" || skip "no python3-msgpack"
    mf-top "$T/series.mf" >"$T/lines" && ! raw "$T/lines" && [[ $(grep -cF ' x?[31m=1' "$T/lines") -eq $(wc -l <"$T/lines") ]]
}

# times FILE: of its metrics, a line each; rising: do they never fall?
times() { mf-view "$1" | jq 'select(.mf == "metrics").time'; }
rising() { times "$1" >t && [[ $(wc -l <t) -eq $2 ]] && sort -gc t && [[ $(head -1 t) != 0 ]]; }

@test "time is the run's seconds of training so far, and continues after a resume" {
    cd "$T" || return 1
    local words=(run.dir=r training.num_envs=8 training.num_steps_per_rollout=8 training.batch_size=32 training.num_epochs=1
        "policy.hidden=[16]" "policy.critic_hidden=[16]" threads=1)
    mf-collect "${words[@]}" training.total_timesteps=1000 | mf-gae | mf-ppo "${words[@]}" >first.mf &&
        mf-collect "${words[@]}" training.total_timesteps=2000 run.resume=auto | mf-gae | mf-ppo "${words[@]}" >second.mf || return 1
    rising r/logs/metrics.mf "$(($(times first.mf | wc -l) + $(times second.mf | wc -l)))" &&
        times first.mf | cmp - <(head -n "$(times first.mf | wc -l)" t) && times second.mf | cmp - <(tail -n "$(times second.mf | wc -l)" t) || return 1
    bc() { mf-bc clone.dataset="$ROOT/tests/fixtures/point.hdf5" clone.batch_size=16 "policy.hidden=[16]" threads=1 run.dir=c "$@"; }
    bc clone.steps=40 >first.mf && bc clone.steps=80 run.resume=auto run.force=true >second.mf && rising c/logs/metrics.mf 8 && times second.mf | cmp - <(tail -n 4 t)
}

@test "an older journal, whose times restart at 0 with each resume, is read as a continuous one" {
    cd "$T" || return 1
    /usr/bin/python3 -c 'import msgpack, sys
put = lambda **m: sys.stdout.buffer.write(msgpack.packb(m))
put(mf="head", v=1, run="", src="", seed=0, spec={}, chain=[])
for i, t in enumerate((2.0, 4.0, 6.0, 1.0, 3.0, 2.0)):
    put(mf="metrics", iter=i, step=100 * (i + 1), time=t, values={"rollout/success_once": 0.5})
put(mf="end", src="", frames=7, samples=0, stopped=False)' >old.mf || skip "no python3-msgpack"
    mf-top old.mf >lines && [[ $(grep -o 'time=[0-9.]*' lines | xargs) == "time=2.0 time=4.0 time=6.0 time=7.0 time=9.0 time=11.0" ]] &&
        mf-stat old.mf | grep -qx 'last       iteration 6, 600 steps, 11.0 s, success 0.500' && mf-report old.mf | grep -qF '6 iterations, 600 control steps, 11.0 s; ended' &&
        mf-plot old.mf plot.x=time plot.out=p.svg && grep -qE '> ?11<' p.svg
}

@test "missing values are a dash or left out, never nan: no episode ended, no success, one iteration, a clone" {
    cd "$T" || return 1
    /usr/bin/python3 - <<'PY' || skip "no python3-msgpack"
import msgpack, os
nan = float("nan")
kinds = {"unended": {"train/approx_kl": 4.2e-7, "rollout/episodes": 0.0}, "nothing": {},
         "nans": {"rollout/success_once": nan, "rollout/ep_return": nan, "train/approx_kl": nan, "perf/fps": nan, "perf/rollout_time": nan},
         "clone": {"train/loss": 0.0123, "train/grad_norm": 0.5}}
for name, values in kinds.items():
    for n in (1, 30):
        os.makedirs("all/%s%d/logs" % (name, n))
        with open("all/%s%d/logs/metrics.mf" % (name, n), "wb") as f:
            put = lambda **m: f.write(msgpack.packb(m))
            put(mf="head", v=1, run="", src="", seed=0, spec={}, chain=[])
            for i in range(n):
                put(mf="metrics", iter=i, step=100 * i + 100, time=1.0 + i, values=values)
            put(mf="end", src="", frames=n + 1, samples=0, stopped=False)
PY
    local run
    for run in all/*; do
        mf-top "$run" >lines && mf-stat "$run" >stat && mf-check "$run" >check && screen "mf-top '$run'" q >drawn &&
            mf-report "$run" >page && ! grep -i 'nan\b' lines stat check drawn <(sed 's/<svg.*//; s/data:[^"]*//' page) || return 1
        mf-plot "$run" >plot || [[ $run == *no* || $run == *nan* ]] || return 1
        ! grep -i 'nan\b' plot || return 1
    done
    screen "mf-top all/unended30" q >drawn && grep -qF 'success -' drawn && grep -qF 'KL 4.2e-07' drawn &&
        screen "mf-top all/clone30" q >drawn && grep -qF 'loss 0.0123' drawn && grep -qF 'gradient norm 0.5' drawn && grep -qF 'clone30 ended: iteration 30, 3000 steps, loss 0.0123' drawn &&
        mf-stat all/clone1 | grep -qx 'last       iteration 1, 100 steps, 1.0 s, loss 0.0123' && mf-stat all/nans1 | grep -qx 'last       iteration 1, 100 steps, 1.0 s' &&
        mf-report all >page && mf-plot all plot.out=p.png 'plot.series=[train/loss]'
}
