# mf-plot draws runs; those that differ only in their seed are one curve in a band.
load helpers

# told FOLDER WORDS..: what its runs were told.
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
    run -0 mf-plot all && [[ $output == *"rollout/success_once"*"control steps, thousands"* ]] &&
        [[ $output == *"fast (2 seeds)"* && $output == *"slow (3 seeds)"* ]]
    run -0 mf-plot all/slow/0 plot.x=time 'plot.series=[train/approx_kl]' && [[ $output == *"train/approx_kl"*seconds* && $output != *seeds* ]]
}

@test "SVG and PNG: runs of one configuration are a curve and a band, others a curve more" {
    mf-plot all plot.out=p.svg 'plot.series=[rollout/success_once,train/approx_kl]' && texts p.svg >words &&
        [[ $(grep -c 'slow (3 seeds)' words) -eq 2 && $(grep -c 'train/approx_kl' words) -eq 1 ]] &&
        [[ $(grep -c "fill-opacity = '0.15" p.svg) -eq 4 ]] &&
        mf-plot all/slow/0 plot.out=one.svg && ! grep -q "fill-opacity = '0.15" one.svg &&
        mf-plot all plot.out=p.png && [[ $(head -c 8 p.png | od -An -tx1 | xargs) == "89 50 4e 47 0d 0a 1a 0a" && ! -e p.png.part ]]
}

@test "another key, or the same seed again, is another curve; a saved stream alone is one too" {
    cp -r all/slow/0 again && mf-plot all/slow again plot.out=p.svg && [[ $(texts p.svg | grep -c 'all/slow (3 seeds)\|again$') -eq 2 ]] &&
        cp again/logs/metrics.mf m.mf && rm -r again/configs && mf-plot again all/slow plot.out=p.svg && texts p.svg | grep -qx again &&
        mf-plot m.mf | grep -q success_once
}

@test "a name is text, whatever it holds" {
    name="it's \`id\` \$(id) <script>"$'\n'"]]> %s"
    mkdir "$name" && cp -r all/slow "$name/s" && mf-plot all/fast "$name" plot.out=p.svg && texts p.svg >words &&
        grep -qF "it's \`id\` \$(id) <script› ]]› %s/s (3 seeds)" <<<"$(tr '?' ' ' <words)"
}

@test "what cannot be drawn is said" {
    run -2 mf-plot && [[ $output == *"name the runs to draw"* ]]
    run -1 mf-plot nowhere && [[ $output == *"nowhere: No such file or directory" ]]
    mkdir empty && run -2 mf-plot empty && [[ $output == *"empty has no run in it or below: no checkpoints/ and no logs/metrics.mf"* ]]
    run -2 mf-plot all plot.out=p.jpg && [[ $output == *"ends in .png or .svg, not so 'p.jpg'"* ]]
    run -2 mf-plot all 'plot.series=[nope]' && [[ $output == *"no run has 'nope'; there are rollout/success_once, train/approx_kl"* ]]
    mkdir -p young/logs && : >young/logs/metrics.mf && run -2 mf-plot young && [[ $output == *"young has no iteration to draw yet"* ]]
    mkdir p.png && run -2 mf-plot all plot.out=p.png && [[ $output == *"'p.png' is a folder"* ]]
    mkdir bin && ln -s "$(command -v mf-plot)" bin && PATH=$PWD/bin run -1 mf-plot all && [[ $output == *"gnuplot, which cannot be started (is it installed?)"* ]]
}
