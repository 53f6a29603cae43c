# The emulator of a GPU: what tests on it notice.
load helpers

@test "a test notices each fault that is planted in a kernel, or in what waits for kernels" {
    cd "$ROOT" || return 1
    run tests/emu/plant
    [[ $status -eq 0 && $(grep -c "^ok" <<<"$output") -ge 12 ]] || { grep -v '^ok' <<<"$output" && return 1; }
}
