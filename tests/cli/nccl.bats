# GPUs of several ranks exchange gradients by NCCL: the emulator, with a stand-in for NCCL between processes (tests/emu).
load helpers

setup() {
    command -v mpirun >/dev/null || skip "no mpirun (Debian: openmpi-bin, libopenmpi-dev)"
    [[ -e $ROOT/build/lib/mf_mpi.so ]] || skip "built without mpicc: no plugin for MPI"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 CUEMU_DEVICES=4 TMPDIR=$T
    export MF_CUDA="$ROOT/build/emu/mf_cuda.so" MF_NCCL="$ROOT/build/emu/libnccl.so.2"
    cd "$T" || return 1
    small=(env=point training.num_envs=8 training.num_steps_per_rollout=8 training.total_timesteps=300 training.batch_size=32
        training.num_epochs=2 'policy.hidden=[32,32,32]' 'policy.critic_hidden=[32,32,32]' threads=1 device=cuda training.target_kl=.5)
    made=$BATS_FILE_TMPDIR/made
    if [[ ! -e $made ]]; then # a recorded stream, and what one process learns from it
        mf-collect "${small[@]}" run.dir=live 2>live.err | tee "$made~" | mf-gae 2>>live.err | mf-ppo "${small[@]}" run.dir=live >live.mf 2>>live.err &&
            cp "$(newest live)" "$BATS_FILE_TMPDIR/want" && mv "$made~" "$made" || return 1
    fi
    want=$BATS_FILE_TMPDIR/want
}

mpi() { without_leaks timeout 120 mpirun --oversubscribe --bind-to none "$@"; }

# learn N DIR [word ...]: N ranks on the recorded stream.
learn() { mf-gae --in "$made" | mpi -np "$1" mf-ppo "${small[@]}" run.dir="$2" "${@:3}" >"$2.mf" 2>"$2.log"; }

# pair DIR ENV ENV [word ...]: two ranks, the environment of each, what follows for both.
pair() {
    mf-gae --in "$made" |
        mpi -np 1 env "$2" mf-ppo "${small[@]}" run.dir="$1" "${@:4}" : -np 1 env "$3" mf-ppo "${small[@]}" run.dir="$1" "${@:4}" >"$1.mf" 2>"$1.log"
}

# says TEXT DIR: the one line about the way of gradients.
says() {
    if [[ $(grep -c "info: ranks exchange gradients" "$2.log") == 1 ]] && grep -q "info: ranks exchange gradients $1" "$2.log"; then return 0; fi
    cat "$2.log"
    return 1
}

@test "ranks with a GPU each, or two: the bytes of one process, and of the way through the hosts" {
    learn 1 one && cmp "$(newest one)" "$want" && ! grep "exchange gradients" one.log || return 1
    for n in 2 3; do
        learn $n by$n && says "by NCCL 2.28.9" by$n && cmp "$(newest by$n)" "$want" &&
            MF_NCCL=no learn $n host$n && says "through the memory of the hosts, not by NCCL: rank 0 on .*: MF_NCCL=no" host$n && cmp "$(newest host$n)" "$want" || return 1
    done
    CUEMU_LATE=2 learn 2 late && says "by NCCL" late && cmp "$(newest late)" "$want" &&
        mf-gae --in "$made" | mpi -np 1 mf-ppo "${small[@]}" run.dir=four device=cuda:0-1 : -np 1 mf-ppo "${small[@]}" run.dir=four device=cuda:2-3 >four.mf 2>four.log &&
        says "by NCCL" four && cmp "$(newest four)" "$want"
}

@test "mf-bc, too" {
    local clone=(clone.dataset="$ROOT/tests/fixtures/point.hdf5" clone.batch_size=32 'policy.hidden=[16]' threads=1 clone.steps=8 device=cuda)
    mf-bc "${clone[@]}" run.dir=alone >/dev/null && mpi -np 2 mf-bc "${clone[@]}" run.dir=two >two.mf 2>two.log && says "by NCCL" two &&
        cmp {alone,two}/checkpoints/clone.safetensors
}

@test "where NCCL is not there, too old, or does not connect, gradients go through the hosts: it says why, once" {
    local why fail
    MF_NCCL=$T/none.so learn 2 none && says ".*rank 0 on .*: NCCL cannot be loaded: $T/none.so: .*No such file" none && cmp "$(newest none)" "$want" &&
        CUEMU_DEVICES=2 learn 3 shared && says ".*: ranks 0 and 2 share a GPU of " shared && cmp "$(newest shared)" "$want" &&
        pair old A=0 NCCLEMU_FAIL=version && says ".*: rank 1 on .* is NCCL of version 21304, and 2.14 (21400) is the oldest" old && cmp "$(newest old)" "$want" || return 1
    while read -r fail why; do
        rm -rf run && NCCLEMU_FAIL=$fail learn 2 run ranks_timeout=4 </dev/null && says ".*not by NCCL: $why" run && cmp "$(newest run)" "$want" || { echo "$fail"; return 1; }
    done <<'END'
id:0:0 NCCL: making an id failed: unhandled system error; as NCCLEMU_FAIL asked
init:1:0 rank 1 on .*: NCCL: connecting the GPUs failed: unhandled system error; as NCCLEMU_FAIL asked
absent:1:0 NCCL: connecting the GPUs did not end within 2 s
bytes:1:0 NCCL: cuda:0 got other bytes than were sent
group:1:1 rank 1 on .*: NCCL: an exchange of gradients failed: unhandled system error
silent:0:1 NCCL: an exchange of gradients did not end within 2 s
END
}

# ends DIR TEXT: a run of two ranks that failed says so in one line, and resumes to the same bytes.
ends() {
    if [[ $(grep -c "mf-ppo: error: " "$1.log") == 1 ]] && grep -q "mf-ppo: error: $2" "$1.log"; then
        learn 2 "$1" run.resume=auto && cmp "$(newest "$1")" "$want"
    else
        cat "$1.log"
        return 1
    fi
}

@test "a failure of one rank ends all with its cause, and nobody waits for ever; then it resumes" {
    local why fail
    while read -r fail why; do
        rm -rf run && ! NCCLEMU_FAIL=$fail learn 2 run ranks_timeout=6 </dev/null && ends run "$why" || { echo "$fail"; return 1; }
    done <<'END'
group:1:9 rank 1 on .*: NCCL: an exchange of gradients failed: unhandled system error
remote:1:9 rank 1 on .*: NCCL: an exchange of gradients failed: remote process exited or there was a network error
silent:1:9 NCCL: an exchange of gradients did not end within 3 s
END
    for how in "$MF_NCCL" no; do
        rm -rf run && ! MF_NCCL=$how pair run A=0 CUEMU_BREAKS=8 && ends run "rank 1 on .*: cuda:1: a run failed: an illegal memory access" || return 1
    done
}

@test "a rank that is killed, or stopped, ends the run; then it resumes to the same bytes" {
    local how rank pid
    for how in KILL STOP; do
        rm -rf run && mkfifo "in$how" && { mf-gae --in "in$how" | mpi -np 2 mf-ppo "${small[@]}" run.dir=run ranks_timeout=3 >run.mf 2>run.log & } &&
            exec 7>"in$how" && head -c $(($(stat -c %s "$made") * 6 / 10)) "$made" >&7 || return 1
        until [[ -n $(newest run 2>/dev/null) ]]; do sleep .05; done
        for pid in $(pgrep -x mf-ppo); do
            [[ $(tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null) == *"OMPI_COMM_WORLD_RANK=1"* && $(readlink "/proc/$pid/cwd") == "$T" ]] && rank=$pid
        done
        kill -"$how" "$rank"
        tail -c +$(($(stat -c %s "$made") * 6 / 10 + 1)) "$made" >&7 || true
        exec 7>&-
        ! wait $! || return 1
        [[ $how == KILL ]] || grep -q "error: .*rank 1 on .* is late by 3 s at minibatch" run.log || { cat run.log; return 1; }
        learn 2 run run.resume=auto && cmp "$(newest run)" "$want" || return 1
    done
}

@test "ranks with another number of GPUs than the first refuse to start" {
    mf-gae --in "$made" >advantages &&
        run -2 mpi -np 1 mf-ppo "${small[@]}" --in advantages run.dir=x device=cuda:0-1 : -np 1 mf-ppo "${small[@]}" --in advantages run.dir=x device=cuda:2 &&
        grep -q "mf-ppo: error: device=cuda: rank 0 on .* has 2 GPUs, rank 1 on .* 1; all ranks need the same number of them" <<<"$output" &&
        [[ $(grep -c "mf-ppo: error" <<<"$output") == 1 ]]
}
