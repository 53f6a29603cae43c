# Our recordings in robomimic's own data set, and our samples counted as it counts them.
load ../cli/helpers

setup() {
    python=${MF_BENCH_PYTHON:-$ROOT/.venv/torch/bin/python}
    PYTHONPATH=$(echo "$ROOT"/build/venv/robomimic/lib/python3*/site-packages)
    export PYTHONPATH
    "$python" -c 'import torch, h5py' 2>/dev/null || skip "no PyTorch with h5py: MF_BENCH_PYTHON names a Python, make bench installs one"
    cd "$T" || return 1
}

@test "what mf-record wrote is read by robomimic's SequenceDataset, and mf-bc cuts as many samples" {
    mf-collect env=lift collect.actor=expert collect.episodes=6 policy.n_action_steps=1 | mf-record demos.hdf5 >/dev/null
    "$python" "$ROOT/tests/pypi/sequences.py" demos.hdf5 counts || return 1
    [[ $(wc -l <counts) -eq 5 ]] || return 1
    while read -r stack length before after samples; do
        run -0 mf-bc clone.dataset=demos.hdf5 env=lift run.dir=bc run.force=true clone.steps=1 'policy.hidden=[8,8,8]' --out /dev/null \
            policy.n_obs_steps="$stack" policy.horizon="$length" policy.n_action_steps=1 clone.pad_before=$((-before)) clone.pad_after=$((-after))
        [[ $output == *" $samples samples"* ]] || { echo "$output" && return 1; }
    done <counts
}
