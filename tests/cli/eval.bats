# Evaluation: all policies run the same trials, whatever else runs in parallel.
load helpers

# One small policy for all tests: made once, with as little training as there can be.
setup_file() {
    mf-collect run.dir="$BATS_FILE_TMPDIR/run" run.seed=3 training.total_timesteps=400 training.num_envs=4 \
        training.num_steps_per_rollout=10 policy.hidden='[16,16,16]' |
        mf-gae | mf-ppo training.num_epochs=1 >"$BATS_FILE_TMPDIR/metrics.mf" 2>/dev/null
}
setup() { RUN="$BATS_FILE_TMPDIR/run"; }

@test "results do not depend on the number of parallel environments and of threads" {
    mf-eval "$RUN" eval.num_episodes=37 eval.json="$T/a" >/dev/null 2>&1 &&
        mf-eval "$RUN" eval.num_episodes=37 eval.json="$T/b" eval.num_envs=5 threads=1 >/dev/null 2>&1 &&
        cmp "$T/a" "$T/b" &&
        mf-eval "$RUN" eval.num_episodes=37 eval.json="$T/b" eval.seed=1 >/dev/null 2>&1 && ! cmp -s "$T/a" "$T/b"
}

@test "the trials of a smaller number are the first ones of a larger number" {
    mf-eval "$RUN" eval.num_episodes=9 eval.json="$T/a" >/dev/null 2>&1 &&
        mf-eval "$RUN" eval.num_episodes=20 eval.json="$T/b" >/dev/null 2>&1 &&
        diff <(jq -c .results[0].trials.return "$T/a") <(jq -c '.results[0].trials.return[:9]' "$T/b")
}

@test "a metrics frame for each checkpoint, in the order given, and a row on stderr" {
    local file
    file=("$RUN"/checkpoints/*.safetensors)
    cp "${file[0]}" "$T/copy.safetensors" && mf-eval "${file[0]}" "$T/copy.safetensors" policy.weights=raw eval.num_episodes=8 2>"$T/said" >"$T/m.mf" &&
        mf-check <"$T/m.mf" &&
        [[ $(mf-view <"$T/m.mf" | jq -r .mf | xargs) == "head metrics metrics end" ]] &&
        mf-view <"$T/m.mf" | jq -es 'map(select(.mf == "metrics").values | .["eval/n"] == 8 and .["eval/success_once_high"] <= 1) | all' >/dev/null &&
        [[ $(grep -c raw "$T/said") -eq 2 ]]
}

@test "on a terminal the table is on stdout" {
    run -0 script -qec "mf-eval '$RUN' eval.num_episodes=8" /dev/null && [[ $output == *"success once"*raw* ]]
}

@test "a missing checkpoint is an error before any evaluation or output" {
    run -1 --separate-stderr mf-eval "$RUN" "$T/none.safetensors" eval.num_episodes=4 &&
        [[ -z $output && $stderr == "mf-eval: error: cannot open $T/none.safetensors: No such file or directory" ]]
}

@test "invalid evaluations are errors of one line" {
    run -2 mf-eval --out "$T/x" && [[ $output == *"give a checkpoint"* ]] &&
        run -1 mf-eval --out "$T/x" "$T/nowhere" && [[ $output == *"No such file"* ]] &&
        run -2 mf-eval --out "$T/x" "$T" && [[ $output == *"is not a run's folder"* ]] &&
        run -2 mf-eval --out "$T/x" "$RUN" env=lift && [[ $output == *"obs"* ]] &&
        run -2 mf-eval --out "$T/x" "$RUN" policy.weights=ema && [[ $output == *"no EMA weights"* ]] &&
        run -2 mf-eval --out "$T/x" "$RUN" "$RUN/." && [[ $output == *"are the same: give it once"* ]] &&
        run -2 mf-eval --out "$T/x" "$RUN" 'eval.seed=[1,0,1]' && [[ $output == *"eval.seed=[..]: has 1 twice"* ]] &&
        run -2 mf-eval --out "$T/x" "$RUN" 'eval.num_inference_steps=[2,2]' && [[ $output == *"has 2 twice"* ]] &&
        run -2 mf-eval --out "$T/x" "$RUN" 'eval.suites=[a,b,a]' && [[ $output == *"has 'a' twice"* ]]
}

@test "a results file is complete or absent" {
    run mf-eval --out "$T/x" "$RUN" "$T/nowhere" eval.num_episodes=8 eval.json="$T/r"
    [[ $status -eq 1 && ! -e $T/r && ! -e $T/r.part ]]
}
