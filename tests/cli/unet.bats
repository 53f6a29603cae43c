# The conditional 1-D U-Net through every program, at a size for tests.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    words=(--config-dir "$ROOT/configs" --config-name point policy=unet "policy.down_dims=[8,16]" policy.n_groups=4
        policy.time_dim=8 policy.horizon=4 policy.n_action_steps=4 policy.num_inference_steps=2 log.level=warn)
}

clone() {
    [[ -s demos.hdf5 ]] || mf-collect "${words[@]}" collect.actor=expert collect.episodes=20 run.dir=demos |
        mf-record demos.hdf5 >/dev/null || return 1
    mf-bc "${words[@]}" clone.dataset=demos.hdf5 clone.batch_size=32 clone.steps=30 "$@"
}

@test "cloned with the shortcut loss, fine-tuned by PPO with learned noise, evaluated with several numbers of steps" {
    clone clone.loss=shortcut run.dir=clone clone.steps=200 | mf-view |
        jq -es 'map(select(.mf == "metrics").values["train/loss"]) | .[-1] < .[0] * .9' || return 1
    local clone=clone/checkpoints/clone.safetensors
    words+=(training.num_envs=4 training.num_steps_per_rollout=8 training.total_timesteps=512 training.batch_size=16
        policy.learned_noise=true)
    mf-collect "${words[@]}" policy.checkpoint=$clone run.dir=run | mf-gae "${words[@]}" |
        mf-ppo "${words[@]}" policy.checkpoint=$clone | mf-view |
        jq -es 'map(select(.mf == "metrics").values) | length >= 2 and
            all(."train/logratio_gap" == 0 and ."train/grad_norm" > 0)' || return 1
    mf-ckpt diff $clone "$(find run/checkpoints -name '[0-9]*.safetensors' | sort | tail -n 1)" >changed || true
    grep -q '^velocity_net.unet.up_modules.0.2.conv' changed && grep -q '^velocity_net.step_size_embed' changed || return 1
    mf-eval run "eval.num_inference_steps=[1,2,4]" eval.num_episodes=4 eval.num_envs=2 | mf-view |
        jq -es 'map(select(.mf == "metrics")) | length == 3'
}

@test "an exported policy imports to the same bytes; each tensor that is missing, left over or misshapen is named" {
    words+=(training.num_envs=4 training.num_steps_per_rollout=8 training.total_timesteps=64 policy.learned_noise=true)
    mf-collect "${words[@]}" run.dir=run | mf-gae "${words[@]}" | mf-ppo "${words[@]}" >/dev/null || return 1
    mf-ckpt export run out.pt && mf-ckpt export run out.safetensors || return 1
    local said=(env=point policy.network=shortcut_unet policy.n_groups=4 policy.horizon=4)
    mf-ckpt import out.pt back "${said[@]}" && mf-ckpt export back again.safetensors || return 1
    run -0 mf-ckpt diff out.safetensors again.safetensors
    [[ $output == "the same" ]] || return 1
    "$ROOT/tests/tools/torch_zip.py" odd.pt 'import json, struct, math
raw = open("out.safetensors", "rb").read()
head = json.loads(raw[8 : 8 + struct.unpack("<Q", raw[:8])[0]])
shape = {k: v["shape"] for k, v in head.items() if k != "__metadata__"}
unet = "velocity_net.unet."
turned = shape[unet + "up_modules.0.2.conv.weight"]
turned[1:] = turned[:0:-1]
del shape[unet + "mid_modules.1.blocks.1.block.1.bias"]
shape[unet + "local_cond_encoder.weight"] = [2]
tree = {"agent": {k: T([0.5] * math.prod(v), v) for k, v in shape.items()}}'
    run -3 mf-ckpt import odd.pt odd "${said[@]}"
    [[ $output == *"mid_modules.1.blocks.1.block.1.bias is missing"* && $output == *"local_cond_encoder.weight is left over"* &&
        $output == *"up_modules.0.2.conv.weight is (8, 4, 8) and should be (8, 8, 4)"* ]] || { echo "$output"; return 1; }
}

# workspace 'python': the clone of ./flow as diffusion policy's training leaves one, to change before it is m.ckpt
workspace() {
    "$ROOT/tests/tools/torch_zip.py" m.ckpt 'import json, struct
raw = open("flow.safetensors", "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
w = {}
for k, v in json.loads(raw[8 : 8 + n]).items():
    if k != "__metadata__":
        b = raw[8 + n :][slice(*v["data_offsets"])]
        w[k.replace("velocity_net.unet.", "model.")] = T(struct.unpack(f"<{len(b) // 4}f", b), v["shape"])
w["mask_generator._dummy_variable"] = T([], [0])
cfg = {"horizon": 4, "n_obs_steps": 1, "n_action_steps": 2, "policy": {"num_inference_steps": 3, "model": {"n_groups": 4}}}
tree = {"cfg": cfg, "state_dicts": {"model": w}}
'"$1"
}

@test "diffusion policy's workspace: its configuration gives the settings that no shape determines" {
    clone policy.network=unet clone.loss=flow run.dir=flow >/dev/null &&
        mf-ckpt export flow/checkpoints/clone.safetensors flow.safetensors && workspace '' || return 1
    run -0 mf-ckpt import m.ckpt m
    mf-ckpt export m m.safetensors && run -0 mf-ckpt diff flow.safetensors m.safetensors
    [[ $output == "the same" ]] || return 1
    run -0 mf-ckpt show m
    [[ $output == *"spec.network             unet"* && $output == *"spec.down_dims           [8,16]"* ]] &&
        [[ $output == *"spec.n_action_steps      2"* && $output == *"spec.denoising_steps     3"* ]] || return 1
    workspace 'cfg["policy"]["noise_scheduler"] = {"_target_": "DDPMScheduler"}'
    run -3 mf-ckpt import m.ckpt x
    [[ $output == *"predict the noise of a diffusion, and not a velocity"* && ! -e x ]]
}

@test "threads and tiles change no byte of a cloned U-Net" {
    clone clone.loss=shortcut run.dir=one threads=1 >/dev/null && clone clone.loss=shortcut run.dir=two threads=2 >/dev/null &&
        cmp one/checkpoints/clone.safetensors two/checkpoints/clone.safetensors
}

@test "without a step size it trains by flow matching, not by shortcuts" {
    clone policy.network=unet run.dir=flow clone.loss=flow | mf-check || return 1
    run -2 clone policy.network=unet clone.loss=shortcut --out x
    [[ $output == *"needs a network that takes a step size, which unet does not"*shortcut_unet* ]]
}

@test "a horizon that cannot be halved is refused with one error, by mf-bc and mf-collect" {
    run -2 clone policy.horizon=6 "policy.down_dims=[8,8,16]" --out x
    [[ $output == *"policy.horizon=6 is not divisible by 4"*"give policy.horizon=8 (see mf-bc --help)" && ${#lines[@]} -eq 1 ]] || { echo "$output"; return 1; }
    run -2 mf-collect "${words[@]}" policy.horizon=5 --out x
    [[ $output == *"policy.horizon=5 is not divisible by 2"*"give policy.horizon=6 "* ]]
}
