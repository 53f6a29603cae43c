# Jobs under a Slurm of four nodes on this host: requeued, preempted, their collectors killed, a node lost; each ends with the
# bytes of the same run that nobody disturbed.
load ../cli/helpers

tiny=(env=point training.num_envs=4 training.num_steps_per_rollout=32 'policy.hidden=[32,32,32]' 'policy.critic_hidden=[32]'
    training.batch_size=64 training.total_timesteps=120000 threads=1)

setup_file() {
    export SLURM_CONF=$BATS_FILE_TMPDIR/slurm/slurm.conf
    SLURMD_TIMEOUT=10 "$BATS_TEST_DIRNAME/slurm-host" up "$BATS_FILE_TMPDIR/slurm" 4 3>&-
}
teardown_file() { "$BATS_TEST_DIRNAME/slurm-host" down "$BATS_FILE_TMPDIR/slurm"; }
setup() { cd "$T" || return 1; }
teardown() {
    scancel --user="$(id -un)" 2>/dev/null || true
    [[ ! -e lost ]] || "$BATS_TEST_DIRNAME/slurm-host" node "$BATS_FILE_TMPDIR/slurm" "$(<lost)" 3>&-
}

job() { sbatch --parsable "$@"; }
state() { squeue -h -j "$1" -t all -o %T 2>/dev/null | sort -u | xargs; }

# until_so SECONDS COMMAND..: until it succeeds.
until_so() {
    local i
    for ((i = 0; i < 5 * $1; i++)); do
        ! "${@:2}" || return 0
        sleep .2
    done
    echo "not within $1 s: ${*:2}"
    squeue -t all
    tail -n 20 ./*.out
    return 1
}
is() { [[ $(state "$1") == "$2" ]]; }
has_learned() { [[ $(newest "$1") > $1/checkpoints/0000$2 ]]; }
restarts() { [[ $(scontrol show job "$1" | grep -o 'Restarts=[0-9]*') == "Restarts=$2" ]]; }

# alone DIR: the last checkpoint of the same words, one process a stage, made once.
alone() {
    "$ROOT/pipelines/train" --config-name=point "${tiny[@]}" run.dir="$1" run.resume=auto >/dev/null 2>alone.err || { cat alone.err; return 1; }
}
sweep() { echo a >list && "$ROOT/pipelines/sweep" --slurm --list list --out "$T" --config-name point "${tiny[@]}" >sweep.sh; }
# collector SIGNAL WORDS: to the one with these words.
collector() {
    mapfile -t pids < <(pgrep -f "^mf-collect .*$2")
    ((${#pids[@]})) && kill "-$1" "${pids[@]}"
}
same() { cmp "$(newest "$1")" "$(newest "$2")"; }

@test "a sweep's job that is requeued, cancelled and preempted ends with the bytes of a run in peace" {
    alone peace && sweep && id=$(job sweep.sh) && run=$T/a/0 || return 1
    until_so 30 has_learned "$run" 05 && scontrol requeue "${id}_0" || return 1
    until_so 60 has_learned "$run" 20 && restarts "${id}_0" 1 && scancel "$id" && until_so 20 is "$id" CANCELLED || return 1
    id=$(job sweep.sh) && until_so 30 collector STOP "run.dir=$run" || return 1 # so that it does not end
    urgent=$(job --partition=high --nodes=4 --exclusive --wrap='sleep 1') || return 1
    until_so 30 is "$urgent" COMPLETED && until_so 90 is "$id" COMPLETED && restarts "${id}_0" 1 && same peace "$run"
}

@test "a node is lost while its run goes on: the requeued job waits for the run's end, and does not fail" {
    sweep && id=$(job sweep.sh) && run=$T/a/0 || return 1
    until_so 30 has_learned "$run" 05 || return 1
    collector STOP "run.dir=$run" && squeue -h -j "$id" -o %N >lost && kill -9 "$(<"$BATS_FILE_TMPDIR/slurm/slurmd-$(<lost).pid")" || return 1
    until_so 90 restarts "${id}_0" 1 && until_so 30 is "$id" RUNNING && sleep 2 && is "$id" RUNNING || return 1
    collector CONT "run.dir=$run" && until_so 60 is "$id" COMPLETED && alone peace && same peace "$run"
}

@test "a learner and three collectors on four nodes: a collector killed, the job at its time limit; the bytes of a run in peace" {
    for run in peace war; do
        "$ROOT/pipelines/cluster" --nodes 4 --cpus 1 --address 127.0.0.1 --config-name point "${tiny[@]}" run.dir="$T/$run" >$run.sh || return 1
    done
    id=$(job peace.sh) && until_so 90 is "$id" COMPLETED && mf-check peace && id=$(job war.sh) && until_so 30 has_learned war 05 || return 1
    collector KILL "collect.src=node1 .*run.dir=$T/war" && until_so 30 has_learned war 20 || return 1
    grep "mf-collect died by signal 9; start 2" "slurm-$id.out" || return 1
    scancel --batch --signal=USR1 "$id" && until_so 30 restarts "$id" 1 && until_so 90 is "$id" COMPLETED && same peace war
}

@test "ranks on four nodes, which srun starts and TCP joins, behind a pipe: the bytes of one process" {
    local steps=(env=point "${tiny[@]}" training.total_timesteps=8000) port
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    mf-collect "${steps[@]}" run.dir=one 2>one.err | mf-gae | mf-ppo "${steps[@]}" run.dir=one >one.mf 2>>one.err || return 1
    cat >job.sh <<END
#!/bin/bash
export MF_RANKS_ADDRESS=127.0.0.1:$port
set -o pipefail
mf-collect ${steps[*]@Q} run.dir=four | mf-gae | srun -n 4 --input=0 mf-ppo ${steps[*]@Q} run.dir=four >four.mf
END
    id=$(job --nodes=4 --ntasks=4 job.sh) && until_so 60 is "$id" COMPLETED && grep "4 ranks divide" "slurm-$id.out" && same one four
}
