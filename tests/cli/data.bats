# mf-data, and every reader of demonstrations, on files of other origin.
load helpers

setup() {
    /usr/bin/python3 -c 'import h5py' 2>/dev/null || skip "no h5py for /usr/bin/python3 (Debian: python3-h5py)"
    cd "$T" || return 1
    clone=(mf-bc run.dir=bc run.force=true env=lift clone.steps=2 clone.batch_size=16 'policy.hidden=[8,8,8]' threads=1 --out /dev/null)
}
demos() { "$ROOT/tests/tools/demos.py" "$@"; }

# says STATUS TEXT COMMAND..: it exits so, with TEXT on stderr and no message of the HDF5 library.
says() {
    local want=$1 text=$2
    shift 2
    run --separate-stderr "$@"
    [[ $status -eq $want && $stderr == *"$text"* && $stderr != *HDF5-DIAG* ]] || { echo "$*: status $status: $stderr" && return 1; }
}

@test "a table as text" {
    demos a.hdf5 image=8 && run -0 mf-data a.hdf5 &&
        [[ $output == *"6 demonstrations, 78 steps"* && $output == *"12 to 14, median 13; demo_0 to demo_10"* &&
            $output == *"train (4), valid (2)"* && $output == *'"env_name": "Lift"'* &&
            $output =~ obs/agentview_image\ +\|u1\ +8\ x\ 8\ x\ 3\ +6\ +0\ +255 && $output =~ actions\ +\<f8\ +7\ +6 ]]
}

@test "names in a file start no lines and send the terminal no commands" {
    demos a.hdf5 && /usr/bin/python3 -c 'import h5py
f = h5py.File("a.hdf5", "a")
for d in f["data"].values():
    d["obs/x\n\x1b[31m"] = d["actions"][:]
f["mask"].move("train", "\x1b[31mtrain")
f["data"].attrs["env_args"] = "\x1b[2J"' && run -0 --separate-stderr mf-data a.hdf5 &&
        [[ $output != *$'\x1b'* && $output == *'obs/x??[31m '* && $output == *'?[31mtrain (4)'* && $output == *'?[2J'* ]]
}

@test "JSON, with the ranges that numpy computes" {
    demos a.hdf5 gzip=1 && mf-data a.hdf5 data.format=json >a.json && /usr/bin/python3 - <<'PY'
import h5py, json, numpy
said, file = json.load(open("a.json")), h5py.File("a.hdf5")
assert said["steps"] == 78 and said["filter_keys"] == {"train": 4, "valid": 2} and not said["problems"] and not said["warnings"]
assert said["demos"] == {k: len(v["actions"]) for k, v in sorted(file["data"].items(), key=lambda kv: int(kv[0][5:]))}
assert json.loads(said["env_args"])["env_kwargs"] == {"robots": ["Panda"]}
names = []
file["data/demo_0"].visititems(lambda name, x: names.append(name) if isinstance(x, h5py.Dataset) else None)
assert sorted(names) == list(said["datasets"]), names
for name, q in said["datasets"].items():
    x = numpy.concatenate([demo[name] for demo in file["data"].values()]).astype("f8")
    assert q["dtype"] == file["data/demo_0"][name].dtype.str and q["shape"] == list(x.shape[1:])
    assert q["demos"] == 6 and q["steps"] == len(x) == 78
    for word, y in {"min": x.min(0), "max": x.max(0), "mean": x.mean(0), "std": x.std(0)}.items():
        assert numpy.allclose(q[word], y, rtol=1e-6, atol=1e-8), (name, word)
PY
}

@test "shapes alone, and the demos of a filter key" {
    demos a.hdf5 nan && mf-data a.hdf5 data.values=false data.format=json | jq -e '.datasets.actions | has("min") | not' &&
        mf-data a.hdf5 data.values=false data.format=json clone.filter_key=valid | jq -e '.demos == {"demo_0": 12, "demo_10": 14}' &&
        says 2 "it has: train, valid" mf-data a.hdf5 clone.filter_key=best && says 2 "give one file" mf-data
}

@test "published kinds of files: read by mf-data and mf-bc" {
    local what
    for what in "good latest=1" "good gzip=1" bare nested types beyond talkative isaaclab; do
        # shellcheck disable=SC2086 # words
        demos a.hdf5 $what && says 0 "" mf-data a.hdf5 && says 0 "6 demonstrations, 78 steps, 78 samples" "${clone[@]}" clone.dataset=a.hdf5 ||
            { echo "$what"; return 1; }
    done
    demos a.hdf5 beyond && says 0 "warn: demo_4: actions[3, 6] is -1.5, outside of the [-1, 1]" mf-data a.hdf5
}

@test "invalid files: exit 3, and an error with the demo and the dataset" {
    local what text
    while IFS=: read -r what text; do
        demos a.hdf5 "$what" && says 3 "$text" mf-data a.hdf5 || { echo "$what"; return 1; }
    done <<'END'
nan:demo_4: obs/object[2, 5] is nan
infinite:demo_4: actions[0, 1] is inf
short:demo_2: obs/object: it has 12 rows and actions have 13
missing:demo_6: there is no obs/robot0_eef_pos
wide:demo_2: obs/object: its steps have another shape
idle:demo_8: there are no actions
empty:demo_8: there are no steps
miscounted:demo_2: attribute num_samples is 400 and there are 13 actions
raw:dataset_states_to_obs
stale:filter key old: it names demo_99
lzf:demo_2: obs/object: it is compressed by filter 32000 (lzf)
maniskill:at its top there is: traj_0
END
}

@test "mf-bc refuses data that it cannot train on" {
    local what text
    while IFS=: read -r what status_ text; do
        demos a.hdf5 "$what" && says "$status_" "$text" "${clone[@]}" clone.dataset=a.hdf5 || { echo "$what"; return 1; }
    done <<'END'
nan:3:/data/demo_4/obs/object[2, 5] is nan
short:3:demo_2 has 13 actions and 12 of obs/object
missing:3:no /data/demo_6/obs/robot0_eef_pos
wide:3:10 numbers in demo_0 and 11 numbers in demo_2
idle:3:no /data/demo_8/actions
empty:3:demo_8 has no steps
raw:3:dataset_states_to_obs
lzf:3:filter 32000 (lzf)
maniskill:3:at its top there is: traj_0
END
}

@test "a file cut at any megabyte, and at any of its first kilobytes" {
    local program n size
    demos a.hdf5 image=84 steps=40 gzip=1 && size=$(stat -c %s a.hdf5) && ((size > 6 << 20)) || return 1
    for program in "mf-data cut.hdf5" "${clone[*]} clone.dataset=cut.hdf5" "mf-replay cut.hdf5 --out /dev/null"; do
        for n in 8 96 512 1024 2048 3072 $(seq $((1 << 20)) $((1 << 20)) $((size - 1))) $((size - 1)); do
            # shellcheck disable=SC2086 # words
            head -c "$n" a.hdf5 >cut.hdf5 && says 3 "cut.hdf5'" $program || return 1
            [[ ${#stderr_lines[@]} -eq 1 ]] || { echo "$stderr"; return 1; }
        done
    done
}

@test "damaged bytes anywhere: correct output or exit 3, never a crash" {
    export ASAN_OPTIONS=detect_leaks=0 # libhdf5 is left where it crashed
    local seed
    demos old.hdf5 demos=3 steps=3 gzip=1 && demos new.hdf5 demos=3 steps=3 latest=1 || return 1
    for seed in $(seq 60); do
        demos bad.hdf5 corrupt "$( ((seed % 3)) && echo old.hdf5 || echo new.hdf5)" "$seed"
        run --separate-stderr mf-data bad.hdf5
        [[ ($status -eq 0 || $status -eq 3) && $stderr != *HDF5-DIAG* ]] || { echo "seed $seed: $status $stderr"; return 1; }
    done
}

@test "a cache that is too small changes only the time" {
    demos a.hdf5 demos=8 image=64 steps=30 && words=(clone.dataset=a.hdf5 'policy.obs_keys=[agentview_image,object]' clone.steps=8 policy.n_obs_steps=2) &&
        "${clone[@]}" "${words[@]}" run.dir=whole && says 0 "more than clone.cache_mib" "${clone[@]}" "${words[@]}" run.dir=small clone.cache_mib=1 &&
        cmp whole/checkpoints/clone.safetensors small/checkpoints/clone.safetensors
}

@test "padding: complete windows only, and a file without one" {
    demos a.hdf5 && words=(clone.dataset=a.hdf5 policy.n_obs_steps=2 policy.horizon=8 policy.action_offset=1) &&
        says 0 "78 samples" "${clone[@]}" "${words[@]}" && says 0 "72 samples" "${clone[@]}" "${words[@]}" clone.pad_before=0 &&
        says 0 "42 samples" "${clone[@]}" "${words[@]}" clone.pad_after=0 && says 0 "60 samples" "${clone[@]}" "${words[@]}" clone.pad_after=3 &&
        says 2 "no demonstration has the 30 steps" "${clone[@]}" "${words[@]}" policy.horizon=30 clone.pad_after=0 clone.pad_before=0
}

@test "images stay bytes: collect, train, record, replay, clone" {
    /usr/bin/python3 -c 'import msgpack' 2>/dev/null || skip "no python3-msgpack"
    cat >camera.py <<PY
import sys; sys.path.insert(0, "$ROOT/examples/envs")
import numpy as np
from serving import Each, keep_stdout, serve
class Camera:
    def __init__(self, first): self.t = first
    def see(self):
        return {"camera": np.full((4, 5, 3), 250 + self.t % 6, "u1"), "x": np.full(2, self.t, "f4"), "on": np.array([self.t % 2], "u1")}
    def reset(self, seed, episode):
        self.t = 0
        return self.see()
    def step(self, action):
        self.t += 1
        return self.see(), 1.0, False, False, False
out = keep_stdout()
serve(Each(Camera, "camera", 7, 10, -np.ones(2), np.ones(2), {"camera": np.zeros((4, 5, 3), "u1"), "x": np.zeros(2, "f4"), "on": np.zeros(1, "u1")}), None, out)
PY
    words=(env=exec env.command="/usr/bin/python3 camera.py" 'policy.obs_keys=[camera,x,on]' policy.n_action_steps=1 'policy.hidden=[8,8,8]' threads=1)
    timeout 60 mf-collect "${words[@]}" 'policy.critic_hidden=[8,8,8]' policy.n_obs_steps=2 training.num_envs=2 training.num_steps_per_rollout=7 \
        training.total_timesteps=28 run.dir=rl 2>err | tee a.mf | mf-record a.hdf5 2>>err | mf-gae 2>>err |
        mf-ppo "${words[@]}" training.batch_size=14 run.dir=rl 2>>err >/dev/null
    [[ ${PIPESTATUS[*]} == "0 0 0 0 0" ]] || { cat err; return 1; }
    mf-check <a.mf && mf-replay a.hdf5 | cmp - a.mf &&
        mf-view <a.mf | jq -es 'map(select(.mf == "rollout").arrays["obs/on"]) | all(.dtype == "<f4" and .shape == [7, 2, 2, 1] and .max == 1)' &&
        mf-view <a.mf | jq -es 'map(select(.mf == "rollout").arrays["obs/camera"]) | all(.dtype == "|u1" and .shape == [7, 2, 2, 4, 5, 3] and .max == 255)' &&
        mf-data a.hdf5 data.format=json | jq -e '.datasets["obs/camera"] | .dtype == "|u1" and .shape == [4, 5, 3] and .min == [250] and .max == [255]' &&
        says 0 "28 steps" mf-bc "${words[@]}" clone.dataset=a.hdf5 run.dir=bc clone.steps=4 clone.batch_size=8 --out bc.mf &&
        mf-view bc.mf | jq -es '.[0].spec.obs | .camera == {shape: [4, 5, 3], dtype: "|u1"} and .on == {shape: [1], dtype: "<f4"}'
}

@test "numbers in other files, as h5py reads them: views, links, raw files" {
    demos a.hdf5 spread && says 0 "" mf-data a.hdf5 data.format=json && says 0 "76 samples" "${clone[@]}" clone.dataset=a.hdf5 || return 1
    mf-data a.hdf5 data.format=json >a.json && /usr/bin/python3 - <<'PY' || return 1
import h5py, json, numpy
said, file = json.load(open("a.json")), h5py.File("a.hdf5")
for name in "actions", "obs/object", "obs/robot0_eef_pos":
    x = numpy.concatenate([demo[name] for demo in file["data"].values()])
    assert numpy.allclose(said["datasets"][name]["mean"], x.mean(0)) and abs(x).sum() > 1, name
PY
    # The same numbers in one plain file make the same clone.
    mv bc spread && /usr/bin/python3 - <<'PY' && "${clone[@]}" clone.dataset=b.hdf5 2>err && cmp {bc,spread}/checkpoints/clone.safetensors || return 1
import h5py
a, b = h5py.File("a.hdf5"), h5py.File("b.hdf5", "w")
b.create_group("data").attrs.update(a["data"].attrs)
for name, demo in a["data"].items():
    for key in ("actions", *("obs/" + k for k in demo["obs"])):
        b[f"data/{name}/{key}"] = demo[key][:]
PY
    # The error names any missing part.
    local gone program
    for gone in a b raw; do
        mv a.hdf5.$gone away
        for program in "mf-data a.hdf5" "${clone[*]} clone.dataset=a.hdf5"; do
            # shellcheck disable=SC2086 # words
            says 3 "'a.hdf5.$gone', which is not there" $program || return 1
        done
        mkfifo a.hdf5.$gone && says 3 "'a.hdf5.$gone', which is not there" timeout 20 mf-data a.hdf5 && rm a.hdf5.$gone && mv away a.hdf5.$gone || return 1
    done
    truncate -s 100 a.hdf5.raw && says 3 "which is too short for them" mf-data a.hdf5 || return 1
    /usr/bin/python3 -c 'import h5py
f = h5py.File("a.hdf5.a", "a")
x = f["demo_0/actions"][:7]
del f["demo_0/actions"]
f["demo_0/actions"] = x' && says 3 "whose /demo_0/actions has 7 rows and not 12" "${clone[@]}" clone.dataset=a.hdf5
}

@test "a virtual dataset that is larger than its sources is refused, and takes no memory" {
    demos a.hdf5 && /usr/bin/python3 -c 'import h5py
f = h5py.File("a.hdf5", "a")
for demo in f["data"].values():
    x = demo["obs/object"]
    layout = h5py.VirtualLayout((len(x), 1 << 20), "f8")
    layout[:, :10] = h5py.VirtualSource(".", x.name.replace("object", "hidden"), shape=x.shape)
    demo.move("obs/object", "obs/hidden")
    f.create_virtual_dataset(x.name.replace("hidden", "object"), layout)' && says 3 "elements lie in no file" mf-data a.hdf5 &&
        says 3 "elements lie in no file" "${clone[@]}" clone.dataset=a.hdf5
}

@test "datasets without one row per step are listed as such" {
    demos a.hdf5 isaaclab && mf-data a.hdf5 data.format=json >a.json 2>err && jq -e '.datasets | (.src_demo_inds | .rows == 18 and has("steps") == false) and
        .["initial_state/articulation/robot/joint_position"].rows == 6 and .["states/articulation/robot/joint_position"].steps == 78' a.json &&
        run -0 mf-data a.hdf5 && [[ $output =~ src_demo_inds\ +\<i8\ +not\ by\ step && $output =~ seed\ +\<i8\ +one ]]
}

@test "booleans are read from every type, and ignored observations are named once" {
    demos a.hdf5 flags && "${clone[@]}" clone.dataset=a.hdf5 'policy.obs_keys=[switch_u1,switch_i8,switch_b1,switch_f4,line]' 2>err && ! grep -q warn err &&
        /usr/bin/python3 - bc/checkpoints/clone.safetensors <<'PY' || return 1
import json, struct, sys
b = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", b[:8])[0]
head = json.loads(b[8 : 8 + n])
for name, want in ("scale", 2), ("offset", -1):
    at = head[f"normalizer.params_dict.obs.{name}"]["data_offsets"]
    assert struct.unpack("<5f", b[8 + n + at[0] : 8 + n + at[1]]) == (want,) * 5, name
PY
    mf-bc run.dir=all clone.dataset=a.hdf5 clone.steps=1 'policy.hidden=[8,8,8]' threads=1 --out a.mf 2>err &&
        [[ $(grep -c 'does not read: camera, line;' err) == 1 ]] && mf-view a.mf |
        jq -es '.[0].spec.obs | length == 8 and .switch_u1 == {shape: [1], dtype: "<f4"}'
}

@test "a file system without locks is read; a lock that fails or is held is reported" {
    preload nolocks && demos a.hdf5 && mf-collect env=point collect.actor=expert collect.episodes=64 threads=1 --out a.mf 2>err || return 1
    local error
    for error in 37 38 95 524; do
        NOLOCK_ERRNO=$error says 0 "" env LD_PRELOAD="$T/nolocks.so" mf-data a.hdf5 &&
            NOLOCK_ERRNO=$error says 0 "" env LD_PRELOAD="$T/nolocks.so" mf-record r.hdf5 --in a.mf --out /dev/null &&
            NOLOCK_ERRNO=$error says 0 "" env LD_PRELOAD="$T/nolocks.so" mf-replay r.hdf5 --out /dev/null || return 1
    done
    NOLOCK_ERRNO=5 says 1 "cannot lock 'a.hdf5': Input/output error" env LD_PRELOAD="$T/nolocks.so" mf-data a.hdf5 &&
        says 1 "held by a program that still writes it" flock -x a.hdf5 mf-data a.hdf5
}

@test "observations by other tools' names, from demonstrations to videos of servers" {
    /usr/bin/python3 -c 'import msgpack' 2>/dev/null || skip "no python3-msgpack"
    cat >named.py <<PY
import sys; sys.path[:0] = ["$ROOT/examples/envs", "$ROOT/tests/tools"]
import numpy as np
from demos import NAMES
from serving import Each, keep_stdout, serve
sys.argv[1:] and NAMES.update({sys.argv[1]: 1})
class Named:
    def __init__(self, first): pass
    def see(self): return {k: np.full(n, self.t, "f4") for k, n in NAMES.items()}
    def reset(self, seed, episode): self.t = 0; return self.see()
    def step(self, action): self.t += 1; return self.see(), 1.0, False, False, True
out = keep_stdout()
serve(Each(Named, "named", 6, 10, -np.ones(7), np.ones(7), {k: np.zeros(n, "f4") for k, n in NAMES.items()}), None, out)
PY
    keys="policy.obs_keys=[policy/joint_pos,observation.state,'eef pos','a,b','robot0:eef','位置']"
    words=(env=exec env.command="/usr/bin/python3 named.py" env.workers=1 threads=1 log.level=warn)
    small=('policy.hidden=[8,8,8]' 'policy.critic_hidden=[8]' policy.n_action_steps=2 policy.horizon=2 clone.steps=2)
    demos a.hdf5 named && says 0 "" mf-data a.hdf5 && mf-bc clone.dataset=a.hdf5 "${small[@]}" run.dir=bc threads=1 --out bc.mf 2>err &&
        mf-view bc.mf | jq -es '.[0].spec.obs | keys == (["observation.state", "policy/joint_pos", "eef pos", "a,b", "robot0:eef", "位置"] | sort)' &&
        mf-bc clone.dataset=a.hdf5 "${small[@]}" "$keys" run.dir=named threads=1 --out /dev/null 2>err && mf-conf --config named/configs/mf-bc.yaml 2>err | grep -qF '"a,b"' || { cat err; return 1; }
    local c=named/checkpoints/clone.safetensors
    mf-ckpt verify $c && mf-ckpt show $c | grep -qF '3:observation.state' && mf-ckpt export $c named.pt && mf-ckpt show named.pt >/dev/null || return 1
    mf-eval $c "${words[@]}" eval.num_episodes=2 --out e.mf 2>err && mf-check e.mf || { cat err; return 1; }
    mf-collect "${words[@]}" "${small[@]}" policy.checkpoint=$c training.num_envs=2 training.num_steps_per_rollout=3 training.total_timesteps=12 run.dir=rl 2>err |
        tee a.mf | mf-record r.hdf5 | mf-gae | mf-ppo "${small[@]}" threads=1 log.level=warn training.batch_size=6 2>>err >/dev/null
    [[ ${PIPESTATUS[*]} == "0 0 0 0 0" && ! -s err ]] || { cat err; return 1; }
    mf-replay r.hdf5 | cmp - a.mf && mf-check a.mf && mf-view a.mf | jq -es 'map(select(.mf == "rollout"))[0].arrays["obs/policy/joint_pos"].shape == [3, 2, 1, 2]' &&
        mf-ckpt verify rl/checkpoints/000001.safetensors && mf-eval rl "${words[@]}" eval.num_episodes=2 --out e.mf 2>err || { cat err; return 1; }
    says 0 "" mf-data r.hdf5 && says 2 "one of them contains a control character" mf-bc clone.dataset=a.hdf5 $'policy.obs_keys=["a\tb"]' || return 1
    words[1]="env.command='/usr/bin/python3 named.py policy'"
    says 3 "'policy/joint_pos' and 'policy' cannot be stored in one HDF5 file" mf-collect "${words[@]}" "${small[@]}" --out /dev/null || return 1
    /usr/bin/python3 -c 'import h5py
for demo in h5py.File("a.hdf5", "a")["data"].values(): demo["obs/" + "n" * 64] = demo["actions"][:]'
    says 3 "is longer than 63 bytes" mf-bc clone.dataset=a.hdf5 "${small[@]}" run.dir=no --out /dev/null
}

@test "headers on which the library loops forever: exit 3 with an error, or SIGTERM ends it earlier" {
    demos a.hdf5 looping demos=2 steps=3 || return 1
    timeout 100 mf-data a.hdf5 >out 2>data.err &
    local data=$!
    timeout 100 "${clone[@]}" clone.dataset=a.hdf5 run.dir=loop 2>bc.err &
    local bc=$!
    mf-data a.hdf5 >out2 2>term.err &
    local term=$!
    sleep 1 && kill $term && ended_by 143 $term && ended_by 3 $data && ended_by 3 $bc && [[ ! -s term.err ]] &&
        grep -q "error: 'a.hdf5' keeps the HDF5 library busy" data.err && grep -q "error: 'a.hdf5' keeps the HDF5 library busy" bc.err
}

@test "a failed read, any of them: an error, never wrong numbers" {
    export ASAN_OPTIONS=detect_leaks=0 # no leak check under strace
    command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null || skip "no strace that may trace"
    demos a.hdf5 demos=2 steps=3 || return 1
    local n program count=0
    for program in "${clone[*]} clone.dataset=a.hdf5" "mf-data a.hdf5"; do
        # shellcheck disable=SC2086 # words
        strace -f -qq -o calls -e trace=pread64 -P "$PWD/a.hdf5" $program >out 2>err || return 1
        for n in $(seq 1 $(($(wc -l <calls) / 14 + 1)) "$(wc -l <calls)"); do
            # shellcheck disable=SC2086 # words
            run -1 --separate-stderr strace -f -qq -o hit -e trace=pread64 -P "$PWD/a.hdf5" -e inject=pread64:error=EIO:when="$n" $program
            [[ $(grep -c INJECTED hit) == 1 && $(grep -c 'error: ' <<<"$stderr") == 1 && $stderr == *"a.hdf5"*"Input/output error"* ]] || { echo "$program $n: $stderr"; return 1; }
            count=$((count + 1))
        done
    done
    ((count > 20))
}

@test "SIGTERM ends a program that reads a long file, between two datasets" {
    command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null || skip "no strace that may trace"
    demos a.hdf5 demos=20 || return 1
    local program began=$SECONDS _
    for program in "mf-data a.hdf5" "${clone[*]} clone.dataset=a.hdf5"; do
        rm -f reads
        # shellcheck disable=SC2086 # words
        strace -qq -o reads -e trace=pread64 -P "$PWD/a.hdf5" -e inject=pread64:delay_enter=200000 $program >out 2>err &
        for _ in {1..200}; do [[ -s reads ]] && break || sleep .05; done
        pkill -TERM -P $! && ended_by 143 $! && ! grep error err || { cat err; return 1; }
    done
    ((SECONDS - began < 30))
}
