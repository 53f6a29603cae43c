# robosuite's Lift behind examples/envs/robosuite_env.py: the shortest way through pipelines/robosuite.
load ../cli/helpers

@test "scripted demonstrations, a clone, the same trials twice, and a round of PPO" {
    cd "$T" || return 1
    export NUMBA_CACHE_DIR=$ROOT/build/venv/robosuite/numba
    python=$ROOT/build/venv/robosuite/bin/python
    words=(env=exec "env.command=$python $ROOT/examples/envs/robosuite_env.py demos.hdf5" env.max_steps=8 env.workers=1 env.timeout=300
        training.num_envs=2 training.num_steps_per_rollout=2 training.total_timesteps=20 training.batch_size=4 threads=1
        'policy.hidden=[16,16,16]' 'policy.critic_hidden=[16]' eval.num_episodes=2 eval.num_envs=2)
    "$python" "$ROOT/examples/envs/robosuite_demos.py" demos.hdf5 2 2>/dev/null
    mf-bc "${words[@]}" clone.dataset=demos.hdf5 run.dir=clone clone.steps=20 >/dev/null
    for i in 1 2; do mf-eval "${words[@]}" clone/checkpoints/clone.safetensors eval.json="$i" >/dev/null 2>err || { cat err; return 1; }; done
    cmp 1 2
    mf-collect "${words[@]}" policy.checkpoint=clone/checkpoints/clone.safetensors run.dir=ppo 2>/dev/null | mf-gae |
        mf-ppo "${words[@]}" >m.mf 2>/dev/null && mf-check m.mf
}

@test "pictures are robosuite's own, the right way up, and depth is its own in meters; they train" {
    cd "$T" || return 1
    export MUJOCO_GL=osmesa PYOPENGL_PLATFORM=osmesa NUMBA_CACHE_DIR=$ROOT/build/venv/robosuite/numba
    python=$ROOT/build/venv/robosuite/bin/python
    PYTHONPATH=$ROOT/examples/envs "$python" - <<'PY' || return 1
import numpy as np
import robosuite
from robosuite.utils.camera_utils import get_real_depth_map
from robosuite_env import DEFAULTS, Robosuite

robosuite.macros.IMAGE_CONVENTION = "opencv"
eyes = dict(camera_names="agentview", camera_heights=32, camera_widths=32, camera_depths=True, use_camera_obs=True)
env = robosuite.make("Lift", **{**DEFAULTS, **eyes, "has_offscreen_renderer": True})
theirs, ours = env.reset(), Robosuite("Lift", {}, ["agentview_image", "agentview_depth"], size=32)
ours.env = env
seen = ours.see({}).now()
assert (seen["agentview_image"] == theirs["agentview_image"]).all()
assert np.allclose(seen["agentview_depth"], get_real_depth_map(env.sim, theirs["agentview_depth"]), atol=1e-3)
PY
    words=(env=exec "env.command='$python $ROOT/examples/envs/robosuite_env.py Lift --size 32 --keys object,agentview_image,agentview_depth'"
        env.workers=1 env.timeout=300 training.num_envs=2 training.num_steps_per_rollout=2 training.total_timesteps=20
        training.batch_size=4 threads=1 'policy.hidden=[16]' 'policy.critic_hidden=[16]' policy.encoder=plain_conv
        'policy.obs_keys=[object,agentview_image,agentview_depth]' run.dir=seen)
    mf-collect "${words[@]}" 2>err | mf-gae | mf-ppo "${words[@]}" >m.mf 2>/dev/null || { cat err; return 1; }
    mf-check m.mf
}
