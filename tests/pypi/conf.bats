# What Hydra and OmegaConf themselves make of the same files and words.
load ../cli/helpers

@test "every configuration of tests/fixtures/hydra and short composes to what Hydra composes" {
    for folder in "$ROOT"/tests/fixtures/{hydra,short}; do
        run "$ROOT/build/venv/conf/bin/python" "$ROOT/tests/pypi/compose_both.py" "$folder" "$ROOT/bin/mf-conf" <"$folder/CASES"
        echo "$output"
        [[ $status -eq 0 && ${#lines[@]} -eq $(wc -l <"$folder/CASES") ]] || return 1
    done
}
