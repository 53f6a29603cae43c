# The pipe as a whole: it learns, ends, resumes, replays, and dies well.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    small=(env=point training.num_envs=8 training.num_steps_per_rollout=8 training.total_timesteps=1200
        training.batch_size=32 training.num_epochs=2 'policy.hidden=[32,32,32]' 'policy.critic_hidden=[32,32,32]' threads=2)
}

@test "the pipe ends by itself; its metrics are a complete stream, also in the run's folder; the first ratios are exactly 1" {
    train a && mf-check a.mf && mf-check a/logs/metrics.mf &&
        mf-view a.mf | jq -r 'select(.mf == "metrics") | .values["train/logratio_gap"]' | sort -u >gaps &&
        [[ $(cat gaps) == 0 ]]
}

@test "plain C, AVX2 and AVX-512 train the same checkpoint; an unknown width is named" {
    train a training.total_timesteps=300 && cp "$last" want
    for width in base avx2 avx512; do
        MF_CPU=$width train "$width" training.total_timesteps=300 && cmp "$last" want || return 1
    done
    run -2 env MF_CPU=avx1024 mf-collect "${small[@]}" run.dir=x && [[ $output == *"MF_CPU=avx1024: there are base, avx2, avx512 and avx512_bf16; or unset it"* ]]
}

@test "the same seed gives the same checkpoint for 1, 2, 4 threads and 1 or 3 slices; another seed another" {
    train a && cp "$last" want
    train b threads=1 && cmp "$last" want && train c threads=4 collect.slices=3 && cmp "$last" want &&
        train d run.seed=1 && ! cmp -s "$last" want
}

@test "the learner starts from the collector's checkpoint, live and replayed, unless policy.checkpoint names another" {
    train a && local start=$last
    train told "policy.checkpoint=$start" && cp "$last" want
    mf-collect "${small[@]}" "policy.checkpoint=$start" run.dir=live | tee r.mf | mf-gae |
        mf-ppo "${small[@]}" >/dev/null 2>err &&
        grep -q "starting from $start (raw weights)" err && cmp "$(newest live)" want &&
        mf-gae --in r.mf | mf-ppo "${small[@]}" run.dir=again >/dev/null && cmp "$(newest again)" want
}

# trains_by CONF..: the keys that a fresh policy on the point mass begins with.
trains_by() {
    local k
    for k in training.learning_rate training.clip_range policy.min_noise_std policy.max_noise_std; do mf-conf "$@" $k; done | xargs
}

@test "defaults are cautious; a fresh policy on the point mass uses the environment's; words override them, a resume keeps them" {
    local safe="0.0001 0.01 0.1 0.1" bold="0.001 0.03 0.3 0.3"
    [[ $(trains_by) == "$safe" && $(trains_by --config-dir "$ROOT/configs" --config-name=point) == "$bold" ]] || return 1
    train a && cp "$last" want && [[ $(trains_by --config a/configs/mf-ppo.yaml) == "$bold" ]] || return 1
    train b "policy.checkpoint=$PWD/want" && [[ $(trains_by --config b/configs/mf-ppo.yaml) == "$safe" ]] || return 1
    train c training.clip_range=.02 && [[ $(trains_by --config c/configs/mf-ppo.yaml) == "0.001 0.02 0.3 0.3" ]] || return 1
    train d training.total_timesteps=600
    train d run.resume=auto && cmp "$last" want && [[ $(trains_by --config d/configs/mf-ppo.yaml) == "$bold" ]] || return 1
    mf-collect "${small[@]}" run.dir=e | tee fresh.mf | mf-gae | mf-ppo "${small[@]}" >/dev/null && cmp "$(newest e)" want || return 1
    mf-gae --in fresh.mf | mf-ppo "${small[@]}" run.dir=f >/dev/null && cmp "$(newest f)" want || return 1
    "$ROOT/tests/tools/stream.py" spoil fresh.mf . <<<'lies: f[0]["defaults"] = "run.dir=elsewhere"'
    run -3 bash -c 'mf-gae --in lies >/dev/null'
    [[ $output == *"the head's defaults may not set 'run.dir=elsewhere'"* ]]
}

# held DIR BYTES [word ...]: the pipe, in which only so many bytes of rollouts reach the learner, $ppo; ends: what is left of it.
held() {
    mf-collect "${small[@]}" run.dir="$1" "${@:3}" 2>>"$1.err" | mf-gae | { echo $BASHPID >holder && stdbuf -o0 head -c "$2" && exec sleep 100; } |
        mf-ppo "${small[@]}" run.dir="$1" "${@:3}" >/dev/null 2>>"$1.err" & ppo=$!
}
ends() { kill -9 "$(cat holder)" && ended_by "$1" $ppo; }

@test "training.save_every: the pipe is killed between two checkpoints, or stopped by TERM, and resumes to the same bytes; the last version is saved" {
    train want && cp "$last" want.safetensors && local n=${last##*/0000} bytes
    n=$((10#${n%.*}))
    mf-collect "${small[@]}" run.dir=r training.save_every=3 2>/dev/null | mf-gae | tee r.mf | mf-ppo "${small[@]}" training.save_every=3 >/dev/null && cmp "$(newest r)" want.safetensors &&
        [[ $n == 5 && $(saved want) == "3 4 5" && $(saved r) == "3 5" && -e r/checkpoints/000005.json ]] || { saved want; saved r; return 1; }
    bytes=$(($(stat -c %s r.mf) * 92 / 100))
    held k $bytes training.save_every=3 && until_there iterations k 4 && kill -9 $ppo && ends 137 && [[ $(saved k) == 3 ]] &&
        train k training.save_every=3 run.resume=auto && cmp "$last" want.safetensors && mf-check k/logs/metrics.mf >/dev/null || { cat k.err; return 1; }
    held t $bytes training.save_every=3 && until_there iterations t 4 && kill -TERM $ppo && ends 143 && [[ $(saved t) == "3 4" && -e t/checkpoints/000004.json ]] && train t training.save_every=2 run.resume=auto && cmp "$last" want.safetensors || { cat t.err; return 1; }
}

@test "training.save_every: TERM in the middle of an update completes it, and saves" {
    mf-collect "${small[@]}" run.dir=k 2>/dev/null | mf-gae | { mf-ppo "${small[@]}" run.dir=k training.save_every=100 training.num_epochs=600 training.target_kl=inf >/dev/null 2>err & echo $! >pid; wait $!; } &
    until_there iterations k 1 && kill -TERM "$(cat pid)" && ! wait $! && [[ $(saved k) == [1-5] && -e k/checkpoints/00000$(saved k).json ]] || { cat err; saved k; return 1; }
}

@test "training.save_every: the last version cannot be saved: an error, also after TERM" {
    local rc=0
    mf-collect "${small[@]}" run.dir=k training.total_timesteps=100000 2>/dev/null | mf-gae | { mf-ppo "${small[@]}" run.dir=k training.total_timesteps=100000 training.save_every=1000 >/dev/null 2>err & echo $! >pid; wait $!; } & local ppo=$!
    until_there iterations k 1 && rm -r k/checkpoints && touch k/checkpoints && kill -TERM "$(cat pid)" && { wait $ppo || rc=$?; } && [[ $rc == 1 ]] && grep -q 'mf-ppo: error: .*checkpoints' err || { echo $rc; cat err; return 1; }
}

@test "a folder that takes no checkpoint is an error before anything is collected; a later save that fails says which iterations are lost" {
    mkdir k && touch k/checkpoints && run -1 timeout 20 mf-collect "${small[@]}" run.dir=k </dev/null && [[ $output == *"error: cannot save checkpoints in k/checkpoints: Not a directory" ]] || return 1
    mf-collect "${small[@]}" run.dir=r 2>/dev/null | mf-gae | tee r.mf | mf-ppo "${small[@]}" >/dev/null &&
        run -1 mf-ppo "${small[@]}" --in r.mf run.dir=k training.save_every=1000 && [[ $output == *"cannot save checkpoints in k/checkpoints"* ]] || return 1
    held l $(($(stat -c %s r.mf) * 92 / 100)) training.save_every=3 && until_there iterations l 4 && rm -r l/checkpoints && touch l/checkpoints && kill -TERM $ppo && ends 1 &&
        grep -q "mf-ppo: error: iteration 3 is lost, as it cannot be saved: .*l/checkpoints" l.err || { cat l.err; return 1; }
}

@test "run.resume=auto of a run without a checkpoint starts anew, and says so; a new run says nothing" {
    held k 20000 training.save_every=1000 run.resume=auto && until_there iterations k 0 && until_there test -s k/logs/metrics.mf && kill -9 $ppo && ends 137 && [[ -z $(newest k) ]] && ! grep "starts anew" k.err &&
        train k run.resume=auto && grep -q "mf-ppo: warn: k has metrics of an earlier start, but no checkpoint to resume: the run starts anew" k.err || { cat k.err; return 1; }
}

@test "over ZeroMQ the checkpoint is the same" {
    train a && cp "$last" want
    mf-gae --in "ipc://$PWD/s1" --out "ipc://$PWD/s2" &
    local gae=$!
    mf-ppo "${small[@]}" --in "ipc://$PWD/s2" run.dir=z >/dev/null &
    local ppo=$!
    mf-collect "${small[@]}" --out "ipc://$PWD/s1" run.dir=z && wait "$gae" && wait "$ppo" &&
        cmp "z/checkpoints/$(basename "$last")" want
}

@test "a run's folder may have characters with a meaning in addresses" {
    local name
    for name in '*' '@run' '>run'; do
        mf-collect "${small[@]}" training.total_timesteps=300 run.dir="$name" | mf-gae | mf-ppo "${small[@]}" >/dev/null &&
            [[ ${PIPESTATUS[*]} == "0 0 0" && -n $(newest "./$name") ]] || return 1
    done
}

@test "a saved stream replays to the same bytes, from tee and from HDF5" {
    mf-collect "${small[@]}" run.dir=a | tee saved.mf | mf-record saved.hdf5 | mf-gae | mf-ppo "${small[@]}" >/dev/null
    last=$(newest a)
    mf-gae --in saved.mf | mf-ppo "${small[@]}" run.dir=b >/dev/null && cmp "$last" "b/checkpoints/$(basename "$last")" &&
        mf-replay saved.hdf5 | cmp - saved.mf &&
        mf-replay saved.hdf5 | mf-gae | mf-ppo "${small[@]}" run.dir=c >/dev/null &&
        cmp "$last" "c/checkpoints/$(basename "$last")"
}

@test "SIGKILL at any moment, of any stage, then a resume: the same bytes as the run that was never killed" {
    small+=(training.total_timesteps=30000)
    survives
}

@test "run.resume=auto: mf-ppo resumes where mf-collect does, also through a link, or reports why not" {
    train want && want=$last
    mf-collect "${small[@]}" training.total_timesteps=500 run.dir=k | mf-gae | mf-ppo "${small[@]}" >/dev/null
    cp -r k other
    mf-collect "${small[@]}" run.dir=k run.resume=auto | mf-gae | mf-ppo "${small[@]}" >/dev/null
    cmp "$want" "k/checkpoints/$(basename "$want")"
    cp -r other third && ln -s third latest
    train latest run.resume=auto && [[ $(mf-view latest.mf | jq -r 'select(.mf == "head").run') == third ]]
    cmp "$want" "third/checkpoints/$(basename "$want")"
    mf-collect "${small[@]}" run.dir=other run.resume=auto 2>/dev/null | mf-gae 2>/dev/null |
        mf-ppo "${small[@]}" run.dir=elsewhere >/dev/null 2>err || [[ $? == 2 ]]
    grep -q 'the collector continues at iteration .* would start at 0' err
}

# dies VICTIM FILTER: while the collector waits for a long update, kill one; all others end, the learner after its update.
dies() {
    bash -c "mf-collect \"\$@\" run.dir=d | $2 | mf-ppo \"\$@\" run.dir=d training.num_epochs=3000 training.target_kl=inf" \
        _ "${small[@]}" >/dev/null 2>err &
    local shell=$!
    for _ in $(seq 50); do
        [[ -S d/policy.sock ]] && break
        sleep 0.1
    done
    sleep 0.5
    kill -9 "$(pgrep -P "$shell" -f "$1" | head -n 1)"
    for _ in $(seq 200); do
        kill -0 "$shell" 2>/dev/null || return 0
        sleep 0.1
    done
    pgrep -P "$shell" -a
    pkill -9 -P "$shell"
    return 1
}
@test "the collector's death ends all waiting programs" { dies mf-collect mf-gae; }
@test "a filter's death ends all waiting programs" { dies mf-gae mf-gae; }
@test "the learner's death ends all waiting programs" { dies mf-ppo mf-gae; }
@test "a plain Python filter's death ends all waiting programs" {
    dies filter.py "/usr/bin/python3 $ROOT/examples/filter.py | mf-gae"
}
@test "the learner's death after a plain Python filter ends all waiting programs" {
    small+=(collect.policy_timeout=5)
    dies mf-ppo "/usr/bin/python3 $ROOT/examples/filter.py | mf-gae"
}

@test "two runs in one folder: the second is refused and the first continues" {
    mf-collect "${small[@]}" run.dir=a 2>/dev/null | mf-gae | mf-ppo "${small[@]}" training.num_epochs=300 >/dev/null &
    local first=$!
    for _ in $(seq 50); do
        [[ -S a/policy.sock ]] && break
        sleep 0.1
    done
    run -1 --separate-stderr mf-collect "${small[@]}" run.dir=a --out /dev/null
    [[ $stderr == *"belongs to a run in progress"* ]] && wait "$first"
}

@test "SIGINT to all programs: the current round is discarded, the stream ends with stopped, the checkpoint loads" {
    small+=(training.total_timesteps=100000000)
    set -m
    bash -c 'mf-collect "$@" run.dir=a | tee -i a.mf | mf-gae | mf-ppo "$@" run.dir=a' _ "${small[@]}" >m.mf 2>err &
    local group=$!
    sleep 1.5
    kill -INT -- "-$group"
    wait "$group" || true
    set +m
    mf-view m.mf | tail -n 1 | jq -e '.mf == "end" and .stopped' && mf-ckpt verify "$(newest a)"
}

@test "SIGTERM to the learner: it ends by that signal, and the checkpoint loads" {
    small+=(training.total_timesteps=100000000)
    mf-collect "${small[@]}" run.dir=a 2>/dev/null | mf-gae 2>/dev/null | mf-ppo "${small[@]}" run.dir=a >m.mf &
    local learner=$! rc=0
    sleep 1.5
    kill -TERM "$learner"
    wait "$learner" || rc=$?
    [[ $rc -eq 143 ]] && mf-ckpt verify "$(newest a)"
}

@test "lr 0: no weight changes over the whole run" {
    train a training.learning_rate=0 training.critic_learning_rate=0 &&
        mf-view a.mf | jq -e 'select(.mf == "metrics") | .values | .["train/ratio_max"] == 1 and .["train/approx_kl"] == 0' |
        sort -u | grep -qx true
}

@test "max_lag 1 runs overlapped and ends with the same bytes every time" {
    train a collect.max_lag=1 && cp "$last" want && train b collect.max_lag=1 && cmp "$last" want
}

@test "max_lag 1 with the decoupled objective: corrections of lagged rounds; at lag 0 it is PPO bit for bit" {
    train a && cp "$last" want && train b training.proximal=1 && cmp "$last" want || return 1
    train c collect.max_lag=1 && cp "$last" want && train d collect.max_lag=1 training.proximal=1 && ! cmp -s "$last" want &&
        { mf-view c.mf && mf-view d.mf; } | jq -r 'select(.mf == "metrics") | .values["train/correction_max"] // "none" | if . == "none" then . else . > 1 and . < 2 end' |
        uniq -c | awk '{ print $2 }' | tr '\n' ' ' >said && [[ $(cat said) == "none true " ]] &&
        mf-check d | grep -c log-prob | grep -qx 0
}

@test "a rollout of an older policy than allowed is dropped and counted" {
    mf-collect "${small[@]}" run.dir=a collect.max_lag=1 | tee lag.mf | mf-gae | mf-ppo "${small[@]}" >/dev/null
    mf-gae --in lag.mf | mf-ppo "${small[@]}" run.dir=b collect.max_lag=0 >b.mf 2>err && grep -q 'older than collect.max_lag=0' err &&
        mf-view b.mf | jq -s -e 'map(select(.mf == "metrics")) | last | .values["train/dropped_rounds"] > 0'
}

@test "mf-ppo takes run.seed and collect.max_lag from the collector, unless its own keys are set" {
    train a run.seed=3 collect.max_lag=1 && cp "$last" want
    mf-collect "${small[@]}" run.dir=b run.seed=3 collect.max_lag=1 | mf-gae | mf-ppo "${small[@]}" >b.mf &&
        cmp "$(newest b)" want &&
        mf-view b.mf | jq -s -e 'map(select(.mf == "metrics")) | last | .values["train/dropped_rounds"] == 0'
    mf-collect "${small[@]}" run.dir=c run.seed=3 collect.max_lag=1 | mf-gae | mf-ppo "${small[@]}" run.seed=4 >/dev/null &&
        ! cmp -s "$(newest c)" want
}

@test "the metrics have the waiting time of each stage, and the stream does not" {
    cat >slow.py <<'PY'
import time
from stream import frames, send

for frame in frames():
    time.sleep(0.3 * (frame["mf"] == "round"))
    send(frame)
PY
    mf-collect "${small[@]}" run.dir=waits 2>log | mf-gae | tee stream.mf | PYTHONPATH=$ROOT/examples /usr/bin/python3 slow.py | mf-ppo "${small[@]}" >m.mf 2>>log &&
        mf-view m.mf | jq -es '[.[] | select(.mf == "metrics").values] | length > 1 and
            all(.["perf/idle_collect_in"] > .4 and .["perf/idle_gae_in"] > .4 and .["perf/idle_gae_in"] <= 1.001 and .["perf/idle_gae_out"] < .2)' >/dev/null &&
        ! grep -qa idle stream.mf
}

@test "incomplete files of a killed learner are removed when the run resumes" {
    cd "$T" || return 1
    local words=(run.dir=r training.num_envs=4 training.num_steps_per_rollout=4 "policy.hidden=[8]" "policy.critic_hidden=[8]" threads=1)
    mf-collect "${words[@]}" training.total_timesteps=200 2>log | mf-gae | mf-ppo "${words[@]}" >m.mf 2>>log && echo cut >r/checkpoints/000001.json.part &&
        echo kept >r/checkpoints/mine.json && mf-collect "${words[@]}" training.total_timesteps=400 run.resume=auto 2>>log | mf-gae | mf-ppo "${words[@]}" >m.mf 2>>log &&
        [[ ! -e r/checkpoints/000001.json.part && -e r/checkpoints/mine.json ]]
}

@test "a collector logs the duration of long rounds after its first decisions" {
    local pids tries=200
    MF_CPU=base mf-collect env=point training.num_envs=256 training.num_steps_per_rollout=1000 'policy.hidden=[1024,1024,1024]' threads=1 run.dir="$T/long" 2>"$T/said" > >(exec mf-gae | exec mf-ppo threads=1 >/dev/null 2>&1) &
    pids=$!
    until grep -q 'takes about [0-9]* s$' "$T/said" || ((tries-- == 0)); do sleep .1; done
    kill $pids
    grep -qE '^mf-collect: info: a round of 1000 decisions in 256 environments takes about [0-9]{2,} s$' "$T/said" || { cat "$T/said"; return 1; }
}
