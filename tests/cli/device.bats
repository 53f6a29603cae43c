# The script for a machine with a GPU, as far as one without a GPU shows it: its folder is whole, and its parts run on the
# cpu and on the emulator.
load helpers

setup_file() {
    ROOT="$(cd "$BATS_TEST_DIRNAME/../.." && pwd)"
    CUDA=no "$ROOT/tests/device/prepare" "$BATS_FILE_TMPDIR/device"
}
setup() { folder=$BATS_FILE_TMPDIR/device; }

# bare WORDS..: run them as on a machine that has nothing of ours.
bare() { env -i PATH=/usr/bin:/bin HOME="$T" OUT="$T/out" "$@"; }

@test "the folder travels, and finds its libraries in itself" {
    (($(du -sm "$folder" | cut -f1) <= 40)) && bare "$folder/run" >/dev/null
    local file out strange
    while read -r file; do
        out=$(LD_LIBRARY_PATH="$folder.files/lib/system" ldd "$file")
        strange=$(awk '$2 == "=>" && index($3, dir) != 1 { print $1 }' dir="$folder.files/lib/system/" <<<"$out" |
            grep -vE '^(libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s)\.so\.') || true
        [[ -z $strange ]] || { echo "$file: $strange" && return 1; }
    done < <(find "$folder.files" -type f -perm -u+x -exec sh -c 'head -c 4 "$1" | grep -q ELF' _ {} \; -print)
    [[ -x $folder.files/bin/mf-ppo && -x $folder.files/tests/unit/test_op && -s $folder.files/demos.hdf5 ]]
}

@test "without a GPU it says that it skips" {
    run bare "$folder/run"
    [[ $status == 0 && $output == "1..0 # SKIP no GPU here: "* ]]
}

@test "the parts run on the cpu, are not repeated unless named, and fill the table" {
    run bare DEVICE=cpu QUICK=1 LIMIT=300 "$folder/run" self ops sampler lift
    echo "$output"
    ((status == 0)) || return 1
    [[ $(tail -n 1 "$T/out/lift.tap") == "# whole, in "* && $output == *"ok 5 - to the same bytes"* ]] || return 1
    grep -q '^lift  *7 ok  *0 not ok' "$T/out/table" && grep -q '^cpu: cpu' "$T/out/table" || return 1
    run bare DEVICE=cpu QUICK=1 LIMIT=300 PYTHON=/nonexistent "$folder/run"
    [[ $status == 0 && $output == *"# lift: done before"* && $output == *"has no PyTorch"* && $output == *"no compute-sanitizer"* ]] || return 1
    run bare DEVICE=cpu QUICK=1 "$folder/run" self
    [[ $status == 0 && $output == *"# self: at most"* ]]
}

@test "what an earlier run has brought back is not repeated" {
    mkdir -p "$folder/out" && printf 'ok 1 - brought\n1..1\n# whole, in 9 s\n' >"$folder/out/self.tap"
    for part in ops sampler lift bench sanitize profile; do cp "$folder/out/self.tap" "$folder/out/$part.tap"; done
    run bare DEVICE=cpu "$folder/run"
    rm -r "$folder/out"
    [[ $status == 0 && $output == *"# lift: done before"* ]] && grep -q '^profile  *1 ok .* in 9 s' "$T/out/table"
}

@test "a part that takes too long is named, and is done again" {
    run bare DEVICE=cpu LIMIT=0.2 "$folder/run" lift
    [[ $status == 1 && $output == *"not ok - lift: no time left"* ]] && ! grep -q whole "$T/out/lift.tap"
}

@test "an unknown part and a folder that is not made are refused" {
    run bare DEVICE=cpu "$folder/run" bensh
    [[ $status == 2 && $output == "run: no part 'bensh'; there are self ops "* ]] || return 1
    mkdir -p "$T/a/b/c" && cp "$folder/run" "$T/a/b/c/run"
    run "$T/a/b/c/run"
    [[ $status == 2 && $output == *"tests/device/prepare makes it" ]]
}

@test "on the emulator" {
    [[ -e $ROOT/build/emu/mf_cuda.so ]] || skip "make build/emu/mf_cuda.so"
    run bare ASAN_OPTIONS=verify_asan_link_order=0 QUICK=1 LIMIT=300 MF_CUDA="$ROOT/build/emu/mf_cuda.so" "$folder/run" self ops
    echo "$output"
    [[ $status == 0 && $output == *"cuda:0: emulated GPU"* && $output == *"tf32: opens"* && $output == *"ok 1 - test_optimizer"* ]]
}
