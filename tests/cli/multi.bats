# Several collectors, one learner: collectors join, leave, die and send invalid frames.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    small=(env=point training.num_envs=8 training.num_steps_per_rollout=8 training.total_timesteps=2400
        training.batch_size=32 training.num_epochs=2 'policy.hidden=[32]' 'policy.critic_hidden=[32]' threads=1)
}

teardown() { # what a failed test has left
    local rest
    for rest in $(jobs -p); do
        pkill -9 -P "$rest" || true
        kill -9 "$rest" 2>/dev/null || true
    done
}

# save FILE: tee. Where `hold` is set, only that many bytes pass, and then it waits.
save() {
    [[ -z ${hold:-} ]] || { stdbuf -o0 head -c "$hold" | tee "$1" && exec sleep 1000; }
    exec tee "$1"
}
half() { echo $(($(stat -c %s "$1.rollouts") / 2)); }

# learn DIR [word ...]: mf-gae | mf-ppo that wait for two sources; collect DIR NAME [word ...]: one of them.
learn() {
    local dir=$1
    shift
    mkdir -p "$dir"
    { mf-gae --in "ipc://$PWD/$dir/in" "${small[@]}" "$@" 2>"$dir.gae" | save "$dir.rollouts" |
        mf-ppo "${small[@]}" collect.policy_address="ipc://$PWD/$dir/policy" run.dir="$dir" collect.sources=2 "$@" >"$dir.mf" 2>"$dir.ppo"; } &
    learner=$!
}
collect() {
    local dir=$1 name=$2
    shift 2
    mf-collect --out "ipc://$PWD/$dir/in" "${small[@]}" collect.policy_address="ipc://$PWD/$dir/policy" collect.src="$name" "$@" 2>"$dir.$name" &
    collector=$!
}
# both DIR [word ...]: a whole run of two.
both() {
    learn "$@"
    collect "$1" a "${@:2}"
    local a=$collector
    collect "$1" b "${@:2}"
    wait "$a" && wait "$collector" && wait "$learner"
}

@test "train-multi: an invalid number starts nothing; the error names the program that died, not those that end because of it" {
    local n
    # shellcheck disable=SC2016 # what a shell would run
    for n in 0 foo -1 10000 --config-name=lift 'a[$(touch ran)]'; do
        run "$ROOT/pipelines/train-multi" "$n" run.dir=none
        [[ $status -eq 2 && ${#lines[@]} -eq 1 && $output == *"give a number from 1 to 9999 first" ]] || return 1
    done
    [[ ! -e ran && ! -e none ]] && run -2 "$ROOT/pipelines/train-multi" 2 run.dir=none run.sed=1 && [[ ! -e none ]] || return 1
    for n in mf-gae mf-ppo; do
        "$ROOT/pipelines/train-multi" 2 "${small[@]}" run.dir=$n training.total_timesteps=100000000 2>said &
        local script=$!
        until_there iterations $n 2 && pkill -KILL -P $script -x $n || return 1
        ended_by 1 $script && grep -q "^pipelines/train-multi: $n died by SIGKILL; the last metrics are of iteration" said || { cat said; return 1; }
    done
    "$ROOT/pipelines/train-multi" 2 "${small[@]}" run.dir=both training.total_timesteps=100000000 2>said &
    script=$!
    until_there iterations both 2 && pkill -KILL -P $script -x mf-collect || return 1
    ended_by 1 $script && grep -q "^pipelines/train-multi: mf-collect died by SIGKILL" said || { cat said; return 1; }
}

@test "train-multi: --help anywhere; the processes share the cores; sockets of a path that is too long go to TMPDIR and are removed" {
    "$ROOT/pipelines/train-multi" 2 --help | grep -q "^Train with several collectors" && [[ -z $(ls) ]] || return 1
    local deep
    deep=$(printf 'd%.0s' {1..100}) && mkdir tmp
    cores() { taskset -c 0 bash -c "source '$ROOT/pipelines/common.bash'; cores"; }
    [[ $(cores) == 1 ]] && TMPDIR=$T/tmp taskset -c 0 "$ROOT/pipelines/train-multi" 2 "${small[@]}" threads=0 training.total_timesteps=600 run.dir="$deep" 2>said >/dev/null &&
        grep -q "is too long for sockets: they are in $T/tmp/maniflow-" said && [[ -z $(ls tmp) && -n $(newest "$deep") ]] || { cat said; return 1; }
    "$ROOT/pipelines/train-multi" 2 "${small[@]}" threads=0 collect.max_lag=1 training.total_timesteps=600 run.dir=m >m.mf 2>said || { cat said; return 1; }
    local all one half
    all=$(bash -c "source '$ROOT/pipelines/common.bash'; cores") && half=$(((all + 1) / 2)) && one=$(((all - half) / 2))
    [[ $(mf-view m.mf | jq -r 'select(.mf == "head").chain[] | select(.stage != "mf-gae").argv | map(select(startswith("threads="))) | last' | xargs) == "threads=$((one ? one : 1)) threads=$half" ]]
}

@test "train-multi: TERM and INT end all of its programs, and no program is reported as failed" {
    local sig pid
    for sig in TERM INT; do
        env --default-signal=INT setsid "$ROOT/pipelines/train-multi" 2 "${small[@]}" run.dir=$sig training.total_timesteps=100000000 >$sig.mf 2>said &
        pid=$!
        until_there iterations $sig 2 && if [[ $sig == TERM ]]; then kill -TERM $pid; else kill -INT -- -$pid; fi &&
            ended_by $((128 + $(kill -l $sig))) $pid && ! pgrep -s $pid && [[ ! -e $sig/advantages ]] && grep -q "^pipelines/train-multi: stopped by SIG$sig; the newest checkpoint is $sig/checkpoints/0" said && ! grep ' ended with \| died ' said || { cat said; return 1; }
    done
    mf-check INT.mf
}

@test "a second reader at an address is refused, and the first continues" {
    begin_long && run -1 timeout 10 mf-gae --in "ipc://$PWD/a/in" && [[ $output == *"cannot bind ipc://$PWD/a/in: Address already in use" ]] || return 1
    run -1 timeout 10 mf-ppo --in a.rollouts collect.policy_address="ipc://$PWD/a/policy" run.dir=other && [[ $output == *"a/policy: Address already in use"* ]] || return 1
    collect a c && local c=$collector && until_there grep -qa "collect.src=c" a.rollouts || return 1
    kill -INT "$c" && ended_by 130 "$c" && ends_well && mf-view a.rollouts | jq -r 'select(.mf == "head") | .src' | grep -qx c || return 1
    mf-gae --in "tcp://127.0.0.1:21977" --out /dev/null & local first=$!
    sleep 0.3
    run -1 timeout 10 mf-gae --in "tcp://127.0.0.1:21977" && [[ $output == *"cannot bind tcp://127.0.0.1:21977: Address already in use" ]] && kill $first
}

@test "train-multi: two collectors, one run; the same words give the same bytes" {
    "$ROOT/pipelines/train-multi" 2 "${small[@]}" run.dir=a >a.mf 2>said && mf-check a.mf && grep -q "^a is done. Next:" said &&
        "$ROOT/pipelines/train-multi" 2 "${small[@]}" run.dir=b collect.slices=3 >b.mf && cmp "$(newest a)" "$(newest b)" &&
        "$ROOT/pipelines/train-multi" 2 "${small[@]}" run.dir=c run.seed=1 >c.mf && ! cmp -s "$(newest a)" "$(newest c)"
}

@test "the order and the speed of sources change no bit" {
    both want
    learn late && collect late b && sleep 0.5 && collect late a && wait "$learner" && cmp "$(newest want)" "$(newest late)"
}

@test "a stream of two sources is complete after the filter, replays to the same bytes, and is counted" {
    both a && mf-check a.rollouts && mf-stat a.rollouts | grep -qx 'head *2' && mf-stat a.rollouts | grep -qx 'end *2' &&
        mf-record r.hdf5 <a.rollouts >/dev/null && mf-replay r.hdf5 | cmp - a.rollouts &&
        mf-ppo "${small[@]}" run.dir=again <a.rollouts >/dev/null && cmp "$(newest a)" "$(newest again)" &&
        [[ $(mf-view a.rollouts | jq -r 'select(.mf == "rollout") | .src' | sort -u | tr '\n' ' ') == "a b " ]]
}

@test "collectors are killed and restart: no rollout is lost or used twice" {
    "$ROOT/tests/tools/soak" "${CYCLES:-10}" "$PWD"
}

@test "all programs are killed and resume: the bytes of a run that was never killed" {
    small+=(training.total_timesteps=20000)
    both want || return 1
    hold=$(half want) learn k && collect k a && local a=$collector && collect k b && local b=$collector
    until_there iterations k 5 && kill -9 "$a" "$b" && pkill -9 -P "$learner" || return 1
    wait || true
    [[ $(newest k) != k/checkpoints/$(basename "$(newest want)") ]] && both k run.resume=auto && cmp "$(newest want)" "$(newest k)"
}

@test "the learner is killed and resumes while the collectors run: they resend the missing rounds" {
    small+=(training.total_timesteps=20000 wire.patience=20)
    both want || return 1
    hold=$(half want) learn k && collect k a && local a=$collector && collect k b
    until_there iterations k 5 && pkill -9 -P "$learner" || return 1
    wait "$learner" || true
    learn k run.resume=auto && wait "$a" && wait "$collector" && wait "$learner" && grep -q 'sending the' k.a &&
        cmp "$(newest want)" "$(newest k)"
}

# between [word ...]: want is a run of two that saves each version; k has consumed 6 of its 10 or 11 rounds and saved the
# fourth version, with collectors a and b that wait for more.
between() {
    local words=("${small[@]}")
    small+=(training.total_timesteps=5000 wire.patience=20 "$@")
    rm -rf want k k.?
    both want && hold=$(($(stat -c %s want.rollouts) * 65 / 100)) learn k training.save_every=4 && of_node "" a && of_node "" b &&
        until_there iterations k 6 && [[ $(saved k) == 4 ]]
}
# dies: the learner of k, with its filter; continues: another one, to the end, as all others.
dies() { pkill -9 -P "$learner" && ended_by 137 "$learner"; }
continues() { learn k training.save_every=4 run.resume=auto && wait "$learner" "${arm[@]}" && cmp "$(newest want)" "$(newest k)"; }

@test "training.save_every: the learner is killed between two checkpoints; the collectors resend the rounds since: the same bytes, with a lag, too" {
    declare -A arm
    local lag last=10
    for lag in 0 1; do
        between collect.max_lag=$lag && dies && continues && [[ $(saved k) == "4 8 $last" ]] && grep -q "sending the [2-5] rounds that it lacks" k.a &&
            ! grep 'dropped\|differ' k.ppo && mf-check k/logs/metrics.mf >/dev/null 2>&1 && [[ $(mf-stat k/logs/metrics.mf | sed -n 's/^metrics *//p') == "$last" ]] || { tail -n 5 k.[abp]*; return 1; }
        last=11
    done
}

@test "training.save_every: a collector that was restarted since collects the rounds anew; one that cannot says so" {
    declare -A arm
    between && kill -9 "${arm[b]}" && ended_by 137 "${arm[b]}" && of_node "" b && sleep .5 && dies && continues &&
        grep -q "collecting anew from iteration 4 on" k.b && grep -q "sending the 3 rounds that it lacks" k.a || { tail -n 5 k.[abp]*; return 1; }
    small+=(training.total_timesteps=1000000000 training.save_every=1000 wire.patience=2)
    learn m collect.sources=1 && collect m a && local a=$collector && until_there iterations m 3 && collect m b && until_there grep -qaE 'src.b' m.rollouts && dies &&
        learn m collect.sources=1 && ended_by 1 "$collector" && grep -q "error: the learner restarted at iteration 0, where this source was not there yet: it joined at [1-9]" m.b || { tail -n 5 m.[abp]*; return 1; }
    until_there iterations m 3 && kill -INT "$a" && ended_by 130 "$a" && wait "$learner" && [[ -n $(newest m) ]]
}

@test "the filter is killed, and the learner ends with its stream: a waiting collector gets the policy of the next learner" {
    small+=(wire.patience=20)
    both want && learn k && collect k a && local a=$collector && until_there env LC_ALL=C grep -qa mf.round k.rollouts || return 1
    pkill -9 -P "$learner" -x mf-gae && ended_by 3 "$learner" && learn k run.resume=auto && collect k b &&
        wait "$a" && wait "$collector" && wait "$learner" && cmp "$(newest want)" "$(newest k)"
}

@test "one collector joins at the current version, one leaves, one dies: the others continue" {
    small+=(training.total_timesteps=1000000000)
    learn a && collect a a && local a=$collector && collect a b && local b=$collector
    until_there iterations a 3 && collect a c && local c=$collector
    joined() { [[ $(mf-view a.rollouts 2>/dev/null | jq -r 'select(.mf == "round" and .src == "c") | .iter' | head -n 1) -ge 3 ]]; }
    until_there joined || return 1
    kill -9 "$b" && until_there grep -q "source 'b' disconnected without an end frame" a.gae || return 1
    kill -INT "$a" && ended_by 130 "$a" && local seen && seen=$(mf-stat a/logs/metrics.mf 2>/dev/null | sed -n 's/^metrics *//p')
    until_there iterations a $((seen + 3)) && kill -INT "$c" && ended_by 130 "$c" && wait "$learner" && mf-check a.rollouts && mf-check a.mf &&
        grep -q "warn: since this start, [0-9]* of [0-9]* rounds lacked a source that did not return: 'b' since iteration" a.ppo && ! grep "'[ac]' since" a.ppo &&
        [[ $(mf-view a.rollouts | jq -r 'select(.mf == "end") | "\(.src)\(.lost // "")\(.stopped)"' | sort | tr '\n' ' ') == "atrue btruefalse ctrue " ]]
}

@test "collect.required: without one of its sources the learner ends with an error that names it, and resumes to the same bytes" {
    small+=(training.total_timesteps=20000)
    both want && learn k collect.required=2 && collect k a && local a=$collector && collect k b && until_there iterations k 5 || return 1
    kill -9 "$collector" && ended_by 1 "$learner" && grep -q "error: iteration [0-9]* has parts of 1 sources, fewer than collect.required=2 (missing: 'b' since iteration" k.ppo || { cat k.ppo; return 1; }
    wait || true
    both k run.resume=auto && cmp "$(newest want)" "$(newest k)" &&
        run -2 mf-ppo "${small[@]}" collect.sources=2 collect.required=3 run.dir=u <k.rollouts && [[ $output == *"collect.required=3 is more than collect.sources=2"* ]]
}

# four [word ...]: want is a run of four collectors; two filters, each of two of them, are one for k.
four() {
    small+=(collect.sources=4 wire.patience=20)
    local name pids=()
    learn want && for name in a b c d; do collect want "$name" && pids+=("$collector"); done
    wait "$learner" "${pids[@]}" && mkdir k || return 1
    mf-ppo "${small[@]}" --in "ipc://$PWD/k/between" collect.policy_address="ipc://$PWD/k/policy" run.dir=k >/dev/null 2>k.ppo & learner=$!
    filter 1 && filter 2
}
filter() { # NODE
    mf-gae --in "ipc://$PWD/k/in$1" --out "ipc://$PWD/k/between" "${small[@]}" 2>>"k.gae$1" &
    node[$1]=$!
}
of_node() { # NODE NAME
    mf-collect --out "ipc://$PWD/k/in$1" "${small[@]}" collect.policy_address="ipc://$PWD/k/${policy:-policy}" collect.src="$2" 2>>"k.$2" &
    arm[$2]=$!
}

@test "a filter per node sends several sources over one connection; a collector and a filter are killed and restart: the same bytes" {
    declare -A node arm
    small+=(training.total_timesteps=40000)
    four && of_node 1 a && of_node 1 b && of_node 2 c && of_node 2 d && until_there iterations k 5 || return 1
    kill -9 "${arm[b]}" && of_node 1 b && until_there iterations k 20 && kill -9 "${node[2]}" && ended_by 137 "${node[2]}" && filter 2 &&
        wait "$learner" "${arm[@]}" "${node[@]}" && cmp "$(newest want)" "$(newest k)" && grep -q "sending the .* rounds that it lacks" k.c &&
        ! grep -h "lacked a source" k.ppo || { tail -n 5 k.*; return 1; }
}

@test "300 sources in one stream: each is passed on and counted" {
    stream make >one.mf || skip "no python3-msgpack"
    /usr/bin/python3 -c '
import msgpack, os, sys
frames = list(msgpack.Unpacker(open("one.mf", "rb"), strict_map_key=False))
for f in frames:
    for i in range(300):
        os.write(1, msgpack.packb({**f, "src": f"c{i}"}))' >many.mf
    mf-gae <many.mf >out.mf && mf-check out.mf && mf-stat out.mf | grep -qx 'head *300' && mf-stat out.mf | grep -qx 'end *300'
}

@test "mf-relay: checkpoints are the same with it; it is killed and restarts, the learner is killed and resumes; it ends after the learner" {
    small+=(training.total_timesteps=20000 wire.patience=20)
    relay() { mf-relay "ipc://$PWD/k/relay" collect.policy_address="ipc://$PWD/k/policy" 2>>k.relay & relay=$!; }
    declare -A arm
    local relay policy=relay
    both want && hold=$(half want) learn k && relay && of_node "" a && of_node "" b && until_there iterations k 3 || return 1
    kill -9 "$relay" && ended_by 137 "$relay" && relay && until_there iterations k 10 && pkill -9 -P "$learner" || return 1
    wait "$learner" || true
    learn k run.resume=auto && wait "$learner" "${arm[@]}" && cmp "$(newest want)" "$(newest k)" && ended_by 0 "$relay" && grep -q "has ended" k.relay || { tail -n 5 k.?; return 1; }
    run -1 mf-relay "ipc://$PWD/k/relay" collect.policy_address="ipc://$PWD/k/none" collect.policy_timeout=.2 && [[ $output == *"no learner at ipc://"*"/none for 0.2 s"* ]] &&
        run -2 mf-relay collect.policy_address="ipc://$PWD/k/none" && run -2 mf-relay ipc://x collect.policy_address=ipc://x && [[ $output == *"ipc://x is the learner's address"* ]]
}

@test "cluster: the job of three nodes, each a process here, learns the same as four collectors" {
    small+=(collect.sources=4)
    "$ROOT/pipelines/cluster" --nodes 3 --collectors 2 --cpus 1 --address localhost "${small[@]}" training.total_timesteps=4000 run.dir=k >job.sh && bash -n job.sh && shellcheck -S warning job.sh || return 1
    run -2 "$ROOT/pipelines/cluster" --nodes 2 --collectors 0 && [[ $output == *"give a number from 1"* ]] || return 1
    mkdir tools && cat >tools/scontrol <<'END' && cat >tools/srun <<'END' && chmod +x tools/*
#!/bin/sh
printf '%s\n' localhost n2 n3
END
#!/usr/bin/env bash
while [[ $1 == --* ]]; do [[ $1 != --nodes=* ]] || n=${1#*=}; shift; done
for ((i = 0; i < n; i++)); do SLURM_PROCID=$i "$@" & pids+=($!); done
for pid in "${pids[@]}"; do wait "$pid" || exit; done
END
    local name pids=()
    learn want training.total_timesteps=4000 && for name in node0.0 node0.1 node1.0 node1.1; do collect want $name training.total_timesteps=4000 && pids+=("$collector"); done
    wait "$learner" "${pids[@]}" || return 1
    PATH=$T/tools:$PATH SLURM_JOB_ID=$((RANDOM % 5000)) SLURM_CPUS_PER_TASK=1 timeout 60 bash job.sh 2>said & local job=$!
    ended_by 0 $job && cmp "$(newest want)" "$(newest k)" && [[ $(stat -c %a k/keys/learner.secret) == 600 ]] || { cat said; return 1; }
}

# ---- addresses ----

@test "IPv6, localhost and a free port: rollouts, policy and environments connect, to the same bytes" {
    /usr/bin/python3 -c 'import socket; socket.socket(socket.AF_INET6).bind(("::1", 0))' 2>/dev/null || skip "no IPv6 loopback"
    local port=$((20000 + RANDOM % 10000)) in
    local words=("${small[@]}" "collect.policy_address=tcp://[::1]:$port")
    mf-collect "${small[@]}" run.dir=want | mf-gae | mf-ppo "${small[@]}" >/dev/null || return 1
    mf-env point "env.address=tcp://[::1]:$((port + 1))" & local server=$!
    { mf-gae --in 'tcp://[::1]:0' "${words[@]}" 2>gae.err | mf-ppo "${words[@]}" run.dir=got >/dev/null 2>ppo.err; } & learner=$!
    until_there grep -q "is bound to" gae.err && in=$(sed -n 's/.* is bound to //p' gae.err) && [[ $in == "tcp://[::1]:"* ]] &&
        mf-collect --out "$in" "${words[@]}" env=remote "env.address=tcp://[::1]:$((port + 1))" 2>collect.err && wait "$learner" &&
        cmp "$(newest want)" "$(newest got)" || { cat ./*.err; return 1; }
    kill $server
    mf-stat --in tcp://localhost:$port >counts & learner=$!
    mf-collect --out tcp://127.0.0.1:$port "${small[@]}" env=point collect.actor=expert collect.episodes=2 && wait "$learner" && grep -qx "rollout *1" counts
}

# ---- keys ----

@test "mf-keys: two files that only their owner reads, and that are never overwritten" {
    [[ $(mf-keys here there | wc -l) == 4 ]] && [[ $(stat -c %a here.secret here.public | tr '\n' ' ') == "600 600 " ]] &&
        [[ $(wc -c <here.secret) == 41 ]] && ! cmp -s here.secret there.secret && run -1 --separate-stderr mf-keys here &&
        [[ $stderr == *"make here.secret: File exists"* ]] && run -2 mf-keys
}

# A learner with keys at two ports of the loopback; join NAME [word ...]: a collector with keys.
keyed() {
    port=$((20000 + RANDOM % 10000))
    [[ -e hub.secret ]] || { mf-keys hub a b stranger >/dev/null && mkdir allowed && cp a.public b.public allowed; }
    local words=("${small[@]}" collect.policy_address=tcp://127.0.0.1:$((port + 1)) wire.secret=hub.secret wire.allowed=allowed)
    { mf-gae --in "tcp://127.0.0.1:$port" "${words[@]}" 2>gae.err | mf-ppo "${words[@]}" run.dir=keyed collect.sources=2 >m.mf 2>ppo.err; } &
    learner=$!
}
join() {
    mf-collect "${small[@]}" --out "tcp://127.0.0.1:$port" collect.policy_address="tcp://127.0.0.1:$((port + 1))" collect.src="$1" \
        wire.secret="$1.secret" wire.server=hub.public "${@:2}" 2>"$1.err" &
    collector=$!
}

@test "with keys: allowed collectors train as without keys; an unknown key, a wrong key and no key are refused and logged" {
    both want && keyed && join stranger && ended_by 2 "$collector" && grep -q "refused the connection: this end.s public key" stranger.err &&
        grep -q "refused 127.0.0.1: its key .* is not in allowed" gae.err || return 1
    join a wire.server=stranger.public && ended_by 2 "$collector" && grep -q "is wire.server its public key" a.err || return 1
    join a wire.secret=null && ended_by 2 "$collector" && grep -q "do both ends have keys" a.err && grep -q "refused a peer" gae.err || return 1
    join a && local a=$collector && join b && wait "$a" && wait "$collector" && wait "$learner" && cmp "$(newest want)" "$(newest keyed)"
}

@test "invalid, world-readable or missing keys are errors before any connection" {
    mf-keys k >/dev/null && mkdir allowed && echo short >bad.secret && chmod 600 bad.secret
    says() {
        local want=$1
        shift
        run -2 timeout 5 "$@" && [[ $output == *"$want"* ]]
    }
    local in=(mf-gae --in "@tcp://127.0.0.1:1999" --out /dev/null) out=(mf-gae --in /dev/null --out ">tcp://127.0.0.1:1999")
    says "not a key: it must be one line of 40" "${in[@]}" wire.secret=bad.secret wire.allowed=allowed &&
        says "give wire.allowed too" "${in[@]}" wire.secret=k.secret && says "give wire.server too" "${out[@]}" wire.secret=k.secret &&
        says "is not a folder" "${in[@]}" wire.secret=k.secret wire.allowed=none &&
        says "needs keys" mf-gae --in "tcp://0.0.0.0:1999" --out /dev/null && chmod 644 k.secret &&
        says "other users can read the secret key" "${in[@]}" wire.secret=k.secret wire.allowed=allowed
}

# ---- the page ----

# block N: the page's N-th block of commands, with the test's addresses and sizes.
block() {
    awk -v n="$1" '/^    /{ if (!in_one) { in_one = 1; at++ } if (at == n) print substr($0, 5); next } /./{ in_one = 0 }' "$ROOT/examples/two-machines.md" |
        sed "s/192.0.2.7/127.0.0.1/; s/:5555/:$port/; s/:5556/:$((port + 1))/; s|--config-name=lift policy.checkpoint=clone.safetensors|${small[*]@Q}|"
}

@test "examples/two-machines.md: every command, in two folders that share only public keys" {
    port=$((20000 + RANDOM % 10000))
    small+=(collect.sources=2)
    both want && mkdir hub arms && (cd hub && eval "$(block 1)") >/dev/null && (cd arms && eval "$(block 2)") >/dev/null || return 1
    [[ $(block 3) == "scp arm1.public arm2.public learner-machine:allowed/"$'\n'"scp learner-machine:learner.public ." ]] &&
        cp arms/*.public hub/allowed/ && cp hub/learner.public arms/ || return 1
    (cd hub && bash -euo pipefail -c "$(block 4; block 5)") 2>hub.err & learner=$!
    (cd arms && bash -eu -c "$(block 4; block 6)") 2>arms.err || { cat arms.err hub.err; return 1; }
    wait "$learner" && mf-check hub/metrics.mf && [[ $(find hub/outputs/two/checkpoints -name '[0-9]*' | wc -l) -gt 1 ]] || { cat arms.err hub.err; return 1; }
    [[ $(basename "$(newest hub/outputs/two)") == "$(basename "$(newest want)")" ]]
}

# ---- between hosts, which are network namespaces here ----

@test "over TCP between hosts with keys: the same bytes; without keys nothing is sent" {
    ip netns add mf-probe 2>/dev/null || skip "network namespaces need root and CAP_NET_ADMIN"
    ip netns del mf-probe
    both want && mf-keys hub a b >/dev/null && mkdir allowed && cp a.public b.public allowed || return 1
    local far=mf-far-$$ rc=0 name
    ip netns add "$far" && ip link add mfv$$ type veth peer name mfw$$ netns "$far" && ip addr add 10.213.7.1/24 dev mfv$$ && ip link set mfv$$ up &&
        ip -n "$far" addr add 10.213.7.2/24 dev mfw$$ && ip -n "$far" link set mfw$$ up || rc=1
    local words=("${small[@]}" collect.policy_address=tcp://10.213.7.1:7002 collect.sources=2)
    { timeout 60 mf-gae --in tcp://10.213.7.1:7001 "${words[@]}" wire.secret=hub.secret wire.allowed=allowed 2>gae.err |
        timeout 60 mf-ppo "${words[@]}" run.dir=far wire.secret=hub.secret wire.allowed=allowed >m.mf 2>ppo.err; } &
    learner=$!
    for name in a b; do
        ip netns exec "$far" timeout 60 "$ROOT/bin/mf-collect" --out tcp://10.213.7.1:7001 "${words[@]}" collect.src=$name \
            wire.secret=$name.secret wire.server=hub.public 2>$name.err &
    done
    wait "$learner" || rc=1
    ip netns del "$far"
    ((rc == 0)) && cmp "$(newest want)" "$(newest far)" || { cat ./*.err; return 1; }
    run -2 --separate-stderr mf-collect --out tcp://10.213.7.1:7001 "${words[@]}"
    [[ $stderr == *"is not local"* ]]
}

# ---- peers that send invalid frames ----

# told STATUS NAME WORDS: the collector NAME is refused with these words, which the reader also logs.
told() { ended_by "$1" "$collector" && grep -q -- "$3" "a.$2" && grep -q -- "$3" a.gae; }

# A long run of a and b; ends_well: both end, and all streams are complete.
begin_long() {
    small+=(training.total_timesteps=1000000000)
    learn a && collect a a && a=$collector && collect a b && b=$collector && until_there iterations a 2
}
ends_well() {
    local seen
    seen=$(mf-stat a/logs/metrics.mf 2>/dev/null | sed -n 's/^metrics *//p')
    until_there iterations a $((seen + 3)) && kill -INT "$a" "$b" && ended_by 130 "$a" && ended_by 130 "$b" && wait "$learner" && mf-check a.rollouts
}

@test "the same name, another spec, seed or length: refused with the reason, and the others continue" {
    begin_long || return 1
    mf-collect --out "ipc://$PWD/a/in" "${small[@]}" collect.policy_address="ipc://$PWD/a/policy" collect.src=b 2>a.twin &
    collector=$!
    told 2 twin "a source named 'b' is already connected" && collect a c policy.num_inference_steps=5 && told 2 c "source 'c' has another spec" &&
        collect a d run.seed=9 && told 2 d "has another seed" && collect a e training.num_steps_per_rollout=9 && told 2 e "has another steps" && ends_well
}

@test "garbage, another version, no head: refused with the reason, and the others continue" {
    begin_long || return 1
    local lie
    for lie in "version:it speaks version 1" "garbage:is 0x47" "headless:begins with a head, not with round" \
        "future:format is 7" "flood:is 0x47"; do
        "$ROOT/tests/tools/peer.py" "ipc://$PWD/a/in" "${lie%%:*}" >why && grep -q "${lie#*:}" why && grep -q "refused a writer" a.gae || { cat why a.gae; return 1; }
    done
    ends_well
}

# A stream of a source named evil, and what may be wrong with it, each in a file of its own.
evil() {
    mf-collect "${small[@]}" collect.src=evil run.dir=evil training.total_timesteps=60 2>/dev/null | tee evil.mf | mf-gae | mf-ppo "${small[@]}" >/dev/null 2>&1
    mkdir -p lies && stream spoil evil.mf lies <<'CASES'
nan: f.pop(); a['rewards'].flat[0] = math.nan
shape: f.pop(); a['terminated'].shape = (2, 32)
missing: f.pop(); del a['chains']
noiter: f.pop(); rollouts[0].pop('iter')
ahead: f.pop(); rollouts[0].update(iter=7)
slices: f.pop(); f[2].update(slices=5)
end: f[-1].update(frames=99)
garbage: f.insert(1, 193)
hollow: f[0]['spec'] = {}
nameless: f[0].pop('src')
failed: f.insert(1, {'mf': 'failed', 'who': 'x'})
CASES
}

@test "NaN, a shape, a missing array, a round ahead, slices, an end of one source: reported once, and the round completes without it" {
    both want && evil || skip "no python3-msgpack"
    local lie
    for lie in lies/*; do
        rm -rf k && learn k collect.sources=2
        "$ROOT/tests/tools/peer.py" "ipc://$PWD/k/in" stream "$lie" >why & local peer=$!
        sleep 0.3 # it comes first, alone
        collect k a && local a=$collector && collect k b && wait "$a" && wait "$collector" && wait "$learner" && cmp "$(newest want)" "$(newest k)" &&
            [[ $(cat k.gae k.ppo | grep -c "source '.*' is rejected, the others continue\|refused a writer") -eq 1 ]] ||
            { echo "$lie"; cat k.gae k.ppo; return 1; }
        case $lie in */nan | */garbage) wait $peer && grep -q "NaN\|0xcc" why || { echo "$lie"; cat why; return 1; } ;; esac
    done
    # In a pipe before the others' stream, to mf-ppo alone; `k` is of the last case.
    { cat lies/hollow k.rollouts; } | mf-ppo "${small[@]}" run.dir=piped collect.sources=2 >/dev/null 2>piped.err &&
        cmp "$(newest want)" "$(newest piped)" && grep -q "source 'evil' is rejected, .*describes no policy" piped.err || { cat piped.err; return 1; }
    # As the only source: an error, and later stages report that the stream is incomplete.
    mf-gae --in "ipc://$PWD/only" 2>gae.err | mf-ppo "${small[@]}" run.dir=alone 2>ppo.err >/dev/null & local one=$!
    "$ROOT/tests/tools/peer.py" "ipc://$PWD/only" stream lies/nan >why || true
    ended_by 3 $one && grep -q "mf-gae: error: .*rewards\[0,0,0\] is NaN" gae.err || { cat gae.err ppo.err; return 1; }
}

@test "a collector that is connected and sends no round is named and rejected; the learner waits no longer for it" {
    both want && evil || skip "no python3-msgpack"
    stream spoil evil.mf lies <<<'silent: del f[2:]'
    learn k collect.sources=2 collect.policy_timeout=2
    "$ROOT/tests/tools/peer.py" "ipc://$PWD/k/in" stream lies/silent >why & local peer=$!
    sleep 0.3
    collect k a && local a=$collector && collect k b && wait "$a" && wait "$collector" && wait "$learner" && cmp "$(newest want)" "$(newest k)" &&
        grep -q "waited [0-9]* s for the round of source 'evil'" k.ppo && cat k.gae k.ppo | grep -q "source 'evil' is rejected.* have waited [0-9]* s for its round" || { cat k.gae k.ppo; return 1; }
    wait $peer || true # whether it hears of it depends on who of the two saw it first
    learn m collect.sources=2 collect.policy_timeout=1
    "$ROOT/tests/tools/peer.py" "ipc://$PWD/m/in" stream lies/nan >why & peer=$!
    sleep 0.3
    collect m a && wait $peer && ! wait "$learner" && grep -q "of collect.sources=2 are missing; waiting for up to 1 s" m.gae &&
        grep -q "error: .*1 of collect.sources=2 are missing, and no other one connected within" m.gae || { cat m.gae m.ppo; return 1; }
    wait "$collector" || true
}

@test "a collector whose rounds are corrupted on the way gets the reason with the policy; a relay passes several sources on" {
    small+=(training.total_timesteps=4000)
    both want && learn k collect.sources=3 || return 1 # all were there once: the two go on
    # shellcheck disable=SC2016 # of the other shell
    bash -c 'mf-collect "$@" 2>k.c; echo $? >k.rc' _ "${small[@]}" collect.policy_address="ipc://$PWD/k/policy" collect.src=c training.total_timesteps=1000000 |
        /usr/bin/python3 -c '
import msgpack, os, sys
for m in msgpack.Unpacker(sys.stdin.buffer.raw, max_buffer_size=0, strict_map_key=False):
    if m["mf"] == "rollout" and m["iter"] >= 2:
        m["arrays"]["rewards"][b"data"] = b"\xff" * len(m["arrays"]["rewards"][b"data"])
    os.write(1, msgpack.packb(m))' | mf-record c.hdf5 --out "ipc://$PWD/k/in" >/dev/null 2>&1 & local relay=$!
    collect k a && local a=$collector && collect k b && wait "$a" && wait "$collector" && wait "$learner" || { cat k.*; return 1; }
    wait $relay || true
    [[ $(cat k.rc) == 2 ]] && grep -q "refused this source: .*is NaN" k.c || { cat k.c k.rc; return 1; }
    mkdir h && { mf-ppo "${small[@]}" --in "ipc://$PWD/h/between" collect.policy_address="ipc://$PWD/h/policy" run.dir=h collect.sources=2 >/dev/null 2>h.ppo & } && learner=$!
    mf-gae --in "ipc://$PWD/h/in" --out "ipc://$PWD/h/between" "${small[@]}" 2>h.gae & local gae=$!
    collect h a && a=$collector && collect h b && wait "$a" && wait "$collector" && wait "$learner" && wait $gae && cmp "$(newest want)" "$(newest h)" || { cat h.*; return 1; }
}

@test "a silent collector (SIGSTOP) is lost after the heartbeat and named; the other continues; the lost one joins again, or reports why it ends" {
    begin_long && kill -STOP "$b" || return 1
    for _ in $(seq 200); do
        grep -q "source 'b' is gone" a.gae && break
        sleep 0.1
    done
    grep -q "source 'b' disconnected without an end frame" a.gae && kill -CONT "$b" || return 1
    local rc=0 joined="info: a new reader connected" gone="warn: .*/in: the reader is gone" why="error: .*/policy"
    until_there grep -qE "$joined|$gone|$why" a.b || { cat a.b; return 1; }
    if grep -q "$joined" a.b; then
        kill -INT "$b" && ended_by 130 "$b" || return 1
    else # it finds out by the policy's way, or by its rollouts'
        wait "$b" || rc=$?
        { { ((rc == 1)) && grep "$why" a.b; } || { ((rc == 141)) && grep "$gone" a.b; }; } || { echo "$rc"; cat a.b; return 1; }
    fi
    local seen && seen=$(mf-stat a/logs/metrics.mf 2>/dev/null | sed -n 's/^metrics *//p') &&
        until_there iterations a $((seen + 3)) && kill -INT "$a" && ended_by 130 "$a" && wait "$learner"
}
