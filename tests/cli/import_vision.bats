# mf-ckpt import and export: policies and encoders that see pictures. tests/unit/test_encoder.c holds their numbers against PyTorch.
load helpers

setup() { cd "$BATS_TEST_TMPDIR" || return 1; }

# zip 'python': write net.pt; every tensor's numbers follow from its name
zip() {
    "$ROOT/tests/tools/torch_zip.py" net.pt "sys.path.insert(0, '$ROOT/tests/tools')
from vision_file import *
put = lambda shapes, known='': {k: T(values(known + k, s), s) for k, s in shapes.items()}
$1"
}

holds() { # FILE 'python': its exported tensors
    mf-ckpt export "$1" back.safetensors "${@:3}" && "$ROOT/tests/tools/vision_file.py" back.safetensors "$2"
}

words=(policy.horizon=4 policy.n_groups=2 normalizer=identity policy.n_obs_steps=2)

@test "a U-Net with plain convolutions: the encoder among its weights, or beside them" {
    local net='**unet("velocity_net.unet.", 2 * (6 + 3))' eye='**plain("visual_encoder.", 4, 6)'
    zip "tree = {'agent': put({$net, $eye}, 'raw.'), 'ema_agent': put({$net, $eye})}"
    run -0 mf-ckpt import net.pt inside "${words[@]}"
    [[ $output == *"2 observation step(s) of 128x128x3 base_camera_image, 128x128x1 base_camera_depth, 3 state; horizon 4"* ]] &&
        [[ $output == *"does not say how large its pictures are: 128 x 128 pixels"* ]] || { echo "$output"; return 1; }
    holds inside "{$net, $eye}" || return 1
    zip "tree = {'agent': put({$net}, 'raw.'), 'ema_agent': put({$net}), 'visual_encoder': put(plain('', 4, 6), 'visual_encoder.')}"
    run -0 mf-ckpt import net.pt beside "${words[@]}" env.image_size=40 'policy.obs_keys=[state,side_depth,side_image]'
    [[ $output == *"of 40x40x3 side_image, 40x40x1 side_depth, 3 state; "* && $output != *"how large"* ]] || { echo "$output"; return 1; }
    holds beside "{$net, $eye}" && mf-ckpt verify beside || return 1
    run -0 mf-ckpt show beside
    [[ $output == *"picture.side_depth.scale"*"(1)"* && $output == *"spec.encoder             plain_conv"* ]] || return 1
    mf-ckpt export beside out.pt && mf-ckpt import out.pt again "${words[@]}" env.image_size=40 'policy.obs_keys=[state,side_depth,side_image]' &&
        holds again "{$net, $eye}"
}

@test "what does not go with a policy that sees is refused" {
    local net='**unet("velocity_net.unet.", 2 * (6 + 3))' eye='plain("", 4, 6)'
    zip "tree = {'agent': put({$net}), 'ema_agent': put({$net}), 'visual_encoder': put($eye)}"
    run -2 mf-ckpt import net.pt x "${words[@]}" 'policy.obs_keys=[a_image,b_image,state]'
    [[ $output == *"reads pictures of 4 channels in all, and the observation's have 6"* && ! -e x ]] || return 1
    run -2 mf-ckpt import net.pt x "${words[@]}" env=lift
    [[ $output == *"reads pictures of 4 channels in all, and the observation's have 0"* ]] || return 1
    run -2 mf-ckpt import net.pt x "${words[@]}" policy.n_obs_steps=6
    [[ $output == *"reads 18 numbers"* ]] || return 1
    zip "eye = put($eye); del eye['cnn.3.bias']; eye['cnn.6.weight'] = T([0] * 9, [1, 1, 3, 3]); eye['cnn.7.weight'] = T([0], [1])
tree = {'agent': put({$net}), 'ema_agent': put({$net}), 'visual_encoder': eye}"
    run -3 mf-ckpt import net.pt x "${words[@]}"
    [[ $output == *"visual_encoder.cnn.3.bias is missing"* && $output == *"visual_encoder.cnn.6.weight is (1, 1, 3, 3) and should be (64, 32, 3, 3)"* ]] &&
        [[ $output == *"visual_encoder.cnn.7.weight is left over"* && ! -e x ]] || { echo "$output"; return 1; }
    zip "tree = {'agent': put({**unet('noise_pred_net.', 18), **plain('visual_encoder.', 4, 6)})}"
    run -3 mf-ckpt import net.pt x "${words[@]}"
    [[ $output == *"was trained to predict the noise of a diffusion"*"policy.network=unet"* ]] || return 1
    run -0 mf-ckpt import net.pt x "${words[@]}" policy.network=unet
    holds x "plain('visual_encoder.', 4, 6)"
}

@test "an encoder alone: a fresh network of the environment gets its weights" {
    zip "tree = put(plain('visual_encoder.', 6, 5, 9))"
    run -2 mf-ckpt import net.pt x normalizer=identity
    [[ $output == *"has an encoder and no policy: give the observations and actions of the fresh network by env=NAME"* ]] || return 1
    local eye=(env=lift normalizer=identity env.image_size=50 'policy.obs_keys=[robot0_eef_pos,agentview_image,robot0_eye_in_hand_image]')
    run -0 mf-ckpt import net.pt x "${eye[@]}" 'policy.hidden=[8,8,8]'
    [[ $output == *"of 50x50x3 agentview_image, 50x50x3 robot0_eye_in_hand_image, 3 robot0_eef_pos"* && $output == *"the network is a fresh one"* ]] || return 1
    holds x "plain('visual_encoder.', 6, 5, 9)" && mf-ckpt verify x || return 1
    run -3 mf-ckpt import net.pt y "${eye[@]}" env.image_size=64
    [[ $output == *"visual_encoder.fc.0.weight is (5, 1152) and should be (5, 2048)"* && ! -e y ]] || return 1
    zip "tree = put({**layer('feature_net.extractors.rgb.0.0', 4, 3, 8, 8), **layer('feature_net.extractors.rgb.0.2', 6, 4, 4, 4),
**layer('feature_net.extractors.rgb.0.4', 5, 6, 3, 3), **layer('feature_net.extractors.rgb.1.0', 7, 20), **layer('feature_net.extractors.state', 9, 3), **layer('actor_mean.0', 2, 2)})"
    run -0 mf-ckpt import net.pt x env=lift normalizer=identity env.image_size=44 'policy.obs_keys=[agentview_image,robot0_eef_pos]'
    [[ $output == *"4 tensors are not imported, such as "* ]] || { echo "$output"; return 1; }
    holds x "layer('feature_net.extractors.rgb.1.0', 7, 20) | layer('feature_net.extractors.rgb.0.2', 6, 4, 4, 4)"
}
