# mf-plot draws runs; those that differ only in their seed are one curve in a band.
load helpers

# told FOLDER WORDS..: records a configuration for the runs in FOLDER.
told() {
    local run
    for run in "$1"/*; do
        mkdir -p "$run/configs"
        mf-collect "${@:2}" run.seed="${run##*/}" run.dir="$run" --cfg >"$run/configs/mf-collect.yaml"
    done
}
setup() {
    cd "$T" || return 1
    "$ROOT/tests/tools/runs.py" all/slow 0 1 2 && told all/slow training.learning_rate=.001 &&
        "$ROOT/tests/tools/runs.py" all/fast 0 1 && told all/fast training.learning_rate=.003
}
# texts FILE: an SVG's, a line each.
texts() { python3 -c 'import sys, xml.etree.ElementTree as E; [print(t.text) for t in E.parse(sys.argv[1]).iter("{http://www.w3.org/2000/svg}text")]' "$1"; }

@test "without a file it draws with characters, also for a pipe" {
    [[ $(mf-plot all | head -c 400) != *$'\f'* && -n $(mf-plot all | head -1 | tr -d ' ') ]] && run -0 mf-plot all && [[ $output == *"rollout/success_once"*"control steps, thousands"* ]] &&
        [[ $output == *"fast (2 seeds)"* && $output == *"slow (3 seeds)"* ]] || return 1
    run -0 mf-plot all/slow/0 plot.x=time 'plot.series=[train/approx_kl]' && [[ $output == *"train/approx_kl"*seconds* && $output != *seeds* ]]
}

@test "SVG and PNG: runs of one configuration are a curve with a band, others are further curves" {
    mf-plot all plot.out=p.svg 'plot.series=[rollout/success_once,train/approx_kl]' && texts p.svg >words &&
        [[ $(grep -c 'slow (3 seeds)' words) -eq 2 && $(grep -c 'train/approx_kl' words) -eq 1 ]] &&
        [[ $(grep -c "fill-opacity = '0.15" p.svg) -eq 4 ]] &&
        mf-plot all/slow/0 plot.out=one.svg && ! grep -q "fill-opacity = '0.15" one.svg &&
        mf-plot all plot.out=p.png && [[ $(head -c 8 p.png | od -An -tx1 | xargs) == "89 50 4e 47 0d 0a 1a 0a" && ! -e p.png.part ]]
}

# places FILE: of an SVG's texts, "y text" a line each; for one panel.
places() {
    python3 - "$1" <<'PY'
import re, sys, xml.etree.ElementTree as E
S = "{http://www.w3.org/2000/svg}"
for g in E.parse(sys.argv[1]).iter(S + "g"):
    for text in g.findall(S + "text"):
        print(re.search(r"translate\(([^,]*),([^)]*)\)", g.get("transform", "")).group(2), "".join(text.itertext()).strip())
PY
}

@test "the legend stands below the label of the axis, clear of it" {
    mf-plot all plot.out=p.svg && places p.svg >lines && cat lines &&
        awk '/control steps/ { axis = $1 } /seeds/ { if (!top || $1 < top) top = $1; n++ } END { exit !(n == 2 && top - axis >= 15) }' lines
}

@test "a clone's steps are minibatches" {
    /usr/bin/python3 -c 'import msgpack, sys
put = lambda **m: sys.stdout.buffer.write(msgpack.packb(m))
put(mf="head", v=1, run="", src="", seed=0, spec={}, chain=[])
for i in range(3):
    put(mf="metrics", iter=i, step=10 * i + 10, time=1.0 * i, values={"train/loss": 1.0 - i / 9, "perf/samples_per_s": 1e4})
put(mf="end", src="", frames=4, samples=0, stopped=False)' >c.mf || skip "no python3-msgpack"
    mf-plot c.mf >c && grep -q 'minibatches, thousands' c && grep -q train/loss c && mf-plot c.mf all 'plot.series=[train/loss]' >c && grep -q '  steps, thousands' c &&
        mf-report c.mf | grep -q '3 iterations, 30 minibatches, 2.0 s'
}

@test "another key, or a repeated seed, is another curve; so is a saved stream" {
    cp -r all/slow/0 again && mf-plot all/slow again plot.out=p.svg && [[ $(texts p.svg | grep -c 'all/slow (3 seeds)\|again$') -eq 2 ]] &&
        cp again/logs/metrics.mf m.mf && rm -r again/configs && mf-plot again all/slow plot.out=p.svg && texts p.svg | grep -qx again &&
        mf-plot m.mf | grep -q success_once
}

@test "runs of different folders, or from another checkpoint, are no seeds of each other" {
    mkdir -p outputs/lift outputs/demo && cp -r all/slow/0 outputs/lift/ppo && cp -r all/slow/1 outputs/demo/ppo && mf-plot outputs/lift outputs/demo/ppo plot.out=p.svg && texts p.svg >words &&
        grep -qx lift/ppo words && grep -qx demo/ppo words && ! grep seeds words && cp -r all/slow/2 outputs/demo/again && mf-plot outputs/lift outputs/demo plot.out=p.svg && texts p.svg >words &&
        grep -qx 'demo (2 seeds)' words && grep -qx lift/ppo words && mf-plot ./outputs/demo/again outputs/demo/ppo | grep -q '(2 seeds)' || { cat words; return 1; }
    mf-collect training.learning_rate=.001 policy.checkpoint=b run.seed=2 --cfg >all/slow/2/configs/mf-collect.yaml &&
        mf-plot all/slow plot.out=p.svg && texts p.svg >words && [[ $(grep -c '(2 seeds)' words) -eq 1 && $(grep -c '(3 seeds)' words) -eq 0 ]]
}

@test "names are plain text, whatever characters they have" {
    name="it's \`id\` \$(id) <script>"$'\n'"]]> %s"
    mkdir "$name" && cp -r all/slow "$name/s" && mf-plot all/fast "$name" plot.out=p.svg && texts p.svg >words &&
        grep -qF "it's \`id\` \$(id) <script› ]]› %s/s (3 seeds)" <<<"$(tr '?' ' ' <words)"
}

# gnuplot_that SCRIPT: another one stands before it in PATH.
gnuplot_that() { mkdir -p fake && printf '#!/bin/sh\n%s\n' "$1" >fake/gnuplot && chmod +x fake/gnuplot; }

@test "a gnuplot that is killed, fails, or loses output makes no picture" {
    local real words
    real=$(command -v gnuplot)
    for words in "mf-plot all plot.out=p.svg" "mf-plot all" "mf-report all"; do
        read -ra tool <<<"$words"
        gnuplot_that 'kill -9 $$' && PATH=$T/fake:$PATH run -1 "${tool[@]}" && [[ $output == *"gnuplot was killed by signal 9 (Killed) before the picture was made" ]] || return 1
        gnuplot_that "$real"' "$@"; kill -SEGV $$' && PATH=$T/fake:$PATH run -1 "${tool[@]}" && [[ $output == *"killed by signal 11"* ]] || return 1
        gnuplot_that 'echo no such terminal >&2; exit 1' && PATH=$T/fake:$PATH run -1 "${tool[@]}" && [[ $output == *"gnuplot could not draw the picture: no such terminal"* ]] || return 1
        gnuplot_that "$real"' "$@"; truncate -s 8192 /dev/fd/1' && PATH=$T/fake:$PATH run -1 "${tool[@]}" && [[ $output == *"gnuplot could not write the whole picture"* ]] || return 1
        gnuplot_that 'exit 0' && PATH=$T/fake:$PATH run -1 "${tool[@]}" && [[ $output == *"gnuplot could not write the whole picture"* && ! -e p.svg && ! -e p.svg.part ]] || return 1
    done
}

@test "a failed write, once or from then on, is an error" {
    export ASAN_OPTIONS=detect_leaks=0 # no leak check under strace
    command -v strace >/dev/null && strace -o /dev/null true || skip "no strace"
    mf-plot all plot.out=whole.svg && mf-report all >whole.html || return 1
    local n how rc failed=0
    for n in 1 4 6 8 11 13; do
        for how in EIO:when=$n ENOSPC:when=$n+; do
            rc=0 && rm -f p.svg && strace -f -qq -o log -e trace=write -e inject=write:error="$how" mf-plot all plot.out=p.svg 2>said || rc=$?
            if [[ $rc -eq 0 ]]; then cmp p.svg whole.svg; else [[ $rc -eq 1 && ! -e p.svg ]]; fi || { echo "$n $how $rc"; return 1; }
            failed=$((failed + (rc == 1)))
            rc=0 && strace -f -qq -o log -e trace=write -e inject=write:error="$how" mf-report all >page 2>said || rc=$?
            if [[ $rc -eq 0 ]]; then diff <(grep -v 'Written by' page) <(grep -v 'Written by' whole.html); else [[ $rc -eq 1 ]]; fi || { echo "report $n $how $rc"; return 1; }
        done
    done
    [[ $failed -ge 9 ]] # the others met a warning of gnuplot's, or came after the last write
}

@test "a full disk is an error, and the old picture stays" {
    run -1 bash -c 'mf-plot all >/dev/full' && [[ $output == *"write <stdout>: No space left on device" ]] || return 1
    mkdir small && mount -t tmpfs -o size=16k none small || skip "no tmpfs here"
    local rc=0
    { echo old >small/p.svg && run -1 mf-plot all plot.out=small/p.svg && [[ $output == *"small/p.svg.part': No space left on device" && $(cat small/p.svg) == old && $(ls small) == p.svg ]] &&
        run -1 bash -c 'mf-report all >small/r.html' && [[ $output == *"No space left on device" ]]; } || rc=1
    umount small && return $rc
}

@test "errors for input that cannot be drawn" {
    run -2 mf-plot && [[ $output == *"give the runs to plot"* ]]
    run -1 mf-plot nowhere && [[ $output == *"nowhere: No such file or directory" ]]
    mkdir empty && run -2 mf-plot empty && [[ $output == *"empty has no run in it or below: no checkpoints/ and no logs/metrics.mf"* ]]
    run -2 mf-plot all plot.out=p.jpg && [[ $output == *"plot.out='p.jpg' must end in .png or .svg"* ]]
    run -2 mf-plot all 'plot.series=[nope]' && [[ $output == *"no run has 'nope'; available: rollout/success_once, train/approx_kl"* ]]
    run -2 mf-plot all all && [[ $output == *" is there twice: give it once"* || $output == *"are the same: give it once"* ]] && run -2 mf-plot all 'plot.series=[train/approx_kl,train/approx_kl]' && [[ $output == *"has 'train/approx_kl' twice"* ]] || return 1
    mkdir -p young/logs && : >young/logs/metrics.mf && run -2 mf-plot young && [[ $output == *"young has no iteration to plot yet"* ]]
    mkdir p.png && run -2 mf-plot all plot.out=p.png && [[ $output == *"'p.png' is a folder"* ]]
    mkdir bin && ln -s "$(command -v mf-plot)" bin && PATH=$PWD/bin run -1 mf-plot all && [[ $output == *"cannot start gnuplot, which draws the pictures (is it installed?)"* ]]
}
