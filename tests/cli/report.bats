# mf-report: one page, whole in itself.
load helpers

setup() {
    cd "$T" || return 1
    local name rate run
    evil='all/<script>document.title=1</script>'
    for name in slow:.001 "$evil:.003"; do
        rate=${name##*:} name=${name%:*} && name=${name#all/}
        "$ROOT/tests/tools/runs.py" "all/$name" 0 1 2
        for run in "all/$name"/*; do
            mkdir -p "$run/configs" "$run/videos"
            mf-collect training.learning_rate="$rate" run.seed="${run##*/}" run.dir="$run" --cfg >"$run/configs/mf-collect.yaml"
        done
    done
    printf 'GIF89a-not-really' >all/slow/0/videos/000003.gif
}
# page FILE: as XML and as HTML; prints the comparison's rows, cells by '|'.
page() {
    python3 - "$1" <<'PY'
import html.parser, sys, xml.etree.ElementTree as E
text = open(sys.argv[1], encoding="utf-8").read()
root = E.fromstring(text)
class Tags(html.parser.HTMLParser):
    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "link", "iframe"), tag
        assert not any(v and v.startswith(("http:", "https:", "//")) for k, v in attrs if not k.startswith("xmlns")), attrs
Tags().feed(text)
H = "{http://www.w3.org/1999/xhtml}"
assert len({e.get("id") for e in root.iter() if e.get("id", "").startswith("g") and e.tag == H + "h2"}) == len(root.findall(f".//{H}h2[@id]"))
for row in root.find(f".//{H}table[@id='comparison']").iter(H + "tr"):
    print("|".join("".join(cell.itertext()) for cell in row))
PY
}

@test "a page is well-formed, loads nothing, runs nothing, and compares: success, spread, steps, seconds" {
    mf-report all report.success=.7 >r.html && page r.html >rows && cat rows &&
        [[ $(wc -l <rows) -eq 3 ]] &&
        grep -qxF 'slow|training.learning_rate=0.001|3|0.935 (0.925 to 0.945)last 2 iterations|0.0001|3 of 3|2000|40.0|2|20|2000 control steps' rows &&
        grep -qF '<script>document.title=1</script>|training.learning_rate=0.003|3|' rows &&
        mf-report all report.success=.73 >r.html && page r.html | grep -qF 'slow|training.learning_rate=0.001|3|0.935 (0.925 to 0.945)last 2 iterations|0.0001|2 of 3|2000|' &&
        mf-report all report.success=.54 >r.html && page r.html | grep -qF '|3 of 3|1667 (1600 to 1700)|33.3 (32.0 to 34.0)|' &&
        mf-report all report.success=.54 report.window=1 >r.html && page r.html | grep -qF '|3 of 3|1200|'
}

@test "a run's page: configuration, provenance, machine, troubles, videos" {
    printf 'GIF89a-not-really' | base64 -w0 >b64 && mf-report all/slow/0 >r.html && page r.html >rows && cat rows && [[ $(xargs -d '\n' <rows) == "final success|0.925last 2 iterations reached 0.9|0 of 1 seconds per iteration|2 iterations|20 control steps|2000" ]] && ! grep -q -- '|-' rows &&
        grep -qF '<code>training.learning_rate</code></td><td><code>0.001</code>' <(tr -d '\n' <r.html | sed 's/> *</></g') &&
        grep -qF '0.1.0: mf-collect run.seed=0' r.html && grep -qF "$(uname -r)" r.html && grep -qF "src=\"data:image/gif;base64,$(cat b64)\"" r.html &&
        grep -q '<svg' r.html && grep -qF '20 iterations, 2000 control steps, 40.0 s; ended' r.html && ! grep -q 'class="trouble"' r.html || return 1
    /usr/bin/python3 - all/slow/0/logs/metrics.mf <<'PY'
import msgpack, sys
frames = list(msgpack.Unpacker(open(sys.argv[1], "rb")))
with open(sys.argv[1], "wb") as f:
    for m in frames[:-1]:
        if m["mf"] == "metrics":
            m["values"]["train/approx_kl"] = .5
        f.write(msgpack.packb(m))
PY
    mf-report all/slow/0 >r.html && grep -qF '<p class="trouble">trouble: KL is 0.5: the updates are too large; lower' r.html && grep -qF '; cut before its end' r.html
}

@test "a policy's keys are those in force, as its checkpoint has them; a clone's steps are minibatches" {
    mf-collect collect.actor=expert collect.episodes=8 | mf-record d.hdf5 >/dev/null && mf-bc clone.dataset=d.hdf5 'policy.hidden=[8]' policy.horizon=6 clone.steps=20 \
        clone.warmup_steps=0 clone.batch_size=16 run.dir=both/clone >m 2>log && mf-collect policy.checkpoint=both/clone training.num_envs=4 training.num_steps_per_rollout=4 \
        training.total_timesteps=40 run.dir=both/ppo 2>>log | mf-gae | mf-ppo >m 2>>log || return 1
    mf-report both/ppo | tr -d '\n' | sed 's/> *</></g; s/<summary>The other keys.*//' >r.html &&
        grep -qF '<code>policy.hidden</code></td><td><code>[8]</code>' r.html && grep -qF '<code>policy.horizon</code></td><td><code>6</code>' r.html &&
        grep -qF '<code>policy.obs_keys</code></td><td><code>[position, velocity, goal]</code>' r.html && ! grep -qF 'policy.num_inference_steps' r.html || { cat r.html; return 1; }
    mf-report both/clone >r.html && page r.html >rows && grep -qx 'minibatches|20' rows && ! grep -q 'control steps|' rows &&
        mf-report both >r.html && page r.html >rows && cat rows && grep -q '^clone|.*|20 minibatches$' rows && grep -q '^ppo|.*|[0-9]* control steps$' rows
}

@test "names that are not UTF-8, runs without configuration or iterations still make a page" {
    name=$'b\xffd \x01 & "q" ]]>'
    mkdir -p "$name/logs" && cp all/slow/1/logs/metrics.mf "$name/logs" && mkdir -p young/logs && : >young/logs/metrics.mf &&
        mf-report "$name" young all >r.html && page r.html >rows && grep -qF $'b\xef\xbf\xbdd \xef\xbf\xbd & "q" ]]>|not known|1|0.935last 2 iterations|-|0 of 1' rows &&
        grep -qF 'young|not known|1|-|-|0 of 1|-|-|-|0|0 control steps' rows
}

# evaluations FILE: the rows of that table, cells by '|', without what made them.
evaluations() {
    python3 - "$1" <<'PY'
import sys, xml.etree.ElementTree as E
H = "{http://www.w3.org/1999/xhtml}"
for table in E.parse(sys.argv[1]).iter(H + "table"):
    for row in list(table)[1:] if table.get("class") == "evaluations" else []:
        print("|".join((c.find(H + "code").text if c.find(H + "code") is not None else "".join(c.itertext())) for c in row))
PY
}

@test "evaluations beside a run are a table, each compared with the first on the same trials; other files are ignored" {
    mf-collect run.dir=p training.total_timesteps=30000 2>log | mf-gae | mf-ppo training.save_interval=6 >m 2>>log
    cp p/checkpoints/000006.safetensors p/checkpoints/000008.safetensors . && trials="eval.num_episodes=20 eval.seed=[0,1]"
    # shellcheck disable=SC2086 # two words
    mf-eval 00000[68].safetensors $trials eval.num_inference_steps=[1,4] eval.results=p/kept.jsonl eval.compare=true eval.format=csv log.level=error 2>t.csv >m &&
        mf-eval 000006.safetensors eval.num_episodes=20 eval.num_inference_steps=4 eval.json=p/logs/eval.json >m 2>>log &&
        mf-eval 000008.safetensors eval.num_episodes=7 eval.json=p/logs/other.json >m 2>>log || return 1
    printf '{"checkpoint": "x' >>p/kept.jsonl && echo nonsense >p/logs/b.json && printf '{"results": [{"digest": "a", "n": 1, "trials": 3}, 4]}' >p/c.json
    mf-report p >r.html && evaluations r.html >rows && cat t.csv rows && [[ $(wc -l <rows) -eq 5 ]] &&
        awk -F, 'NR > 1 { printf "%s|point|%d|2|40|%.3f (%.3f to %.3f)|", $1, $5, $8, $9, $10
            if (NR < 4) print "the reference"
            else printf "%+.3f (%+.3f to %+.3f)%d won, %d lost, p = %.2g\n", $20, $21, $22, $23, $24, $25 }' t.csv >want &&
        head -4 rows | awk -F'|' 'BEGIN { OFS = "|" } { print $1, $2, $3, $4, $5, $6, $10 }' | diff want - && [[ $(tail -1 rows) == *"|7|"*"|other trials" ]] &&
        grep -qF "<p>On $(uname -n), $(uname -s) $(uname -r)" r.html && page r.html >rows
}

@test "a run from elsewhere shows only its own content: no environment variables, no links out of it, no pipes" {
    cd all/slow/0 || return 1
    export MF_TEST_SECRET=hunter2
    local ref="\${oc.env:MF_TEST_SECRET}"
    sed -i "s|^  command:.*|  command: 'serve $ref'|; s|^  batch_size:.*|  batch_size: $ref|" configs/mf-collect.yaml
    echo hunter2 >"$T/secret" && printf hunter2 | base64 >"$T/b64" && ln -s "$T/secret" videos/000001.mp4 && ln -s "$T/secret" configs/machine &&
        mkdir "$T/elsewhere" && mv videos/000003.gif "$T/elsewhere" && mkfifo videos/000002.gif x.json logs/y.json configs/mf-ppo.yaml &&
        ln -s "$T/elsewhere" videos/more || return 1
    run -0 --separate-stderr timeout -s KILL 20 mf-report . && cat <<<"$stderr" && ! grep -qFi -e hunter2 -e "$(cut -c1-6 "$T/b64")" <<<"$output$stderr" &&
        grep -qF "serve $ref" <<<"$output" && grep -qF "<code>$ref</code>" <<<"$output" &&
        [[ $(grep -c 'is a link out of the run' <<<"$output") -eq 2 ]] || return 1
    rm -r videos && mv "$T/elsewhere" "$T/films" && printf 'GIF89a' >"$T/films/1.gif" && ln -s "$T/films" videos &&
        timeout -s KILL 20 mf-report . >"$T/p" && ! grep -q 'data:image' "$T/p" || return 1
    cp logs/metrics.mf "$T/m.mf" && cd "$T" && mf-report m.mf >p && ! grep -q -e 'learning_rate' -e 'videos/' p # its head names all/slow/0
}

@test "a run whose journal is a pipe or a device is refused at once by every reader" {
    mkdir -p f/logs d/logs f/checkpoints d/checkpoints && mkfifo f/logs/metrics.mf && ln -s /dev/zero d/logs/metrics.mf || return 1
    local tool dir
    for tool in plot report top stat check; do
        for dir in f d; do
            run -3 timeout -s KILL 10 mf-$tool $dir </dev/null && [[ $output == *"$dir/logs/metrics.mf is a"*", not a regular file"* ]] || return 1
        done
    done
}

@test "results that lack a field are left out with a warning; the others make their table" {
    mkdir p && cp -r all/slow/0/logs p && /usr/bin/python3 - <<'PY' || return 1
import json
trials = {k: [1, 0] for k in ("success_once", "success_at_end", "length", "return")}
good = {"checkpoint": "c", "digest": "d", "weights": "raw", "env": "point", "server": None, "max_steps": 4, "seed": 0,
        "denoising_steps": 4, "n": 2, "engine": {}, "policy": {}, "trials": trials}
bad = [{k: v for k, v in good.items() if k != lacking} for lacking in ("env", "denoising_steps", "max_steps", "seed", "n", "digest", "weights", "checkpoint")]
bad += [dict(good, **{k: v}) for k, v in (("env", 3), ("n", -1), ("n", 1 << 62), ("seed", "x"), ("trials", dict(trials, success_once=[5, "a"])))]
other = {k: v for k, v in good.items() if k != "server"} | {"s%rver": None}
with open("p/r.jsonl", "w") as f:
    for r in bad[:5] + [good] + bad[5:] + [dict(other, digest="e"), dict(good, digest="f", trials=dict(trials, **{"return": [None, 1]}))]:
        f.write(json.dumps(r) + "\n")
PY
    run -0 --separate-stderr mf-report p && [[ $stderr == "mf-report: warn: p/r.jsonl: skipped 13 of its results: a field is missing or of the wrong type" ]] &&
        cat >r.html <<<"$output" && evaluations r.html >rows && cat rows && [[ $(wc -l <rows) -eq 3 && $(grep -c '^c|point|4|1|2|0.500' rows) -eq 3 && $(grep -c '|nan|' rows) -eq 1 ]] || return 1
    { head -n 6 p/r.jsonl | tail -n 1 && echo '{"checkpoint": NaN}' && tail -n 1 p/r.jsonl; } >damaged.jsonl && mv damaged.jsonl p/r.jsonl
    run -0 --separate-stderr mf-report p && [[ $stderr == "mf-report: warn: p/r.jsonl is cut or damaged: skipped the rest of it (invalid token near 'NaN')" ]] &&
        cat >r.html <<<"$output" && evaluations r.html >rows && [[ $(wc -l <rows) -eq 1 ]]
}

@test "evaluations: the reference is the clone, else the earliest one, and of several words the first one's" {
    mkdir -p d/tuned/logs && cp all/slow/0/logs/metrics.mf d/tuned/logs && /usr/bin/python3 - <<'PY' || return 1
import json, os
trials = {k: [1, 0] for k in ("success_once", "success_at_end", "length", "return")}
def write(path, name, iter, age):
    j = {"checkpoint": name, "digest": name, "weights": "raw", "env": "point", "max_steps": 4, "seed": 0, "denoising_steps": 4,
         "iter": iter, "n": 2, "engine": {}, "policy": {}, "trials": trials}
    json.dump({"results": [j]}, open(path, "w"))
    os.utime(path, (age, age))
write("d/after.json", "tuned", 8, 2000)
write("d/before.json", "clone", 0, 1000)
write("d/copied.json", "old", 9, 500)
write("d/tuned/logs/eval.json", "first", 0, 3000)
PY
    names() { evaluations r.html | awk -F'|' '{ print $1 ($NF == "the reference" ? "!" : "") }' | xargs; }
    mf-report d >r.html && [[ $(names) == "clone! first old tuned" ]] && mf-report d/tuned d >r.html && [[ $(names) == "first! clone old tuned" ]] &&
        mv d/before.json all && mf-report d >r.html && [[ $(names) == "first! old tuned" ]] && rm d/tuned/logs/eval.json && mf-report d >r.html && [[ $(names) == "old! tuned" ]]
}

@test "a browser draws the page, and no name becomes a script" {
    command -v chromium >/dev/null || skip "no chromium"
    mf-report all >r.html
    HOME=$T timeout 60 chromium --headless --no-sandbox --disable-gpu --window-size=1200,900 --dump-dom "file://$T/r.html" >dom 2>/dev/null
    grep -qF '<title>Runs compared</title>' dom && grep -q '<svg' dom
    HOME=$T timeout 60 chromium --headless --no-sandbox --disable-gpu --window-size=1200,900 --screenshot="$T/r.png" "file://$T/r.html" 2>/dev/null
    [[ $(wc -c <r.png) -gt 20000 ]] || return 1
    mkdir p && cp -r all p && /usr/bin/python3 - <<'PY' && mf-report p >r.html || return 1
import json
trials = {k: [1, 0] * 64 for k in ("success_once", "success_at_end", "length", "return")}
with open("p/r.jsonl", "w") as f:
    for name in ("demo/clone/checkpoints/clone.safetensors", "a_run_with_a_name_of_some_length/checkpoints/000200.safetensors"):
        f.write(json.dumps({"checkpoint": "outputs/" + name, "digest": "0123456789abcdef" + name[0], "weights": "raw", "env": "lift", "server": None,
                            "max_steps": 200, "seed": 0, "denoising_steps": 4, "n": 128, "engine": {"program": "mf-eval 0.1.0", "device": "cpu",
                            "precision": "fp32"}, "policy": {}, "trials": trials}) + "\n")
PY
    # How far each wide table goes beyond what is seen of it, in a window as wide as the page is at most.
    sed 's|</body>|<script>document.title = "beyond: " + [...document.querySelectorAll("div.wide")].map(d => d.scrollWidth - d.clientWidth);</script></body>|' r.html >w.html
    HOME=$T timeout 60 chromium --headless --no-sandbox --disable-gpu --window-size=1200,900 --dump-dom "file://$T/w.html" >dom 2>/dev/null
    grep -o '<title>[^<]*' dom && grep -qF '<title>beyond: 0,0</title>' dom
}

@test "errors for a folder without a run, and for a page on a terminal" {
    run -2 mf-report && [[ $output == *"give the runs to report on"* ]]
    run -2 script -qec "mf-report all" /dev/null </dev/null && [[ $output == *"the output is an HTML page, not text for a terminal: mf-report all >report.html"* ]]
    mf-collect env=point collect.actor=expert collect.episodes=2 >rollouts.mf
    run -3 mf-report rollouts.mf && [[ $output == "mf-report: error: rollouts.mf: a stream of rollouts has no metrics: "* ]] || return 1
    run -1 --separate-stderr bash -c 'mf-report all >/dev/full' && [[ $stderr == *"No space left on device"* ]]
}

@test "a run with values up to the largest float still makes a page" {
    mkdir -p big/logs && /usr/bin/python3 -c 'import msgpack, sys
for m in ({"mf": "head", "v": 1, "run": "big", "src": "", "seed": 0, "spec": {}, "chain": []},
          {"mf": "metrics", "iter": 0, "step": 10, "time": 1.0, "values": {"train/approx_kl": 1e308, "train/loss": -1e308}},
          {"mf": "metrics", "iter": 1, "step": 20, "time": 2.0, "values": {"train/approx_kl": 1e-308, "train/loss": float("nan")}}):
    sys.stdout.buffer.write(msgpack.packb(m))' >big/logs/metrics.mf &&
        mf-report big >r.html && page r.html | grep -q '^iterations|2' && mf-plot big 'plot.series=[train/loss]' plot.out=b.png && [[ -s b.png ]]
}
