# Collectors that send invalid frames, or none: each is refused, and the others continue.
load several

# told STATUS NAME WORDS: the collector NAME is refused with these words, which the reader also logs.
told() { ended_by "$1" "$collector" && grep -q -- "$3" "a.$2" && grep -q -- "$3" a.gae; }

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
