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
