# mf-ckpt on the checkpoints of a real, short run.
load helpers

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return 1
    small=(env=point training.num_envs=8 training.num_steps_per_rollout=8 training.total_timesteps=1200
        training.batch_size=32 training.num_epochs=2 'policy.hidden=[32,32,32]' 'policy.critic_hidden=[16,16,16]')
    mf-collect "${small[@]}" run.dir=run 2>log | mf-gae | mf-ppo "${small[@]}" run.dir=run >run.mf 2>>log || cat log
}

setup() {
    cd "$BATS_TEST_TMPDIR" && cp -r "$BATS_FILE_TMPDIR/run" . || return 1
    # shellcheck disable=SC2012 # our own names
    newest=$(ls run/checkpoints/*.safetensors | tail -n 1)
    # shellcheck disable=SC2012
    oldest=$(ls run/checkpoints/*.safetensors | head -n 1)
}

# edit FILE 'python that changes m (metadata) and t (name -> [dtype, shape, bytes])', by hand: no library of ours
edit() {
    python3 - "$@" <<'PY'
import json, struct, sys
path, code = sys.argv[1:]
raw = open(path, "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
h = json.loads(raw[8 : 8 + n])
m = h.pop("__metadata__")
t = {k: [v["dtype"], v["shape"], raw[8 + n :][slice(*v["data_offsets"])]] for k, v in h.items()}
exec(code)
at, h, data = 0, {"__metadata__": m}, b""
for k, (d, s, b) in sorted(t.items()):
    h[k] = {"dtype": d, "shape": s, "data_offsets": [len(data), len(data) + len(b)]}
    data += b
j = json.dumps(h).encode()
open(path, "wb").write(struct.pack("<Q", len(j)) + j + data)
PY
}

@test "ls lists a run's folder by iteration, with the success of the last rollouts before each" {
    run -0 mf-ckpt ls run
    [[ ${lines[0]} == *iter*version*kind*params*bytes*rollout*file && ${#lines[@]} -ge 3 ]] &&
        [[ ${lines[-1]} =~ ^\ *5\ +5\ +ppo\ +[0-9]+\ +[0-9]+\ +[01]\.[0-9]{3}\ +run/checkpoints/ ]] || return 1
    rm "${newest%.safetensors}.json"
    run -0 mf-ckpt ls "$newest" "$oldest"
    [[ ${lines[1]} == *"$oldest" && ${lines[2]} == *" -  $newest" ]]
}

@test "show prints spec, counters and tensors, also as JSON" {
    run -0 mf-ckpt show "$newest"
    [[ $output == *"spec.horizon             4"* && $output == *"network.mlp_mean.layers.1.l1.weight"*"<f4 (32, 32)"* ]] &&
        mf-ckpt show "$newest" ckpt.format=json | jq -e '.__metadata__.kind == "ppo" and .["critic.Q1.layers.1.l1.weight"].shape == [16, 16]'
}

@test "diff finds the differences and their size" {
    run -0 mf-ckpt diff "$newest" "$newest"
    [[ $output == "the same" ]] || return 1
    cp "$newest" b && edit b 'm["iter"] = "9"; x = t["network.mlp_mean.layers.2.bias"]
x[2] = struct.pack("<f", struct.unpack("<f", x[2][:4])[0] + 1) + x[2][4:]
t["new"] = ["U8", [1], b"x"]; del t["critic.Q1.layers.0.bias"]'
    run -0 mf-ckpt diff "$newest" b
    [[ ${#lines[@]} -eq 4 && ${lines[0]} =~ ^iter\ +5\ and\ 9$ && ${lines[1]} == critic.Q1.layers.0.bias*"only in the first" ]] &&
        [[ ${lines[2]} =~ network.mlp_mean.layers.2.bias\ +max\ difference\ (1|0.9999|1.0000) ]] && [[ ${lines[3]} == new*"only in the second" ]]
}

@test "verify passes valid checkpoints and names invalid ones" {
    run -0 mf-ckpt verify "$oldest" "$newest"
    [[ ${lines[1]} == "$newest: ok" ]] || return 1
    cp "$newest" nan && edit nan 't["critic.Q1.layers.0.bias"][2] = struct.pack("<f", float("nan")) * 16'
    cp "$newest" shape && edit shape 't["critic.Q1.layers.0.bias"][1] = [1, 16]'
    cp "$newest" norm && edit norm 'del t["normalizer.params_dict.obs.scale"]'
    head -c 20000 "$newest" >"cut"
    printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\n' >lfs
    run -3 mf-eval nan --out /dev/null
    [[ ${lines[-1]} == "mf-eval: error: nan: number 0 of critic.Q1.layers.0.bias is nan" ]] || return 1
    run -3 mf-ckpt verify nan "$newest" shape norm cut lfs
    [[ $output == *"number 0 of critic.Q1.layers.0.bias is nan"* && $output == *"$newest: ok"* ]] &&
        [[ $output == *"shape does not match the policy"* && $output == *"norm holds a policy without its normaliser"* ]] &&
        [[ $output == *"half-written or cut"* && $output == *"git lfs pull"* && $output == *"5 of 6"* ]] || return 1
    run -0 mf-ckpt verify run && [[ ${lines[0]} == "$oldest: ok" && ${lines[-1]} == "$newest: ok" ]] || return 1
    mv nan "$oldest" && mv cut run/checkpoints/cut.safetensors
    run -3 mf-ckpt verify run && [[ $output == *"$newest: ok"* && $output == *"error: 2 of "* ]] || return 1
    mkdir -p new young/checkpoints && run -2 mf-ckpt verify new && [[ $output == "mf-ckpt: error: new is not a run's folder: "* ]] &&
        run -2 mf-ckpt verify young && [[ $output == "mf-ckpt: error: the run young has no checkpoint yet (see"* ]] &&
        run -0 mf-ckpt ls young && [[ $output == "mf-ckpt: warn: no checkpoints in young" ]] &&
        run -2 mf-ckpt verify run new && [[ $output == *"mf-ckpt: error: new is not a run's folder: "* ]] &&
        run -1 mf-ckpt verify nowhere && [[ $output == "mf-ckpt: error: cannot open nowhere: No such file or directory" ]]
}

@test "prune keeps the newest, prints the removed ones, and removes the files beside them" {
    local before
    before=$(find run/checkpoints -name '*.safetensors' | wc -l)
    touch "${oldest%.safetensors}.json" run/checkpoints/notes.txt && [[ $before -ge 3 ]] || return 1
    run -0 mf-ckpt prune run ckpt.keep=1
    [[ $output == *"removed $oldest"* && $output == *"removed ${oldest%.safetensors}.json"* ]] &&
        [[ -e $newest && ! -e $oldest && ! -e ${oldest%.safetensors}.json && -e run/checkpoints/notes.txt ]] &&
        [[ $(find run/checkpoints -name '*.safetensors') == "$newest" ]]
    cp "$BATS_FILE_TMPDIR"/run/checkpoints/*.safetensors run/checkpoints && edit "$oldest" 'm["kind"] = "clone"' &&
        mv "$oldest" run/checkpoints/clone.safetensors && mf-ckpt prune run ckpt.keep=1 &&
        [[ $(find run/checkpoints -name '*.safetensors' | sort) == "$newest"$'\n'run/checkpoints/clone.safetensors ]] || return 1
    run -2 mf-ckpt prune run ckpt.keep=0
    run -2 mf-ckpt prune "$newest" && [[ $output == *"$newest is one file: give the folder of a run"* && -e $newest ]]
}

@test "show and diff use a run's newest checkpoint" {
    run -0 mf-ckpt diff run "$newest"
    [[ $output == "the same" ]] || return 1
    [[ $(mf-ckpt show run) == "$(mf-ckpt show "$newest")" ]]
}

@test "ema writes a checkpoint whose weights are the EMA" {
    run -2 mf-ckpt ema "$newest" out
    [[ $output == *"no EMA weights"* && ! -e out ]] || return 1
    cp "$newest" with && edit with 't["ema/network.mlp_mean.layers.0.bias"] = ["F32", [32], struct.pack("<32f", *range(32))]'
    mf-ckpt ema with out && mf-ckpt verify out || return 1
    run -0 mf-ckpt diff with out
    [[ $output == *"opt/"*"only in the first"* && $output == *"network.mlp_mean.layers.0.bias"*"max difference"* ]]
}

@test "an unknown command, and a missing file" {
    run -2 mf-ckpt frobnicate x
    [[ $output == *"ls RUN|FILE"* ]] || return 1
    run -1 mf-ckpt show nowhere
    [[ $output == *"cannot open nowhere: No such file"* ]]
}

@test "a pipe in the place of a checkpoint's JSON file, or of a named file, does not block" {
    local word
    rm "${newest%.safetensors}.json" && mkfifo "${newest%.safetensors}.json" pipe y.pt.part || return 1
    run -0 timeout 10 mf-ckpt ls run
    [[ ${lines[-1]} == *" -  $newest" ]] && run -0 timeout 10 mf-ckpt verify run && run -0 timeout 10 mf-ckpt prune run || return 1
    for word in 'show pipe' 'ls pipe' 'verify pipe' 'diff pipe pipe' 'ema pipe x' 'export pipe x.pt' 'import pipe x'; do
        # shellcheck disable=SC2086 # words
        run timeout 10 mf-ckpt $word
        [[ $status == [23] && $output == *"pipe is a pipe, not a regular file"* ]] || { echo "$word: $status $output" && return 1; }
    done
    run timeout 10 mf-ckpt export "$oldest" y.pt
    [[ $status -eq 2 && $output == *"'y.pt.part' is a device or a pipe"* ]]
}

@test "names in a file, and of a file, start no lines and send the terminal no commands" {
    python3 - <<'PY'
import json, struct
for name, at in ("a", 0), ("b", 4):
    head = json.dumps({"__metadata__": {"k\n\x1b[31m": f"v\x1b[2J{name}"}, f"t\r\x1b{name}": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    open(name, "wb").write(struct.pack("<Q", len(head)) + head + bytes(4))
PY
    run -0 mf-ckpt show a
    [[ $output != *[$'\x1b\r']* && ${#lines[@]} == 2 && ${lines[0]} == 'k??[31m '*' v?[2Ja' ]] || return 1
    run -0 mf-ckpt diff a b
    [[ $output != *[$'\x1b\r']* && ${#lines[@]} == 3 && $output == *'t??a '*'only in the first'* ]] || return 1
    run -1 mf-ckpt show $'no\n\x1b[31m'
    [[ $output == *'cannot open no??[31m: No such file'* && ${#lines[@]} == 1 ]]
}
