# Manual pages and completion, both generated from --help.
load helpers

@test "a manual page for each program, with examples" {
    make -s -C "$ROOT" docs
    local p
    for p in "$ROOT"/bin/mf-*; do
        page="$ROOT/build/man/$(basename "$p").1"
        grep -q '^.SH SYNOPSIS' "$page" && grep -q '^.SH EXAMPLES' "$page" && grep -q 'log.level=info' "$page" &&
            grep -qx '.SS "Messages:"' "$page" &&
            [[ $(grep '^\.SH' "$page" | tail -1) == '.SH EXAMPLES' && $(grep -c '^\.SH ENVIRONMENT' "$page") -eq 0 ]] &&
            diff <(echo .nf; "$p" --help | sed '1,/^Examples:/d; s/^  //') <(sed '1,/^\.SH EXAMPLES/d; s/\\&//g; s/\\-/-/g; s/\\e/\\/g' "$page") ||
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
        [[ $(complete_line "mf-ppo --in") == "--in" && $(complete_line "mf-ppo policy.qk_norm=t") == "true" ]] &&
        [[ $(complete_line "mf-conf policy.kernel") == "policy.kernel_size=" && $(complete_line "mf-eval precision=") == "fp32 bf16 tf32" ]] &&
        [[ $(bash -c "source '$ROOT/share/completion.bash'; complete -p mf-conf") == *"-F _mf mf-conf" ]]
}

@test "completion knows environments, configurations and options of groups, of any folder" {
    mkdir -p "$T/mine/policy" && touch "$T/mine/own.yaml" "$T/mine/policy/tiny.yaml" && cd "$T" &&
        [[ $(complete_line "mf-collect env=") == "ant blocks can exec half_cheetah hopper lift point remote walker2d" && $(complete_line "mf-eval env.name=l") == lift ]] &&
        [[ $(complete_line "mf-ppo --config-name=lif") == "lift lift_pixels lift_pointcloud" && $(complete_line "mf-ppo -cn poi") == point ]] &&
        [[ $(complete_line "mf-ppo --config-dir mine --config-name ow") == own && $(complete_line "mf-ppo -cd mine policy=t") == tiny ]] &&
        [[ $(complete_line "mf-ppo +preset=rl") == rlinf ]]
}

@test "installed into a folder with a blank in its name, programs and pipelines find their files from any folder" {
    make -s -C "$ROOT" install DESTDIR="$T/a b" PREFIX=/c && mkdir "$T/elsewhere" && cd "$T/elsewhere" || return 1
    local to="$T/a b/c" share="$T/a b/c/share/maniflow" PATH=/usr/bin:/bin
    [[ $("$to/bin/mf-conf" --config-name=lift env.name) == lift ]] &&
        cmp "$to/share/man/man1/mf-gae.1" "$ROOT/build/man/mf-gae.1" && cmp "$to/share/bash-completion/completions/mf-gae" "$ROOT/share/completion.bash" &&
        "$share/pipelines/train" --config-name=point training.total_timesteps=4096 log.level=error >/dev/null 2>hints && ! grep -F "a b/c" hints &&
        "$to/bin/mf-check" outputs/point && ls outputs/point/ppo/checkpoints/*.safetensors >/dev/null &&
        "$share/pipelines/sweep" --dry-run --configs lr:low --seeds 0 | grep -qF "$(printf %q "$share/pipelines/train") " &&
        [[ -x $share/examples/filter.py && -r $share/examples/envs/serving.py && ! -e $share/pipelines/setup ]] &&
        make -s -C "$ROOT" uninstall DESTDIR="$T/a b" PREFIX=/c && [[ $(find "$to" ! -type d) == '' && ! -e $share ]]
}

@test "make help lists the targets; a build prints a line for each file, a command with V=1, nothing with -s" {
    unset MAKEFLAGS MFLAGS MAKELEVEL # of the make that runs the tests
    [[ $(make -s -C "$ROOT" help) == *"make uninstall"*"make bench"* ]] && mkdir "$T/tree" && cd "$T/tree" &&
        cp -r "$ROOT"/{Makefile,lib,stages} . && mkdir build && echo 'int main(void) { return 0; }' >stages/none.c &&
        [[ $(make -s -n build/stages/none.o | grep -c printf) -eq 0 && $(make --no-print-directory build/stages/none.o) == '  CC   stages/none.c' ]] &&
        rm build/stages/none.o && [[ $(make --no-print-directory V=1 build/stages/none.o | tail -1) == *"-c -o build/stages/none.o stages/none.c" ]] &&
        rm build/stages/none.o && [[ $(make -s build/stages/none.o) == '' ]]
}
