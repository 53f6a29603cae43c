# Manual pages and completion, both made from what the programs say of themselves.
load helpers

@test "a manual page for each program, with examples" {
    make -s -C "$ROOT" docs
    local p
    for p in "$ROOT"/bin/mf-*; do
        page="$ROOT/build/man/$(basename "$p").1"
        grep -q '^.SH SYNOPSIS' "$page" && grep -q '^.SH EXAMPLES' "$page" && grep -q 'log.level=info' "$page" ||
            { echo "$p"; cat "$page"; return 1; }
    done
}

# complete LINE: what bash would offer
complete_line() {
    bash -c 'source "$1"; COMP_LINE=$2 COMP_POINT=${#2}; _mf "${2%% *}"; echo "${COMPREPLY[@]}"' - "$ROOT/share/completion.bash" "$1"
}

@test "completion knows keys, choices and options" {
    [[ $(complete_line "mf-gae advantage.gam") == "advantage.gamma=" ]] &&
        [[ $(complete_line "mf-gae advantage.compat=d") == "dppo" ]] &&
        [[ $(complete_line "mf-ppo --in") == "--in" ]] &&
        [[ $(bash -c "source '$ROOT/share/completion.bash'; complete -p mf-conf") == *"-F _mf mf-conf" ]]
}

@test "installed into a folder with a blank in its name, it finds its configurations from anywhere" {
    make -s -C "$ROOT" install DESTDIR="$T/a b" PREFIX=/c && cd "$T" && [[ $("a b/c/bin/mf-conf" --config-name=lift env.name) == lift ]] &&
        cmp "a b/c/share/man/man1/mf-gae.1" "$ROOT/build/man/mf-gae.1" && cmp "a b/c/share/bash-completion/completions/mf-gae" "$ROOT/share/completion.bash"
}
