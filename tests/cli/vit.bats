# ReinFlow's image policies (policy.encoder=vit): fresh, imported, exported, fine-tuned. tests/unit/test_vit.c and
# test_import.c hold their numbers against PyTorch.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" && F=$ROOT/tests/fixtures && hand='policy.obs_keys=[robot0_eye_in_hand_image,robot0_eef_pos,robot0_eef_quat,robot0_gripper_qpos]'
    clone=(policy.network=reflow_mlp policy.activation=relu policy.horizon=3 policy.encoder_heads=3 normalizer=identity)
    tuned=(policy.activation=relu policy.horizon=3 policy.encoder_heads=1 policy.n_obs_steps=2 normalizer=identity)
}

# published WIDTH NOISE: the parameters of a fresh policy of the published sizes, for Can (512) and Square (768).
published() {
    small=(env=can "$hand" env.image_size=96 policy.encoder=vit policy.time_dim=32 "policy.hidden=[$1,$1,$1]"
        "policy.noise_hidden=[$2,$2,$2]" policy.critic_encoder=own policy.noise_time=false policy.learned_noise=true
        training.num_envs=1 training.num_steps_per_rollout=1 training.total_timesteps=4 training.num_epochs=1 log.level=warn)
    train "of$1" && mf-ckpt show "$last" | sed -n 's/^parameters *//p'
}

@test "fresh policies of the published sizes have the published numbers of parameters" {
    [[ $(published 512 256) == "policy 1064956, noise network 174108, critic 586881" ]] &&
        [[ $(published 768 384) == "policy 1778684, noise network 359452, critic 586881" ]]
}

# renamed 's/../../;..' FILE OUT: tensors of FILE under our names are those of OUT, with the same shapes and bytes; OUT
# has our normalisers besides.
renamed() {
    "$ROOT/tests/tools/torch_tensors.py" "$2" | sed -n "$1" | sort >want && "$ROOT/tests/tools/torch_tensors.py" "$3" |
        grep -v '^normalizer\.\|^picture\.' >got && [[ -s want ]] && diff want got
}

@test "imported and exported, every tensor is what it was, convolutions in PyTorch's order" {
    run -0 mf-ckpt import "$F/vision_vit.pt" clone "${clone[@]}"
    [[ $output == *"1 observation step(s) of 24x24x3 robot0_eye_in_hand_image, 3 state; horizon 3"* ]] &&
        [[ $output == *"assumed: "*"pictures of 24 x 24 pixels, the square of 4 patches (env.image_size), picture robot0_eye_in_hand_image (policy.obs_keys)"* ]] || return 1
    mf-ckpt verify clone && mf-ckpt export clone clone.pt && renamed 's/^ema\.//p' "$F/vision_vit.pt" clone.pt || return 1
    run -0 mf-ckpt import "$F/vision_vit_tuned.pt" tuned "${tuned[@]}" 'policy.obs_keys=[a_image,b_image,joints]'
    [[ $output == *"2 observation step(s) of 24x24x3 a_image, 24x24x3 b_image, 2 joints"* && $output == *"such as actor_old.*"* ]] || return 1
    mf-ckpt export tuned tuned.pt && renamed 's/^model\.actor_ft\.policy\./network./p;s/^model\.actor_ft\.explore/explore/p;s/^model\.critic/critic/p' \
        "$F/vision_vit_tuned.pt" tuned.pt || return 1
    mf-ckpt import tuned.pt again "${tuned[@]}" 'policy.obs_keys=[a_image,b_image,joints]' && mf-ckpt diff tuned again | grep -qx 'the same'
}

# net 'python': a clone of one 16 x 16 camera (one patch), 2 numbers of state, 2 actions, horizon 2, to change before it
# is written to net.pt
net() {
    "$ROOT/tests/tools/torch_zip.py" net.pt 'full = lambda n, *s: {n: T([0.1] * math.prod(s), list(s))}
linear = lambda n, o, i: {**full(n + ".weight", o, i), **full(n + ".bias", o)}
pair = lambda n, k: {**full(n + ".weight", k), **full(n + ".bias", k)}
import math
v, z = "network.backbone.vit.", "network.compress."
m = {**full(v + "pos_embed", 1, 1, 4), **full(v + "patch_embed.embed.0.weight", 4, 3, 8, 8), **full(v + "patch_embed.embed.0.bias", 4),
     **full(v + "patch_embed.embed.3.weight", 4, 4, 3, 3), **full(v + "patch_embed.embed.3.bias", 4), **pair(v + "norm", 4),
     **pair(v + "net.0.layer_norm1", 4), **pair(v + "net.0.layer_norm2", 4), **linear(v + "net.0.mha.qkv_proj", 12, 4),
     **linear(v + "net.0.mha.out_proj", 4, 4), **linear(v + "net.0.linear1", 16, 4), **linear(v + "net.0.linear2", 4, 16),
     **full(z + "weight", 1, 4, 3), **linear(z + "input_proj.0", 3, 3), **pair(z + "input_proj.1", 3),
     **linear("network.time_embedding.1", 8, 4), **linear("network.time_embedding.3", 4, 8),
     **linear("network.mlp_mean.layers.0", 5, 13), **linear("network.mlp_mean.layers.1.l1", 5, 5),
     **linear("network.mlp_mean.layers.1.l2", 5, 5), **linear("network.mlp_mean.layers.2", 4, 5)}
tree = {"model": m}
'"$1"
}

@test "a file of other parts, or of other sizes, is refused in a sentence" {
    local words=(policy.network=reflow_mlp policy.activation=mish policy.horizon=2 normalizer=identity) case code key want
    net '' && mf-ckpt import net.pt ok "${words[@]}" && mf-ckpt verify ok || return 1
    run -2 mf-ckpt import net.pt x normalizer=identity
    [[ $output == *"give policy.network=reflow_mlp (if it predicts a velocity: policies that predict noise have the same names), policy.activation=relu or mish, env=NAME (or policy.horizon=N"* ]] || return 1
    while IFS='|' read -r case code key want; do
        net "$case" && run "-$code" mf-ckpt import net.pt x "${words[@]}" ${key:+"$key"} && [[ $output == *"$want"* && ! -e x ]] ||
            { echo "$case $key: $output" && return 1; }
    done <<'CASES'
m.update(linear(z + "0", 3, 4))|3||network.compress.0.weight of net.pt is a Linear over all tokens (spatial_emb: 0)
m.update(pair(v + "patch_embed.embed.1", 4))|3||embed.1.weight of net.pt is a group norm of the patches
m.update(linear("network.mlp_mean.layers.0", 5, 14))|3||mlp_mean.layers.0 of net.pt reads a condition of 6 numbers, and 1 camera(s) of 3 and a state of 2 give 5
m.update(full(v + "pos_embed", 1, 5, 4))|3||compress of net.pt reads 3 numbers of a token's column, fewer than the 5 patches of pos_embed
m.update(full(v + "pos_embed", 1, 2, 4), **full("network.mlp_mean.layers.0.weight", 5, 12))|2||net.pt has 2 patches, which no square picture has: give env=NAME and policy.obs_keys
|2|env.image_size=24|pos_embed of net.pt has 1 patches, and the 24 x 24 pixels of robot0_eye_in_hand_image give 2 x 2: give env.image_size=16
|2|policy.n_obs_steps=3|compress of net.pt reads a state of 2 numbers beside 1 patches, which are not 3 observation(s)
|2|policy.obs_keys=[a_image,b_image,s]|net.pt encodes 1 camera(s), and policy.obs_keys names 2: names of pictures end in _image
|2|env=lift|net.pt encodes 1 camera(s), and the observation has 0: name them before the states, as in policy.obs_keys=[robot0_eye_in_hand_image,
|2|policy.horizon=3|the network of net.pt predicts 4 numbers, which are not actions of 3 steps
|2|policy.encoder_heads=3|policy.encoder_width=4 does not divide into policy.encoder_heads=3
m.update(full("network.more", 1))|3||model.network.more is left over
del m[v + "net.0.linear2.bias"]|3||network.backbone.vit.net.0.linear2.bias is missing
CASES
}

@test "the file's configuration gives heads, pictures, cameras, horizon and steps" {
    net 'tree["cfg"] = {"shape_meta": {"obs": {"rgb": {"shape": [3, 16, 16]}}}, "horizon_steps": 2, "act_steps": 1, "denoising_steps": 7,
  "env": {"wrappers": {"robomimic_image": {"image_keys": ["agentview_image"]}}}, "model": {"network": {"backbone": {"cfg": {"num_heads": 2}}}}}'
    run -0 mf-ckpt import net.pt m policy.network=reflow_mlp policy.activation=mish normalizer=identity
    [[ $output == *"1 observation step(s) of 16x16x3 agentview_image, 2 state; horizon 2, 1 actions executed, 7 denoising steps"* && $output != *assumed* ]] &&
        [[ $(mf-ckpt show m) == *"spec.encoder_heads       2"* ]] || return 1
    run -0 mf-ckpt import net.pt m policy.network=reflow_mlp policy.activation=mish normalizer=identity policy.horizon=4 \
        policy.encoder_heads=4 policy.n_obs_steps=2 'policy.obs_keys=[a_image,b]'
    [[ $output == *"2 observation step(s) of 16x16x3 a_image, 1 b; horizon 4"* ]] && run -0 mf-ckpt show m &&
        [[ $output == *"spec.encoder_heads       4"* && $output == *"spec.img_cond_steps      1"* ]]
}

values() { mf-view "$1" | jq -c 'select(.mf == "metrics").values'; }
exact() { values "$1" | jq -es 'length == 2 and (map(."train/logratio_gap" == 0) | all) and (map(."train/grad_norm" > 0) | all)' >/dev/null || { values "$1" && return 1; }; }

@test "an exported policy is imported for its environment and tuned on: the first ratio is 1, with one camera and with two" {
    local net critic time keys
    while read -r net critic time keys; do
        small=(env=lift "policy.obs_keys=[$keys]" env.image_size=24 policy.encoder=vit "policy.network=$net" policy.time_dim=8
            policy.encoder_width=8 policy.encoder_heads=2 policy.spatial_emb=6 'policy.hidden=[16,16,16]' 'policy.state_hidden=[9,5]'
            'policy.critic_hidden=[16,16,16]' 'policy.noise_hidden=[8]' policy.n_obs_steps=2 "policy.critic_encoder=$critic" policy.critic_spatial_emb=4
            "policy.noise_time=$time" policy.learned_noise=true training.num_envs=3 training.num_steps_per_rollout=4
            training.batch_size=6 training.num_epochs=2 training.total_timesteps=96 training.critic_warmup_steps=0 env.max_steps=12
            training.shift=2 log.level=warn)
        train "$net" && exact "$net.mf" && mf-ckpt export "$net" "$net.pt" &&
            mf-ckpt import "$net.pt" "$net.in" env=lift "policy.obs_keys=[$keys]" env.image_size=24 policy.activation=relu \
                "policy.network=$net" policy.encoder_heads=2 && mf-ckpt export "$net.in" again.pt && cmp "$net.pt" again.pt || return 1
        run -2 mf-ckpt import "$net.pt" x env=lift "policy.obs_keys=[$keys,robot0_gripper_qpos]" env.image_size=24 policy.activation=relu "policy.network=$net"
        [[ $output == *"reads a state of 6 numbers beside 4 patches, which are not 2 observation(s) of 5: does it want"* ]] || { echo "$output" && return 1; }
        # shellcheck disable=SC2034 # train reads it
        small=(env=lift policy.checkpoint="$net.in" training.num_envs=3 training.num_steps_per_rollout=4 training.batch_size=6
            training.num_epochs=2 training.total_timesteps=96 training.critic_warmup_steps=0 env.max_steps=12 training.shift=2 log.level=warn)
        train "$net.on" && exact "$net.on.mf" || return 1
    done <<'NETS'
reflow_mlp own false robot0_eye_in_hand_image,robot0_eef_pos
shortcut_mlp shared true robot0_eef_pos,robot0_eye_in_hand_image,agentview_image
NETS
}
