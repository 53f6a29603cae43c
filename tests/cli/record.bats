# A stream into HDF5 and back, byte for byte, whatever happens on the way.
load helpers

setup() { stream make case=random iters=3 slices=2 >"$T/a.mf"; }
h5py() { /usr/bin/python3 -c 'import h5py' 2>/dev/null || skip "no h5py for /usr/bin/python3 (Debian: python3-h5py)"; }

@test "a recording in place of a stream: every reader names the programs for it" {
    mf-record "$T/rec.hdf5" --in "$T/a.mf" --out /dev/null || return 1
    local p
    for p in mf-check mf-stat mf-view mf-gae; do
        run -3 bash -c "$p --in $T/rec.hdf5 | cat; exit \${PIPESTATUS[0]}" &&
            [[ ${#lines[@]} -eq 1 && $output == *"an HDF5 file, not a stream: mf-replay makes a stream of a recording"* ]] || { echo "$p: $output" && return 1; }
    done
}

@test "a recording replays byte for byte, with unknown fields and big-endian arrays" {
    mf-record "$T/a.hdf5" <"$T/a.mf" >"$T/passed.mf" &&
        mf-replay "$T/a.hdf5" | cmp - "$T/a.mf" &&
        stream kept "$T/a.mf" "$T/passed.mf" && [[ ! -e $T/a.hdf5.part ]]
}

@test "a replayed stream is complete to its readers" {
    mf-record "$T/a.hdf5" <"$T/a.mf" | mf-check && mf-replay "$T/a.hdf5" | mf-check
}

@test "a stream of mf-collect replays byte for byte, and filters give the same" {
    mf-collect collect.actor=expert collect.episodes=70 policy.n_action_steps=1 | tee "$T/e.mf" | mf-record "$T/e.hdf5" >/dev/null &&
        mf-replay "$T/e.hdf5" | cmp - "$T/e.mf"
}

@test "h5py reads robomimic's layout" {
    h5py
    mf-collect collect.actor=expert collect.episodes=70 | mf-record "$T/e.hdf5" >/dev/null
    /usr/bin/python3 - "$T/e.hdf5" <<'PY'
import json, sys, h5py
with h5py.File(sys.argv[1]) as f:
    demos = sorted(f["data"], key=lambda name: int(name[5:]))
    args = json.loads(f["data"].attrs["env_args"])
    assert len(demos) == 70 and args["env_name"] and "env_kwargs" in args, (demos, args)
    total = 0
    for name in demos:
        demo = f["data"][name]
        n = demo.attrs["num_samples"]
        total += n
        assert demo["actions"].shape[0] == n and demo["rewards"].shape == (n,) and demo["dones"][-1] == 1
        assert all(x.shape[0] == n and x.dtype == "<f4" for x in demo["obs"].values())
        whole = f["mf/arrays/%d" % demo.attrs["mf_frame"]]
        t0 = demo.attrs["mf_t0"]
        assert (whole["actions"][t0 : t0 + n, demo.attrs["mf_n"], 0] == demo["actions"][:]).all()
    assert total == f["data"].attrs["total"]
PY
}

@test "mf-record may be the last stage, on a terminal" {
    run -0 script -qec "mf-record '$T/a.hdf5' <'$T/a.mf'" /dev/null && [[ -z $output && -s $T/a.hdf5 ]]
}

@test "the complete part of a cut stream is kept, and its replay ends with stopped" {
    head -c 3000 "$T/a.mf" >"$T/cut.mf"
    run -3 bash -c "mf-record '$T/a.hdf5' <'$T/cut.mf' >'$T/passed'" && [[ $output == *"without an end"* ]] &&
        mf-replay "$T/a.hdf5" >"$T/b.mf" 2>"$T/said" && grep -q 'unfinished' "$T/said" &&
        mf-view <"$T/b.mf" | tail -1 | jq -e .stopped
}

@test "SIGTERM keeps the received frames" {
    mkfifo "$T/in"
    mf-record "$T/a.hdf5" <"$T/in" >"$T/passed" 2>"$T/said" &
    local pid=$!
    exec 9>"$T/in"
    cat "$T/a.mf" >&9
    until [[ $(stat -c %s "$T/passed") -gt 1000 ]]; do sleep 0.05; done
    kill -TERM $pid
    ended_by 143 $pid && exec 9>&- && mf-replay "$T/a.hdf5" 2>/dev/null | mf-check
}

@test "the old file stays until the new one is complete" {
    echo old >"$T/a.hdf5"
    run -3 mf-record "$T/a.hdf5" </dev/null
    [[ $(cat "$T/a.hdf5") == old && ! -e $T/a.hdf5.part ]]
}

@test "a full disk: exit 1, and no incomplete file stays" {
    run bash -c "ulimit -f 8; trap '' XFSZ; mf-record '$T/a.hdf5' <'$T/a.mf' | cat >/dev/null; exit \${PIPESTATUS[0]}" &&
        [[ $status -eq 1 && $output == *"File too large"* && ! -e $T/a.hdf5 && ! -e $T/a.hdf5.part ]]
}

@test "a missing folder, no file, two files" {
    run -1 mf-record "$T/no/a.hdf5" <"$T/a.mf" && [[ $output == *"No such file"* ]] &&
        run -2 mf-record <"$T/a.mf" && run -2 mf-record a b <"$T/a.mf" && run -2 mf-replay
}

@test "replay names the kind of a file that it cannot replay" {
    echo nonsense >"$T/x"
    run -3 bash -c "mf-replay '$T/x' | cat; exit \${PIPESTATUS[0]}" && [[ $output == *"not an HDF5 file"* ]] &&
        printf 'version https://git-lfs.github.com/spec/v1\n' >"$T/x" &&
        run -3 bash -c "mf-replay '$T/x' | cat; exit \${PIPESTATUS[0]}" && [[ $output == *"git lfs pull"* ]] &&
        mf-record "$T/a.hdf5" <"$T/a.mf" >/dev/null && head -c 4000 "$T/a.hdf5" >"$T/x" &&
        run -3 bash -c "mf-replay '$T/x' | cat; exit \${PIPESTATUS[0]}" && [[ $output == *"truncated"* ]]
}

@test "a file that is neither a recording nor demonstrations is refused" {
    h5py
    /usr/bin/python3 -c 'import h5py, sys; h5py.File(sys.argv[1], "w").create_dataset("data/demo_0/actions", data=[[0.0]])' "$T/x"
    run -3 bash -c "mf-replay '$T/x' | cat; exit \${PIPESTATUS[0]}" && [[ $output == *"demo_0 has no obs"* ]]
}

# spoil PATH: one bit of that dataset in r.hdf5 turns over.
spoil() {
    /usr/bin/python3 - "$1" <<'PY'
import h5py, sys
with h5py.File("r.hdf5", "r+") as f:
    x = f[sys.argv[1]]
    at, n = x.id.get_offset(), x.id.get_storage_size()
with open("r.hdf5", "r+b") as f:
    f.seek(at + n // 2)
    byte = f.read(1)[0]
    f.seek(at + n // 2)
    f.write(bytes([byte ^ 1]))
PY
}

@test "a modified recording is an error before any of its frames are passed on" {
    h5py
    cd "$T" && mf-collect collect.actor=expert collect.episodes=64 policy.n_action_steps=1 threads=1 2>/dev/null | mf-record good.hdf5 >/dev/null && mf-replay good.hdf5 >e.mf || return 1
    local set
    bc=(mf-bc clone.dataset=r.hdf5 run.dir=bc run.force=true clone.steps=1 'policy.hidden=[8,8,8]' threads=1 --out /dev/null)
    cp good.hdf5 r.hdf5 && mf-data r.hdf5 >/dev/null 2>err && "${bc[@]}" 2>err && /usr/bin/python3 - <<'PY' || { cat err; return 1; }
import h5py, zlib
with h5py.File("r.hdf5") as f:
    assert f["mf"].attrs["frames"] == len(f["mf/crc32"]) > 2
    x = f["data/demo_0/actions"]
    assert x.attrs["mf_crc32"] == zlib.crc32(x[:].tobytes())
PY
    for set in mf/arrays/1/actions mf/arrays/1/terminated mf/crc32 mf/lengths; do
        cp good.hdf5 r.hdf5 && spoil $set && run -3 --separate-stderr mf-replay r.hdf5 --out part.mf && [[ $stderr == *"r.hdf5"* ]] &&
            cmp -n "$(stat -c %s part.mf)" part.mf e.mf && run -3 mf-data r.hdf5 && [[ $output == *"error"* ]] || { echo "$set: $output"; return 1; }
    done
    for set in data/demo_3/actions data/demo_0/obs/goal data/demo_0/dones; do
        cp good.hdf5 r.hdf5 && spoil $set && run -3 mf-data r.hdf5 && [[ $output == *"not what mf-record wrote"* ]] || { echo "$set: $output"; return 1; }
        [[ $set == *dones ]] || { run -3 "${bc[@]}" && [[ $output == *"/$set: it is not what mf-record wrote"* ]]; } || { echo "$set: $output"; return 1; }
    done
}

@test "a failed write, any of them: exit 1, one error, no file" {
    export ASAN_OPTIONS=detect_leaks=0 # no leak check under strace
    command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null || skip "no strace that may trace"
    cd "$T" && stream make case=random iters=6 slices=2 >s.mf || return 1
    local call n count=0
    for call in pwrite64 fsync ftruncate rename; do
        strace -f -qq -o calls -e trace="$call" mf-record r.hdf5 --in s.mf --out /dev/null && rm r.hdf5 || return 1
        [[ $call != fsync ]] || sed -i 2d calls # of the folder, which some file systems cannot do
        for n in $(seq 1 "$(($(wc -l <calls) / 24 + 1))" "$(wc -l <calls)"); do
            run -1 --separate-stderr strace -f -qq -o hit -e trace="$call" -e inject="$call:error=EIO:when=$n" mf-record r.hdf5 --in s.mf --out /dev/null
            [[ $(grep -c INJECTED hit) == 1 && ${#stderr_lines[@]} == 1 && $stderr == *"Input/output error" && ! -e r.hdf5 ]] || { echo "$call $n: $status $stderr"; return 1; }
            count=$((count + 1))
        done
    done
    ((count > 20)) || return 1
    for n in 1 3; do # our making of the file, then that of HDF5, which looks at it first
        run -1 --separate-stderr strace -f -qq -o hit -P r.hdf5.part -e trace=openat -e inject=openat:error=ENOSPC:when="$n" mf-record r.hdf5 --in s.mf --out /dev/null
        [[ $stderr == *"cannot create 'r.hdf5.part': No space left on device" && -z $(ls r.hdf5*) ]] || { echo "openat $n: $status $stderr"; return 1; }
    done
}
