# For the tests of pipelines/: from another folder than their own.
load helpers

setup() {
    cd "$T" || return 1
    # shellcheck disable=SC2034 # for those who load this
    tiny=(env=point 'policy.hidden=[8]' 'policy.critic_hidden=[8]' training.num_envs=8 training.num_steps_per_rollout=8 threads=1)
}
pipeline() { "$ROOT/pipelines/$1" "${@:2}" >"$T/out" 2>"$T/err"; }
told() { grep -qF -- "$1" "$T/err" || { cat "$T/err"; return 1; }; }
