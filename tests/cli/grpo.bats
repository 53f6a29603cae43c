# Groups of environments, and advantages relative to them.
# shellcheck disable=SC2016 # the variables are jq's
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    small=(env=point training.num_envs=16 training.num_steps_per_rollout=12 training.total_timesteps=4000 collect.group=8
        training.batch_size=64 training.num_epochs=2 'policy.hidden=[32,32,32]' policy.add_value_head=false threads=2)
}

# group DIR WORD..: the pipe to its end; the last checkpoint's path in $last, its stream before mf-ppo in DIR.rollouts.
group() {
    local dir=$1 status
    shift
    mf-collect "${small[@]}" run.dir="$dir" "$@" 2>"$dir.err" | mf-grpo "$@" 2>>"$dir.err" | tee "$dir.rollouts" |
        mf-ppo "${small[@]}" run.dir="$dir" "$@" >"$dir.mf" 2>>"$dir.err"
    status=${PIPESTATUS[*]}
    last=$(newest "$dir")
    [[ $status == "0 0 0 0" ]] || { cat "$dir.err"; echo "status $status"; return 1; }
}

# has FILE JQ: true of the first rollout of the stream.
has() { mf-view view.arrays=whole <"$1" | jq -es "map(select(.mf == \"rollout\"))[0] | $2" >/dev/null; }

# alone FILE WORD..: a stream of one round, without a learner behind it.
alone() {
    local to=$1
    shift
    mf-collect "${small[@]}" training.total_timesteps=10 run.dir="$to.run" "$@" 2>"$to.err" | tee "$to" |
        mf-grpo 2>>"$to.err" | mf-ppo run.dir="$to.run" >/dev/null 2>>"$to.err"
}

@test "environments of a group start alike, and a policy without a critic sends no values" {
    alone a && mf-check a && has a '.arrays["obs/position"].data[0] | flatten | (.[0:8] | unique | length) == 1 and
        (.[8:16] | unique | length) == 1 and .[0] != .[8]' &&
        has a '.group_size == 8 and .arrays.group.data[0] == [0,0,0,0,0,0,0,0,1,1,1,1,1,1,1,1] and
            (.arrays.success.data | flatten | add) > 0 and (.arrays | has("prev_values") | not)' || { cat a.err; return 1; }
    mf-collect "${small[@]}" training.total_timesteps=10 collect.group=1 policy.add_value_head=true run.dir=b 2>err |
        tee b.mf | mf-gae | mf-ppo run.dir=b >/dev/null 2>>err
    has b.mf '(has("group_size") or (.arrays | has("group"))) | not' && has b.mf '.arrays | has("prev_values")'
}

@test "advantages are standardised over the group, exactly 0 on average; what is cut is masked" {
    alone a && mf-grpo --in a 2>err >b && mf-check b && has b '.normalized == true' &&
        grep -Eq 'mf-grpo: info: [0-9]+ groups, 0 of them with equal scores and 0 of one episode; [1-9][0-9]* were cut .*, with [1-9][0-9]* of 192 decisions' err || { cat err; return 1; }
    has b '.arrays.advantages.data[0] as $a | .arrays.returns.data[0] as $r | .arrays.loss_mask.data[0] as $m |
        ($m == [range(16) | 1]) and ($a[0:8] | add | fabs) < 1e-5 and
        (($a[0:8] | map(. * .) | add / 7) - 1 | fabs) < 1e-3 and ($r[0:8] | unique | length) > 1' || return 1
    mf-grpo advantage.baseline=leave_one_out --in a 2>err >c && has c 'has("normalized") | not' &&
        has c '.arrays.advantages.data[0][0] as $a | .arrays.returns.data[0][0:8] as $r |
            ($a - ($r[0] - ($r[1:8] | add) / 7) | fabs) < 1e-5' || return 1
    mf-grpo advantage.group_reward=success --in a 2>err >d && has d '.arrays.returns.data | flatten | unique - [0, 1] == []'
}

@test "it learns on the point mass, with a critic or without one; other slices and threads give the same bytes" {
    local usual=(training.num_envs=32 training.num_steps_per_rollout=32 training.batch_size=512 training.num_epochs=4 'policy.hidden=[256,256,256]' run.seed=1)
    group l "${usual[@]}" training.total_timesteps=60000 && mf-check l.mf &&
        mf-view l.mf | jq -es 'map(select(.mf == "metrics").values) | .[0]["rollout/success_once"] < .3 and .[-1]["rollout/success_once"] > .5 and
            all(.[]; .["train/logratio_gap"] == 0 and (has("train/value_loss") or has("train/explained_variance") | not))' >/dev/null || { cat l.err; return 1; }
    group a && cp "$last" want && group b collect.slices=9 threads=1 && has b.rollouts '.slice == [0, 2] and .envs == [0, 8]' && cmp "$last" want || return 1
    mf-eval a eval.num_episodes=8 'policy.critic_hidden=[32,32,32]' >/dev/null 2>err && mf-ckpt show a | grep -q 'spec.critic_hidden *\[\]' || { cat err; return 1; }
    group c policy.add_value_head=true && mf-view c.mf | jq -es 'map(select(.mf == "metrics").values) | all(.[]; has("train/value_loss"))' >/dev/null &&
        group d "policy.checkpoint=$last" && mf-ckpt show d | grep -q 'spec.critic_hidden *\[\]'
}

@test "a resumed run ends with the same bytes; another size of the groups is another run" {
    group want && want=$last
    group k training.total_timesteps=1500 && [[ $last != "${want/want/k}" ]] && group k run.resume=auto &&
        [[ $last == "${want/want/k}" ]] && cmp "$last" "$want" || return 1
    run -2 mf-collect "${small[@]}" run.dir=k run.resume=auto collect.group=4 --out "$T/out"
    [[ $output == *"collect.group"* ]]
}

@test "groups of served environments are those of the process" {
    alone a && alone b env=exec env.command='mf-env point threads=1' env.workers=3 || { cat b.err; return 1; }
    local array
    for array in obs/position actions rewards group success; do
        stream get $array <a >want && stream get $array <b | cmp - want || return 1
    done
}

@test "groups that do not fit are refused in a sentence" {
    run -2 mf-collect "${small[@]}" training.num_envs=12 run.dir=x --out "$T/out"
    [[ $output == *"training.num_envs=12 environments are not whole groups of collect.group=8: set a multiple"* ]]
    run -2 mf-collect "${small[@]}" training.num_steps_per_rollout=9 run.dir=x --out "$T/out"
    [[ $output == *"training.num_steps_per_rollout=9 decisions of 4 control steps are shorter than an episode of 40; set 10 or more"* ]]
    stream make >in
    run -3 mf-grpo --in in --out out
    [[ $output == *"there is no array 'group', expected (T=4, N=1): mf-collect collect.group=8 sends it"* ]]
    alone a && "$ROOT/tests/tools/stream.py" spoil a . <<'END'
size: rollouts[0]["group_size"] = 0
score: del a["success"]
END
    run -3 mf-grpo --in size --out out && [[ $output == *"group_size is 0, not positive"* ]]
    run -3 mf-grpo advantage.group_reward=success --in score --out out && [[ $output == *"there is no array 'success'"* ]]
    mf-grpo --in score --out out
    run -3 mf-gae --in a --out out
    [[ $output == *"there is no array 'prev_values'"*"a policy with a critic sends it"* ]]
}

@test "a rollout from which nothing is learned is a warning, once" {
    "$ROOT/tests/tools/stream.py" make case=random iters=2 >in && "$ROOT/tests/tools/stream.py" spoil in . <<'END'
one: [m["arrays"].update(group=Array("<i4", (9, 6), range(54)).ndarray()) for m in rollouts]; a["group"] = Array("<i4", (9, 6), range(54))
cut: [m["arrays"].update(group=Array("<i4", (9, 6), 0).ndarray()) for m in rollouts]; a["group"] = Array("<i4", (9, 6), 0)
END
    mf-grpo --in cut --out out 2>err && [[ $(grep -c 'warn: iteration 0: none of 1 groups has ended within the rollout' err) == 1 && $(grep -c warn: err) == 1 ]] || { cat err; return 1; }
    mf-grpo --in one --out out 2>err && [[ $(grep -c 'warn: iteration 0: [0-9]* of [0-9]* groups have one episode, whose advantage is 0: collect.group=8' err) == 1 && $(grep -c warn: err) == 1 ]] || { cat err; return 1; }
    alone a collect.group=2 && mf-grpo advantage.group_reward=success --in a --out out 2>err && has out '.arrays.advantages.data | flatten | any(. != 0)' || { cat err; return 1; }
    "$ROOT/tests/tools/stream.py" spoil a . <<<'same: a["success"].fill_rows(range(192), 0)'
    mf-grpo advantage.group_reward=success --in same --out out 2>err && grep -q 'warn: iteration 0: all [0-9]* groups have equal scores, so all advantages are 0' err &&
        has out '.arrays.advantages.data | flatten | unique == [0]' || { cat err; return 1; }
}

@test "the counts of groups are metrics, over all slices" {
    group a collect.slices=2 && mf-view <a.rollouts | jq -es '[.[] | select(.mf == "rollout")] |
        group_by(.iter) | map([(map(.groups.whole + .groups.cut) | add), (map(.groups.cut) | add), (map(.groups.equal) | add), (map(.groups.whole) | add)])' >want &&
        mf-view <a.mf | jq -es '[.[] | select(.mf == "metrics").values | [."rollout/groups", ."rollout/groups_cut", ."rollout/groups_equal", ."rollout/groups_single"]]' >is || { cat a.err; return 1; }
    jq -es '.[0] as $want | .[1] | length > 1 and (to_entries | all(.value as $v | $want[.key] as $w | $v[0] == $w[0] and $w[0] >= 2 and
        ($v[1] - $w[1] / $w[0] | fabs) < 1e-6 and ($v[2] - $w[2] / $w[3] | fabs) < 1e-6 and $v[3] == 0))' want is >/dev/null || { cat want is; return 1; }
    train g training.num_envs=8 policy.add_value_head=true collect.group=1 && ! mf-view <g.mf | grep rollout/groups
}

@test "pipelines/train-multi and pipelines/offline follow advantage.advantage_type and advantage.stage, too" {
    "$ROOT/pipelines/train-multi" 2 "${small[@]}" advantage.advantage_type=grpo training.total_timesteps=1600 2>err >m.mf && mf-check m.mf &&
        mf-view outputs/point/multi/logs/metrics.mf | jq -es '.[0].chain | map(.stage) == ["mf-collect", "mf-grpo", "mf-ppo"]' >/dev/null &&
        mf-view m.mf | jq -es 'map(select(.mf == "metrics").values."rollout/groups") | all(. >= 4)' >/dev/null || { cat err; return 1; }
    alone a && mf-record a.hdf5 <a >/dev/null && "$ROOT/pipelines/offline" a.hdf5 advantage.advantage_type=grpo policy.add_value_head=false 2>err >/dev/null &&
        mf-view outputs/point/offline/logs/metrics.mf | jq -es '.[0].chain[1].stage == "mf-grpo"' >/dev/null || { cat err; return 1; }
    "$ROOT/pipelines/offline" a.hdf5 "advantage.stage='mf-grpo advantage.baseline=leave_one_out'" policy.add_value_head=false run.dir=l 2>err >/dev/null &&
        mf-view l/logs/metrics.mf | jq -es '.[0].chain[1].argv | index("advantage.baseline=leave_one_out") != null' >/dev/null || { cat err; return 1; }
    run -2 "$ROOT/pipelines/train-multi" 2 "${small[@]}" "advantage.stage='/usr/bin/python3 x.py'" && [[ $output == *"pipelines/train-multi: advantage.stage: /usr/bin/python3 reads one stream on stdin"* ]]
}

@test "pipelines/train advantage.advantage_type=grpo, and the group advantage=grpo" {
    "$ROOT/pipelines/train" "${small[@]}" advantage.advantage_type=grpo training.total_timesteps=600 >/dev/null 2>err &&
        mf-view outputs/point/ppo/logs/metrics.mf | jq -es '.[0].chain | map(.stage) == ["mf-collect", "mf-grpo", "mf-ppo"]' >/dev/null || { cat err; return 1; }
    [[ $(mf-conf --config-dir "$ROOT/configs" -cn point advantage=grpo advantage.advantage_type collect.group policy.add_value_head | xargs) == "grpo 8 false" ]]
}
