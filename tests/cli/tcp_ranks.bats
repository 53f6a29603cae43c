# Ranks without MPI: processes that MF_RANKS_ADDRESS joins over TCP are one mf-ppo or mf-bc, with the bytes of one process.
load helpers

setup() {
    cd "$T" || return 1
    small=(env=point training.num_envs=8 training.num_steps_per_rollout=16 training.total_timesteps=2000
        training.batch_size=96 training.num_epochs=2 'policy.hidden=[32,32,32]' 'policy.critic_hidden=[32,32,32]' threads=1)
    made=$BATS_FILE_TMPDIR/made want=$BATS_FILE_TMPDIR/want
    if [[ ! -e $made ]]; then # a recorded stream, and what one process learns from it
        mf-collect "${small[@]}" run.dir=live 2>live.err | mf-gae 2>>live.err | tee "$made~" | mf-ppo "${small[@]}" run.dir=live >live.mf 2>>live.err &&
            cp "$(newest live)" "$want" && mv "$made~" "$made" || return 1
    fi
}

# A port of loopback that nobody listens at.
port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# start N DIR COMMAND ..: N ranks, as rank[0], .., each with its own stderr DIR.K.err; rank 0 writes to DIR.mf.
start() {
    local k
    local -x MF_RANKS=$1 MF_RANKS_ADDRESS
    MF_RANKS_ADDRESS=127.0.0.1:$(port)
    rank=()
    for ((k = 0; k < $1; k++)); do
        MF_RANK=$k timeout 120 "${@:3}" >"$2.$k.mf" 2>"$2.$k.err" &
        rank+=($!)
    done
}

# ended: the statuses of all ranks, in $status.
ended() {
    local p rc
    status=
    for p in "${rank[@]}"; do
        rc=0
        wait "$p" || rc=$?
        status+="$rc "
    done
}

# learn N DIR [word ...]
learn() {
    start "$1" "$2" mf-ppo --in "$made" "${small[@]}" run.dir="$2" "${@:3}"
    ended
    [[ $status != *[!0\ ]* ]] || { cat "$2".*.err; return 1; }
}

@test "2 and 3 ranks by hand: the bytes of one process and of mpirun's; mf-bc, too" {
    local n clone=(clone.dataset="$ROOT/tests/fixtures/point.hdf5" clone.batch_size=96 'policy.hidden=[16]' threads=1 clone.steps=60)
    for n in 2 3; do
        learn $n by$n && cmp "$(newest by$n)" "$want" && mf-check by$n.0.mf && grep -q "info: $n ranks divide each minibatch" by$n.0.err && [[ ! -s by$n.1.err ]] || return 1
    done
    mf-bc "${clone[@]}" run.dir=alone >/dev/null && start 3 three mf-bc "${clone[@]}" run.dir=three && ended && [[ $status == "0 0 0 " ]] &&
        cmp {alone,three}/checkpoints/clone.safetensors || return 1
    [[ -e $ROOT/build/lib/mf_mpi.so ]] && command -v mpirun >/dev/null || return 0
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 without_leaks mpirun --oversubscribe -np 2 mf-ppo --in "$made" "${small[@]}" run.dir=mpi >mpi.mf && cmp "$(newest mpi)" "$want"
}

@test "observations that ranks share out, of megabytes" {
    local clouds=(--config-dir "$ROOT/configs" --config-name train_maniflow_pointcloud_rl policy.n_layer=1 policy.n_head=2 policy.n_emb=16
        policy.time_dim=8 policy.encoder_output_dim=8 'policy.critic_hidden=[16]' policy.num_inference_steps=2 env.num_points=512 env.max_steps=20
        training.num_envs=3 training.num_steps_per_rollout=20 training.total_timesteps=480 training.num_epochs=1 training.batch_size=40 threads=1)
    mf-collect "${clouds[@]}" run.dir=live 2>live.err | mf-gae 2>>live.err | tee clouds | mf-ppo "${clouds[@]}" run.dir=live >live.mf 2>>live.err &&
        start 2 two mf-ppo --in clouds "${clouds[@]}" run.dir=two && ended && [[ $status == "0 0 " ]] &&
        grep -q "2 ranks share out observations" two.0.err && cmp "$(newest two)" "$(newest live)"
}

@test "srun's numbers do, too; without the address they are processes of their own" {
    local -x SLURM_STEP_NUM_TASKS=2 SLURM_PROCID MF_RANKS_ADDRESS
    MF_RANKS_ADDRESS=localhost:$(port)
    SLURM_PROCID=1 mf-ppo --in "$made" "${small[@]}" run.dir=two >two.1 2>&1 &
    SLURM_PROCID=0 mf-ppo --in "$made" "${small[@]}" run.dir=two >two.0 2>two.err && wait $! && grep -q "2 ranks divide" two.err && cmp "$(newest two)" "$want" &&
        MF_RANKS_ADDRESS='' SLURM_PROCID=1 mf-ppo --in "$made" "${small[@]}" run.dir=own >own.mf && cmp "$(newest own)" "$want"
}

@test "a rank that is killed, or stopped, ends all, who say whom they lost; then it resumes to the same bytes" {
    local k how
    for how in "KILL 1" "KILL 0" "STOP 1" "TERM 1"; do
        rm -rf run feed && mkfifo feed && start 3 run mf-ppo --in feed "${small[@]}" run.dir=run ranks_timeout=3 && exec 7>feed &&
            head -c $(($(stat -c %s "$made") * 6 / 10)) "$made" >&7 || return 1
        until [[ -n $(newest run 2>/dev/null) ]]; do sleep .02; done
        k=${how#* }
        kill "-${how% *}" "$(pgrep -P "${rank[k]}")"
        tail -c +$(($(stat -c %s "$made") * 6 / 10 + 1)) "$made" >&7 2>/dev/null || true
        exec 7>&-
        [[ $how != STOP* ]] || { sleep 8 && kill -KILL "$(pgrep -P "${rank[k]}")"; }
        ended
        [[ " $status" != *" 0 "* ]] && case $how in
        "KILL 1") grep -q "mf-ppo: error: .*rank 1 has ended, or its connection is broken" run.0.err ;;
        "KILL 0") grep -q "mf-ppo: error: .*rank 1 on .*: rank 0 has ended, or its connection is broken" run.1.err ;;
        "STOP 1") grep -q "mf-ppo: error: .*rank 1 on .* is late by 3 s" run.0.err ;;
        "TERM 1") ! grep error run.*.err ;;
        esac && learn 2 run run.resume=auto && cmp "$(newest run)" "$want" || { echo "$how: $status"; cat run.*.err; return 1; }
    done
}

@test "an error of one rank ends all: it alone says why" {
    head -c 20000 "$made" >"cut" && start 3 run mf-ppo --in "cut" "${small[@]}" run.dir=run && ended && [[ $status == "3 "* ]] &&
        grep -q "mf-ppo: error: cut: ends inside a frame" run.0.err && ! grep error run.1.err run.2.err || { echo "$status"; cat run.*.err; return 1; }
}

@test "what cannot be a start of several is one sentence" {
    local p
    local -x MF_RANKS=2 MF_RANKS_ADDRESS
    p=$(port)
    MF_RANKS_ADDRESS=127.0.0.1:$p mf-collect "${small[@]}" collect.actor=expert collect.episodes=8 | mf-check || return 1 # exported, and none of them
    # refuses STATUS TEXT RANK ADDRESS
    refuses() {
        MF_RANK=$3 MF_RANKS_ADDRESS=$4 run "-$1" mf-ppo --in "$made" "${small[@]}" run.dir=x ranks_timeout=1
        [[ $(grep -c "mf-ppo: error: " <<<"$output") == 1 && $output == *"$2"* && ! -e x ]] || { echo "$output"; return 1; }
    }
    refuses 1 "rank 1 of 2 did not connect within 1 s (MF_RANKS_ADDRESS=127.0.0.1:$p, ranks_timeout=1)" 0 "127.0.0.1:$p" &&
        refuses 1 "rank 0 of 2 did not connect within 1 s" 1 "127.0.0.1:$p" &&
        refuses 2 "this is rank 2 of 2: give each process a number MF_RANK from 0 to before MF_RANKS" 2 "127.0.0.1:$p" &&
        refuses 2 "this is rank -1 of 2" 1x "127.0.0.1:$p" &&
        refuses 2 "MF_RANKS_ADDRESS=127.0.0.1: no address of rank 0 as HOST:PORT" 0 127.0.0.1 &&
        refuses 2 "MF_RANKS_ADDRESS=127.0.0.1:99999: no address of rank 0 as HOST:PORT" 0 127.0.0.1:99999 &&
        refuses 2 "here they are '', '2' and '0'" 0 "" && refuses 2 "here they are '127.0.0.1:$p', '2' and ''" "" "127.0.0.1:$p" &&
        MF_RANKS=two refuses 2 "MF_RANKS=two is no number of processes" 0 "127.0.0.1:$p" &&
        { exec 8< <(exec python3 -c 'import socket, sys; s = socket.create_server(("127.0.0.1", int(sys.argv[1]))); print(flush=True); s.accept()' "$p") && read -r <&8; } &&
        refuses 1 "MF_RANKS_ADDRESS=127.0.0.1:$p: rank 0 cannot listen there: Address already in use" 0 "127.0.0.1:$p" && exec 8<&- && kill $!
}

@test "a stranger at rank 0's port is sent away" {
    local k
    local -x MF_RANKS=2 MF_RANKS_ADDRESS
    MF_RANKS_ADDRESS=127.0.0.1:$(port)
    MF_RANK=0 mf-ppo --in "$made" "${small[@]}" run.dir=two >two.0 2>two.err &
    until exec 8<>"/dev/tcp/127.0.0.1/${MF_RANKS_ADDRESS#*:}"; do sleep .05; done 2>/dev/null
    printf 'GET / HTTP/1.1\r\n\r\n' >&8
    MF_RANK=1 mf-ppo --in "$made" "${small[@]}" run.dir=two >two.1 2>two.1.err && wait $! && exec 8>&- && cmp "$(newest two)" "$want"
}

@test "others at rank 0's port hold nobody up: silent, garbage, half of a greeting, a start of other ranks, a rank again" {
    local -x MF_RANKS=2 MF_RANKS_ADDRESS
    MF_RANKS_ADDRESS=127.0.0.1:$(port)
    MF_RANK=0 mf-ppo --in "$made" "${small[@]}" run.dir=two ranks_timeout=30 >two.0 2>two.err &
    local first=$! stranger
    python3 - "${MF_RANKS_ADDRESS#*:}" <<'PY' &
import os, socket, struct, sys, time
def connect():
    while True:
        try: return socket.create_connection(("127.0.0.1", int(sys.argv[1])))
        except OSError: time.sleep(.05)
held = [connect() for _ in range(100)]
for i, s in enumerate(held):
    if i % 3: s.sendall([b"", os.urandom(99), struct.pack("<I", 0x6d665233)][i % 3])
open("there", "w").close()
time.sleep(1000)
PY
    stranger=$!
    until [[ -e there ]]; do sleep .05; done
    MF_RANKS=3 MF_RANK=1 run -2 mf-ppo --in "$made" "${small[@]}" run.dir=two ranks_timeout=9
    [[ $output == *"MF_RANKS=3, but rank 0 has MF_RANKS=2: give all processes the same"* ]] || { echo "$output"; return 1; }
    SECONDS=0
    MF_RANK=1 mf-ppo --in "$made" "${small[@]}" run.dir=two >two.1 2>two.1.err && wait "$first" && ((SECONDS < 25)) && cmp "$(newest two)" "$want" && kill $stranger || return 1

    MF_RANKS=3 # another rank 1, while rank 2 lacks; one that has ended may start again
    MF_RANK=0 mf-ppo --in "$made" "${small[@]}" run.dir=three >three.0 2>three.err &
    first=$!
    MF_RANK=1 timeout 2 mf-ppo --in "$made" "${small[@]}" run.dir=three || true
    MF_RANK=1 mf-ppo --in "$made" "${small[@]}" run.dir=three >three.1 2>three.1.err &
    sleep 2
    MF_RANK=1 run -2 mf-ppo --in "$made" "${small[@]}" run.dir=three
    [[ $output == *"rank 0 has another rank 1: give each process a MF_RANK of its own"* ]] || { echo "$output"; return 1; }
    MF_RANK=2 mf-ppo --in "$made" "${small[@]}" run.dir=three >three.2 2>three.2.err && wait "$first" && cmp "$(newest three)" "$want"
}

@test "an address of IPv6 is in brackets" {
    local -x MF_RANKS=2 MF_RANKS_ADDRESS
    python3 -c 'import socket; socket.create_server(("::1", 0), family=socket.AF_INET6)' || skip "no IPv6 here"
    MF_RANKS_ADDRESS="[::1]:$(port)"
    MF_RANK=1 mf-ppo --in "$made" "${small[@]}" run.dir=six >six.1 2>six.1.err &
    MF_RANK=0 mf-ppo --in "$made" "${small[@]}" run.dir=six >six.0 2>six.err && wait $! && cmp "$(newest six)" "$want"
}

@test "a rank that waits is no rank 0 to itself, where the port is one of those that the system gives" {
    unshare -rn true || skip "no network namespaces here"
    local -x MF_RANKS=2 MF_RANKS_ADDRESS=127.0.0.1:40000 made=$made
    # shellcheck disable=SC2016 # the inner shell expands it
    unshare -rn bash -c 'ip link set lo up && echo "40000 40003" >/proc/sys/net/ipv4/ip_local_port_range || exit 9
        MF_RANK=1 mf-ppo --in "$made" run.dir=self "$@" >self.1 2>self.1.err &
        sleep 2
        MF_RANK=0 mf-ppo --in "$made" run.dir=self "$@" >self.0 2>self.err && wait $!' _ "${small[@]}" || { cat self*.err; return 1; }
    cmp "$(newest self)" "$want"
}

@test "a rank with other words is refused, before anything is written" {
    # differs WORD WHAT: rank 1 has that word
    differs() {
        local -x MF_RANKS=2 MF_RANKS_ADDRESS
        MF_RANKS_ADDRESS=127.0.0.1:$(port)
        MF_RANK=1 mf-ppo --in "$made" "${small[@]}" run.dir=x ranks_timeout=9 "$1" >x.1 2>x.1.err &
        MF_RANK=0 run -2 mf-ppo --in "$made" "${small[@]}" run.dir=x ranks_timeout=9
        ! wait $! && [[ $(grep -c "mf-ppo: error: " <<<"$output") == 1 && $output == *"rank 1 on "*": $2 in rank 0: give all ranks the same program and words"* && ! -e x ]] || { echo "$output"; return 1; }
    }
    differs training.learning_rate=0.01 "training.learning_rate=0.01, which is training.learning_rate=0.0001" && differs precision=bf16 "precision=bf16, which is precision=fp32" &&
        differs training.batch_size=64 "training.batch_size=64, which is training.batch_size=96"
}

@test "emulated GPUs: the id of NCCL's communicator goes this way, too" {
    local -x MF_CUDA="$ROOT/build/emu/mf_cuda.so" MF_NCCL="$ROOT/build/emu/libnccl.so.2" CUEMU_DEVICES=2 TMPDIR=$T SLURM_LOCALID
    small+=(training.total_timesteps=300 training.num_steps_per_rollout=8 training.batch_size=32 device=cuda)
    local -x MF_RANKS_ADDRESS
    MF_RANKS_ADDRESS=127.0.0.1:$(port)
    mf-collect "${small[@]}" run.dir=live 2>live.err | mf-gae 2>>live.err | tee gpus | mf-ppo "${small[@]}" run.dir=live >live.mf 2>>live.err || return 1
    MF_RANKS=2 MF_RANK=1 mf-ppo --in gpus "${small[@]}" run.dir=two device=cuda:1 >two.1 2>two.1.err &
    MF_RANKS=2 MF_RANK=0 mf-ppo --in gpus "${small[@]}" run.dir=two device=cuda:0 >two.0 2>two.err && wait $! && grep -q "by NCCL 2.28.9" two.err &&
        cmp "$(newest two)" "$(newest live)"
}
