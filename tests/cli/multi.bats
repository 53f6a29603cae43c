# Several collectors, one learner: collectors join, leave, die and come back.
load several

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
    small+=(collect.sources=4 wire.patience=20 "$@")
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

@test "a filter between sockets outlives its learner: collectors, also behind two filters, resend to the next one: the same bytes" {
    declare -A node arm
    small+=(training.total_timesteps=40000)
    learner_of_filters() { mf-ppo "${small[@]}" --in "ipc://$PWD/k/between" collect.policy_address="ipc://$PWD/k/policy" run.dir=k "$@" >/dev/null 2>>k.ppo & learner=$!; }
    four wire.patience=.5 || return 1
    mf-nstep --in "ipc://$PWD/k/in3" --out "ipc://$PWD/k/in2" "${small[@]}" 2>k.gae3 & node[3]=$!
    of_node 1 a && of_node 1 b && of_node 2 c && of_node 3 d && until_there iterations k 5 || return 1
    kill -9 "$learner" && ended_by 137 "$learner" && sleep 1 && learner_of_filters run.resume=auto &&
        until_there grep -q "between: a new reader connected; the programs at .*/in1 (2) are asked to send again" k.gae1 && wait "$learner" "${arm[@]}" "${node[@]}" &&
        cmp "$(newest want)" "$(newest k)" && ! grep -h "lacked a source" k.ppo && grep -q "sending the .* rounds that it lacks" k.d || { tail -n 5 k.*; return 1; }
}

@test "a learner and a filter to which no stream comes say where they wait, once; a filter that gives up says why" {
    mkdir k
    mf-ppo "${small[@]}" --in "ipc://$PWD/k/between" run.dir=k 2>k.ppo & learner=$!
    mf-gae --in "ipc://$PWD/k/in" --out "ipc://$PWD/k/between" collect.policy_timeout=1 2>k.gae & local gae=$!
    sleep 10
    until_there grep -q "warn: waiting for a stream at ipc://$PWD/k/in: no program has connected for 10 s" k.gae &&
        until_there grep -q "warn: waiting for a stream at ipc://$PWD/k/between: no frame came for 10 s from the connected programs (1)" k.ppo || { cat k.*; return 1; }
    kill -9 "$learner" && ended_by 141 "$gae" && grep -q "warn: ipc://.*/between: the reader is gone, and none came back within 1 s" k.gae || { cat k.gae; return 1; }
    [[ $(grep -c "waiting for" k.gae) == 1 && $(grep -c "waiting for" k.ppo) == 1 ]]
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
