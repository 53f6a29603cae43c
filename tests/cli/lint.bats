# What lint says of itself.
load helpers

@test "a lint that was skipped is not called ok, one that found something is not either" {
    mkdir "$T/bin" && ln -s "$(command -v dirname)" "$T/bin/" && cd "$ROOT" || return 1
    PATH=$T/bin run -0 tests/lint/all clang && [[ $output == *"lint clang: skipped" && $output != *ok* ]] &&
        PATH=$T/bin run -1 tests/lint/all clang format && [[ $output == *"lint format: FAILED" && $output != *ok* ]]
}
