# The servers of ManiSkill and robosuite in examples/envs, with stand-ins for both: tests/tools/simulators.
load helpers

PYTHON=/usr/bin/python3
setup() {
    $PYTHON -c 'import msgpack, numpy' || skip "no python3-msgpack, python3-numpy"
    cd "$T" || return 1
    export PYTHONPATH=$ROOT/tests/tools/simulators:$ROOT/examples/envs PYTHONDONTWRITEBYTECODE=1
    maniskill="$PYTHON $ROOT/examples/envs/maniskill_env.py"
    both='policy.obs_keys=[state,base_camera_image,base_camera_depth]'
    small=(env=exec env.workers=2 training.num_envs=3 training.num_steps_per_rollout=4 training.total_timesteps=72
        policy.horizon=2 policy.n_action_steps=2 training.critic_warmup_steps=0 training.batch_size=6 training.num_epochs=2
        threads=1 'policy.hidden=[16]' 'policy.critic_hidden=[16]' policy.encoder_output_dim=8 log.level=warn)
}

# train DIR [word ...]: as that of helpers.bash, with the rollouts in DIR.rollouts; first ratios are exactly 1.
train() {
    local dir=$1 status
    shift
    timeout 100 mf-collect "${small[@]}" run.dir="$dir" "$@" 2>"$dir.err" | tee "$dir.rollouts" | mf-gae 2>>"$dir.err" |
        mf-ppo "${small[@]}" run.dir="$dir" "$@" >"$dir.mf" 2>>"$dir.err"
    status=${PIPESTATUS[*]}
    [[ $status == "0 0 0 0" ]] || { cat "$dir.err"; echo "status $status"; return 1; }
    mf-check "$dir.rollouts" || return 1
    mf-view "$dir.mf" | jq -es 'map(select(.mf == "metrics").values) | length > 2 and
        all(."train/logratio_gap" == 0 and ."train/grad_norm" > 0)' >/dev/null || { mf-view "$dir.mf"; return 1; }
}

# first DIR FILTER: of the arrays of the first rollout, each a flat list of its numbers.
first() {
    mf-view view.arrays=whole "$1.rollouts" |
        jq -es "map(select(.mf == \"rollout\"))[0].arrays | map_values(.data | flatten) | $2" >/dev/null
}
spec() { mf-view "$1.rollouts" | jq -c 'select(.mf == "head").spec | [.obs, .action_dim]'; }

@test "ManiSkill's PickCube trains from its state, from color, and from color and depth" {
    train state env.command="$maniskill" &&
        [[ $(spec state) == '[{"state":{"shape":[42],"dtype":"<f4"}},7]' ]] || { spec state; return 1; }
    train joints env.command="$maniskill --control pd_joint_delta_pos" && [[ $(spec joints) == *',8]' ]] || return 1
    train color env.command="$maniskill PickCube-v1 --obs rgb" 'policy.obs_keys=[state,base_camera_image]' policy.encoder=plain_conv &&
        [[ $(spec color) == *'"state":{"shape":[29],'*'"base_camera_image":{"shape":[128,128,3],"dtype":"|u1"}},7]' ]] ||
        { spec color; return 1; }
    train depth env.command="$maniskill --obs rgb+depth --size 32" "$both" policy.encoder=plain_conv &&
        [[ $(spec depth) == *'"base_camera_depth":{"shape":[32,32,1],"dtype":"<f4"}},7]' ]] || { spec depth; return 1; }
    # Depth is in meters, 0 where nothing is. Red counts drawings, one for each decision of two steps. Green lies on top.
    first depth '(.["obs/base_camera_depth"][:2] == [0, 1.25]) and ([.["obs/base_camera_image"] | _nwise(32 * 32 * 3)] |
        all(.[1] == 200 and .[-2] == 0) and ([map(.[0]) | _nwise(3) | max] == [1, 2, 3, 4]))'
}

@test "ManiSkill's pictures train a policy whose encoder is frozen: its rollouts carry the code" {
    small+=(env.command="$maniskill --obs rgb+depth --size 32")
    train start "$both" policy.encoder=plain_conv &&
        train frozen policy.checkpoint="$(newest start)" training.freeze_encoder=true &&
        [[ $(mf-view frozen.rollouts | jq -c 'select(.mf == "rollout").arrays | keys | map(select(startswith("obs/")))' | sort -u) == '["obs/encoding","obs/state"]' ]] &&
        mf-eval frozen eval.num_episodes=2 eval.num_envs=2 env.workers=1 threads=1 eval.video=1 2>/dev/null | mf-check &&
        [[ -s $(echo frozen/videos/*.mp4) ]]
}

@test "an episode of ManiSkill ends with success, or is cut by max_steps, and the film shows each step" {
    $PYTHON - <<'PY'
from types import SimpleNamespace
import numpy as np
import serving
from maniskill_env import ManiSkill
args = SimpleNamespace(id="PickCube-v1", obs="state", size=32, control="pd_ee_delta_pose", reward="normalized_dense")
one = ManiSkill(args)
assert one.max_steps == 50
sim = serving.Each(lambda i: one, "x", 50, 20, one.low, one.high, one.reset(0).now(), renders=True)
sim.make(n=1, first=0, max_steps=4, keys=["state"], film=1)
def begin():
    sim.reset(np.ones(1), np.zeros(1), np.array([3], "u4"))
def decide():
    a = sim.step(np.ones((1, 3, 7), "f4"), np.ones(1), False, None, None)
    return [int(a[k][0]) for k in ("n_exec", "terminated", "truncated")], a
begin()
(did, a), (then, _) = decide(), decide()
assert (did, then) == ([3, 0, 0], [1, 0, 1]) and a["image"].shape == (1, 3, 16, 16, 3) and (a["image"] == 90).all()
begin()
one.env.hand = one.env.goal - np.array([0.06, 0.05, 0.05], "f4")  # one action is enough
did, a = decide()
assert did == [1, 1, 0] and a["success"].tolist() == [[1, 0, 0]] and (a["rewards"][0] > 0).tolist() == [1, 0, 0], (did, a["success"])
PY
}

@test "what a server lacks, or has in another form than the checkpoint, is one sentence" {
    train start env.command="$maniskill --obs rgb+depth --size 32" "$both" policy.encoder=plain_conv || return 1
    local server words text
    while IFS='|' read -r server words text; do
        # shellcheck disable=SC2086 # words are words
        run -2 mf-collect "${small[@]}" run.dir=x env.command="$maniskill $server" $words --out /dev/null
        [[ $output == *"$text"* && ${#lines[@]} == 1 ]] || { echo "$server $words: $output"; return 1; }
    done <<END
--obs rgb|policy.obs_keys=[state,hand_camera_image]|has no observation 'hand_camera_image'; its policy.obs_keys are: state, base_camera_image
--obs rgb --size 32|policy.checkpoint=$(newest start)|has no observation 'base_camera_depth'
--obs rgb+depth --size 48|policy.checkpoint=$(newest start)|'base_camera_image' is uint8 (32, 32, 3) in $(newest start), and uint8 (48, 48, 3) in the environment: leave env.image_size to the checkpoint, give its server that size, or policy.image_size=32
--obs rgb+depth+state --size 32|policy.checkpoint=$(newest start)|'state' is float32 (29) in $(newest start), and float32 (42) in the environment: give the environment, or its server, the settings of the training
--obs rgb --size 8|policy.encoder=plain_conv policy.obs_keys=[base_camera_image]|base_camera_image of 8 x 8 pixels is smaller than 16 x 16
END
}

served() { printf '%s' "env.command='$PYTHON $ROOT/examples/envs/robosuite_env.py Lift --size 20 --keys $1'"; }

@test "robosuite's pictures: rows from the top, depth in meters, drawn on request" {
    train state "$(served object,robot0_eef_pos)" &&
        train seen "$(served object,agentview_image,frontview_depth)" \
            'policy.obs_keys=[object,agentview_image,frontview_depth]' policy.encoder=plain_conv &&
        first seen '(.["obs/agentview_image"][:1200] == [range(400) | (if . < 200 then 250 else 0 end), 0, 0]) and
            (.["obs/frontview_depth"][:400] | (.[:200] | unique == [0]) and all(.[200:][]; . - 1.25 | fabs < 1e-4))' || return 1
    run -1 mf-collect "${small[@]}" run.dir=x "$(served object,sideview_image)" --out /dev/null
    [[ $output == *"robosuite has no observation 'sideview_image'; it has robot0_eef_pos, object-state, frontview_image, "* && ${#lines[@]} == 1 ]] || { echo "$output"; return 1; }
}

@test "a package that a server lacks is one sentence with the command that installs it" {
    local name server id lacking
    mkdir none && cd none || return 1
    for name in gymnasium mani_skill libero robosuite; do printf 'raise ModuleNotFoundError("No module named \x27%s\x27", name="%s")\n' $name $name >$name.py; done
    while read -r server id lacking; do
        PYTHONPATH=$PWD run -1 mf-collect "${small[@]}" run.dir=x env.command="$PYTHON $ROOT/examples/envs/${server}_env.py $id" --out /dev/null
        [[ $output == *"reports: No module named '$lacking', for $PYTHON: $PYTHON -m pip install -r $ROOT/examples/envs/$server.txt, or name another Python in env.command" && ${#lines[@]} == 1 ]] ||
            { echo "$output"; return 1; }
    done <<'END'
gymnasium Pendulum-v1 gymnasium
maniskill PickCube-v1 gymnasium
libero libero_spatial libero
robosuite Lift robosuite
END
    run -1 $PYTHON -S "$ROOT/examples/envs/libero_env.py" libero_spatial
    [[ $output == "libero_env.py: error: No module named '"*"-m pip install -r $ROOT/examples/envs/libero.txt, or name"* && ${#lines[@]} == 1 ]]
}
