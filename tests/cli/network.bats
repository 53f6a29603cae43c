# Several collectors over a network: addresses, keys, hosts.
load several

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
