# Several processes that mpirun starts are one mf-ppo or mf-bc: the same bytes for any number of them.
load helpers

setup() {
    command -v mpirun >/dev/null || skip "no mpirun (Debian: openmpi-bin, libopenmpi-dev)"
    [[ -e $ROOT/build/lib/mf_mpi.so ]] || skip "built without mpicc: no plugin for MPI"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    cd "$T" || return 1
    small=(env=point training.num_envs=8 training.num_steps_per_rollout=16 training.total_timesteps=2000
        training.batch_size=96 training.num_epochs=2 'policy.hidden=[32,32,32]' 'policy.critic_hidden=[32,32,32]' threads=1)
    clone=(clone.dataset="$ROOT/tests/fixtures/point.hdf5" clone.batch_size=96 'policy.hidden=[16]' threads=1)
}

# ranks N COMMAND..
ranks() { without_leaks timeout 120 mpirun --oversubscribe --bind-to none -np "$@"; }

# learn N DIR [word ...]: the pipe with N ranks of mf-ppo, 0: without mpirun; its statuses in $status, its checkpoint in $last.
learn() {
    local n=$1 dir=$2 ppo=(mf-ppo)
    shift 2
    ((n == 0)) || ppo=(ranks "$n" mf-ppo)
    mf-collect "${small[@]}" run.dir="$dir" "$@" 2>"$dir.err" | mf-gae 2>>"$dir.err" |
        "${ppo[@]}" "${small[@]}" run.dir="$dir" "$@" >"$dir.mf" 2>"$dir.log"
    status=${PIPESTATUS[*]} last=$(newest "$dir")
    [[ $status == "0 0 0" ]]
}

# measured STREAM: its metrics, but for times and the load of a device.
measured() { mf-view "$1" | jq -c 'select(.mf == "metrics") | del(.time) | .values |= with_entries(select(.key | test("^(perf|device)/") | not))'; }

# rank K PROGRAM: its pid.
rank() {
    local p
    for p in $(pgrep -x "$2"); do
        [[ $(tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null) == *"OMPI_COMM_WORLD_RANK=$1"* && $(readlink "/proc/$p/cwd") == "$T" ]] && echo "$p" && return
    done
    return 1
}

# starts DIR: waits for a version of the run after the first. The oldest are removed soon.
starts() {
    for _ in {1..1000}; do
        [[ ! $(newest "$1" 2>/dev/null) > $1/checkpoints/000001.safetensors ]] || return 0
        sleep .02
    done
    cat "$1.log"
    return 1
}

@test "1, 2, 3 and 9 ranks of mf-ppo: the checkpoint and the metrics of one process; stdout is a whole stream" {
    learn 0 alone && cp "$last" want && measured alone.mf >metrics && [[ -s metrics ]] || return 1
    for n in 1 2 3 9; do
        learn $n "by$n" && [[ $status == "0 0 0" ]] && cmp "$last" want && mf-check "by$n.mf" && measured "by$n.mf" | cmp - metrics || { cat "by$n.log"; return 1; }
    done
    grep -q 'warn: 1 of 9 ranks have no samples: gradients have 8 lanes; lanes=9 gives' by9.log && ! grep 'no samples' by3.log &&
        learn 0 fine lanes=12 && ! cmp -s "$last" want && cp "$last" want && learn 9 fine9 lanes=12 && cmp "$last" want && ! grep 'no samples' fine9.log &&
        ! learn 2 fine9 run.resume=auto lanes=9 && grep -q 'now lanes=9, which was 12' fine9.log &&
        measured by3/logs/metrics.mf | cmp - metrics && grep -q 'info: 3 ranks divide each minibatch' by3.log && [[ $(grep -c 'newest checkpoint' by3.log) == 1 ]]
}

@test "ranks save the last version where the stream breaks off, as one process does" {
    mf-collect "${small[@]}" run.dir=made training.save_every=100 2>/dev/null | mf-gae | tee whole.mf | mf-ppo "${small[@]}" >/dev/null 2>&1
    head -c $(($(stat -c %s whole.mf) * 6 / 10)) whole.mf >cut.mf
    local words=("${small[@]}" training.save_every=100)
    local rc=0
    mf-ppo "${words[@]}" run.dir=alone <cut.mf >alone.mf 2>alone.log || rc=$?
    ranks 2 mf-ppo "${words[@]}" run.dir=two <cut.mf >two.mf 2>two.log || rc+=" $?"
    [[ $rc == "3 3" && -s $(newest alone) ]] && grep -q "error: <stdin>: ends inside a frame" two.log && cmp "$(newest alone)" "$(newest two)" || { echo "$rc"; cat two.log; return 1; }
}

@test "mf-bc too; each resumes with another number of ranks" {
    mf-bc "${clone[@]}" clone.steps=150 run.dir=alone >alone.mf && measured alone.mf >metrics &&
        ranks 3 mf-bc "${clone[@]}" clone.steps=150 run.dir=three >three.mf && cmp {alone,three}/checkpoints/clone.safetensors && measured three.mf | cmp - metrics || return 1
    learn 0 whole && cp "$last" want && learn 2 parts training.total_timesteps=1000 && learn 3 parts run.resume=auto && cmp "$last" want &&
        grep -q 'info: resuming parts/checkpoints/' parts.log && learn 0 back training.total_timesteps=1000 && learn 2 back run.resume=auto && cmp "$last" want
}

@test "mf-bc with critics and an average that teaches: ranks save their moments together, and TERM, too" {
    mf-collect env=point collect.actor=expert collect.episodes=8 training.num_envs=4 2>/dev/null | mf-record demos.hdf5 >/dev/null
    local q=("${clone[@]}" clone.dataset=demos.hdf5 clone.loss=shortcut policy.network=shortcut_mlp 'policy.cond_hidden=[16]'
        clone.weight=q 'clone.critic_hidden=[16]' clone.steps=400)
    mf-bc "${q[@]}" run.dir=alone >/dev/null && { ranks 3 mf-bc "${q[@]}" run.dir=cut >cut.mf 2>cut.log & } || return 1
    until [[ -s cut/logs/metrics.mf ]]; do sleep .02; done
    kill -TERM "$(rank 1 mf-bc)" && ! wait $! && grep -q 'stopped at minibatch' cut.log && ranks 2 mf-bc "${q[@]}" run.dir=cut run.resume=auto >more.mf &&
        cmp {alone,cut}/checkpoints/clone.safetensors || { cat cut.log; return 1; }
}

@test "ranks with an emulated GPU each, or two: the bytes of one process with one; another number resumes" {
    export MF_CUDA="$ROOT/build/emu/mf_cuda.so" CUEMU_DEVICES=4 MF_NCCL=no
    small+=(device=cuda training.num_steps_per_rollout=8 training.total_timesteps=300 training.batch_size=32 training.target_kl=.5)
    learn 0 alone && cp "$last" want && measured alone.mf >metrics && [[ -s metrics ]] || return 1
    for n in 1 2 3; do
        learn $n "by$n" && cmp "$last" want && measured "by$n.mf" | cmp - metrics || { cat "by$n.log"; return 1; }
    done
    CUEMU_LATE=2 learn 2 two device=cuda:1-2 && cmp "$last" want && grep -q 'computes on 2 GPUs: ' two.log &&
        learn 2 parts training.total_timesteps=150 && ! cmp -s "$last" want && learn 3 parts run.resume=auto && cmp "$last" want
}

@test "updates that stop at a divergence, scored rounds, two policies back: as one process" {
    for words in training.target_kl=1e-5 training.recompute_logprobs=true collect.max_lag=1; do
        rm -rf alone two && learn 0 alone "$words" && cp "$last" want && measured alone.mf >metrics &&
            learn 2 two "$words" && cmp "$last" want && measured two.mf | cmp - metrics || { echo "$words"; cat two.log; return 1; }
    done
}

# again N DIR [word ...]: N ranks of mf-ppo on the recorded clouds; 0: without mpirun.
again() {
    local n=$1 dir=$2 ppo=(mf-ppo)
    shift 2
    ((n == 0)) || ppo=(ranks "$n" mf-ppo)
    mf-gae --in clouds 2>"$dir.err" | "${ppo[@]}" "${clouds[@]}" run.dir="$dir" "$@" >"$dir.mf" 2>"$dir.log" && last=$(newest "$dir")
}

@test "each rank keeps its share of point clouds: the checkpoints and the metrics of one process" {
    local n words clouds=(--config-dir "$ROOT/configs" --config-name train_maniflow_pointcloud_rl policy.n_layer=1 policy.n_head=2 policy.n_emb=16
        policy.time_dim=8 policy.encoder_output_dim=8 'policy.critic_hidden=[16]' policy.num_inference_steps=2 env.num_points=96 env.max_steps=20
        training.num_envs=3 training.num_steps_per_rollout=3 training.total_timesteps=216 training.num_epochs=2 training.batch_size=5
        training.critic_warmup_steps=1 collect.max_lag=1 threads=1)
    mf-collect "${clouds[@]}" run.dir=live 2>live.err | tee clouds | mf-gae 2>>live.err | mf-ppo "${clouds[@]}" run.dir=live >live.mf 2>>live.err || return 1
    for words in training.proximal=.5 training.recompute_logprobs=true; do
        again 0 alone "$words" && cp "$last" want && measured alone.mf >metrics && jq -se 'length > 2' metrics >/dev/null || return 1
        for n in 2 3; do
            again $n by$n "$words" && cmp "$last" want && measured by$n.mf | cmp - metrics &&
                grep -q "info: $n ranks share out observations of [45]... bytes a decision" by$n.log || { cat by$n.log; return 1; }
        done
        rm -r alone by2 by3
    done
}

@test "two collectors over a socket, and one that dies: rank 0 decides, and all learn the same" {
    local n
    for n in 1 2; do
        mkdir "$n" && cd "$n" || return 1
        local words=("${small[@]}" run.dir=r collect.sources=2)
        mf-collect "${small[@]}" run.dir=r collect.src=a collect.sources=2 collect.policy_address=ipc://edge --out ipc://in &
        local a=$!
        mf-collect "${small[@]}" run.dir=s collect.src=b collect.sources=2 training.total_timesteps=700 collect.policy_address=ipc://edge --out ipc://in &
        local b=$!
        mf-gae --in ipc://in collect.sources=2 | ranks $n mf-ppo "${words[@]}" collect.policy_address=ipc://edge run.dir=l >m.mf || return 1
        wait $a $b || return 1
        measured m.mf >metrics && cp "$(newest l)" last && cd .. || return 1
    done
    cmp {1,2}/last && cmp {1,2}/metrics && [[ -s 1/metrics ]]
}

@test "a rank that is killed, or stopped, ends the run with a sentence; TERM ends it, too; then it resumes to the same bytes" {
    learn 0 alone training.total_timesteps=24000 && cp "$last" want || return 1
    for how in "KILL 1" "KILL 0" "STOP 1" "TERM 1"; do
        rm -rf hurt
        [[ $how == STOP* ]] && local limit=3 || local limit=60
        { set +e; learn 2 hurt training.total_timesteps=24000 training.save_every=4 "ranks_timeout=$limit"; echo "$status" >ended; } &
        # shellcheck disable=SC2086 # a signal and a rank
        set -- $how
        starts hurt && local victim && victim=$(rank "$2" mf-ppo) && kill "-$1" "$victim" && wait $! || { cat hurt.log; return 1; }
        [[ $(cat ended) != *" 0" ]] || { echo "$how: $(cat ended)"; return 1; }
        case $how in
        KILL*) grep -q "rank $2 .* exited on signal 9" hurt.log ;;
        STOP*) grep -q "mf-ppo: error: .*rank 1 on .* is late by 3 s at minibatch [0-9]* of this start: .*ranks_timeout=3" hurt/logs/mf-ppo.log ;;
        TERM*) [[ $(newest hurt) == "$(printf 'hurt/checkpoints/%06d.safetensors' "$(mf-stat hurt/logs/metrics.mf 2>/dev/null | sed -n 's/^metrics *//p')")" ]] ;;
        esac || grep -q mca_iof_hnp hurt.log || { cat hurt.log; return 1; } # mpirun crashes at times, and with it what it had to say
        learn 3 hurt training.total_timesteps=24000 training.save_every=4 run.resume=auto && [[ $status == "0 0 0" ]] && cmp "$last" want || { cat hurt.log; return 1; }
    done
}

@test "a rank that stops where all leave MPI: the others end after ranks_timeout, and all is saved" {
    preload stop_in_finalize
    learn 0 alone && want=$last rc=0 || return 1
    mkfifo made
    mf-collect "${small[@]}" run.dir=late 2>late.err | mf-gae >made 2>>late.err &
    ranks 2 -x LD_PRELOAD="$T/stop_in_finalize.so" mf-ppo --in made "${small[@]}" run.dir=late ranks_timeout=1 >late.mf 2>late.log || rc=$?
    [[ $rc == 1 ]] && grep -q "all is saved, but another rank has not left MPI" late.log && cmp "$(newest late)" "$want"
}

@test "a program that divides no work refuses to start as several, in one sentence; a tool does not" {
    local program
    for program in collect sac; do
        run -2 ranks 2 mf-$program "${small[@]}" run.dir=x </dev/null
        grep -q "mf-$program: error: started by mpirun or srun as one of several processes, but mf-$program does not divide" <<<"$output" &&
            [[ $(grep -c "mf-$program: error" <<<"$output") == 1 && ! -e x ]] || return 1
    done
    # shellcheck disable=SC2016 # each expands its own
    stream make case=random >s.mf && run -0 ranks 2 bash -c 'mf-gae ranks=off <s.mf >gae.$OMPI_COMM_WORLD_RANK && mf-conf env.name' &&
        [[ $output == $'point\npoint' ]] && mf-check gae.0 && cmp gae.0 gae.1
}

@test "TERM to mpirun, then a resume: the same bytes" {
    learn 0 alone training.total_timesteps=24000 && cp "$last" want &&
        { { set +e; learn 2 hurt training.total_timesteps=24000; echo "$status" >ended; } & } && starts hurt &&
        kill -TERM "$(ps -o ppid= -p "$(rank 1 mf-ppo)")" && wait $! && [[ $(cat ended) != *" 0" ]] &&
        learn 2 hurt training.total_timesteps=24000 run.resume=auto && [[ $status == "0 0 0" ]] && cmp "$last" want
}

# shellcheck disable=SC2016 # for another shell
@test "errors of all ranks are one line, with the exit status of one process; ranks=off" {
    run -2 ranks 3 mf-ppo nosuch=1 && [[ $(grep -c 'unknown key' <<<"$output") == 1 ]] &&
        mf-bc "${clone[@]}" clone.steps=5 run.dir=c >/dev/null && run -2 ranks 3 mf-bc "${clone[@]}" clone.steps=5 run.dir=c &&
        [[ $(grep -c 'already holds a run' <<<"$output") == 1 ]] &&
        mf-collect "${small[@]}" run.dir=x | mf-gae | tee whole | mf-ppo "${small[@]}" >/dev/null && head -c 9999 whole >"cut" &&
        run -3 ranks 2 mf-ppo --in cut --out y.mf run.dir=y && [[ $(grep -c 'mf-ppo: error: cut: ends inside a frame' <<<"$output") == 1 ]] &&
        MF_MPI=$T/none.so run -2 ranks 2 mf-ppo --in cut && [[ $output == *"ranks=auto: the plugin cannot be loaded"* ]] &&
        printf 'mf-bc "$@" clone.steps=5 ranks=off run.dir=own$OMPI_COMM_WORLD_RANK >/dev/null\n' >strangers &&
        run -0 ranks 2 bash strangers "${clone[@]}" && run -2 bash -c 'mpirun --oversubscribe --bind-to none -np 2 mf-ppo run.dir=z ranks=off <whole' &&
        [[ $(grep -c 'mf-ppo: error: ranks=off makes each process of mpirun a program of its own, and only the first has a stream' <<<"$output") == 1 ]] &&
        cmp {own0,c}/checkpoints/clone.safetensors && cmp {own1,c}/checkpoints/clone.safetensors
}
