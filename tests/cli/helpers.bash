# Loaded by every file here. Checks are chained with &&: inside `f || ..` bash turns set -e off.
bats_require_minimum_version 1.5.0
ROOT="$(cd "$BATS_TEST_DIRNAME/../.." && pwd)"
PATH="$ROOT/bin:$PATH"
export LSAN_OPTIONS="suppressions=$ROOT/tests/cli/leaks.supp:print_suppressions=0"
# shellcheck disable=SC2034 # every test uses it
T="$BATS_TEST_TMPDIR"

# A small stream, made and read without any of our code: see tests/tools/stream.py.
stream() { "$ROOT/tests/tools/stream.py" "$@"; }

# pipe 'a | b': run a pipeline and keep every exit status; they are the last line of the output.
pipe() { run bash -c "$1; echo \"\${PIPESTATUS[*]}\""; }

# ended_by STATUS PID
ended_by() {
    local rc=0
    wait "$2" || rc=$?
    [[ $rc -eq $1 ]] || { echo "status $rc, not $1"; return 1; }
}

# until_there COMMAND..: until it succeeds, for 20 s.
until_there() {
    for _ in $(seq 200); do
        "$@" && return 0
        sleep 0.1
    done
    echo "not within 20 s: $*"
    return 1
}

# interrupt SIGNAL COMMAND..: sends it to a program that has begun, and whose stream nobody reads to the end.
interrupt() {
    local signal=$1 pid
    shift
    [[ -p watched ]] || mkfifo watched
    "$@" >watched 2>/dev/null &
    pid=$!
    exec 9<watched
    head -c 1000 <&9 >/dev/null
    kill "-$signal" "$pid"
    wait "$pid" || [[ $? -gt 128 ]]
    exec 9<&-
}

# numbers ARRAY: of a stream's rollouts, a line for each step.
numbers() { mf-view view.arrays=whole | jq -r --arg a "$1" 'select(.mf == "rollout").arrays[$a].data[] | map(tostring) | join(" ")'; }

# preload NAME: build tests/tools/NAME.c, to be loaded before the C library: $T/NAME.so.
preload() {
    # shellcheck disable=SC2086 # CC may be several words
    ${CC:-cc} -shared -fPIC -o "$T/$1.so" "$ROOT/tests/tools/$1.c" || skip "no compiler"
    export ASAN_OPTIONS=verify_asan_link_order=0:$ASAN_OPTIONS
}

# without_leaks COMMAND..: what Open MPI keeps belongs to files that it has closed at the end, which leaks.supp cannot name.
without_leaks() { ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-} "$@"; }

# newest DIR: the last checkpoint of a run.
newest() { find "$1/checkpoints" -name '[0-9]*.safetensors' | sort | tail -n 1; }

# train DIR [word ...]: the pipe to its end, by the words of $small; the last checkpoint's path in $last.
train() {
    local dir=$1 status
    shift
    mf-collect "${small[@]}" run.dir="$dir" "$@" 2>"$dir.err" | mf-gae 2>>"$dir.err" |
        mf-ppo "${small[@]}" run.dir="$dir" "$@" >"$dir.mf" 2>>"$dir.err"
    status=${PIPESTATUS[*]}
    # shellcheck disable=SC2034 # the tests use it
    last=$(newest "$dir")
    [[ $status == "0 0 0" ]] || { cat "$dir.err"; echo "status $status"; return 1; }
}

# survives: the pipe of $small, in which $KILLS stages are killed and which is resumed, ends with the bytes of one that is
# left alone.
survives() {
    train want && want=$last
    local stages=(mf-collect mf-gae mf-ppo) kills=0 before shell victim end=k/checkpoints/${want##*/}
    for _ in $(seq $((KILLS * 4 + 40))); do
        bash -c 'mf-collect "$@" run.dir=k run.resume=auto | mf-gae | mf-ppo "$@" run.dir=k run.resume=auto' _ \
            "${small[@]}" >/dev/null 2>>k.err &
        shell=$!
        sleep "0.$((RANDOM % 70 + 10))"
        before=$kills
        if ((kills < KILLS)); then
            victim=$(pgrep -P "$shell" -x "${stages[RANDOM % 3]}") && kill -9 "$victim" && kills=$((kills + 1))
        fi
        wait "$shell" || true
        [[ $kills == "$before" && -e $end ]] || continue # killed at its very end it has still to say so
        cmp "$want" "$end" && mf-check k/logs/metrics.mf || return 1
        ((kills < KILLS)) || break
        rm -r k # it was done before all its kills
    done
    echo "kills $kills" && ((kills == KILLS)) && [[ -e $end ]]
}
KILLS=${KILLS:-8}

# saved DIR: the versions whose checkpoints are there.
saved() { find "$1/checkpoints" -name '[0-9]*.safetensors' -printf '%f\n' | sed 's/^0*//; s/\..*//' | sort -n | xargs; }

# iterations DIR N: has the run that many?
iterations() {
    local n
    n=$(mf-stat "$1/logs/metrics.mf" 2>/dev/null | sed -n 's/^metrics *//p')
    ((${n:-0} >= $2))
}
