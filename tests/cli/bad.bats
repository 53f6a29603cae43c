# Invalid input and failures of every kind, once each: the program prints one error, exits with the right status, and
# neither loses data nor leaves an incomplete file.
load helpers

# One real run, small enough for a test each: raw.mf before the advantages, adv.mf behind them, run/ its folder.
setup_file() {
    cd "$BATS_FILE_TMPDIR" || return 1
    small
    mf-collect "${small[@]}" run.dir=run 2>log | tee raw.mf | mf-gae | tee adv.mf | mf-ppo "${small[@]}" >run.mf 2>>log || cat log
    cp "$ROOT/tests/fixtures/point.hdf5" demos.hdf5
}

setup() {
    cd "$BATS_FILE_TMPDIR" && small
    learner=(mf-ppo "${small[@]}" run.dir="$T/learner" run.force=true)
}

small() {
    small=(env=point training.num_envs=4 training.num_steps_per_rollout=4 training.total_timesteps=100 threads=1
        training.batch_size=16 training.num_epochs=2 policy.n_action_steps=2 policy.num_inference_steps=2
        'policy.hidden=[8,8,8]' 'policy.critic_hidden=[8]' 'policy.noise_hidden=[8,8]')
}

# answers STATUS 'SENTENCE' COMMAND ..: this status, one error line, the sentence in it; it may take 20 s.
answers() {
    local want=$1 says=$2 rc=0
    shift 2
    timeout -k 1 20 "$@" >"$T/out" 2>"$T/err" </dev/null || rc=$?
    [[ $rc -eq $want && $(grep -c ': error: ' "$T/err") -eq 1 && $(cat "$T/err") == *"$says"* ]] ||
        { echo "$*: status $rc, not $want: $(cat "$T/err")"; return 1; }
}

# reads STATUS 'SENTENCE' FILE COMMAND ..: likewise, with the file on stdin.
reads() {
    local file=$3
    # shellcheck disable=SC2016 # of the inner shell
    answers "$1" "$2" bash -c 'f=$1; shift; exec "$@" <"$f"' _ "$file" "${@:4}"
}

# wait_for COMMAND ..: until it succeeds, at most 10 s.
wait_for() {
    local tries=500
    until "$@" >/dev/null 2>&1; do
        ((tries-- > 0)) || { echo "in vain: $*"; return 1; }
        sleep 0.02
    done
}

# train [WORD ..]: the pipe to its end, in $T/run. `status` is the three statuses.
train() {
    rm -rf "$T/run"
    {
        mf-collect "${small[@]}" run.dir="$T/run" "$@" 2>"$T/err1" | mf-gae "$@" 2>"$T/err2" |
            mf-ppo "${small[@]}" run.dir="$T/run" "$@" >"$T/m.mf" 2>"$T/err3"
        status=${PIPESTATUS[*]}
    } || true
}

# The pipe succeeds, and every round scored its log-probabilities bit for bit.
trains() {
    local exact='map(select(.mf == "metrics").values) | length > 0 and all(.["train/logratio_gap"] == 0 and .["train/skipped"] == 0)'
    train "$@"
    if [[ $status != "0 0 0" ]] || ! mf-check "$T/m.mf" >/dev/null || ! mf-view "$T/m.mf" | jq -es "$exact" >/dev/null; then
        echo "$*: $status $(cat "$T"/err?)"
        return 1
    fi
}

# refuses 'SENTENCE' WORD ..: the collector refuses, before it writes a byte.
refuses() { answers 2 "$1" mf-collect "${small[@]}" run.dir="$T/run" run.force=true "${@:2}" && [[ ! -s $T/out ]]; }

# edit FROM TO 'python that changes m (metadata) and t (name -> [dtype, shape, bytes])'
edit() {
    python3 - "$@" <<'PY'
import json, struct, sys
source, target, code = sys.argv[1:]
raw = open(source, "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
h = json.loads(raw[8 : 8 + n])
m = h.pop("__metadata__")
t = {k: [v["dtype"], v["shape"], raw[8 + n :][slice(*v["data_offsets"])]] for k, v in h.items()}
exec(code)
h, data = {"__metadata__": m}, b""
for k, (d, s, b) in sorted(t.items()):
    h[k] = {"dtype": d, "shape": s, "data_offsets": [len(data), len(data) + len(b)]}
    data += b
j = json.dumps(h).encode()
open(target, "wb").write(struct.pack("<Q", len(j)) + j + data)
PY
}

# room KIB: a shell command that limits the memory; empty under a sanitizer, which reserves all of it.
room() { ldd "$ROOT/bin/mf-gae" | grep -q 'lib[at]san' || echo "ulimit -v $1;"; }

# spoil FOLDER <CASES: see stream.py.
spoil() { mkdir -p "$1" && stream spoil adv.mf "$1"; }

# ---- streams ----

@test "a stream that is cut anywhere exits 3 in every reader, and leaves no part of a file" {
    local at program
    # Inside the head, behind it, inside a rollout, behind it, in a round, behind it, inside the end, before its last byte.
    /usr/bin/python3 -c 'import msgpack, sys
u, o = msgpack.Unpacker(open("adv.mf", "rb"), max_buffer_size=0, strict_map_key=False), [0]
for _ in u: o.append(u.tell())
print(1, o[1] // 2, o[1], (o[1] + o[2]) // 2, o[2], o[2] + 3, o[3], o[-2], o[-2] + 9, o[-1] - 1, sep="\n")' >"$T/at" || skip "no python3-msgpack"
    while read -r at; do
        head -c "$at" adv.mf >"$T/cut"
        for program in mf-gae "${learner[*]}" "mf-record $T/r.hdf5" mf-check; do
            # shellcheck disable=SC2086 # words
            reads 3 "<stdin>" "$T/cut" $program && [[ -z $(find "$T" -name '*.part') ]] || { echo "at $at"; return 1; }
        done
    done <"$T/at"
}

@test "garbage, lengths of 4 GB and nesting bombs exit 3 at once, in little memory" {
    bomb() { # 'SENTENCE' FORMAT [BYTES of zeros behind]
        # shellcheck disable=SC2059 # the bytes are a format
        { printf "$2" && head -c "${3:-0}" /dev/zero; } >"$T/bomb"
        local program
        for program in mf-gae "${learner[*]}" "mf-record $T/r.hdf5" mf-check; do
            reads 3 "$1" "$T/bomb" bash -c "$(room 2000000) exec $program" || return 1
        done
    }
    bomb "where a frame" '' 5000 && bomb "where a frame" 'hello\n' && bomb "where a frame" '\xff\xff\xff' &&
        bomb "longer than 1 GiB" '\x81\xa2mf\xc6\xff\xff\xff\xff' 1000000 && bomb "longer than 1 GiB" '\x81\xa2mf\xdb\xff\xff\xff\xff' &&
        bomb "longer than 1 GiB" '\xdf\xff\xff\xff\xff' && bomb "longer than 1 GiB" '\x81\xa2mf\xdd\xff\xff\xff\xff' 1000000 || return 1
    head -c 100000 /dev/zero | tr '\0' '\221' | cat <(printf '\x81\xa2mf') - >"$T/nest"
    reads 3 "nested deeper" "$T/nest" mf-gae && reads 3 "nested deeper" "$T/nest" mf-check
}

@test "an array that is missing, misshapen, of another type: each is named" {
    local x arrays="rewards terminated truncated prev_values last_values actions chains denoise_inds prev_logprobs advantages returns obs/goal"
    for x in $arrays valid n_exec loss_mask final_values; do
        local to=${x/\//_}
        [[ " $arrays " != *" $x "* ]] || echo "$to.gone: del a['$x']"
        echo "$to.deep: a['$x'].shape = a['$x'].shape + [1, 1]; a['$x'].flat *= 1"
        echo "$to.long: a['$x'].shape = [2 * a['$x'].shape[0]] + a['$x'].shape[1:]; a['$x'].flat *= 2"
        echo "$to.type: a['$x'].dtype = '<f8'"
        echo "$to.text: a['$x'] = 'text'"
    done | spoil "$T/s" || skip "no python3-msgpack"
    echo "huge: rollouts[0]['arrays'] = a['rewards'].shape[0]" | spoil "$T/s"
    for x in "$T"/s/*.*; do
        local name=${x##*/}
        case $name in
            obs_goal.deep | prev_logprobs.deep) continue ;; # their shapes are the policy's to know
            rewards.long) name=terminated ;;                # which then no longer fits
        esac
        name=${name%.*}
            reads 3 "${name/obs_/obs/}" "$x" "${learner[@]}" || return 1
        case $name in
            rewards | terminated | truncated | *_values | valid | n_exec | loss_mask) reads 3 "'$name'" "$x" mf-gae || return 1 ;;
        esac
    done
}

@test "errors name the stage that adds a missing array, and the remedy for a wrong type" {
    mf-collect env=point collect.actor=expert collect.episodes=2 >"$T/expert" 2>/dev/null &&
        reads 3 "there is no array 'prev_values', expected (T=40, N=2): a collector that acts by a policy with a critic sends it, a scripted expert does not" "$T/expert" mf-gae &&
        reads 3 "the head describes no policy (no spec.obs): an expert's rollouts are for mf-record and mf-bc" "$T/expert" "${learner[@]}" &&
        reads 3 "there is no array 'advantages', expected (T=4, N=4): mf-gae, mf-mc, mf-nstep or mf-grpo, before this, adds it" raw.mf "${learner[@]}" || return 1
    spoil "$T/s" <<'CASES' || skip "no python3-msgpack"
dead: a['terminated'].dtype = '<f8'
paid: a['rewards'].dtype = '<f8'
half: a['rewards'] = a['rewards'].slice(2, 0, 1)
seen: a['obs/goal'].dtype = '<f8'
gone: del a['obs/goal']
CASES
    reads 3 "array 'terminated' has dtype <f8, expected |u1: numpy's .astype('|u1') makes it so" "$T/s/dead" mf-record "$T/r.hdf5" &&
        reads 3 "'rewards' has dtype <f8, expected <f4: numpy's .astype('<f4') makes it so" "$T/s/paid" mf-record "$T/r.hdf5" &&
        reads 3 "'rewards' has dtype <f8, expected <f4: numpy's .astype('<f4') makes it so" "$T/s/paid" mf-mc &&
        reads 3 "array 'rewards' has 1 a step where the actions are 2" "$T/s/half" mf-record "$T/r.hdf5" &&
        reads 3 "obs/goal is 16 numbers of <f8, the policy needs <f4 (4, 4, 1, 1)" "$T/s/seen" "${learner[@]}" &&
        reads 3 "obs/goal is missing, the policy needs <f4 (4, 4, 1, 1)" "$T/s/gone" "${learner[@]}"
}

@test "a shape of 100 GiB over some bytes is refused" {
    spoil "$T/s" <<<"huge: a['rewards'] = {b'nd': True, b'type': '<f4', b'kind': b'', b'shape': [100 << 30, 4, 2], b'data': b'12345678'}"
    reads 3 "array 'rewards' has 8 bytes of data where its shape" "$T/s/huge" mf-gae &&
        reads 3 "'rewards'" "$T/s/huge" mf-check && reads 3 "'rewards'" "$T/s/huge" "${learner[@]}"
}

@test "NaN and infinity: an error with the index in valid entries, accepted in masked ones" {
    local x of arrays="rewards prev_values actions chains prev_logprobs advantages returns obs/goal"
    for x in $arrays; do
        echo "${x/\//_}.nan: a['$x'].flat[-1] = math.nan"
        echo "${x/\//_}.inf: a['$x'].flat[-1] = -math.inf"
        echo "${x/\//_}.masked: a['$x'].fill_rows([15], math.nan); a['valid'].flat[15] = 0; a['truncated'].flat[11] = 1"
        echo "${x/\//_}.unlearned: a['$x'].fill_rows([15], math.inf); a['loss_mask'].flat[15] = 0; a['truncated'].flat[11] = 1"
    done >"$T/cases"
    cat >>"$T/cases" <<'CASES'
last_values.nan: a['last_values'].flat[3] = math.nan
last_values.masked: a['last_values'].flat[3] = math.nan; a['terminated'].flat[15] = 1
final_values.nan: a['final_values'].flat[15] = math.nan; a['truncated'].flat[15] = 1
final_values.masked: a['final_values'].flat[15] = math.nan
CASES
    spoil "$T/s" <"$T/cases" || skip "no python3-msgpack"
    for x in "$T"/s/*; do
        of=${x##*/} && of=${of%.*} && of=${of/obs_/obs/}
            case $x in
            *.nan) reads 3 "${of}[3" "$x" "${learner[@]}" && grep -q 'is NaN' "$T/err" && reads 3 "${of}[3" "$x" mf-check ;;
            *.inf) reads 3 "${of}[3" "$x" "${learner[@]}" && grep -q 'is infinite' "$T/err" && reads 3 "${of}[3" "$x" mf-check ;;
            *) "${learner[@]}" <"$x" >"$T/m.mf" 2>"$T/err" && mf-check "$x" >/dev/null && mf-gae <"$x" | mf-check >/dev/null ;;
        esac || { echo "$x: $(cat "$T/err")"; return 1; }
    done
}

@test "impossible counters, versions and slices are refused" {
    spoil "$T/s" <<'CASES' || skip "no python3-msgpack"
iter: rollouts[0].update(iter=(1 << 63) - 1)
text: rollouts[0].update(iter='0')
before: rollouts[0]['policy'].update(version=-1)
least: rollouts[0]['policy'].update(version=-(1 << 63))
ahead: rollouts[0]['policy'].update(version=1)
slices: f[2].update(slices=1 << 62)
twice: f.insert(1, f[1]); f[3].update(slices=2)
envs: rollouts[0].update(envs=[-1, 4])
far: rollouts[0].update(envs=[(1 << 63) - 1, 4])
CASES
    reads 3 "came where 0 was due" "$T/s/iter" "${learner[@]}" && reads 3 "'iter' is not an integer" "$T/s/text" "${learner[@]}" &&
        reads 3 "policy version -1" "$T/s/before" "${learner[@]}" && reads 3 "policy version -92" "$T/s/least" "${learner[@]}" &&
        reads 3 "made by policy version 1, the learner is at 0" "$T/s/ahead" "${learner[@]}" &&
        reads 3 "4611686018427387904 slices" "$T/s/slices" "${learner[@]}" && reads 3 "names 2 slices, and 1 were received" "$T/s/twice" "${learner[@]}" &&
        reads 3 "does not fit N=4" "$T/s/envs" "${learner[@]}" && reads 3 "does not fit N=4" "$T/s/far" "${learner[@]}"
}

@test "a round from before the learner's start is dropped, not scored with unknown noise" {
    train collect.max_lag=0 && [[ $status == "0 0 0" ]] || return 1 # its checkpoints do not know of a version before
    mkdir -p "$T/later/checkpoints" && cp "$T/run/checkpoints/000003.safetensors" "$T/later/checkpoints/"
    mf-collect "${small[@]}" run.dir="$T/lag" collect.max_lag=1 | tee "$T/lag.mf" | mf-gae | mf-ppo "${small[@]}" collect.max_lag=1 >/dev/null &&
        mf-gae --in "$T/lag.mf" | mf-ppo "${small[@]}" run.dir="$T/later" run.resume=auto collect.max_lag=1 >"$T/m.mf" 2>"$T/err" &&
        grep -q "round 3 is dropped: its policy version 2 is older than .* the learner's first version" "$T/err"
}

# ---- options, policies, checkpoints ----

@test "an option that contradicts the stream's head exits 2 and names both values" {
    reads 2 "policy.num_inference_steps=7 contradicts the stream's head, where it is 2" adv.mf "${learner[@]}" policy.num_inference_steps=7 &&
        reads 2 "policy.objective=chain_sum contradicts the stream's head, where it is chain_mean" adv.mf "${learner[@]}" policy.objective=chain_sum &&
        reads 2 "policy.noise_method=flow_sde contradicts the stream's head, where it is flow_noise" adv.mf "${learner[@]}" policy.noise_method=flow_sde &&
        reads 2 "policy.hidden=[8,8] contradicts the stream's head, where it is [8,8,8]" adv.mf "${learner[@]}" 'policy.hidden=[8,8]' &&
        reads 2 "policy.min_noise_std=0.5 is above policy.max_noise_std=0.2" adv.mf "${learner[@]}" policy.min_noise_std=.5 policy.max_noise_std=.2
}

@test "wrong words exit 2 and are named; missing files are named" {
    refuses "training.num_envs=1.5: must be an integer" training.num_envs=1.5 &&
        refuses "training.num_envs=99999999999999999999: must be an integer" training.num_envs=99999999999999999999 &&
        refuses "must be one of flow_noise|flow_sde|flow_cps" policy.noise_method=flow &&
        refuses "lacks its closing ]" 'policy.hidden=[8,8' && refuses "unknown environment 'nowhere'" env=nowhere &&
        refuses "there is no device 'gpu'" device=gpu && refuses "there is no device 'cpu:'" device=cpu: &&
        MF_CUDA=$T/none.so refuses "device=cuda: the plugin cannot be loaded: $T/none.so: cannot open" device=cuda:0 &&
        refuses "/nowhere: No such file" --config /nowhere &&
        refuses "is a folder, not a regular file" --config "$T" &&
        answers 1 "none.st: No such file" mf-collect "${small[@]}" run.dir="$T/run" policy.checkpoint=none.st
}

@test "checkpoints of another architecture or environment, without a normaliser, with invalid numbers" {
    local whole=run/checkpoints/000004.safetensors
    edit $whole "$T/norm" 'del t["normalizer.params_dict.obs.scale"]'
    edit $whole "$T/nan" 'x = t["network.mlp_mean.layers.2.bias"]; x[2] = b"\0\0\xc0\x7f" * (len(x[2]) // 4)'
    edit $whole "$T/less" 'del t["network.mlp_mean.layers.2.bias"]'
    edit $whole "$T/shape" 'x = t["network.mlp_mean.layers.2.bias"]; x[1] = [1] + x[1]'
    edit $whole "$T/count" 'm["version"] = "-5"'
    refuses "policy.hidden=[16,16,16] contradicts $whole, where it is [8,8,8]" policy.checkpoint=$whole 'policy.hidden=[16,16,16]' &&
        refuses "policy.convention=noise1 contradicts" policy.checkpoint=$whole policy.convention=noise1 &&
        refuses "env=lift has no observation 'position'" policy.checkpoint=$whole env=lift &&
        answers 2 "env=lift has no observation 'position'" mf-eval $whole env=lift &&
        answers 3 "without its normaliser" mf-eval "$T/norm" && answers 3 "bias is missing" mf-eval "$T/less" &&
        answers 3 "should be" mf-eval "$T/shape" && answers 3 "version=-5" mf-eval "$T/count" &&
        answers 3 "number 0 of network.mlp_mean.layers.2.bias is nan" mf-eval "$T/nan" eval.num_episodes=4 || return 1
    reads 3 "without its normaliser" adv.mf "${learner[@]}" policy.checkpoint="$T/norm"
    train policy.checkpoint="$T/nan"
    [[ $status == *" 3" && $(cat "$T/err3") == *"layers.2.bias is nan"* ]]
}

@test "a checkpoint that is cut anywhere, a header of 100 GB" {
    local at
    for at in 0 1 8 9 500 5000 9000; do
        head -c $at run/checkpoints/000004.safetensors >"$T/cut"
        answers 3 "$T/cut" mf-eval "$T/cut" && answers 3 "$T/cut" mf-collect "${small[@]}" run.dir="$T/run" policy.checkpoint="$T/cut" || return 1
    done
    printf '\x00\xe8\x76\x48\x17\x00\x00\x00{}' >"$T/cut"
    answers 3 "would be 100000000000 bytes" mf-eval "$T/cut"
}

@test "a run whose newest checkpoint is incomplete resumes from the one before, to the same result" {
    train training.total_timesteps=150 && local want=$T/want && cp "$T/run/checkpoints/000005.safetensors" "$want" || return 1
    local cut
    for cut in 0 100 9000; do
        rm -rf "$T/run" && cp -r run "$T/run" && head -c $cut run/checkpoints/000004.safetensors >"$T/run/checkpoints/000004.safetensors" &&
            : >"$T/run/checkpoints/000009.safetensors" || return 1
        mf-collect "${small[@]}" training.total_timesteps=150 run.dir="$T/run" run.resume=auto 2>"$T/err1" | mf-gae |
            mf-ppo "${small[@]}" training.total_timesteps=150 run.dir="$T/run" run.resume=auto 2>"$T/err" >/dev/null
        [[ ${PIPESTATUS[*]} == "0 0 0" ]] && grep -q 'warn: .*000004.safetensors .*taking the checkpoint before it' "$T/err" &&
            grep -q 'resuming .*000003' "$T/err" && cmp "$T/run/checkpoints/000005.safetensors" "$want" || { cat "$T"/err*; return 1; }
    done
    # Without any complete checkpoint, the run does not silently start over.
    for cut in "$T"/run/checkpoints/*.safetensors; do : >"$cut"; done
    answers 3 "000009.safetensors is empty" mf-collect "${small[@]}" run.dir="$T/run" run.resume=auto
}

@test "demonstrations that are missing, empty, cut, not HDF5, or without observations" {
    local clone=(mf-bc run.dir="$T/bc" run.force=true clone.steps=2 'policy.hidden=[8,8,8]')
    : >"$T/empty" && head -c 5000 demos.hdf5 >"$T/cut"
    answers 1 "none.hdf5': No such file" "${clone[@]}" clone.dataset=none.hdf5 && answers 1 "none.hdf5': No such file" "${clone[@]}" clone.dataset=none.hdf5 env=exec && answers 3 "is empty" "${clone[@]}" clone.dataset="$T/empty" &&
        answers 3 "truncated at 5000 bytes" "${clone[@]}" clone.dataset="$T/cut" && answers 3 "not an HDF5 file; mf-record makes one of a stream" "${clone[@]}" clone.dataset=adv.mf &&
        answers 3 "not a regular file" "${clone[@]}" clone.dataset=. && answers 2 "no filter key 'none'" "${clone[@]}" clone.dataset=demos.hdf5 clone.filter_key=none &&
        answers 1 "is not a number" "${clone[@]}" clone.dataset=demos.hdf5 clone.learning_rate=1e30 clone.steps=30 || return 1
    [[ -z $(find "$T/bc" -name '*.safetensors*') ]] || return 1
    # Without obs: the layout of mf-record, of a stream that has none.
    stream make case=table >"$T/bare" && mf-record "$T/bare.hdf5" <"$T/bare" >/dev/null || skip "no python3-msgpack"
    answers 3 "bare.hdf5" "${clone[@]}" clone.dataset="$T/bare.hdf5"
}

# ---- disks, descriptors, folders ----

@test "a full disk under a stream" {
    local program
    for program in "mf-gae --in adv.mf" "${learner[*]} --in adv.mf" "mf-mc --in adv.mf" "mf-view adv.mf" "mf-check adv.mf" "mf-ckpt ls run" \
        "mf-eval run eval.num_episodes=2" "mf-bc clone.dataset=demos.hdf5 run.dir=$T/bc run.force=true clone.steps=2" "mf-collect ${small[*]} run.dir=$T/c run.force=true"; do
        answers 1 "No space left on device" bash -c "exec $program >/dev/full" || return 1
    done
}

# limited BLOCKS COMMAND: files of at most so many KiB.
limited() { answers 1 "File too large" bash -c "set -o pipefail; ulimit -f $1; exec $2"; }
@test "no space for a checkpoint, a recording, results: exit 1, and no incomplete file under their names" {
    limited 4 "mf-ppo ${small[*]@Q} run.dir=$T/p --in adv.mf --out /dev/null" && [[ -z $(find "$T/p/checkpoints" -type f) ]] &&
        limited 4 "mf-bc run.dir=$T/b clone.dataset=demos.hdf5 clone.steps=2 --out /dev/null" && [[ -z $(find "$T/b/checkpoints" -type f) ]] &&
        limited 8 "mf-record $T/r.hdf5 --in raw.mf --out /dev/null" && limited 1 "mf-eval run eval.num_episodes=300 eval.json=$T/e.json --out /dev/null" &&
        limited 1 "mf-ckpt verify run/checkpoints/000004.safetensors >$T/text; cat adv.mf >$T/big" || true
    [[ -z $(find "$T" -name '*.part' -o -name 'r.hdf5' -o -name 'e.json') ]]
}

@test "the old checkpoint stays when there is no space for the new one" {
    rm -rf "$T/run" && cp -r run "$T/run" && mf-ckpt verify "$T/run/checkpoints/000004.safetensors" >/dev/null || return 1
    {
        mf-collect "${small[@]}" training.total_timesteps=300 run.dir="$T/run" run.resume=auto 2>/dev/null | mf-gae 2>/dev/null |
            { ulimit -f 4; exec mf-ppo "${small[@]}" run.dir="$T/run" run.resume=auto 2>"$T/err" >/dev/null; }
        status=${PIPESTATUS[2]}
    } || true
    [[ $status -eq 1 ]] && mf-ckpt verify "$T/run/checkpoints/000004.safetensors" && [[ -z $(find "$T/run" -name '*.part' -o -name '000005*') ]]
}

@test "a file never replaces a pipe, a device or a folder" {
    mkfifo "$T/fifo"
    answers 2 "cannot be replaced by a file" mf-eval run eval.num_episodes=2 eval.json="$T/fifo" &&
        answers 2 "cannot be replaced by a file" mf-record "$T/fifo" --in raw.mf && answers 2 "is a folder" mf-record "$T" --in raw.mf &&
        [[ -p $T/fifo ]]
}

@test "programs and tools whose text is not read end silently by SIGPIPE" {
    local program
    for program in "mf-view adv.mf" "mf-ckpt ls run" "mf-top run" "mf-plot run" "mf-report run"; do
        run bash -c "{ sleep .2; $program; } | :; echo \${PIPESTATUS[0]}"
        [[ $output == 141 ]] || { echo "$program: $output" && return 1; }
    done
}

@test "stdin, stdout or stderr closed" {
    local program
    for program in "mf-gae" "${learner[*]}" mf-check "mf-record $T/r.hdf5"; do
        answers 1 "<stdin>: Bad file descriptor" bash -c "exec $program <&-" || return 1
    done
    for program in "mf-gae --in adv.mf" "${learner[*]} --in adv.mf" "mf-view adv.mf" "mf-ckpt ls run" "mf-gae --help" "mf-eval run eval.num_episodes=2"; do
        answers 1 "<stdout>: Bad file descriptor" bash -c "exec $program >&-" || return 1
    done
    # Log messages must not go into the file that would get descriptor 2.
    rm -rf "$T/run"
    mf-ppo "${small[@]}" run.dir="$T/run" --in adv.mf 2>&- >"$T/m.mf" && mf-check "$T/m.mf" && [[ ! -s $T/run/lock ]] &&
        mf-ckpt verify "$T"/run/checkpoints/*.safetensors
}

@test "a run's folder that is impossible, too long, or in use" {
    local long
    printf -v long 'a%.0s' {1..150}
    answers 1 "Not a directory" mf-collect "${small[@]}" run.dir=adv.mf/run && answers 1 "Not a directory" mf-collect "${small[@]}" run.dir=adv.mf &&
        answers 2 "choose a shorter one" mf-collect "${small[@]}" collect.policy_address="ipc://$T/$long" &&
        answers 2 "the path is too long" mf-collect "${small[@]}" run.dir="$(printf 'a/%.0s' {1..600})" &&
        answers 1 "Not a directory" mf-bc clone.dataset=demos.hdf5 run.dir=adv.mf/run &&
        answers 2 "already holds a run" mf-collect "${small[@]}" run.dir=run && answers 2 "already holds a run" mf-ppo "${small[@]}" run.dir=run --in adv.mf
}

@test "a second learner of a running run is refused, and the first one continues" {
    mf-collect "${small[@]}" run.dir="$T/run" training.total_timesteps=10000 2>/dev/null | mf-gae | mf-ppo "${small[@]}" >/dev/null 2>"$T/first" &
    local run=$!
    wait_for compgen -G "$T/run/checkpoints/*.safetensors" || return 1
    spoil "$T/s" <<<"live: f[0].update(run='$T/run', policy_address='ipc://$T/run/policy.sock')" &&
        answers 1 "already has a learner" bash -c "cat $T/s/live | mf-ppo ${small[*]}" &&
        answers 1 "already has a learner" bash -c "cat $T/s/live | mf-ppo ${small[*]} run.dir=$T/other" &&
        wait "$run" && [[ ! -e $T/run/policy.sock ]]
}

# ---- peers ----

@test "a ZeroMQ peer that never connects: SIGTERM ends the wait and removes the socket" {
    local program
    for program in "mf-gae --in ipc://$T/s --out /dev/null" "mf-gae --in adv.mf --out ipc://$T/s" "mf-gae --in adv.mf --out @ipc://$T/s" \
        "${learner[*]} --in ipc://$T/s --out /dev/null" "mf-collect ${small[*]} log.level=warn run.dir=$T/c --out ipc://$T/s"; do
        # shellcheck disable=SC2086 # words
        timeout -k 1 10 $program 2>"$T/err" &
        sleep 0.3
        pkill -TERM -P $! -f "ipc://$T/s"
        ended_by 143 $! && [[ ! -s $T/err && ! -e $T/s ]] || { cat "$T/err"; ls "$T"; echo "$program"; return 1; }
    done
}

@test "a ZeroMQ writer that is killed: exit 3; a reader that is killed: SIGPIPE" {
    mkfifo "$T/slow"
    timeout -k 1 10 mf-gae --in "ipc://$T/s" --out "$T/out" 2>"$T/err" &
    local reader=$!
    mf-mc --in "$T/slow" --out "ipc://$T/s" &
    local writer=$!
    exec 9>"$T/slow"
    head -c 5000 raw.mf >&9
    wait_for test -s "$T/out" || return 1
    kill -9 $writer
    ended_by 3 $reader && grep -q 'truncated' "$T/err" || return 1
    exec 9>&-
    mf-gae --in "ipc://$T/s" --out /dev/null &
    reader=$!
    timeout -k 1 10 mf-mc --in "$T/slow" --out "ipc://$T/s" &
    writer=$!
    exec 9>"$T/slow"
    head -c 5000 raw.mf >&9
    sleep 0.3
    kill -9 $reader
    ended_by 141 $writer && exec 9>&-
}

@test "a silent learner, and invalid addresses" {
    answers 1 "has been silent for 0.3 s" mf-collect "${small[@]}" run.dir="$T/run" collect.policy_timeout=.3 || return 1
    # One that hangs in the middle of the run.
    { { mf-collect "${small[@]}" run.dir="$T/c" training.total_timesteps=100000000 collect.policy_timeout=1 2>"$T/err" || echo $? >"$T/rc"; } |
        mf-gae 2>/dev/null | mf-ppo "${small[@]}" 2>/dev/null >/dev/null; } &
    local shell=$! hung
    wait_for compgen -G "$T/c/checkpoints/*.safetensors" && hung=$(pgrep -P "$shell" -x mf-ppo) && kill -STOP "$hung" &&
        wait_for test -s "$T/rc" && kill -CONT "$hung" && ended_by 3 "$shell" && [[ $(cat "$T/rc") == 1 ]] && grep -q 'has been silent for 1 s' "$T/err" || return 1
    refuses "'here' is not a socket address" collect.policy_address=here && refuses "'port' is not a port" collect.policy_address=tcp://127.0.0.1:port &&
        answers 2 "port 99999" mf-gae --in tcp://127.0.0.1:99999 && answers 2 "port 99999" mf-env point env.address=tcp://127.0.0.1:99999 &&
        answers 1 "a socket takes 16 file descriptors (ulimit -n)" bash -c "ulimit -n 12; exec mf-gae --in ipc://$T/few --out /dev/null" &&
        answers 2 "is not local" mf-gae --in adv.mf --out tcp://192.0.2.1:5 && answers 2 "unknown kind of address" mf-gae --in http://127.0.0.1/
}

# ---- sizes and settings ----

@test "every compatible objective, noise method and denoising runs with equal log-probabilities; others exit 2" {
    local noise denoise objective
    for noise in flow_noise flow_sde flow_cps; do
        for denoise in joint single; do
            for objective in chain_mean chain_sum step step_mean; do
                local words=("policy.noise_method=$noise" "policy.denoise=$denoise" "policy.objective=$objective")
                if [[ $denoise == joint && $objective != step || $denoise == single && $objective == step ]]; then
                    trains "${words[@]}" || return 1
                else
                    refuses "policy.objective=$objective does not go with policy.denoise=$denoise" "${words[@]}" || return 1
                fi
            done
        done
    done
}

@test "one denoising step with every noise method; flow_cps then has no step to draw" {
    local noise
    for noise in flow_noise flow_sde flow_cps; do
        trains policy.noise_method=$noise policy.num_inference_steps=1 || return 1
        mf-eval "$T/run" eval.num_episodes=2 eval.num_inference_steps=1 >/dev/null 2>&1 || return 1
        [[ $noise == flow_cps ]] || trains policy.noise_method=$noise policy.num_inference_steps=1 policy.denoise=single policy.objective=step || return 1
    done
    refuses "policy.num_inference_steps=1: the last step of policy.noise_method=flow_cps has no noise" \
        policy.noise_method=flow_cps policy.num_inference_steps=1 policy.denoise=single policy.objective=step
}

@test "noise: learned with every schedule, none, and invalid levels" {
    local schedule
    for schedule in constant linear exponential hold_cosine; do
        trains policy.learned_noise=true policy.min_noise_std=.05 policy.noise_decay_type=$schedule policy.noise_decay_steps=100 training.entropy_coef=.01 || return 1
    done
    trains policy.noise_method=flow_sde policy.noise_start=0 && trains policy.noise_method=flow_cps policy.noise_start=0 policy.noise_end=0 &&
        refuses "policy.learned_noise=true needs policy.noise_method=flow_noise, not flow_sde" policy.learned_noise=true policy.noise_method=flow_sde || return 1
    train policy.noise_method=flow_cps policy.noise_start=3
    [[ $status == *" 2" && $(cat "$T/err3") == *"policy.noise_start=3, policy.noise_end=0.5: the level of flow_cps lies in [0,1]"* ]]
}

@test "odd sizes: one environment, one step, one sample, more slices than environments, a minibatch beyond the round" {
    trains training.num_envs=1 training.num_steps_per_rollout=1 training.total_timesteps=20 && trains training.batch_size=100000 &&
        trains training.batch_size=1 advantage.normalize_over=minibatch && trains policy.horizon=1 policy.n_action_steps=1 &&
        trains policy.n_obs_steps=3 && trains collect.slices=100 && trains training.num_epochs=3 training.repeat_samples=7 training.batch_size=5 &&
        refuses "do not lie within policy.horizon=1" policy.horizon=1
}

@test "no timesteps: a complete stream, no checkpoint, and the learner says so" {
    train training.total_timesteps=0
    [[ $status == "0 0 0" && -z $(find "$T/run/checkpoints" -type f) && $(cat "$T/err3") == *"no complete round"* ]] && mf-check "$T/m.mf"
}

@test "the remaining settings of the loss, each through the whole pipe" {
    local level
    trains training.recompute_logprobs=true && trains collect.reward_scale=running && trains advantage.normalize_over=minibatch &&
        trains training.loss_agg=trajectory && trains advantage.discount=step && trains policy.convention=noise1 || return 1
    for level in token action chunk; do
        trains training.level=$level policy.denoise=single policy.objective=step && trains training.level=$level policy.objective=step_mean || return 1
    done
    train collect.max_lag=1
    [[ $status == "0 0 0" ]]
}

@test "sizes beyond all memory: an error, not a crash" {
    [[ $(room 1) ]] || skip "a sanitizer takes all address space"
    refused() { answers "$1" "$2" bash -c "$(room 8000000) exec ${*:3}"; }
    refused 1 "more than the machine has" mf-collect run.dir="$T/a" training.num_envs=1048576 training.num_steps_per_rollout=1048576 &&
        refused 1 "more than the machine has" mf-collect run.dir="$T/a" "'policy.hidden=[65536,65536,65536]'" &&
        refused 1 "more than the machine has" mf-bc run.dir="$T/a" clone.dataset=demos.hdf5 clone.batch_size=1000000000000 &&
        refused 2 "eval.num_inference_steps=[..]: must be in [0,128]" mf-eval a.safetensors "eval.num_inference_steps=[1,1000]" &&
        refused 2 "training.repeat_samples=1000000: must be in [1,1024]" mf-ppo training.repeat_samples=1000000 &&
        refused 2 "eval.num_episodes=2000000" mf-eval run eval.num_episodes=2000000
}

@test "an extreme learning rate ends with an error that names the cause" {
    reads 1 "lower training.learning_rate" adv.mf "${learner[@]}" training.learning_rate=1e30 training.critic_learning_rate=1e30 training.target_kl=inf
}
