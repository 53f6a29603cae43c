# mf-ckpt import and export: PyTorch's policies in, ours out. tests/unit/test_import.c holds their actions against PyTorch.
load helpers

setup_file() {
    cd "$BATS_FILE_TMPDIR" || return 1
    small=(env=point training.num_envs=8 training.num_steps_per_rollout=8 training.total_timesteps=400
        training.batch_size=32 training.num_epochs=2 'policy.hidden=[32,32,32]' 'policy.critic_hidden=[16,16,16]')
    mf-collect "${small[@]}" run.dir=run 2>log | mf-gae | mf-ppo "${small[@]}" run.dir=run >run.mf 2>>log || cat log
}

setup() { cd "$BATS_TEST_TMPDIR" && F=$ROOT/tests/fixtures && run=$BATS_FILE_TMPDIR/run; }

zip() { "$ROOT/tests/tools/torch_zip.py" "$@"; }

# net 'python': a clone of FlowMLP of 3 observations, 2 actions, horizon 2, to change before it is written to net.pt
net() {
    zip net.pt 'linear = lambda n, o, i: {n + ".weight": T([0.1 * k for k in range(o * i)], [o, i]), n + ".bias": T([0.5] * o, [o])}
m = {**linear("network.time_embedding.1", 8, 4), **linear("network.time_embedding.3", 4, 8),
     **linear("network.mlp_mean.layers.0", 5, 11), **linear("network.mlp_mean.layers.1.l1", 5, 5),
     **linear("network.mlp_mean.layers.1.l2", 5, 5), **linear("network.mlp_mean.layers.2", 4, 5)}
tree = {"model": m}
'"$1"
}

words=(policy.activation=relu policy.horizon=2 normalizer=identity)

@test "an exported policy imports to the same bytes, and acts the same" {
    run -0 mf-ckpt export "$run" out.pt
    run -0 mf-ckpt import out.pt back env=point policy.activation=relu
    run -0 mf-ckpt verify back
    mf-ckpt export "$run" a.safetensors && mf-ckpt export back b.safetensors || return 1
    run -0 mf-ckpt diff a.safetensors b.safetensors
    [[ $output == "the same" ]] || return 1
    mf-eval "$run" eval.num_episodes=4 eval.json=a.json >/dev/null 2>&1 && mf-eval back env=point eval.num_episodes=4 eval.json=b.json >/dev/null 2>&1 &&
        [[ $(jq -c .results[0].trials a.json) == "$(jq -c .results[0].trials b.json)" ]]
}

@test "an exported .pt is a valid zip file whose pickle has three harmless globals, and the weights" {
    mf-ckpt export "$run" out.pt && mf-ckpt export "$run" out.safetensors || return 1
    python3 - <<'PY'
import json, pickletools, struct, zipfile
z = zipfile.ZipFile("out.pt")
assert z.testzip() is None and z.read("archive/version") == b"3\n"
ops = list(pickletools.genops(z.read("archive/data.pkl")))
assert {a for o, a, _ in ops if o.name == "GLOBAL"} == {
    "collections OrderedDict", "torch._utils _rebuild_tensor_v2", "torch FloatStorage"}
raw = open("out.safetensors", "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
head = json.loads(raw[8 : 8 + n])
assert head.pop("__metadata__") == {"format": "pt"}
names = sorted(head)
texts = [a for o, a, _ in ops if o.name == "BINUNICODE"]
assert [t for t in texts if t in head] == names and "network.mlp_mean.layers.0.weight" in names
for i, name in enumerate(names):
    begin, end = head[name]["data_offsets"]
    assert z.read(f"archive/data/{i}") == raw[8 + n :][begin:end], name
for e in z.infolist():
    f = open("out.pt", "rb"); f.seek(e.header_offset + 26)
    a, b = struct.unpack("<HH", f.read(4))
    assert (e.header_offset + 30 + a + b) % 64 == 0, e
PY
}

@test "the EMA is imported beside the weights, and exported when the policy uses it" {
    run -0 mf-ckpt import "$F/policy_clone.pt" clone policy.activation=relu policy.horizon=3 normalizer="$F/policy.npz"
    [[ $output == *"importing the averaged weights, 'ema'"* ]] || return 1
    mf-ckpt export clone auto.safetensors && mf-ckpt export clone ema.safetensors policy.weights=ema && mf-ckpt export clone raw.safetensors policy.weights=raw || return 1
    run -0 mf-ckpt diff auto.safetensors ema.safetensors
    [[ $output == "the same" ]] || return 1
    run -0 mf-ckpt diff auto.safetensors raw.safetensors
    [[ $output == *"max difference"* ]] || return 1
    run -2 mf-ckpt export "$run" x.pt policy.weights=ema
    [[ $output == *"holds no EMA weights"* && ! -e x.pt ]]
}

@test "the error for missing settings names their keys" {
    run -2 mf-ckpt import "$F/policy_clone.pt" x
    [[ $output == *policy.activation* && $output == *env=NAME* ]] || return 1
    run -2 mf-ckpt import "$F/policy_clone.pt" x policy.activation=relu
    [[ $output != *policy.activation* && $output == *policy.horizon=N* ]] || return 1
    run -2 mf-ckpt import "$F/policy_clone.pt" x policy.activation=relu env=point
    [[ $output == *"reads 5 numbers"*"policy.obs_keys"* ]] || return 1
    run -2 mf-ckpt import "$F/policy_clone.pt" x policy.activation=relu policy.horizon=4
    [[ $output == *"policy.horizon=4"* ]] || return 1
    run -2 mf-ckpt import "$F/policy_clone.pt" x policy.activation=relu policy.horizon=3
    [[ $output == *"normalizer=FILE.npz"*"normalizer=identity"* ]] || return 1
    run -2 mf-ckpt import "$F/policy_clone.pt" x policy.activation=relu policy.horizon=3 normalizer=identity policy.hidden=[8]
    [[ $output == *"contradicts"*"[16,16,16]"* && ! -e x ]]
}

@test "tensors that are missing, left over or misshapen are each named" {
    net ''
    run -0 mf-ckpt import net.pt ok "${words[@]}"
    net 'del m["network.time_embedding.3.bias"]; m["network.extra"] = T([1], [1])
m["network.mlp_mean.layers.1.l2.weight"] = T(range(20), [4, 5])'
    run -3 mf-ckpt import net.pt x "${words[@]}"
    [[ $output == *"model.network.time_embedding.3.bias is missing"* && $output == *"model.network.extra is left over"* ]] &&
        [[ $output == *"layers.1.l2.weight is (4, 5) and should be (5, 5)"* && ! -e x && ! -e x.part ]] || return 1
    net 'm["network.mlp_mean.layers.1.l2.bias"] = T([0] * 10, [5], type="ComplexFloatStorage")'
    run -3 mf-ckpt import net.pt x "${words[@]}"
    [[ $output == *"l2.bias is complex64"* ]] || return 1
    net 'del m["network.mlp_mean.layers.2.weight"]'
    run -3 mf-ckpt import net.pt x "${words[@]}"
    [[ $output == *"lacks its last layer"* ]] || return 1
    net 'm["network.mlp_mean.moduleList.0.linear_1.weight"] = T([1], [1, 1])'
    run -3 mf-ckpt import net.pt x "${words[@]}"
    [[ $output == *"plain MLP"* ]] || return 1
    net 'm["network"] = {"time_embedding.3.bias": T([1] * 16, [16])}'
    run -3 mf-ckpt import net.pt x "${words[@]}"
    [[ ${#lines[@]} -eq 1 && $output == *"two tensors have the name model.network.time_embedding.3.bias, 'network.time_embedding.3.bias' of 'model' (archive/data/"*" and 'time_embedding.3.bias' of 'model.network' (archive/data/"*"): rename one of them" ]] || { echo "$output"; return 1; }
    net 'm["network.\x01"] = T([1], [1]); m["network.\x02"] = T([1], [1])'
    run -3 mf-ckpt import net.pt x "${words[@]}"
    [[ $output == *"two tensors have the name model.network.?, "* ]] || return 1
    net 'tree = {"other": m}'
    run -3 mf-ckpt import net.pt x "${words[@]}"
    [[ $output == *"no weights where a known layout has them"* ]]
}

@test "normalisers: compressed npz, demonstrations, incompatible ones" {
    /usr/bin/python3 -c 'import h5py' || skip "no h5py for /usr/bin/python3 (Debian: python3-h5py)"
    net ''
    /usr/bin/python3 - <<'PY'
import h5py, numpy as np
obs = np.array([[0, 1, 2], [4, 5, 9], [2, -3, 2.5]], "f4"); act = np.array([[-1, 0], [0.5, 2], [0, 0]], "f4")
ends = lambda k, x: {f"{k}_min": x.min(0), f"{k}_max": x.max(0)}
np.savez_compressed("n.npz", **ends("obs", obs), **ends("action", act.astype("f8")))
np.savez("short.npz", **ends("obs", obs[:, :2]), **ends("action", act))
np.savez("lacks.npz", **ends("obs", obs))
np.savez("ints.npz", **ends("obs", obs.astype(int)), **ends("action", act))
with h5py.File("d.hdf5", "w") as f:
    for i in range(3):
        g = f.create_group(f"data/demo_{i}")
        g["obs/state"], g["actions"], g.attrs["num_samples"] = obs[i : i + 1], act[i : i + 1], 1
    f["data"].attrs["total"] = 3
PY
    mf-ckpt import net.pt a "${words[@]}" normalizer=n.npz && mf-ckpt import net.pt b "${words[@]}" normalizer=d.hdf5 || return 1
    run -0 mf-ckpt diff a b
    [[ $output == "the same" ]] || return 1
    mf-ckpt export a a.pt && python3 -c '
import struct, zipfile
z = zipfile.ZipFile("a.pt")
last = [z.read(f"archive/data/{i}") for i in range(12, 16)] # action offset, scale; obs offset, scale
offset, scale = struct.unpack("<2f", last[0]), struct.unpack("<2f", last[1])
assert abs(scale[0] - 2 / 1.500001) < 1e-6 and abs(offset[0] - (2 / 1.500001 - 1)) < 1e-6, (offset, scale)' || return 1
    run -3 mf-ckpt import net.pt x "${words[@]}" normalizer=short.npz
    [[ $output == *"obs_min of short.npz has 2 numbers, and the policy's obs has 3"* ]] || return 1
    run -3 mf-ckpt import net.pt x "${words[@]}" normalizer=lacks.npz
    [[ $output == *"lacks.npz holds no array 'action_min'"* ]] || return 1
    run -3 mf-ckpt import net.pt x "${words[@]}" normalizer=ints.npz
    [[ $output == *"'obs_min' of ints.npz is not an array of float32 or float64"* ]] || return 1
    run -2 mf-ckpt import net.pt x "${words[@]}" normalizer=what
    [[ $output == *"neither identity nor"* ]] || return 1
    run -1 mf-ckpt import net.pt x "${words[@]}" normalizer=nowhere.npz
    [[ $output == *"cannot open nowhere.npz"* && ! -e x ]]
}

@test "openpi's norm_stats.json: quantiles, or mean and deviation, with what is wrong" {
    net ''
    echo '{"norm_stats": {"state": {"mean": [0, 0, 0, 0], "std": [1, 1, 1, 1], "q01": [-1, 0, 2, 9], "q99": [1, 4, 3, 9]},
        "actions": {"mean": [1, 2], "std": [0.5, 4], "q01": null, "q99": null}}}' >norm_stats.json
    run -0 mf-ckpt import net.pt a "${words[@]}" normalizer=norm_stats.json
    mf-ckpt export a a.pt && python3 -c '
import struct, zipfile
z = zipfile.ZipFile("a.pt")
numbers = [x for i in range(12, 16) for x in struct.unpack("<%df" % (2 if i < 14 else 3), z.read(f"archive/data/{i}"))]
want = [-2, -0.5, 2, 0.25, 0, -1, -5, 1, 0.5, 2] # action offset, scale; obs offset, scale
assert all(abs(x - y) < 1e-4 for x, y in zip(numbers, want)), numbers' || return 1
    jq -c '.norm_stats.state.q01 = [0, 0]' norm_stats.json >short.json && jq -c .norm_stats norm_stats.json >bare.json || return 1
    echo '{"norm_stats": {"state": {"q01": ["a", 0, 0], "q99": [1, 1, 1]}}}' >text.json && head -c 40 norm_stats.json >cut.json || return 1
    run -3 mf-ckpt import net.pt x "${words[@]}" normalizer=short.json
    [[ $output == *"the normaliser short.json: state.q01 has 2 numbers, and the policy needs 3"* ]] || return 1
    run -3 mf-ckpt import net.pt x "${words[@]}" normalizer=text.json
    [[ $output == *"element 0 of state.q01 is no number"* ]] || return 1
    run -3 mf-ckpt import net.pt x "${words[@]}" normalizer=bare.json
    [[ $output == *"no 'norm_stats'"* ]] || return 1
    run -3 mf-ckpt import net.pt x "${words[@]}" normalizer=cut.json
    [[ $output == *"cut.json: "* && ! -e x ]]
}

@test "a narrow range far from 0 keeps its precision in the normaliser, or is refused" {
    /usr/bin/python3 -c 'import numpy' || skip "no numpy for /usr/bin/python3 (Debian: python3-numpy)"
    net ''
    /usr/bin/python3 - <<'PY'
import numpy as np
act = {"action_min": np.full(2, -1, "f4"), "action_max": np.full(2, 1, "f4")}
low = np.array([0.83, 1000, -7.3], "f4")
np.savez("far.npz", obs_min=low, obs_max=low + np.array([0, 0.01, 1e-5], "f4"), **act)
np.savez("gone.npz", obs_min=low * 1e6, obs_max=low * 1e6, **act)
PY
    mf-ckpt import net.pt a "${words[@]}" normalizer=far.npz && /usr/bin/python3 - <<'PY' || return 1
import json, numpy as np, struct
raw = open("a", "rb").read()
n, = struct.unpack("<Q", raw[:8])
t = {k.split("obs.")[1]: np.frombuffer(raw[8 + n :][slice(*v["data_offsets"])], "f4").astype("f8")
     for k, v in json.loads(raw[8 : 8 + n]).items() if "params_dict.obs." in k}
z = np.load("far.npz")
low, high = z["obs_min"].astype("f8"), z["obs_max"].astype("f8")
for x in (low, high):
    want, got = 2 * (x - low) / (high - low + 1e-6) - 1, x * t["scale"] + t["offset"]
    assert np.allclose(got, want, 0, 1e-3), (got, want)
PY
    run -3 mf-ckpt import net.pt x "${words[@]}" normalizer=gone.npz
    [[ $output == *"the range of obs 0, from 830000 to 830000, is too narrow so far from 0"* && ! -e x ]]
}

# maniflow 'python': tests/fixtures/maniflow.safetensors as a training workspace, to change before it is written to m.ckpt
maniflow() {
    zip m.ckpt 'import json
raw = open("'"$F"'/maniflow.safetensors", "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
w = {}
for k, v in json.loads(raw[8 : 8 + n]).items():
    key = k[7:] if k[:7] == "weight/" else "normalizer.params_dict." + k[11:].replace("/", ".") if k[:11] == "normalizer/" else None
    if key:
        b = raw[8 + n :][slice(*v["data_offsets"])]
        w[key] = T(struct.unpack(f"<{len(b) // 4}f", b), v["shape"])
w["_dummy_variable"] = T([], [0])
cfg = {"horizon": 16, "n_obs_steps": 2, "n_action_steps": 8, "policy": {"n_head": 4, "num_inference_steps": 5}}
tree = {"cfg": cfg, "state_dicts": {"model": w, "ema_model": w, "optimizer": {"state": {}}}, "pickles": {"epoch": b"\x80\x04K\x04."}}
'"$1"
}

@test "ManiFlow's workspace: its configuration gives the settings that no shape determines" {
    maniflow ''
    run -0 mf-ckpt import m.ckpt m
    [[ $output == *"importing the averaged weights, 'state_dicts.ema_model'"* ]] &&
        [[ $output == *"pure noise is at t = 0 (policy.convention=noise0); the second time embedding gets the step "* ]] || return 1
    run -0 mf-ckpt verify m
    run -0 mf-ckpt show m
    [[ $output == *"spec.network             ditx"* && $output == *"spec.obs                 32x6:point_cloud,9:agent_pos"* ]] &&
        [[ $output == *"spec.n_obs_steps         2"* && $output == *"spec.denoising_steps     5"* && $output == *"spec.action_offset       1"* ]] &&
        [[ $output == *"spec.n_action_steps      8"* && $output == *"ema/obs_encoder.state_mlp.0.weight"* ]] || return 1
    run -2 mf-ckpt import m.ckpt x env=lift
    [[ $output == *"reads a state of 9 numbers and predicts actions of 10"* ]] || return 1
    maniflow 'del tree["cfg"]'
    run -2 mf-ckpt import m.ckpt x
    [[ $output == *policy.n_obs_steps=N* ]] || return 1
    maniflow 'del w["model.blocks.1.mlp.fc2.bias"]; w["obs_encoder.more"] = T([1], [1])
w["obs_encoder.state_mlp.2.bias"] = T([0] * 9, [9])'
    run -3 mf-ckpt import m.ckpt x
    [[ $output == *"state_dicts.model.model.blocks.1.mlp.fc2.bias is missing"* ]] &&
        [[ $output == *"state_dicts.model.obs_encoder.state_mlp.2.bias is (9) and should be (64)"*"more"* && ! -e x ]]
}

@test "ManiFlow's RL fork: value head and pool are imported; its noise head is not, with the reason" {
    local head='lin = lambda n, o, i: {n + ".weight": T([0.01] * (o * i), [o, i]), n + ".bias": T([0.5] * o, [o])}
w.update({**lin("value_head.mlp.0", 6, 80), **lin("value_head.mlp.2", 1, 6), **lin("noise_head.mlp.0", 128, 80),
          **lin("attention_pool.attention.0", 20, 80), **lin("attention_pool.attention.2", 1, 20)})
tree = {"policy_state_dict": w, "config": cfg, "global_step": 9}'
    maniflow "$head"
    run -0 mf-ckpt import m.ckpt m
    [[ $output == *"2 tensors are not imported, such as noise_head.*"*"policy.learned_noise=true"* ]] &&
        [[ $output == *"pure noise is at t = 1 (policy.convention=noise1); the second time embedding gets 0 (policy.target_time=zero)"* ]] || return 1
    run -0 mf-ckpt show m
    [[ $output == *"spec.convention          noise1"* && $output == *"spec.target_time         zero"* && $output == *"spec.value_pool          score"* && $output == *"spec.critic_hidden       [6]"* && $output == *"spec.learned_noise       false"* ]] || return 1
    maniflow "$head"'
del w["attention_pool.attention.2.bias"]'
    run -3 mf-ckpt import m.ckpt x policy.n_obs_steps=2 policy.n_action_steps=8
    [[ $output == *"attention_pool.attention.2.bias is missing"* && ! -e x ]]
}

@test "the points of a cloud share a range; without a normaliser, or with another policy's, nothing is imported" {
    /usr/bin/python3 -c 'import h5py' || skip "no h5py for /usr/bin/python3 (Debian: python3-h5py)"
    maniflow 'for k in [k for k in w if k[:11] == "normalizer."]: del w[k]'
    words=(policy.n_action_steps=8)
    run -2 mf-ckpt import m.ckpt x "${words[@]}"
    [[ $output == *"normalizer=FILE.npz"* && ! -e x ]] || return 1
    /usr/bin/python3 - <<'PY'
import h5py, numpy as np
for name, points in ("d", 32), ("few", 8):
    rng = np.random.default_rng(0)
    with h5py.File(name + ".hdf5", "w") as f:
        g = f.create_group("data/demo_0")
        g["obs/point_cloud"] = rng.uniform(-1, 1, (5, points, 6)).astype("f4") * [1, 2, 3, 4, 5, 6]
        g["obs/agent_pos"], g["actions"] = rng.random((5, 9), "f4"), rng.random((5, 10), "f4")
        g.attrs["num_samples"] = f["data"].attrs["total"] = 5
PY
    run -3 mf-ckpt import m.ckpt x "${words[@]}" normalizer=few.hdf5
    [[ $output == *"point_cloud of few.hdf5 has 48 numbers, and the policy's 192"* && ! -e x ]] || return 1
    mf-ckpt import m.ckpt m "${words[@]}" normalizer=d.hdf5 && python3 - <<'PY'
import json, struct
raw = open("m", "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
b, e = json.loads(raw[8 : 8 + n])["normalizer.params_dict.obs.scale"]["data_offsets"]
scale = struct.unpack(f"<{(e - b) // 4}f", raw[8 + n :][b:e])
assert scale[:192] == scale[:6] * 32 and all(abs(s * k - 1) < .1 for k, s in enumerate(scale[:6], 1)), scale[:12]
PY
}

@test "export lists its formats, and keeps an existing file" {
    run -2 mf-ckpt export "$run" out.onnx
    [[ $output == *".pt or .safetensors"* ]] || return 1
    run -3 mf-ckpt export "$F/policy_clone.pt" out.pt
    [[ $output == *"is a PyTorch zip file"* && ! -e out.pt ]] || return 1
    mkdir folder.pt
    run -2 mf-ckpt export "$run" folder.pt
    [[ $output == *"a folder"* ]]
}

@test "a ManiFlow policy without a time convention in its file needs the key" {
    maniflow 'tree = {"state_dict": w, "cfg": cfg}'
    run -2 mf-ckpt import m.ckpt m
    [[ $output == *"does not say at which end of time the noise lies: give policy.convention=noise0 policy.target_time=step for"* && ! -e m ]] || return 1
    run -0 mf-ckpt import m.ckpt m policy.convention=noise1
    [[ $output == *"policy.target_time=zero"* ]] || return 1
    maniflow 'w.update({"value_head.mlp.0.weight": T([1.0] * 80, [1, 80]), "value_head.mlp.0.bias": T([0.0], [1])})'
    run -2 mf-ckpt import m.ckpt x
    [[ $output == *"give policy.convention=noise0"* && ! -e x ]]
}

@test "name prefixes of torch.compile, DDP, FSDP and Lightning are removed, and reported" {
    local case head='pre = lambda d, p: {p + k: v for k, v in d.items()}
'
    net '' && mf-ckpt import net.pt plain "${words[@]}" || return 1
    while IFS='|' read -r case without; do
        net "$head$case" && run -0 mf-ckpt import net.pt x "${words[@]}" && [[ $output == *"the prefix $without"* ]] &&
            run -0 mf-ckpt diff plain x && [[ $output == "the same" ]] || { echo "$case: $output" && return 1; }
    done <<'CASES'
tree = {"model": pre(m, "module.")}|'module.'
tree = {"model": pre(m, "_orig_mod.")}|'_orig_mod.'
tree = {"model": pre(m, "module._orig_mod.")}|'module.', '_orig_mod.'
tree = {"model": pre(m, "_orig_mod.module.")}|'module.', '_orig_mod.'
tree = {"model": {k.replace("network.", "network._orig_mod.", 1): v for k, v in m.items()}}|'_orig_mod.'
tree = {"model": {k.replace("mlp_mean.", "mlp_mean._fsdp_wrapped_module.", 1): v for k, v in m.items()}}|'_fsdp_wrapped_module.'
tree = {"state_dict": pre(m, "model.")}|'model.'
tree = {"state_dict": pre(m, "policy.")}|'policy.'
tree = {"state_dict": pre(m, "model._orig_mod.")}|'_orig_mod.', 'model.'
tree = {"module": pre(m, "trainer.policy.")}|'trainer.policy.'
tree = {"model_state_dict": pre(m, "agent.")}|'agent.'
tree = pre(m, "policy.")|'policy.'
CASES
    net "$head"'tree = {"model": {**pre(m, "module."), **m}}'
    run -3 mf-ckpt import net.pt y "${words[@]}"
    [[ $output == *"two tensors have the name model.network."* && ! -e y ]] || return 1
    net "$head"'tree = {"state_dict": {**pre(m, "policy."), **pre(m, "old.")}}'
    run -3 mf-ckpt import net.pt y "${words[@]}"
    [[ $output == *"holds more than one policy, below 'policy.' and 'old.'"* && ! -e y ]] || return 1
    net 'tree = {"a.weight": T([1.0], [1])}'
    run -3 mf-ckpt import net.pt y "${words[@]}"
    [[ $output == *"known here among its tensors; mf-ckpt show lists them"* ]]
}

@test "a prefix of all names is removed and reported, in every family" {
    local file rest prefix names
    while read -r file rest; do
        read -ra rest <<<"$rest" && mapfile -t names < <(mf-ckpt show "$F/$file" | sed -n 's/ *float32 (.*//p') && mf-ckpt import "$F/$file" plain "${rest[@]}" || return 1
        for prefix in model. policy. net. agent. _forward_module. averaged_model.module. module.model.; do
            "$ROOT/tests/tools/torch_prefix.py" "$F/$file" "$prefix" x.pt "${names[@]}" && run -0 mf-ckpt import x.pt x "${rest[@]}" &&
                [[ $output == *"the prefix "*"'${prefix#module.}'"* || ($prefix == averaged_model.module. && $output == *"the prefix 'module.', 'averaged_model.'"*) ]] &&
                run -0 mf-ckpt diff plain x && [[ $output == "the same" ]] || { echo "$file $prefix: $output" && return 1; }
        done
    done <<'FILES'
fork.pt normalizer=identity
unet.pt policy.network=unet policy.n_groups=2 policy.horizon=4 normalizer=identity policy.convention=noise0
policy_tuned.pt policy.activation=relu policy.horizon=3 normalizer=identity
policy_dppo.pt policy.activation=relu policy.horizon=3 normalizer=identity
vision_vit.pt policy.network=reflow_mlp policy.activation=relu policy.horizon=3 policy.encoder_heads=3 normalizer=identity
vision_vit_tuned.pt policy.activation=relu policy.horizon=3 policy.encoder_heads=1 normalizer=identity
FILES
}

@test "observations have the names of policy.obs_keys, and those of an environment behind a server" {
    net '' && mf-ckpt import net.pt m "${words[@]}" 'policy.obs_keys=[joints]' || return 1
    run -0 mf-ckpt show m
    [[ $output == *"spec.obs                 3:joints"* ]] || return 1
    run -2 mf-ckpt import net.pt x "${words[@]}" 'policy.obs_keys=[a,b]'
    [[ $output == *"reads 3 low-dimensional numbers of a step, and the file does not say how they are those of a, b: give env=NAME"* && ! -e x ]] || return 1
    run -2 mf-ckpt import net.pt x "${words[@]}" env=exec
    [[ $output == *"env=exec needs env.command='..'"* ]] || return 1
    run -0 mf-ckpt import net.pt m policy.activation=relu normalizer=identity env=exec env.command="mf-env point"
    [[ $(mf-ckpt show m) == *"spec.obs                 1:position,1:velocity,1:goal"* ]] || return 1
    run -0 mf-ckpt import net.pt m policy.activation=relu normalizer=identity env=exec env.command="mf-env point" 'policy.obs_keys=[goal]'
    [[ $output == *"3 observation step(s) of 1 goal; "* ]] || return 1
    net 'm.update(linear("network.mlp_mean.layers.0", 5, 14))' # as the demonstrations have them
    run -0 mf-ckpt import net.pt m policy.activation=relu policy.horizon=2 normalizer="$F/point.hdf5" 'policy.obs_keys=[velocity,position,goal]'
    [[ $output == *"1 observation step(s) of 2 velocity, 2 position, 2 goal; horizon 2, "* ]]
}

@test "unneeded entries that inflate to a huge size take no memory" {
    net '' && mf-ckpt import net.pt plain "${words[@]}" || return 1
    net 'method = zipfile.ZIP_DEFLATED
files[next(k for k in files if k[:5] == "data/")] += bytes(40 << 20)' # the tensor ends where it did
    "$ROOT/tests/tools/peak.py" peak mf-ckpt import net.pt m "${words[@]}" && mf-ckpt diff plain m | grep -qx 'the same' &&
        awk '{ exit !($1 < 40) }' peak || return 1
    net 'method = zipfile.ZIP_DEFLATED
m["network.mlp_mean.layers.2.bias"] = T(list(range(9)) + [0] * (4 << 20), [4], stride=[1 << 20], offset=3)'
    run -3 mf-ckpt import net.pt x "${words[@]}"
    [[ $output == *"network.mlp_mean.layers.2.bias of net.pt is spread over 12582916 compressed bytes, of which it uses 16: save"* && ! -e x ]] || return 1
    python3 - <<'PY'
import struct, zipfile
with zipfile.ZipFile("much.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as z:
    for name, n in ("obs_min", 16 << 20), ("obs_max", 3), ("action_min", 2), ("action_max", 2):
        head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({n},), }}\n".encode()
        z.writestr(name + ".npy", b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head + bytes(4 * n))
PY
    net ''
    "$ROOT/tests/tools/peak.py" peak mf-ckpt import net.pt x policy.activation=relu policy.horizon=2 normalizer=much.npz 2>err || [[ $? -eq 3 ]] &&
        grep -q "obs_min of much.npz has 16777216 numbers, and the policy's obs has 3" err && awk '{ exit !($1 < 40) }' peak && [[ ! -e x ]]
}
