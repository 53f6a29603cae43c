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

# pixels FILE KEY SCALE OFFSET: its normaliser of the first channel
pixels() {
    mf-ckpt export "$1" pixels.safetensors && python3 - "${@:2}" <<'PY'
import json, struct, sys
raw = open("pixels.safetensors", "rb").read()
n, = struct.unpack("<Q", raw[:8])
for part, want in zip(("scale", "offset"), sys.argv[2:]):
    b, e = json.loads(raw[8:8 + n])[f"picture.{sys.argv[1]}.{part}"]["data_offsets"]
    got = struct.unpack(f"<{(e - b) // 4}f", raw[8 + n:][b:e])
    assert len(got) == 3 and abs(got[0] / eval(want) - 1) < 1e-6, (part, got, want)
PY
}

words=(policy.horizon=4 policy.n_groups=2 normalizer=identity policy.n_obs_steps=2)

@test "a U-Net with plain convolutions: the encoder among its weights, or beside them" {
    local net='**unet("velocity_net.unet.", 2 * (6 + 3))' eye='**plain("visual_encoder.", 4, 6)'
    zip "tree = {'agent': put({$net, $eye}, 'raw.'), 'ema_agent': put({$net, $eye})}"
    run -0 mf-ckpt import net.pt inside "${words[@]}"
    [[ $output == *"2 observation step(s) of 128x128x3 base_camera_image, 128x128x1 base_camera_depth, 3 state; horizon 4"* ]] &&
        [[ $output == *"are assumed: pictures of 128 x 128 pixels (env.image_size)"* ]] || { echo "$output"; return 1; }
    holds inside "{$net, $eye}" || return 1
    zip "tree = {'agent': put({$net}, 'raw.'), 'ema_agent': put({$net}), 'visual_encoder': put(plain('', 4, 6), 'visual_encoder.')}"
    run -0 mf-ckpt import net.pt beside "${words[@]}" env.image_size=40 'policy.obs_keys=[state,side_depth,side_image]'
    [[ $output == *"of 40x40x3 side_image, 40x40x1 side_depth, 3 state; "* && $output != *"how large"* ]] || { echo "$output"; return 1; }
    [[ $(mf-ckpt show net.pt) == *": weights in agent, their average in ema_agent, more in visual_encoder"* ]] && holds beside "{$net, $eye}" && mf-ckpt verify beside || return 1
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
    [[ $output == *"2 tensors are not imported, such as actor"* ]] || { echo "$output"; return 1; }
    holds x "layer('feature_net.extractors.rgb.1.0', 7, 20) | layer('feature_net.extractors.rgb.0.2', 6, 4, 4, 4)"
}

# Diffusion policy's hybrid workspace, two cameras of 44 x 44 pixels of which 40 x 40 are seen: maps of 2 x 2
hybrid='net = {**unet("model.", 2 * (5 + 5 + 3)), **spatial("b_image", 4), **spatial("a_image", 4)}
pos = {k: v for k, v in put(net).items() if ".pos_" in k} # the same in the average
heat = {f"obs_encoder.obs_nets.{k}_image.{p}.temperature": T([1], [1]) for k in "ab" for p in ("nets.1", "pool")}
low = {"normalizer.params_dict.a_image.scale": T([2], [1]), "normalizer.params_dict.a_image.offset": T([-.75], [1]),
       "normalizer.params_dict.eef.scale": T([1, 2, 3], [3]), "normalizer.params_dict.eef.offset": T([0, 0, 0], [3]), "mask_generator._dummy_variable": T([], [0]),
       "normalizer.params_dict.action.scale": T([1, 1], [2]), "normalizer.params_dict.action.offset": T([0, 0], [2])}
cfg = {"horizon": 4, "n_obs_steps": 2, "n_action_steps": 2, "policy": {"n_groups": 2, "crop_shape": [40, 40], "noise_scheduler": {"_target_": "DDPM"}},
       "shape_meta": {"obs": {"a_image": {"shape": [3, 44, 44]}, "b_image": {"shape": [3, 44, 44]}, "eef": {"shape": [3]}}}}
tree = {"cfg": cfg, "state_dicts": {"model": {**put(net, "raw."), **pos, **heat, **low}, "ema_model": {**put(net), **heat, **low}}}
'
known=(policy.network=unet policy.encoder_group=2)

@test "diffusion policy's hybrid workspace: ResNets with a spatial softmax, pictures in the order of the file" {
    zip "$hybrid"
    run -3 mf-ckpt import net.pt x policy.encoder_group=2
    [[ $output == *"was trained to predict the noise of a diffusion"*"policy.network=unet"* && ! -e x ]] || { echo "$output"; return 1; }
    run -0 mf-ckpt import net.pt x "${known[@]}"
    [[ $output == *"2 observation step(s) of 44x44x3 b_image, 44x44x3 a_image, 3 eef; horizon 4, 2 actions"* && $output == *"*.backbone.*: they are the encoder's weights again"* ]] || { echo "$output"; return 1; }
    holds x 'spatial("b_image", 4, again=False) | spatial("a_image", 4, again=False)' && mf-ckpt verify x &&
        [[ $(mf-ckpt show back.safetensors) == *a_image.backbone.nets.7.1.bn2.bias*b_image.pool.pos_y* ]] || return 1
    run -0 mf-ckpt show x
    [[ $output == *"spec.crop                40"* && $output == *"spec.encoder_output_dim  5"* && $output == *"spec.keypoints           3"* && $output == *"spec.resnet_channels     [2,2,4,6]"* && $output == *"spec.resnet_head         spatial_softmax"* ]] || return 1
    mf-ckpt export x out.pt && run -0 mf-ckpt import out.pt again policy.encoder_group=2 policy.n_groups=2 policy.horizon=4 policy.n_obs_steps=2 policy.crop=40 env.image_size=44
    mf-ckpt export x a.safetensors && mf-ckpt export again b.safetensors && [[ $(mf-ckpt diff a.safetensors b.safetensors) == "the same" ]] || { echo "$output"; mf-ckpt diff a.safetensors b.safetensors | head -5; return 1; }
    pixels x a_image 2/255 -.75 && pixels x b_image 2/255 -1 || return 1 # the file's normaliser; as robomimic's has it
    zip "$hybrid"'heat["obs_encoder.obs_nets.a_image.nets.1.temperature"] = T([2], [1]); tree["state_dicts"]["model"].update(heat)'
    run -3 mf-ckpt import net.pt y "${known[@]}"
    [[ $output == *"obs_encoder.obs_nets.a_image.nets.1.temperature of net.pt is 2: only a softmax of the temperature 1"* && ! -e y ]] || return 1
    zip "$hybrid"'del tree["state_dicts"]["model"]["obs_encoder.obs_nets.b_image.nets.0.nets.5.0.downsample.0.weight"]'
    run -3 mf-ckpt import net.pt y "${known[@]}"
    [[ $output == *"obs_encoder.obs_nets.b_image.nets.0.nets.5.0.downsample.0.weight is missing"* && ! -e y ]] || return 1
    zip "$hybrid"'cfg["shape_meta"]["obs"]["b_image"]["shape"] = [3, 44, 60]'
    run -2 mf-ckpt import net.pt y "${known[@]}"
    [[ $output == *"are no squares, (3, 44, 60): give env=NAME or demonstrations"* && ! -e y ]] || return 1
    zip "$hybrid"
    run -2 mf-ckpt import net.pt y "${known[@]}" policy.encoder_group=4
    [[ $output == *"policy.encoder_group=4 must divide"* ]]
}

@test "a ResNet alone: ImageNet's normaliser, batch norms folded into convolutions and exported as norms" {
    local eye=(env=lift normalizer=identity env.image_size=40 'policy.obs_keys=[robot0_eef_pos,agentview_image]' 'policy.hidden=[8,8,8]')
    zip 'tree = {"state_dicts": {"model": {**put(resnet("obs_encoder.key_model_map.agentview_image.")), "obs_encoder._dummy_variable": T([], [0])}}}'
    run -0 mf-ckpt import net.pt x "${eye[@]}" policy.encoder_group=2
    [[ $(mf-ckpt show x) == *"encoder                  $(python3 -c "import sys; sys.path.insert(0, '$ROOT/tests/tools'); from vision_file import *; print(sum(map(prod, resnet('').values())))") parameters"* ]] || return 1
    holds x 'resnet("obs_encoder.key_model_map.agentview_image.") | {"obs_encoder._dummy_variable": [0]}' || return 1
    zip 'tree = {"model": put(resnet("obs_encoder.key_model_map.agentview_image.convnet.", frozen=True))}'
    run -0 mf-ckpt import net.pt x "${eye[@]}"
    mf-ckpt verify x && mf-ckpt export x x.safetensors && python3 - "$ROOT/tests/tools" <<'PY' || return 1
import json, math, struct, sys
sys.path.insert(0, sys.argv[1])
from vision_file import values
raw = open("x.safetensors", "rb").read()
n, = struct.unpack("<Q", raw[:8])
def get(name):
    t = json.loads(raw[8:8 + n])[name]
    b, e = t["data_offsets"]
    return struct.unpack("<q" if t["dtype"] == "I64" else f"<{(e - b) // 4}f", raw[8 + n:][b:e])
at, was = "obs_encoder.key_model_map.agentview_image.", "obs_encoder.key_model_map.agentview_image.convnet."
for conv, norm, shape in ("conv1", "bn1", [2, 3, 7, 7]), ("layer3.0.downsample.0", "layer3.0.downsample.1", [4, 2, 1, 1]):
    W, c = values(f"{was}{conv}.weight", shape), shape[0]
    w, b, mean, var = (values(f"{was}{norm}.{p}", [c]) for p in ("weight", "bias", "running_mean", "running_var"))
    k = [w[i] / math.sqrt(var[i] + 1e-5) for i in range(c)]
    close = lambda a, b: all(abs(x - y) < 1e-5 * max(1, abs(y)) for x, y in zip(a, b, strict=True))
    assert close(get(f"{at}{conv}.weight"), [x * k[i * c // len(W)] for i, x in enumerate(W)]), conv
    assert close(get(f"{at}{norm}.bias"), [b[i] - mean[i] * k[i] for i in range(c)]), norm
    assert get(f"{at}{norm}.weight") == (1,) * c and get(f"{at}{norm}.running_mean") == (0,) * c and get(f"{at}{norm}.num_batches_tracked") == (0,)
    assert close([x + 1e-5 for x in get(f"{at}{norm}.running_var")], [1] * c)
assert f"{at}conv1.bias" not in json.loads(raw[8:8 + n])
PY
    pixels x agentview_image '1/255/.229' -.485/.229 || return 1
    cfg() {
        zip "tree = {'cfg': {'policy': {'obs_encoder': {$1}}}, 'state_dicts': {'model': put(resnet('obs_encoder.key_model_map.agentview_image.'))}}"
        run mf-ckpt import net.pt y "${eye[@]}" policy.encoder_group=2 "${@:2}"
    }
    cfg "'crop_shape': [36, 36], 'random_crop': True, 'imagenet_norm': True" && [[ $(mf-ckpt show y) == *"spec.crop                36"* ]] || return 1
    cfg "'crop_shape': [36, 36], 'random_crop': False, 'imagenet_norm': True" && [[ $(mf-ckpt show y) == *"spec.crop                0"* ]] || return 1
    cfg "'crop_shape': [36, 36], 'random_crop': False, 'imagenet_norm': False" && [[ $(mf-ckpt show y) == *"spec.crop                36"* ]] || return 1
    cfg "'crop_shape': [36, 36]" policy.crop=34 && [[ $(mf-ckpt show y) == *"spec.crop                34"* ]] && rm y || return 1
    cfg "'crop_shape': [36, 32]" && [[ $status -eq 3 && $output == *"crops pictures to 36 x 32 pixels, and policy.crop is a square"* ]] || return 1
    cfg "'resize_shape': [24, 24]" && [[ $status -eq 3 && $output == *"resizes pictures to [24, 24] before it encodes them"* && ! -e y ]] || return 1
    zip 'tree = {"model": {**put(resnet("obs_encoder.key_model_map.agentview_image.")), "normalizer.params_dict.agentview_image.scale": T([2] * 3, [3]),
    "normalizer.params_dict.agentview_image.offset": T([-1] * 3, [3])}}' # as that of a policy before its encoder
    mf-ckpt import net.pt y "${eye[@]}" policy.encoder_group=2 && pixels y agentview_image '2/255/.229' '(-1-.485)/.229' && rm y || return 1
    zip 'net = put(resnet("obs_encoder.key_model_map.agentview_image.", frozen=True)); del net["obs_encoder.key_model_map.agentview_image.layer2.1.bn2.running_mean"]
tree = {"model": net}'
    run -3 mf-ckpt import net.pt y "${eye[@]}"
    [[ $output == *"the batch norm of obs_encoder.key_model_map.agentview_image.layer2.1.conv2.bias lacks a tensor of 2 numbers"* && ! -e y ]] || { echo "$output"; return 1; }
    zip 'tree = {"model": put(resnet("obs_encoder.key_model_map.front."))}'
    run -2 mf-ckpt import net.pt y "${eye[@]}" policy.encoder_group=2
    [[ $output == *"has an encoder of the picture front, which the observation lacks: policy.obs_keys must name it"* ]] || { echo "$output"; return 1; }
    zip 'tree = {"state_dicts": {"model": {**put(resnet("obs_encoder.key_model_map.front.")), "model.vis_cond_pos_embed": T([1], [1, 1, 1])}}}'
    run -3 mf-ckpt import net.pt y
    [[ $output == *"an image policy of ManiFlow, and a ResNet before its transformer is not supported"* && ! -e y ]]
}
