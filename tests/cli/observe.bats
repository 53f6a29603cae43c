# Observations, chosen by name: the same from the environment to the clone's evaluation.
load helpers

keys="policy.obs_keys=[robot0_eef_pos,point_cloud]"
judge=(mf-eval clone/checkpoints/clone.safetensors eval.num_episodes=2 env.max_steps=8)
small=("policy.hidden=[16,16,16]" clone.steps=20 clone.warmup_steps=5 clone.batch_size=32)

setup() { cd "$T" || return; }

demos() { mf-collect env=lift collect.actor=expert collect.episodes=4 env.max_steps=20 "$@" | tee a.mf | mf-record a.hdf5 >/dev/null; }
bc() { mf-bc clone.dataset=a.hdf5 "${small[@]}" "$@"; }

@test "point clouds: collect, record, replay, clone, evaluate and train" {
    demos "$keys" env.num_points=128 && mf-replay a.hdf5 | cmp - a.mf &&
        [[ $(mf-view <a.mf | jq -c 'select(.mf == "rollout").arrays["obs/point_cloud"].shape') == "[20,4,1,128,6]" ]] &&
        bc "$keys" run.dir=clone >/dev/null &&
        mf-view <clone/logs/metrics.mf | jq -es '.[0].spec.obs.point_cloud == {shape: [128, 6], dtype: "<f4"}' &&
        "${judge[@]}" >/dev/null &&
        mf-collect policy.checkpoint=clone/checkpoints/clone.safetensors run.dir=rl "policy.critic_hidden=[16,16,16]" \
            training.num_envs=2 training.num_steps_per_rollout=2 training.total_timesteps=20 | mf-gae |
        mf-ppo training.batch_size=4 training.num_epochs=1 >/dev/null && mf-check rl/logs/metrics.mf
}

@test "the error for an unknown name lists the available ones" {
    run -2 mf-collect env=lift collect.actor=expert "policy.obs_keys=[object,points]" --out x &&
        [[ $output == *"no observation 'points'"*"object, robot0_eef_pos, robot0_eef_quat, robot0_gripper_qpos, point_cloud"* ]] &&
        run -2 mf-collect env=lift collect.actor=expert policy.obs_keys=object --out x && [[ $output == *"list of names"* ]]
}

@test "a clone acts on the observations of its training, and on no others" {
    demos && bc "policy.obs_keys=[object,robot0_eef_pos]" run.dir=clone >/dev/null && "${judge[@]}" >/dev/null &&
        run -2 "${judge[@]}" "policy.obs_keys=[robot0_eef_pos,object]" &&
        [[ $output == *"reads the same observations in another order, 10:object,3:robot0_eef_pos: leave policy.obs_keys"* ]] &&
        run -2 "${judge[@]}" "policy.obs_keys=[object,robot0_eef_quat]" &&
        [[ $output == *"10:object,3:robot0_eef_pos"*"10:object,4:robot0_eef_quat"*"policy.obs_keys"* ]] &&
        run -3 bc "$keys" run.dir=other && [[ $output == *"obs/point_cloud"* ]]
}

env_of() { mf-ckpt show "$1" | sed -n 's/^spec.env  *//p'; }

# without_env FROM TO: the checkpoint as it was before it named its environment.
without_env() {
    python3 - "$@" <<'PY'
import json, struct, sys
raw = open(sys.argv[1], "rb").read()
size, = struct.unpack("<Q", raw[:8])
head = json.loads(raw[8 : 8 + size])
del head["__metadata__"]["spec.env"]
text = json.dumps(head, separators=(",", ":")).encode()
text += b" " * (size - len(text))
open(sys.argv[2], "wb").write(raw[:8] + text + raw[8 + size :])
PY
}

@test "a checkpoint names its environment: from the demonstrations to the resumed run" {
    local clone=clone/checkpoints/clone.safetensors tune
    tune=(mf-collect "policy.checkpoint=$clone" "policy.critic_hidden=[16]" training.num_envs=2
        training.num_steps_per_rollout=2)
    demos && bc run.dir=clone >/dev/null && [[ $(env_of $clone) == lift ]] || return 1
    "${judge[@]}" eval.json=a.json >/dev/null && [[ $(jq -r .env a.json) == lift ]] || return 1
    "${tune[@]}" training.total_timesteps=20 | mf-gae | mf-ppo training.batch_size=4 training.num_epochs=1 >/dev/null || return 1
    grep -q '^  name: lift$' outputs/lift/latest/configs/mf-collect.yaml && [[ $(env_of outputs/lift/latest) == lift ]] || return 1
    "${tune[@]}" training.total_timesteps=40 run.dir=outputs/lift/latest run.resume=auto | mf-gae |
        mf-ppo training.batch_size=4 training.num_epochs=1 >/dev/null || return 1
    mf-collect run.dir=outputs/lift/latest run.resume=auto "policy.critic_hidden=[16]" training.total_timesteps=60 training.num_envs=2 \
        training.num_steps_per_rollout=2 | mf-gae | mf-ppo training.batch_size=4 training.num_epochs=1 >/dev/null
}

@test "env.name overrides the checkpoint's environment, with a message; an unknown one is the default" {
    mf-collect run.dir=a training.total_timesteps=64 training.num_envs=4 training.num_steps_per_rollout=4 "policy.hidden=[8]" |
        mf-gae | mf-ppo training.num_epochs=1 >/dev/null && demos && bc run.dir=clone >/dev/null || return 1
    mf-env point env.address="ipc://$T/s" & local server=$!
    run -0 --separate-stderr mf-eval a eval.num_episodes=4 env=remote env.address="ipc://$T/s"
    kill $server && [[ $stderr != *"was trained in"* ]] || return 1 # it is a point, too
    run -2 mf-eval a env=lift --out x && [[ $output == *"was trained in env=point and now runs in env=lift, as given"*"no observation"* ]] || return 1
    run -2 mf-eval a clone/checkpoints/clone.safetensors --out x && [[ $output == *"trained in env=lift, but those before it"*"env=point"* ]] || return 1
    local newest
    newest=(a/checkpoints/*.safetensors)
    without_env "${newest[0]}" old.safetensors && [[ -z $(env_of old.safetensors) ]] && mf-eval old.safetensors eval.num_episodes=4 | mf-check
}

eyes="policy.obs_keys=[object,robot0_eef_pos,robot0_eef_quat,robot0_gripper_qpos,agentview_image,robot0_eye_in_hand_depth]"

@test "pictures: drawn in the size asked for, recorded, replayed; the expert does not look at them" {
    demos "$eyes" env.image_size=24 && mf-replay a.hdf5 | cmp - a.mf && mv a.mf seen.mf && mv a.hdf5 seen.hdf5 &&
        [[ $(mf-view <seen.mf | jq -c 'select(.mf == "rollout").arrays | [.["obs/agentview_image", "obs/robot0_eye_in_hand_depth"] | .dtype, .shape[3:]]') == '["|u1",[24,24,3],"<f4",[24,24,1]]' ]] &&
        mf-data seen.hdf5 | grep -q 'obs/agentview_image *|u1 *24 x 24 x 3 ' && demos threads=1 &&
        diff <(numbers obs/object <a.mf) <(numbers obs/object <seen.mf) && diff <(numbers actions <a.mf) <(numbers actions <seen.mf) &&
        run -2 mf-bc clone.dataset=seen.hdf5 "${small[@]}" "$eyes" env.image_size=84 run.dir=c &&
        [[ $output == *"obs/agentview_image of seen.hdf5 has 24 x 24 pixels, and env.image_size=84"* ]] || return 1
    run -2 mf-collect env=lift collect.actor=expert "$eyes" env.image_size=7 --out x && [[ $output == *"not as uint8 (7, 7, 3); squares of 8 to 1024 pixels are possible"* ]]
    run -2 mf-collect env=exec env.command='mf-env lift env.image_size=24' env.workers=1 'policy.obs_keys=[agentview_image]' env.image_size=32 --out x
    [[ $output == *"env.image_size=32 does not reach the server of env=lift, whose 'agentview_image' is uint8 (24, 24, 3): give the server that size"* ]] || return 1
    run -2 mf-collect env=exec env.command='mf-env lift' env.workers=1 'policy.obs_keys=[point_cloud]' env.num_points=32 --out x
    [[ $output == *"env.num_points=32 does not reach the server of env=lift, whose 'point_cloud' is "* ]]
}

@test "an observation that the demonstrations lack is named with those that they have; stages agree on policy.obs_keys" {
    mf-collect collect.actor=expert collect.episodes=4 | mf-record p.hdf5 >/dev/null
    run -3 mf-bc clone.dataset=p.hdf5 'policy.obs_keys=[position,agentview_image]' run.dir=c --out x
    [[ $output == *"'p.hdf5' has no /data/demo_0/obs/agentview_image; in /data/demo_0/obs there is: goal, position, velocity"* ]] || return 1
    local words=(training.num_envs=2 training.num_steps_per_rollout=4 training.total_timesteps=8)
    mf-collect "${words[@]}" 'policy.obs_keys=[position,goal]' run.dir=r 2>log | tee r.mf | mf-gae | mf-ppo 'policy.obs_keys=[position,goal]' >m 2>>log || { cat log; return 1; }
    mf-gae --in r.mf --out adv.mf && run -2 mf-ppo 'policy.obs_keys=[goal,position]' --in adv.mf --out x
    [[ $output == *"policy.obs_keys=[goal, position] contradicts the stream's head, where it is [position, goal]; give all stages the same words"* ]]
}

@test "without OSMesa pictures are an error that names its package, and the other observations are none" {
    mkdir lib && : >lib/libOSMesa.so.8 && export LD_LIBRARY_PATH="$T/lib"
    run -1 mf-collect env=lift collect.actor=expert collect.episodes=4 "$eyes" threads=2 --out x &&
        [[ $output == *"error: images need OSMesa, but libOSMesa.so.8 is missing: install libosmesa6"* ]] && demos
}

@test "text waits for a slow reader: pictures as JSON" {
    demos "$eyes" env.image_size=64 && mf-view view.arrays=whole <a.mf >whole && [[ $(stat -c %s whole) -gt 4000000 ]] &&
        mf-view view.arrays=whole <a.mf | { sleep .5 && cmp - whole; }
}

# seen DIR word ..: two rounds of PPO from pictures of 36 pixels, in lift, or in what the words say.
seen() {
    local dir=$1
    shift
    mf-collect env=lift "policy.obs_keys=[robot0_eef_pos,agentview_image,robot0_eye_in_hand_depth]" policy.n_obs_steps=2 policy.encoder=nature \
        "policy.hidden=[16,16,16]" "policy.critic_hidden=[16]" training.num_envs=4 training.num_steps_per_rollout=4 training.total_timesteps=128 run.dir="$dir" "$@" |
        tee "$dir.mf" | mf-gae | mf-ppo training.batch_size=8 training.num_epochs=1 threads=1 >"$dir.metrics" && mf-check "$dir.metrics"
}
looked() { mf-view view.arrays=whole <"$1" | jq -c 'select(.mf == "rollout").arrays | .["obs/agentview_image", "obs/robot0_eye_in_hand_depth"]' | sha256sum; }

@test "PPO from pictures: the same by one thread and two, or by a server, and later in the same size" {
    seen one env.image_size=36 threads=1 && seen two env.image_size=36 threads=2 && cmp "$(newest one)" "$(newest two)" &&
        mf-eval one eval.num_episodes=2 env.max_steps=8 | mf-check || return 1
    run -2 mf-eval one eval.num_episodes=2 env.image_size=30 --out x &&
        [[ $output == *"'agentview_image' is uint8 (36, 36, 3) in "*", and uint8 (30, 30, 3) in the environment: leave env.image_size to the checkpoint"* ]] || return 1
    seen three policy.n_obs_steps=1 env.image_size=36 &&
        seen four policy.n_obs_steps=1 env=exec env.command='mf-env lift env.image_size=36' env.workers=2 && [[ $(looked three.mf) == "$(looked four.mf)" ]]
}

@test "EGL of Mesa draws the pixels of OSMesa; without EGL there is an error" {
    mkdir lib && : >lib/libEGL.so.1 && LD_LIBRARY_PATH="$T/lib" run -1 mf-collect env=lift collect.actor=expert collect.episodes=4 "$eyes" env.renderer=egl --out x &&
        [[ $output == *"error: env.renderer=egl needs libEGL.so.1, which is missing: install libegl1, or leave env.renderer"* ]] || return 1
    ldconfig -p | grep -q libEGL_mesa || skip "no EGL of Mesa here"
    demos "$eyes" env.image_size=24 && mv a.mf osmesa.mf && demos "$eyes" env.image_size=24 env.renderer=egl threads=2 &&
        [[ $(looked a.mf) == "$(looked osmesa.mf)" ]] || return 1
    seen one env.image_size=36 env.renderer=egl threads=2 && mf-eval one eval.num_episodes=2 env.max_steps=8 eval.video=1 eval.video_format=gif env.renderer=egl | mf-check && ls one/videos/*.gif
}
