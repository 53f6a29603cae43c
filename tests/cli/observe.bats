# What is observed: chosen by name, and the same from the environment to the clone's evaluation.
load helpers

keys="policy.obs_keys=[robot0_eef_pos,point_cloud]"
judge=(mf-eval clone/checkpoints/clone.safetensors env=lift eval.num_episodes=2 env.max_steps=8)
small=("policy.hidden=[16,16,16]" clone.steps=20 clone.warmup_steps=5 clone.batch_size=32)

setup() { cd "$T" || return; }

demos() { mf-collect env=lift collect.actor=expert collect.episodes=4 env.max_steps=20 "$@" | tee a.mf | mf-record a.hdf5 >/dev/null; }
bc() { mf-bc env=lift clone.dataset=a.hdf5 "${small[@]}" "$@"; }

@test "point clouds are collected, recorded, replayed, cloned from, acted on and learned from" {
    demos "$keys" env.num_points=128 && mf-replay a.hdf5 | cmp - a.mf &&
        [[ $(mf-view <a.mf | jq -c 'select(.mf == "rollout").arrays["obs/point_cloud"].shape') == "[20,4,1,128,6]" ]] &&
        bc "$keys" run.dir=clone >/dev/null &&
        mf-view <clone/logs/metrics.mf | jq -es '.[0].spec.obs.point_cloud == {shape: [128, 6], dtype: "<f4"}' &&
        "${judge[@]}" >/dev/null &&
        mf-collect env=lift policy.checkpoint=clone/checkpoints/clone.safetensors run.dir=rl "policy.critic_hidden=[16,16,16]" \
            training.num_envs=2 training.num_steps_per_rollout=2 training.total_timesteps=20 | mf-gae |
        mf-ppo training.batch_size=4 training.num_epochs=1 >/dev/null && mf-check rl/logs/metrics.mf
}

@test "a name that is not there is answered with those that are" {
    run -2 mf-collect env=lift collect.actor=expert "policy.obs_keys=[object,points]" --out x &&
        [[ $output == *"no observation 'points'"*"object, robot0_eef_pos, robot0_eef_quat, robot0_gripper_qpos, point_cloud"* ]] &&
        run -2 mf-collect env=lift collect.actor=expert policy.obs_keys=object --out x && [[ $output == *"list of names"* ]]
}

@test "a clone acts on what it was cloned from, and on nothing else" {
    demos && bc "policy.obs_keys=[object,robot0_eef_pos]" run.dir=clone >/dev/null && "${judge[@]}" >/dev/null &&
        run -2 "${judge[@]}" "policy.obs_keys=[robot0_eef_pos,object]" &&
        [[ $output == *"10:object,3:robot0_eef_pos"*"3:robot0_eef_pos,10:object"*"policy.obs_keys"* ]] &&
        run -3 bc "$keys" run.dir=other && [[ $output == *"obs/point_cloud"* ]]
}
