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
        grep -qxF 'slow|training.learning_rate=0.001|3|0.735 (0.725 to 0.745)|0.0001|3 of 3|2000|40.0|2|20|2000' rows &&
        grep -qF '<script>document.title=1</script>|training.learning_rate=0.003|3|' rows &&
        mf-report all report.success=.73 >r.html && page r.html | grep -qF 'slow|training.learning_rate=0.001|3|0.735 (0.725 to 0.745)|0.0001|2 of 3|2000|' &&
        mf-report all report.success=.54 >r.html && page r.html | grep -qF '|3 of 3|1667 (1600 to 1700)|33.3 (32.0 to 34.0)|'
}

@test "a run's page: configuration, provenance, machine, troubles, videos" {
    printf 'GIF89a-not-really' | base64 -w0 >b64 && mf-report all/slow/0 >r.html && [[ $(page r.html | wc -l) -eq 2 ]] &&
        grep -qF '<code>training.learning_rate</code></td><td><code>0.001</code>' <(tr -d '\n' <r.html | sed 's/> *</></g') &&
        grep -qF '0.1.0: mf-collect run.seed=0' r.html && grep -qF "$(uname -r)" r.html && grep -qF "src=\"data:image/gif;base64,$(cat b64)\"" r.html &&
        grep -q '<svg' r.html && grep -qF '20 iterations, 2000 control steps, 40.0 s; ended' r.html && ! grep -q 'class="trouble"' r.html
    /usr/bin/python3 - all/slow/0/logs/metrics.mf <<'PY'
import msgpack, sys
frames = list(msgpack.Unpacker(open(sys.argv[1], "rb")))
with open(sys.argv[1], "wb") as f:
    for m in frames[:-1]:
        if m["mf"] == "metrics":
            m["values"]["train/approx_kl"] = .5
        f.write(msgpack.packb(m))
PY
    mf-report all/slow/0 >r.html && grep -qF '<p class="trouble">trouble: KL is 0.5: the policy leaps; lower' r.html && grep -qF '; cut before its end' r.html
}

@test "names that are no text, runs without configuration or iterations still make a page" {
    name=$'b\xffd \x01 & "q" ]]>'
    mkdir -p "$name/logs" && cp all/slow/1/logs/metrics.mf "$name/logs" && mkdir -p young/logs && : >young/logs/metrics.mf &&
        mf-report "$name" young all >r.html && page r.html >rows && grep -qF $'b\xef\xbf\xbdd \xef\xbf\xbd & "q" ]]>|not known|1|0.735|-|0 of 1' rows &&
        grep -qF 'young|not known|1|-|-|0 of 1|-|-|-|0|0' rows
}

@test "in a browser it is drawn, and no name becomes a program" {
    command -v chromium >/dev/null || skip "no chromium"
    mf-report all >r.html
    HOME=$T timeout 60 chromium --headless --no-sandbox --disable-gpu --window-size=1200,900 --dump-dom "file://$T/r.html" >dom 2>/dev/null
    grep -qF '<title>Runs compared</title>' dom && grep -q '<svg' dom
    HOME=$T timeout 60 chromium --headless --no-sandbox --disable-gpu --window-size=1200,900 --screenshot="$T/r.png" "file://$T/r.html" 2>/dev/null
    [[ $(wc -c <r.png) -gt 20000 ]]
}

@test "what is no run is said, and a page is not for a terminal" {
    run -2 mf-report && [[ $output == *"name the runs to report on"* ]]
    run -2 script -qec "mf-report all" /dev/null </dev/null && [[ $output == *"a page is no text for a terminal: mf-report all >report.html"* ]]
    run -1 --separate-stderr bash -c 'mf-report all >/dev/full' && [[ $stderr == *"No space left on device"* ]]
}
