# Sourced by the scripts here: the folder of a run, the exit of its stages, and hints for the next commands.
# tree has pipelines/, bin/, configs/ and examples/, in a clone and where make install puts them.
tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
users_path=$PATH
PATH=$tree/bin:$PATH
script=pipelines/$(basename "$0")

# printf and sort of every script here write and read numbers with a point; characters stay the terminal's.
export LC_CTYPE=${LC_ALL:-${LC_CTYPE:-${LANG:-C}}} LC_NUMERIC=C LC_COLLATE=C
unset LC_ALL

# The comment at the top of the script is its help.
help() { sed -n '2,/^[^#]/s/^#  *//p' "$0"; }

# word KEY VALUE: KEY=VALUE as a word that gives VALUE whatever is in it; a plain path stays readable.
word() {
    if [[ $2 =~ ^[A-Za-z/][A-Za-z0-9_./-]*$ && $2 == *[./]* ]]; then
        printf '%s=%s' "$1" "$2"
    else
        printf "%s='%s'" "$1" "$(printf %s "$2" | sed -zE -e 's/(\\*)\$\{/\1\1\\${/g' -e "s/(\\\\*)'/\\1\\1\\\\'/g" -e 's/(\\+)$/\1\1/')"
    fi
}

# file PATH: as a word that no program takes for a key.
file() { if [[ $1 == *=* && $1 != [./]* ]]; then echo "./$1"; else echo "$1"; fi; }

# made_in CHECKPOINT: the name of its environment, or nothing.
made_in() { mf-ckpt show "$1" 2>/dev/null | sed -n 's/^spec.env  *\(..*\)/\1/p'; }

# run_dir KIND WORDS..: run.dir, or outputs/NAME/KIND, the folder of that run on the shelf outputs/NAME; the name is
# run.name, wandb_run_name, or that of the environment, which the checkpoint says where nobody does.
run_dir() {
    local value kind=$1
    mapfile -t value <<<"$(mf-conf "${@:2}" run.dir run.name wandb_run_name env.name policy.checkpoint && echo .)"
    ((${#value[@]} <= 6)) || echo "$script: run.dir, run.name and policy.checkpoint have no room for a second line" >&2
    ((${#value[@]} == 6)) || return 1
    if [ "${value[3]}" = point ] && [ -e "${value[4]}" ]; then
        value[3]=$(made_in "${value[4]}")
    fi
    local name=${value[1]:-${value[2]:-${value[3]:-point}}}
    name=${name//\//_} # a name from a checkpoint or for W&B is no path
    echo "${value[0]:-outputs/${name/#./_}/$kind}"
}

# policy_there WORDS..: where they name a policy to start from, it is there; else the script ends before anything begins.
policy_there() {
    local path
    path=$(mf-conf "$@" policy.checkpoint) || exit 2
    [ -z "$path" ] || mf-ckpt path "$(file "$path")" >/dev/null || exit 2
}

# cores: those that this script may use, by its affinity and the quota of its control group.
cores() {
    local n quota period group
    n=$(nproc)
    group=$(sed -n 's/^0:://p' /proc/self/cgroup 2>/dev/null)
    while :; do
        read -r quota period <"/sys/fs/cgroup${group%/}/cpu.max" || quota=max
        if [[ $quota =~ ^[0-9]+$ ]] && (((quota + period - 1) / period < n)); then n=$(((quota + period - 1) / period)); fi
        [[ $group == */?* ]] || break
        group=${group%/*}
    done 2>/dev/null
    echo "$n"
}

# sockets DIR: a folder for the sockets of that run: its own, or a private one where their paths would be too long.
sockets() {
    if (($(printf %s "$1" | wc -c) <= 90)); then echo "$1"; else mktemp -d "${TMPDIR:-/tmp}/maniflow-XXXXXXXX"; fi
}

# once OPTION WORD..: a word that is there twice is an error; numbers are equal by value.
once() {
    local word option=$1
    local -A seen
    for word in "${@:2}"; do
        [[ ! $word =~ ^0+[0-9] ]] || word=$((10#$word))
        [ -z "${seen[$word]:-}" ] || { echo "$script: $option has $word twice: give it once" >&2 && exit 2; }
        seen[$word]=1
    done
}
# seeds_are "0 1 2": of an option --seeds.
seeds_are() {
    [[ $1 =~ ^[0-9]{1,18}( +[0-9]{1,18})*$ ]] || { echo "$script: --seeds '$1': give numbers, as in --seeds \"0 1 2\"" >&2 && exit 2; }
    # shellcheck disable=SC2086 # words
    once --seeds $1
}

# quoted PATH: for a shell, and no program takes it for a key. tool NAME: so that the user's shell finds it.
quoted() { printf %q "$(file "$1")"; }
tool() {
    local path
    path=$(command -v "$1")
    if PATH=$users_path command -v "$1" >/dev/null; then
        echo "$1"
    else
        printf '%q\n' "${path#"$PWD/"}"
    fi
}

# anew DIR NAME..: a folder for a script that begins anew. What it made there before goes, those names alone, and a folder
# that holds anything and that it did not make, as the mark in it says, is refused.
anew() {
    local mark name
    mark=$1/.maniflow-$(basename "$script")
    if [ ! -e "$mark" ] && { [ -e "$1" ] || [ -L "$1" ]; } && { [ ! -d "$1" ] || [ -n "$(ls -A "$1")" ]; }; then
        echo "$script: OUT=$1 is not empty and was not made by this script; nothing was changed; give a new or an empty folder" >&2
        exit 2
    fi
    mkdir -p "$1"
    for name in "${@:2}"; do rm -rf "${1:?}/$name"; done
    : >"$mark"
}

# begin DIR: say how to watch it. What is in its logs is of earlier starts.
declare -A before
begin() {
    local log
    left=$(last_metrics "$1")
    for log in "$1"/logs/*.log; do
        [ ! -e "$log" ] || before[$log]=$(wc -c <"$log")
    done
    [ -n "$terminal" ] || echo "$1: watch it from another terminal: $(tool mf-top) $(quoted "$1")" >&2
}

# fresh WORDS..: a line where a policy that nobody cloned would have to find a sparse reward by chance.
fresh() {
    local value
    value=$(mf-conf "$@" policy.checkpoint env.name 2>/dev/null)
    [[ $value != $'\n'@(lift|can) ]] || # no checkpoint
        echo "$script: ${value:1} starts from fresh weights, and its reward is sparse; policy.checkpoint=.. starts from a clone" >&2
}

# What log.progress is here.
# shellcheck disable=SC2034 # scripts use it
progress=true

# hush: a program that reads our frames from a pipe, as mf-top does, has the terminal for itself until it ends: stderr is
# kept back. speak: wait for its end, then show what was kept, without the lines that the run's logs/ have and that are
# no trouble.
terminal='' kept=''
hush() {
    local file
    [ -p /dev/stdout ] && [ -t 2 ] || return 0
    file=$(mktemp) || return 0
    exec {terminal}>&2 2>"$file"
    exec {kept}<"$file"
    rm "$file"
    # shellcheck disable=SC2034 # scripts use it
    progress=false
    trap speak EXIT
}
speak() {
    local pipe
    [ -n "$terminal" ] || return 0
    pipe=$(printf %q "$(readlink "/proc/$$/fd/1")") # for find, a pattern
    exec >/dev/null
    while [ -n "$(find /proc/[0-9]*/fd/0 -lname "$pipe" 2>/dev/null)" ]; do sleep .1; done
    exec 2>&"$terminal"
    exec {terminal}>&-
    terminal=''
    grep -v ': info: ' <&"$kept" >&2
    exec {kept}<&-
}

# A pipe is started from its end: each program writes to the one that was started before it, the first of all to stdout.
# All are children of the script, each with its exit status, and what asks the script to end asks all of them.
names=() pids=() status=() signal='' to=''
open_pipe() { # if it is not open
    local s
    [ -n "$to" ] || exec {to}>&1
    ((${#pids[@]} == 0)) || return 0
    names=()
    for s in INT TERM HUP; do
        # shellcheck disable=SC2064 # this one
        trap "pass_on $s" "$s"
    done
}
behind() { # COMMAND..
    open_pipe
    local out=$to
    exec {to}> >(exec "$@" >&"$out")
    pids=("$!" "${pids[@]}") names=("${1##*/}" "${names[@]}")
    exec {out}>&-
}
source_is() { # COMMAND..: the program that reads nothing
    open_pipe
    if [ -z "$signal" ]; then
        "$@" >&"$to" </dev/null &
        pids=("$!" "${pids[@]}") names=("${1##*/}" "${names[@]}")
    fi
    exec {to}>&-
    to=
}
pass_on() { # SIGNAL: a terminal that closes leaves time to save
    signal=$1
    kill -s "${1/HUP/TERM}" "${pids[@]}" 2>/dev/null
}
resumable='' # the run that the same words go on with
wait_all() { # until all have ended, into status; and end by the signal that came
    local pid rc
    status=()
    for pid in "${pids[@]}"; do
        while wait "$pid"; rc=$?; kill -0 "$pid"; do :; done 2>/dev/null
        status+=("$rc")
    done
    pids=()
    trap - INT TERM HUP
    speak
    [ -z "$signal" ] || stopped "$signal"
}
stopped() { # SIGNAL
    local newest frame
    if [ -n "$resumable" ]; then
        newest=$(mf-ckpt path "$resumable" 2>/dev/null)
        frame=$(last_frame "$resumable")
        echo "$script: stopped by SIG$1; ${newest:+the newest checkpoint is $newest; }${frame:+$frame; }the same words resume it" >&2
    fi
    kill -s "$1" $$
}

# all_well: wait for a pipe that is a step of the script, and whose programs have said what there is to say.
all_well() {
    wait_all
    [[ ${status[*]} =~ ^[0\ ]*$ ]]
}

# said DIR NAME: the last error that the program's log has of this start.
said() {
    local log=$1/logs/$2.log
    [ ! -e "$log" ] || tail -c +$((${before[$log]:-0} + 1)) "$log" | grep ': error: ' | grep -v ' is truncated: ' | tail -1 | sed 's/^.*: error: //'
}

# why DIR NAME STATUS: the signal, or that error.
why() {
    if (($3 > 128)); then echo "died by SIG$(kill -l $(($3 - 128)))" && return; fi
    local error
    error=$(said "$1" "$2")
    echo "ended with $3${error:+: $error}"
}

# guilty DIR FROM TO: which of those programs began it; nothing where all is well. Those behind it read a stream that is
# cut (3, without an error of their own), those before it write to nobody (SIGPIPE), and a collector that lost its
# learner ends with 1.
guilty() {
    local i cut='' closed='' collector=''
    for ((i = $2; i < $3; i++)); do
        case ${status[i]} in
        0) ;;
        141) closed=$i ;;
        3) if [ -n "$(said "$1" "${names[i]}")" ]; then echo "$i" && return; fi && cut=${cut:-$i} ;;
        1) if ((i)); then echo "$i" && return; fi && collector=0 ;;
        *) echo "$i" && return ;;
        esac
    done
    echo "${collector:-${cut:-$closed}}"
}

# deaths DIR WORKERS WORDS..: a line for the program that began it, among the first WORKERS of the pipe, whose exit decides the
# script's; the rest are monitors. The same words go on where they resume and there is a checkpoint.
deaths() {
    local i frame again=''
    i=$(guilty "$1" 0 "$2")
    if [ -n "$i" ]; then
        frame=$(last_frame "$1")
        if [ "${status[i]}" -ne 2 ] && [ -n "$frame" ] && [ "$(mf-conf "${@:3}" run.resume)" = auto ] &&
            compgen -G "$1/checkpoints/*.safetensors" >/dev/null; then
            again="; the same words resume it"
        fi
        echo "$script: ${names[i]} $(why "$1" "${names[i]}" "${status[i]}"); ${frame:-this start wrote no metrics}$again" >&2
        return 1
    fi
    i=$(guilty "$1" "$2" "${#names[@]}")
    [ -z "$i" ] || echo "$script: ${names[i]} $(why "$1" "${names[i]}" "${status[i]}"); training continued without it" >&2
}

# last_metrics DIR: the last metrics frame of its journal. last_frame DIR: in words, where this start wrote it.
last_metrics() {
    [ ! -f "$1/logs/metrics.mf" ] || mf-view <"$1/logs/metrics.mf" 2>/dev/null | grep '"mf": *"metrics"' | tail -1
}
left=''
last_frame() {
    local now
    now=$(last_metrics "$1")
    [ "$now" = "$left" ] || jq -r '"the last metrics are of iteration \(.iter + 1), \(.step) steps"' <<<"$now"
}

# shelve DIR WORDS..: a run that went to outputs/NAME is the latest of that shelf, once it has learned something.
shelve() {
    local given
    given=$(mf-conf "${@:2}" run.dir)
    if [ -z "$given" ] && compgen -G "$1/checkpoints/*.safetensors" >/dev/null; then
        ln -sfn "$(basename "$1")" "$(dirname "$1")/latest"
    fi
}

# choose WORDS..: the programs that they name, as the array estimator, with its words, and as learner. mf-sac takes
# rollouts without advantages: the array is empty. A configuration of cloning is refused.
choose() {
    local key w
    mapfile -t key < <(mf-conf "$@" advantage.advantage_type advantage.stage policy.steer run.pipeline)
    [ "${key[3]-train}" = train ] || { echo "$script: run.pipeline=${key[3]}: this configuration clones; run it with pipelines/${key[3]}" >&2 && exit 2; }
    learner=mf-ppo
    case ${key[0]} in
    monte_carlo) estimator=(mf-mc "$@") ;;
    n_step) estimator=(mf-nstep "$@") ;;
    grpo) estimator=(mf-grpo "$@") ;;
    *) estimator=(mf-gae "$@") ;;
    esac
    # shellcheck disable=SC2034 # scripts use it
    [ "${key[2]}" != sac ] || learner=mf-sac estimator=()
    [ -n "${key[1]}" ] || return 0
    read -ra estimator <<<"${key[1]}"
    command -v "${estimator[0]}" >/dev/null || { echo "$script: advantage.stage: no program ${estimator[0]}" >&2 && exit 2; }
    for w in "$@"; do [[ $w == -* || $w != *=* ]] || estimator+=("$w"); done
}

# again COMMAND WORD.. [-- WORD..]: the command as a line for a shell, with those words behind the -- that go with any
# run of the configuration: what says where a run lies, how it begins and what it is cloned from is left out.
again() {
    local line='' word
    [ -z "${MF_CONFIG:-}" ] || printf -v line 'MF_CONFIG=%q ' "$MF_CONFIG"
    while (($#)) && [ "$1" != -- ]; do printf -v word '%q ' "$1" && line+=$word && shift; done
    for word in "${@:2}"; do
        case $word in
        run.dir=* | run.resume=* | run.force=* | clone.* | task.dataset_path=* | policy.checkpoint=* | log.progress=*) continue ;;
        esac
        printf -v word '%q ' "$word" && line+=$word
    done
    echo "${line% }"
}

# look_at DIR 'COMMAND'..
look_at() {
    printf '\n%s is done. Next:\n' "$1"
    printf '    %s\n' "${@:2}"
} >&2
