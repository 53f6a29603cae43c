# Configurations composed as by Hydra. tests/pypi compares with Hydra itself; these tests do not need it.
# shellcheck disable=SC2016 # ${..} is for mf-conf
load helpers

setup() {
    hydra=(--config-dir "$ROOT/tests/fixtures/hydra" conf.unknown=keep)
    cd "$T" || return 1
    mkdir -p configs/policy configs/env
    cat >configs/train.yaml <<'YAML'
defaults:
  - policy: small
  - env: lift
  - _self_
run:
  dir: outputs/${env.name}_${training.num_envs}
training:
  num_envs: 4
YAML
    echo 'horizon: 8' >configs/policy/small.yaml
    printf 'defaults: [small]\nhidden: [8, 8]\n' >configs/policy/wide.yaml
    echo 'name: lift' >configs/env/lift.yaml
}

# value KEY WORD ..: one key of what the words compose.
value() { mf-conf "$@" 2>/dev/null; }

# refuses 'SENTENCE' WORD ..
refuses() {
    run --separate-stderr mf-conf "${@:2}"
    [[ $status -eq 2 && -z $output && $stderr == "mf-conf: error: "*"$1"* ]] || { echo "${*:2}: $status, $stderr"; return 1; }
}

@test "a named configuration, its groups, and another option of one" {
    [[ $(value --config-name=train run.dir) == outputs/lift_4 ]] &&
        [[ $(value -cn train policy.horizon policy.hidden) == $'8\n[256, 256, 256]' ]] &&
        [[ $(value -cn train policy=wide policy.horizon policy.hidden) == $'8\n[8, 8]' ]] &&
        [[ $(value -cn train policy=wide policy.horizon=3 training.num_envs=5 policy.horizon run.dir) == $'3\noutputs/lift_5' ]] &&
        [[ $(value -cn train ~policy policy.horizon) == 4 ]] &&
        [[ $(value +policy=wide policy.hidden) == '[8, 8]' ]] &&
        [[ $(value env=lift env.name) == lift ]]
}

@test "every program composes the same configuration" {
    for p in "$ROOT"/bin/mf-*; do
        "$p" -cn train policy=wide -c job | cmp - <(mf-conf -cn train policy=wide) || return 1
    done
}

@test "printed configurations compose to themselves, with unknown keys" {
    mf-conf "${hydra[@]}" -cn train >all.yaml 2>told && grep -q '^shape_meta: {obs: ' all.yaml &&
        grep -q 'unknown keys, ignored: ' told &&
        mf-conf --config all.yaml 2>/dev/null | cmp - all.yaml
}

@test "an unknown key of a file is an error, unless conf.unknown=keep" {
    echo 'policy: {horizn: 3}' >configs/bad.yaml
    refuses "configs/bad.yaml:1: unknown key 'policy.horizn', nearest is 'policy.horizon'" -cn bad &&
        mf-conf -cn bad conf.unknown=keep 2>told | grep -q '^  horizn: 3$' && grep -q 'policy.horizn' told
}

@test "words: KEY sets an existing key, + adds, ++ does either, ~ removes" {
    refuses "unknown key 'a.b', nearest is" a.b=1 &&
        refuses "+training.num_envs: the key is already set, at configs/train.yaml:8" -cn train +training.num_envs=5 &&
        refuses "~training.batch_size: no file sets it" -cn train ~training.batch_size &&
        refuses "~training.num_envs=5: the key has another value" -cn train ~training.num_envs=5 &&
        [[ $(value -cn train ~training.num_envs=4 training.num_envs) == 32 ]] &&
        [[ $(value -cn train ++training.num_envs=6 training.num_envs) == 6 ]] &&
        [[ $(value '+mine={a: [1, 2], b: {c: x}}' 'run.dir=${mine.b.c}_${mine.a[1]}' run.dir) == x_2 ]] &&
        refuses "'mine.a' is a list" '+mine.a=[1,2]' mine.a.0=3
}

@test "references: arithmetic, environment variables, siblings, and invalid ones" {
    [[ $(value 'training.batch_size=${eval:"(${training.num_envs} + 1) * 2 ** 3 // 5"}' training.batch_size) == 52 ]] &&
        [[ $(value 'training.num_envs=${oc.env:MF_TEST_N,7}' training.num_envs) == 7 ]] &&
        [[ $(MF_TEST_N=9 value 'training.num_envs=${oc.env:MF_TEST_N,7}' training.num_envs) == 9 ]] &&
        [[ $(value 'policy.n_action_steps=${.horizon}' policy.n_action_steps) == 4 ]] &&
        refuses "a cycle: wandb_project -> run.dir -> wandb_project" 'wandb_project=${run.dir}' 'run.dir=${wandb_project}' &&
        refuses "run.dir: \${nope}: no such key, nearest is" 'run.dir=${nope}' &&
        refuses "the environment variable MF_TEST_NOT is not set" 'run.dir=${oc.env:MF_TEST_NOT}' &&
        refuses "unknown resolver 'git'" 'run.dir=${git:sha}' &&
        refuses "is not an arithmetic expression" 'training.num_envs=${eval:"__import__(1)"}' &&
        refuses "is not an arithmetic expression" 'training.num_envs=${eval:"1/0"}' &&
        refuses "training.num_envs=x: must be an integer" 'training.num_envs=${wandb_project}' wandb_project=x
}

@test "a backslash escapes \${, and a backslash before it" {
    local word text
    while read -r word text; do
        [[ $(value "$word" run.name=N run.dir) == "$text" ]] || { echo "$word is not $text"; return 1; }
    done <<'END'
run.dir=\${x} ${x}
run.dir='a\${x}b' a${x}b
run.dir=\${x ${x
run.dir='\\${run.name}' \N
run.dir='\\\${run.name}' \${run.name}
run.dir=\\\${run.name} \N
run.dir=a\\b\${x}\c a\b${x}\c
run.dir='a\\b' a\\b
END
}

@test "values of references and escaped texts are printed so that they read back" {
    printf '%s\n' 'conf: {unknown: keep}' 'a: \${x}' 'b: {c: ["${a}"]}' 'd: ${b}' 'e: ${nowhere}' \
        'run: {dir: "${oc.env:MF_TEST_P}", name: "${a}"}' >configs/literal.yaml
    MF_TEST_P='p\${q}' mf-conf -cn literal >all.yaml 2>/dev/null && mf-conf --config all.yaml 2>/dev/null | cmp - all.yaml &&
        [[ $(value --config all.yaml run.dir run.name) == $'p\\${q}\n${x}' ]] &&
        grep -qF 'd: {c: ["\\${x}"]}' all.yaml && grep -qF 'e: "${nowhere}"' all.yaml
}

@test "a value in the place of a group of keys keeps its value, and texts are as OmegaConf writes them" {
    short=(--config-dir "$ROOT/tests/fixtures/short" -cn short conf.unknown=keep)
    mf-conf "${short[@]}" 2>/dev/null | sed -n '/^task_name/,$p' | diff "$ROOT/tests/fixtures/short/short.expected" - &&
        [[ $(value "${short[@]}" env.name env.max_steps env.max_steps=5) == $'hopper-medium-v2\n5' ]] &&
        mf-conf "${short[@]}" env=walker policy=SAC policy.horizon=3 task=reach 2>/dev/null >all &&
        grep -qx 'name: walker_SAC_reach_lift_clone' all && grep -qx '  horizon: 3' all && grep -qx '  "_value_": SAC' all &&
        mf-conf --config all 2>/dev/null | cmp - all
}

@test "the value of a reference gets the type of its key: a number from an environment variable, a name from a number" {
    [[ $(MF_TEST_N=1_0 value 'training.num_envs=${oc.env:MF_TEST_N}' training.num_envs) == 10 ]] &&
        [[ $(MF_TEST_N=null value 'run.name=${oc.env:MF_TEST_N}' run.name) == null ]] &&
        [[ $(value 'run.name=${training.learning_rate}' training.learning_rate=1e-4 run.name) == 0.0001 ]] &&
        [[ $(value 'run.name=${training.clip_range}_${run.force}_${policy.checkpoint}_${policy.hidden}' run.name) == '0.01_False_None_[256, 256, 256]' ]] &&
        [[ $(value 'training.total_timesteps=${eval:"200_000 * 2 + 1e3"}' training.total_timesteps=200_000 training.total_timesteps) == 200000 ]] &&
        [[ $(value 'training.total_timesteps=${eval:"200_000 * 2 + 1e3"}' training.total_timesteps) == 401000 ]]
}

@test "a cycle is an error also under unknown keys, and through a map that contains it" {
    printf 'a: {b: "${c}"}\nc: ${a}\nconf: {unknown: keep}\n' >configs/round.yaml
    refuses "configs/round.yaml:" -cn round && [[ $stderr == *"a cycle: a.b -> c -> a.b"* ]]
}

@test "errors for missing groups and files list the available ones" {
    refuses "no nope.yaml in configs; available: " -cn nope && refuses " lift, lift_pixels, lift_pointcloud, maniskill_ppo_openpi_pi05, point, three_stages, train" -cn nope &&
        refuses "no policy/tall.yaml in configs; available: " -cn train policy=tall &&
        refuses " reflow, sde, shortcut, small, unet, vit, wide" -cn train policy=tall &&
        refuses "policy=wide: no defaults list has the group policy; +policy=wide adds it" policy=wide &&
        refuses "'run' is a group of keys" run=5 &&
        refuses "--config-dir no/such is not a folder" -cd no/such -cn train &&
        printf 'defaults:\n  - policy: ???\n' >configs/choose.yaml &&
        refuses "configs/choose.yaml:2: choose policy=OPTION, one of: " -cn choose &&
        [[ $(value -cn choose policy=wide policy.hidden) == '[8, 8]' ]] &&
        printf 'defaults:\n  - train\n  - override optimizer: adam\n' >configs/over.yaml &&
        refuses "configs/over.yaml:3: override optimizer: no defaults list has that group" -cn over
}

@test "defaults that are cyclic, too deep, or not a list" {
    printf 'defaults: [b]\n' >configs/a.yaml
    printf 'defaults: [a]\n' >configs/b.yaml
    echo 'defaults: 5' >configs/five.yaml
    printf 'defaults:\n  - [x]\n' >configs/odd.yaml
    refuses "configs/a.yaml includes itself in its defaults, through configs/b.yaml" -cn a &&
        refuses "configs/five.yaml:1: defaults must be a list" -cn five &&
        refuses "configs/odd.yaml:2: an entry of defaults must be a file name, or GROUP: OPTION" -cn odd
}

@test "aliases and references that grow exponentially" {
    local i a
    {
        printf 'conf: {unknown: keep}\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n'
        for i in {1..9}; do a="*a$((i - 1))"; echo "a$i: &a$i [$a, $a, $a, $a, $a]"; done
    } >configs/aliases.yaml
    {
        printf 'conf: {unknown: keep}\na0: [x, x, x, x, x, x, x, x, x, x]\n'
        for i in {1..9}; do a="'\${a$((i - 1))}'"; echo "a$i: [$a, $a, $a, $a, $a]"; done
    } >configs/references.yaml
    {
        printf 'conf: {unknown: keep}\na0: xxxxxxxxxx\n'
        for i in {1..40}; do a="\${a$((i - 1))}"; echo "a$i: $a$a"; done
    } >configs/texts.yaml
    refuses "its aliases expand it beyond the maximum size of a configuration" -cn aliases &&
        refuses "its references expand it beyond the maximum size of a configuration" -cn references &&
        refuses "its references expand it beyond the maximum size of a configuration" -cn texts
}

@test "??? is printed, and refused by a program that needs the key" {
    printf 'training:\n  num_envs: ???\n' >configs/ask.yaml
    [[ $(value -cn ask training.num_envs) == '???' ]] &&
        run -2 mf-collect -cn ask && [[ $output == *"training.num_envs is mandatory (??? in configs/ask.yaml:2): give training.num_envs=VALUE"* ]] &&
        run -0 mf-collect -cn ask training.num_envs=3 --cfg
}

@test "a text that needs quotes is refused with the quoted word" {
    local text word
    # shellcheck disable=SC1003 # backslashes at the end are meant
    for text in 'python3 x.py --keys a,b' 'python3 -c "print(1, [2])"' "it's {a}, b" 'a\"b,c' 'x(y\' 'a,b\\'; do
        run -2 mf-conf "env.command=$text"
        [[ $output == *"quote a text for the shell and for this grammar: 'env.command=\""* ]] &&
            word=${output#*this grammar: } && eval "word=${word% (see*}" &&
            [[ $(value "$word" env.command) == "$text" ]] || { echo "$text: $output"; return 1; }
    done
    run -2 mf-conf policy.hidden=8,8 && [[ $output == *"a list is written [a,b]"* && $output != *quote* ]] &&
        run -2 mf-conf training.gamma=1,2 && [[ $output == *"mf-conf -m or pipelines/sweep"* ]] &&
        run -2 mf-conf training.clip_range=1,2 && [[ $output != *"[a,b]"* ]]
}

@test "-m: a line of shell words for each job; the last word changes fastest" {
    [[ $(mf-conf -m -cn train training.learning_rate=1e-4,3e-4 training.clip_range=.1,.2) == \
'training.learning_rate=1e-4 training.clip_range=.1
training.learning_rate=1e-4 training.clip_range=.2
training.learning_rate=3e-4 training.clip_range=.1
training.learning_rate=3e-4 training.clip_range=.2' ]] &&
        [[ $(mf-conf -m -cn train 'policy=choice(small,wide)' 'training.num_envs=range(1,3)' | wc -l) -eq 4 ]] &&
        eval "words=($(mf-conf -m "wandb_run_name='a b'" 'policy.hidden=[8,8],[9]' | tail -1))" &&
        [[ ${words[0]} == "wandb_run_name='a b'" && ${words[1]} == 'policy.hidden=[9]' ]] &&
        refuses "training.clip_range=-1: must be in (0,)" -m training.clip_range=1,-1 &&
        refuses "several values make a sweep, which needs mf-conf -m" training.clip_range=1,2 &&
        run -2 mf-gae -m training.clip_range=1,2 && [[ $output == *"mf-conf -m"* ]]
}

# jobs WORD ..: the values of the first word in the jobs of a sweep.
jobs() { mf-conf -m "$@" | sed 's/^[^=]*=//; s/ .*//' | xargs; }

@test "-m: ranges and globs as Hydra has them" {
    [[ $(jobs 'training.num_envs=range(3,0,-1)') == "3 2 1" && $(jobs 'training.num_epochs=range(start=1,stop=7,step=2)') == "1 3 5" ]] &&
        [[ $(jobs '+x=range(0,1,0.1)') == "0.0 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9" ]] &&
        [[ $(jobs '+x=range(3)') == "0 1 2" && $(jobs '+x=range(1.0,3)') == "1.0 2.0" && $(jobs '+x=range(.1,1,.3)') == "0.1 0.4 0.7" ]] &&
        [[ $(jobs 'policy=glob(*)' -cn train --config-dir configs) == "locomotion maniflow one_step pi05 pi05_tiny plain_conv reflow sde shortcut small unet vit wide" ]] &&
        [[ $(jobs 'policy=glob([s*,w*],exclude=small)' -cn train) == "sde shortcut wide" && $(jobs '+policy=glob(wi*)') == wide ]] &&
        refuses "policy=glob(..): no option of a group policy matches" -m 'policy=glob(q*)' -cn train &&
        refuses "several values make a sweep" 'policy=glob(*)' && refuses "is an empty range" -m '+x=range(3,1)' &&
        refuses "must be range(start,stop,step)" -m '+x=range(1,2,3,4)' && refuses "must be glob(include,exclude)" -m '+x=glob(a'
}

@test "--doc has every key once, and each program's --help its own" {
    mf-conf --doc >doc && mf-conf | grep -c '^ *[a-z_]*: .' >n &&
        [[ $(grep -c '^  [a-z_.]*=' doc) -eq $(cat n) && $(grep -o '^  [a-z_.]*=' doc | sort | uniq -d) == '' ]] &&
        ! awk 'length > 110' doc | grep . && [[ $(sed -n '/^SAC:/{n;p}' doc) == "  sac.form="* ]] &&
        run -0 mf-conf --doc run.seed training.learning_rate && [[ $output == *run.seed=0* && $(grep -c '^  [a-z_.]*=' <<<"$output") -eq 2 ]] &&
        run -2 mf-conf --doc run.sed && [[ $output == *"'run.sed' is not a key"* && $output != *run.seed* ]]
}

@test "--help has sections, the program's own first, the common ones last; each key once with its unit" {
    local p own
    for p in "$ROOT"/bin/mf-*; do
        "$p" --help >all && [[ $(grep -E '^[A-Z][A-Za-z& ]+:$' all | grep -vE '^(Options|Examples):' | sort | uniq -d) == '' &&
            $(grep -o '^  [a-z_.]*=' all | sort | uniq -d) == '' ]] && grep -qx 'Messages:' all || { echo "$p"; return 1; }
    done
    while read -r p own; do
        [[ $("$p" --help | grep -m1 -o '^  [a-z_]*\.') == "  $own." ]] || { echo "$p does not begin with $own"; return 1; }
    done <<<'mf-ppo training
mf-bc clone
mf-eval eval
mf-gae advantage
mf-log log
mf-plot plot
mf-ckpt ckpt' && [[ $(mf-ppo --help) == *'length of the run [control steps]'* &&
        $(mf-ppo --help | grep -E '^  [a-z]|^[A-Z].*:$' | grep -A1 '^PPO:' | tail -1) == '  training.clip_range='* ]]
}

@test "the supplied configurations and presets compose" {
    for f in "$ROOT"/configs/*.yaml; do mf-conf --config "$f" >/dev/null || return 1; done
    for f in "$ROOT"/configs/preset/*.yaml; do
        mf-conf --config-dir "$ROOT/configs" -cn lift "+preset=$(basename "$f" .yaml)" >/dev/null || return 1
    done
    cd "$ROOT" && mf-conf -cn lift run.name=null | cmp - <(mf-conf --config configs/lift.yaml)
}

@test "the guide's commands" {
    cd "$ROOT" && run -0 mf-conf -cn lift task.dataset_path=/d.hdf5 policy.checkpoint=/c.ckpt \
        task.env_runner.env_meta.env_name=lift task.env_runner.env_config.env_name=lift wandb_run_name=ppo_v1 \
        training.log_interval=1 use_wandb=false wandb_project=p task.env_runner.max_steps=9 task.env_runner.num_episodes=8 &&
        [[ $output == *'dataset: /d.hdf5'* && $output == *'max_steps: 9'* ]]
}
