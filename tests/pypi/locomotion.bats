# Our hopper, walker2d, half_cheetah and ant beside Gymnasium's own, on Gymnasium's models.
load ../cli/helpers

@test "60 steps of random actions from the same states: equal observations, rewards and ends" {
    run -0 "$ROOT/build/venv/locomotion/bin/python" "$ROOT/tests/pypi/parity.py"
    [[ ${#lines[@]} == 4 ]] || { echo "$output"; return 1; }
}
