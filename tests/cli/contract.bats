# The contract of all programs, tested on each of them, so also on new ones.
load helpers

each() { # each FUNCTION: call it with the name of every program
    local p
    for p in "$ROOT"/bin/mf-*; do
        "$1" "$(basename "$p")" || { echo "$p: status $status, output: $output, stderr: $stderr"; return 1; }
    done
}
reads() { "$1" --help | head -1 | grep -q -e '--in '; }
# The command line that a program needs at least: some want a file.
least() { if "$1" --help | head -1 | grep -qF '... FILE [--'; then echo "$1 $T/$1.file"; else echo "$1"; fi; }
writes() { "$1" --help | head -1 | grep -q -e '--out '; }

helps() {
    run -0 --separate-stderr "$1" --help &&
        [[ ${lines[0]} == "Usage: $1 "* && -z $stderr && $output == *log.level* && $output == *--version* ]]
}
@test "--help is on stdout, begins with usage and lists the keys" { each helps; }

versions() {
    run -0 --separate-stderr "$1" --version && [[ $output =~ ^"$1 "[0-9]+\.[0-9]+\.[0-9]+$ && -z $stderr ]]
}
@test "--version names the program and its version" { each versions; }

resolves() {
    "$1" --cfg training.batch_size=77 >"$T/cfg" &&
        grep -q '^  batch_size: 77$' "$T/cfg" &&
        "$1" --config "$T/cfg" --cfg | cmp - "$T/cfg"
}
@test "--cfg prints the given configuration, which reads back to the same" { each resolves; }

no_option() {
    run -2 --separate-stderr "$1" --no-such-option 1 &&
        [[ -z $output && $stderr == "$1: error: unknown option '--no-such-option'"* && ${#stderr_lines[@]} -eq 1 ]]
}
@test "an unknown option exits 2, says so in one line on stderr, leaves stdout empty" { each no_option; }

no_key() {
    run -2 --separate-stderr "$1" training.lerning_rate=1 &&
        [[ -z $output && $stderr == "$1: error: unknown key 'training.lerning_rate', nearest is 'training.learning_rate'"* ]]
}
@test "an unknown key exits 2 and names the nearest one" { each no_key; }

out_of_range() {
    run -2 --separate-stderr "$1" training.clip_range=-1 && [[ $stderr == *"training.clip_range=-1: must be in (0,)"* ]]
}
@test "a value out of its range exits 2" { each out_of_range; }

by_line() {
    printf 'training:\n  batch_size: 5\n  epochs: many\n' >"$T/c.yaml"
    run -2 --separate-stderr "$1" --config "$T/c.yaml" && [[ $stderr == *"$T/c.yaml:3: unknown key 'training.epochs'"* ]] &&
        run -2 --separate-stderr env MF_CONFIG="$T/c.yaml" "$1" && [[ $stderr == *"$T/c.yaml:3: "* ]]
}
@test "an error in a file names its line, also for MF_CONFIG" { each by_line; }

# no_key_but_file: a program that takes files names the form ./NAME in its error, and accepts it.
no_key_but_file() {
    "$1" --help | sed 's/ \[--.*//;q' | grep -qE 'FILE|RUN' || return 0
    run -2 --separate-stderr "$1" OUT=a=b && [[ $stderr == *"unknown key 'OUT', nearest is "*"; for the file of that name write ./OUT=a=b"* ]] &&
        run --separate-stderr timeout 5 "$1" ./OUT=a=b </dev/null && [[ $stderr != *"unknown key"* ]]
}
@test "a file whose name has a = is given as ./NAME; the error for NAME says so" {
    cd "$T" && mkdir OUT=a=b && each no_key_but_file
}

missing_value() {
    run -2 "$1" --config && [[ $output == *"--config needs a value"* ]] && run -2 "$1" --config '' && [[ $output == *"--config needs a value"* ]] &&
        run -2 "$1" run.seed=1 '' && [[ $output == *"argument 2 is empty: is a shell variable unset?"* ]] &&
        run -2 "$1" policy.checkpoint= && [[ $output == "$1: error: policy.checkpoint=: must not be empty: give a value, or null for none"* ]]
}
@test "an option, a word or a key without its value exits 2" { each missing_value; }

# A word with ~ that the shell leaves as it is.
# shellcheck disable=SC2088
tilde() {
    [[ $("$1" --help) != *"--in ADDRESS"* ]] || { run -1 bash -c "$(least "$1") --in='~/in' >/dev/null" && [[ $output == *"open $HOME/in: No such file"* ]]; } || return 1
    [[ $("$1" --help) != *"--out ADDRESS"* ]] || { run bash -c "$(least "$1") --out '~/none/out' <'$T/one'" && [[ $output == *"$HOME/none/out: "* ]]; } || return 1
    run -2 "$1" --config '~/none.yaml' && [[ $output == *"$HOME/none.yaml: No such file"* ]] && run -2 "$1" --config-dir='~/none' && [[ $output == *"$HOME/none is not a folder"* ]] &&
        run -2 env MF_CONFIG='~/none.yaml' "$1" && [[ $output == *"$HOME/none.yaml: No such file"* ]] && run -0 "$1" --config '~/a.yaml' --cfg && [[ $output == *"seed: 7"* ]]
}
# shellcheck disable=SC2088
@test "~ is \$HOME in every option and word that is a path" {
    export HOME="$T/home" && mkdir "$HOME" && echo 'run: {seed: 7}' >"$HOME/a.yaml" && stream make >"$T/one" && each tilde &&
        cp "$T/one" "$HOME/one.mf" && [[ $(mf-view '~/one.mf' | wc -l) -gt 1 ]] && run -1 mf-eval '~/none' && [[ $output == *"$HOME/none: No such file"* ]] &&
        run -2 mf-collect run.dir='~bob/x' && [[ $output == *"only ~ and ~/ are expanded"* ]]
}

full() { run -1 bash -c "$1 --help >/dev/full" && [[ $output == "$1: error: "*"No space left on device" ]]; }
@test "text onto a full disk exits 1" { each full; }

late() { run -1 --separate-stderr env LD_PRELOAD="$T/quota.so" "$@" && [[ $stderr == "$1: error: close <stdout>: Disk quota exceeded" ]]; }
late_help() { late "$1" --help; }
@test "an error of stdout that only close reports exits 1, too" {
    preload quota && each late_help && late mf-conf run.seed && stream make >"$T/s" && late mf-view "$T/s" && late mf-stat "$T/s" && late mf-gae --in "$T/s"
}

short() {
    reads "$1" || return 0
    run -3 bash -c "$(least "$1") </dev/null | cat; exit \${PIPESTATUS[0]}" && [[ $output == "$1: error: "*"without an end frame"* ]]
}
@test "an input that stops without an end frame is an error" { each short; }

garbage() {
    reads "$1" || return 0
    run -3 bash -c "echo hello there | $(least "$1") | cat; exit \${PIPESTATUS[1]}" && [[ $output == *"$1: error: "* ]]
}
@test "an input that is no stream exits 3" { each garbage; }

headless() {
    reads "$1" || return 0
    run -3 bash -c "$(least "$1") <'$T/headless' | cat; exit \${PIPESTATUS[0]}" &&
        [[ $output == *"frame 1: a stream begins with a head, not with rollout" ]]
}
@test "a stream without its head exits 3" {
    stream make head=0 >"$T/headless"
    each headless
}

nobody() {
    reads "$1" || return 0
    run -1 bash -c "$(least "$1") --in '$T/nowhere/x'"
}
@test "a missing input exits 1" { each nobody; }

keyboard() {
    reads "$1" || return 0
    run script -qec "$(least "$1")" /dev/null && [[ $status -eq 2 && $output == *"not a terminal"* ]]
}
@test "a reader refuses to read a terminal" { each keyboard; }

screen() {
    writes "$1" || return 0
    run script -qec "$(least "$1") </dev/null" /dev/null </dev/null
    # Programs at the end of a pipe show progress on a terminal, and fail on the empty input instead.
    [[ $status -eq 2 && $output == *"mf-view"* ]] || { reads "$1" && [[ $status -eq 3 ]]; } || [[ $1 == mf-bc || $1 == mf-eval ]]
}
@test "a stream is never written to a terminal" { each screen; }

terminates() {
    reads "$1" || return 0
    bash -c "exec $(least "$1")" <"$T/never" >"$T/out" &
    local pid=$!
    exec 9>"$T/never"
    sleep 0.2
    kill -TERM $pid
    ended_by 143 $pid && exec 9>&-
}
@test "SIGTERM ends a reader that waits, by SIGTERM" {
    mkfifo "$T/never"
    each terminates
}

closed_stdin() {
    reads "$1" || return 0
    run bash -c "$(least "$1") <&- >/dev/null" && [[ $status -eq 1 || $status -eq 3 ]]
}
@test "a closed stdin is an error" { each closed_stdin; }

# outlives PROGRAM COMMAND: without a reader the program warns once and exits 0.
outlives() {
    run -0 bash -c "set -o pipefail; { sleep .1; $2; } 2>'$T/said' | true" && said=$(grep -c "$1: warn: <stdout>: the reader is gone; the run continues" "$T/said") && [[ $said -eq 1 ]]
}
@test "a monitor that ends does not end a training: programs that write metrics continue without a reader" {
    cd "$T" && small=(env=point training.num_envs=4 training.num_steps_per_rollout=4 training.total_timesteps=400 'policy.hidden=[8]' 'policy.critic_hidden=[8]' threads=1)
    mf-collect "${small[@]}" run.dir=a | tee r.mf | mf-gae | tee g.mf | mf-ppo "${small[@]}" >m.mf &&
        mf-collect env=point collect.actor=expert collect.episodes=4 policy.n_action_steps=1 | mf-record d.hdf5 >e.mf || return 1
    outlives mf-ppo "mf-ppo ${small[*]} run.dir=b <g.mf" && [[ $(ls a/checkpoints) == "$(ls b/checkpoints)" ]] && cmp {a,b}/checkpoints/000007.safetensors &&
        mf-check b/logs/metrics.mf && [[ $(mf-view b/logs/metrics.mf | grep -c '"metrics"') -eq $(mf-view m.mf | grep -c '"metrics"') ]] &&
        outlives mf-bc "mf-bc clone.dataset=d.hdf5 clone.steps=30 clone.batch_size=4 'policy.hidden=[8]' run.dir=c threads=1" && mf-check c/logs/metrics.mf && [[ -e c/checkpoints/clone.safetensors ]] &&
        mkdir d && outlives mf-log "mf-log log.dir=d log.formats=[csv] <m.mf" && [[ $(tail -1 d/metrics.csv | cut -d, -f1) == $(mf-view m.mf | jq -s 'map(select(.mf == "metrics")) | last.iter') ]] &&
        outlives mf-film "mf-collect ${small[*]} run.dir=f | mf-gae | mf-ppo ${small[*]} | mf-film film.every=1 film.trials=1" && ls f/videos/*.gif
}

@test "rollouts without a reader end their writer, even if it also saves a file" {
    cd "$T" && stream make case=random T=2000 N=50 >in
    pipe "mf-record r.hdf5 <in | head -c 100 >/dev/null" && [[ ${lines[-1]} == "141 0" ]]
}

@test "one cause gives one line: programs after a failed or killed one print nothing" {
    cd "$T" && small=(env=point training.num_envs=4 training.num_steps_per_rollout=4 training.total_timesteps=400 'policy.hidden=[8]' 'policy.critic_hidden=[8]' threads=1)
    mf-collect "${small[@]}" run.dir=a | tee r.mf | mf-gae | mf-ppo "${small[@]}" >m.mf || return 1
    run bash -c "head -c $(($(wc -c <r.mf) / 2)) r.mf | mf-gae 2>>said | mf-mc 2>>said | mf-ppo ${small[*]} run.dir=b 2>>said | mf-film 2>>said | mf-log log.dir=. 2>>said >out; echo \${PIPESTATUS[*]}"
    [[ ${lines[-1]} == "0 3 3 3 3 3" && $(grep -c ': error: ' said) -eq 1 ]] && grep '^mf-gae: error: <stdin>: ends inside a frame' said || { echo "${lines[-1]}" && cat said; return 1; }
    mkdir d && run bash -c "head -c $(($(wc -c <m.mf) / 2)) m.mf | mf-film 2>said | tee cut.mf | mf-log log.dir=d 2>>said | mf-top >out 2>>said; echo \${PIPESTATUS[*]}"
    [[ ${lines[-1]} == "0 3 0 3 3" && $(grep -c . said) -eq 1 ]] && run -3 mf-stat cut.mf && [[ $output == *"is truncated: mf-film failed after"* ]] || return 1 # saved, it names the program
    { : | mf-gae | tee none.mf >/dev/null; } 2>said && run -3 mf-stat none.mf && [[ $output == *"none.mf is truncated: an earlier program failed after 0 frames"* ]]
}
