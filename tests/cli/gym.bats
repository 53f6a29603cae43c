# Gymnasium's locomotion, on the models of tests/fixtures/gym.
load helpers

setup() {
    cd "$T" || return 1
    models=$ROOT/tests/fixtures/gym
    # shellcheck disable=SC2034 # train reads it
    small=(env=hopper env.model="$models/hopper.xml" training.num_envs=4 training.num_steps_per_rollout=16
        training.batch_size=32 training.num_epochs=2 training.critic_warmup_steps=0 collect.reward_scale=running
        'policy.hidden=[16,16,16]' 'policy.critic_hidden=[16,16,16]' training.total_timesteps=1000 threads=2)
}

@test "each of the four trains, and first ratios are exactly 1" {
    for task in hopper walker2d half_cheetah ant; do
        train "$task" env="$task" env.model="$models/$task.xml" training.total_timesteps=400 &&
            mf-view "$task.mf" | jq -es 'map(select(.mf == "metrics").values) | all(.[]; .["train/logratio_gap"] == 0)' >/dev/null ||
            { echo "$task"; return 1; }
    done
}

@test "a run that was stopped resumes to the same bytes, also through mf-env; threads do not matter" {
    train a && cp "$last" want && train b threads=1 && cmp "$last" want || return 1
    train c training.total_timesteps=500 && train c run.resume=auto && cmp "$last" want || return 1
    train d env=exec env.model=null env.command="mf-env hopper env.model=$models/hopper.xml" env.workers=2 && cmp "$last" want || return 1
    train e env=ant env.model="$models/ant.xml" && cp "$last" want &&
        train f env=ant env.model="$models/ant.xml" training.total_timesteps=500 &&
        train f env=ant env.model="$models/ant.xml" run.resume=auto && cmp "$last" want
}

@test "mf-eval takes the model from the run, reports returns, and records a video" {
    train a && mf-eval a eval.num_episodes=6 eval.num_envs=3 eval.json=1 >/dev/null 2>&1 &&
        mf-eval a eval.num_episodes=6 eval.num_envs=6 eval.json=2 threads=1 >/dev/null 2>&1 && cmp 1 2 &&
        jq -e '.results[0] | .success_once == 0 and .return > 0 and .return_std > 0 and .length > 1' 1 >/dev/null || { cat 1; return 1; }
    mf-eval a eval.num_episodes=2 eval.video=1 env.max_steps=8 eval.video_format=gif >/dev/null 2>&1 && [[ -s $(echo a/videos/*.gif) ]]
}

@test "what is missing or does not fit is one sentence" {
    local words text
    while IFS='|' read -r words text; do
        # shellcheck disable=SC2086 # words are words
        run -2 --separate-stderr mf-collect log.level=error run.dir=x run.force=true $words --out /dev/null
        [[ $stderr == *"$text"* && ${#stderr_lines[@]} == 1 && ! -e x ]] || { echo "$words: $stderr"; return 1; }
    done <<END
env=hopper|needs env.model=PATH/hopper.xml, Gymnasium's model: 'pip install --no-deps --target mjcf gymnasium'
env=ant env.model=$models/hopper.xml|has 6 positions, 6 velocities, 3 motors and 5 bodies, and Gymnasium's ant.xml has 15, 14, 8 and 14
env=hopper env.model=$models/hopper.xml collect.actor=expert|collect.actor=expert: env=hopper has no expert
env=point env.model=$models/hopper.xml|env=point has its model built in: leave env.model=
env=exec env.command=true env.model=$models/hopper.xml|does not reach the server of env=exec
END
    run -1 mf-collect env=hopper env.model=none.xml run.dir=x run.force=true --out /dev/null
    [[ $output == *"env.model: cannot open none.xml: No such file or directory"* ]]
}
