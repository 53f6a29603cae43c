# mf-log writes the metrics that it reads, also of a run that is interrupted and resumed.
load helpers

setup() {
    cd "$T" || return 1
    mkdir -p run/logs
    all='log.formats=[tensorboard,jsonl,csv,prometheus]'
}

# metrics FIRST LAST [NAME]: a stream of iterations, 10 steps each; a metric NAME more from iteration 2 on.
metrics() {
    /usr/bin/python3 - "$@" <<'PY'
import sys, msgpack
first, last = map(int, sys.argv[1:3])
put = lambda **m: sys.stdout.buffer.write(msgpack.packb(m))
put(mf="head", v=1, run="run", src="", seed=0, spec={}, chain=[])
for i in range(first, last):
    values = {"rollout/success_once": i / 8, "train/approx_kl": 1e-3 * i}
    if i >= 2 and sys.argv[3:]:
        values[sys.argv[3]] = float(i)
    put(mf="metrics", iter=i, step=10 * (i + 1), time=i / 2, values=values)
put(mf="end", src="", frames=last - first + 1, samples=0, stopped=False)
PY
}
# scalars: all of the event files, by tag and step.
scalars() { "$ROOT/tests/tools/tfevents.py" run/logs/tensorboard/* | sort -k1,1 -k2,2n; }

@test "all formats have all metrics, and only the chain of the stream changes" {
    metrics 0 3 | mf-log "$all" >out.mf && mf-check out.mf >/dev/null &&
        [[ $(mf-view out.mf | jq -c 'select(.mf == "metrics") | [.iter, .step]') == $'[0,10]\n[1,20]\n[2,30]' ]] &&
        [[ $(mf-view out.mf | jq -r '.chain[]?.stage') == mf-log ]] &&
        [[ $(scalars) == 'rollout/success_once 10 0
rollout/success_once 20 0.125
rollout/success_once 30 0.25
train/approx_kl 10 0
train/approx_kl 20 0.001
train/approx_kl 30 0.002' ]] &&
        [[ $(jq -c '[.iter, .step, .time, .["train/approx_kl"]]' run/logs/metrics.jsonl) == $'[0,10,0,0]\n[1,20,0.5,0.001]\n[2,30,1,0.002]' ]] &&
        [[ $(cat run/logs/metrics.csv) == $'iter,step,time,rollout/success_once,train/approx_kl\n0,10,0,0,0\n1,20,0.5,0.125,0.001\n2,30,1,0.25,0.002' ]] &&
        grep -qx 'maniflow_rollout_success_once{run="run"} 0.25' run/logs/metrics.prom &&
        grep -qx '# TYPE maniflow_rollout_success_once gauge' run/logs/metrics.prom
}

@test "a run that resumes before its last logged step: steps never decrease" {
    metrics 0 6 | mf-log "$all" >/dev/null && metrics 3 8 | mf-log "$all" >/dev/null &&
        [[ $(scalars | awk '$1 == "train/approx_kl" { print $2 }' | xargs) == "10 20 30 40 50 60 70 80" ]] &&
        [[ $(jq .step run/logs/metrics.jsonl | xargs) == "10 20 30 40 50 60 70 80" ]] &&
        [[ $(cut -d, -f2 run/logs/metrics.csv | xargs) == "step 10 20 30 40 50 60 70 80" ]] &&
        [[ $("$ROOT/tests/tools/tfevents.py" run/logs/tensorboard/* | wc -l) -eq 16 ]]
}

@test "files that a kill left incomplete are cut after the last complete line" {
    metrics 0 4 | mf-log "$all" >/dev/null
    local f
    for f in run/logs/tensorboard/* run/logs/metrics.jsonl run/logs/metrics.csv; do truncate -s -7 "$f"; done
    metrics 3 5 | mf-log "$all" >/dev/null &&
        [[ $(scalars | awk '$1 == "train/approx_kl" { print $2 }' | xargs) == "10 20 30 40 50" ]] &&
        [[ $(jq .step run/logs/metrics.jsonl | xargs) == "10 20 30 40 50" ]] &&
        [[ $(cut -d, -f2 run/logs/metrics.csv | xargs) == "step 10 20 30 40 50" ]]
}

@test "csv: a later metric adds a column, also after a resume" {
    metrics 0 4 eval/success >m.mf && mf-log log.formats=[csv] <m.mf >/dev/null &&
        [[ $(head -1 run/logs/metrics.csv) == iter,step,time,rollout/success_once,train/approx_kl,eval/success ]] &&
        [[ $(tail -1 run/logs/metrics.csv) == 3,40,1.5,0.375,0.003,3 && ! -e run/logs/metrics.csv.part ]] &&
        metrics 4 5 | mf-log log.formats=[csv] >/dev/null && [[ $(tail -1 run/logs/metrics.csv) == 4,50,2,0.5,0.004, ]] &&
        python3 -c 'import csv; rows = list(csv.DictReader(open("run/logs/metrics.csv"))); assert [r["eval/success"] for r in rows] == ["", "", "2", "3", ""], rows' &&
        mf-log log.formats=[csv] <m.mf >/dev/null && cp run/logs/metrics.csv again && rm run/logs/metrics.csv && # rows are the same, whenever the head had grown
        mf-log log.formats=[csv] <m.mf >/dev/null && cmp again run/logs/metrics.csv && [[ $(awk -F, '{print NF}' again | sort -u) == 6 ]]
}

@test "a full disk ends that file, not the run" {
    ln -s /dev/full run/logs/metrics.prom.part
    metrics 0 3 >m.mf
    run -1 --separate-stderr bash -c 'mf-log "log.formats=[prometheus,jsonl]" <m.mf >out.mf'
    [[ $(jq .step run/logs/metrics.jsonl | xargs) == "10 20 30" && $(mf-view out.mf 2>/dev/null | grep -c '"metrics"') -eq 3 ]] &&
        [[ ${#stderr_lines[@]} -eq 2 && ${stderr_lines[0]} == "mf-log: warn: write run/logs/metrics.prom.part: No space left on device; prometheus is no longer written, the run continues" ]]
}

@test "a missing or read-only folder, an unknown format" {
    run -2 --separate-stderr bash -c 'mf-log log.dir=nowhere >out' < <(metrics 0 1) && [[ $stderr == *"no folder nowhere to log in"* ]] &&
        run -2 --separate-stderr bash -c 'mf-log log.formats=[wandb] >out' < <(metrics 0 1) &&
        [[ $stderr == *"log.formats: unknown format 'wandb'; available: tensorboard, jsonl, csv, prometheus"* ]] &&
        mkdir run/logs/metrics.jsonl && run -1 --separate-stderr bash -c 'mf-log log.formats=[jsonl] >out' < <(metrics 0 1) &&
        [[ $stderr == *"open run/logs/metrics.jsonl: Is a directory"* ]]
}

@test "it converts the saved metrics of a run, into another folder" {
    mkdir there && metrics 0 2 >m.mf && mf-log log.dir=there log.formats=[csv] <m.mf >/dev/null && [[ $(wc -l <there/metrics.csv) -eq 3 ]]
}

@test "non-finite numbers are null in JSON lines, and every line is valid JSON" {
    /usr/bin/python3 -c 'import msgpack, sys
for m in ({"mf": "head", "v": 1, "run": "run", "src": "", "seed": 0, "spec": {}, "chain": []},
          {"mf": "metrics", "iter": 0, "step": 10, "time": 1.0, "values": {"a": float("nan"), "b": float("inf"), "c": 2.0}},
          {"mf": "end", "src": "", "frames": 2, "samples": 0, "stopped": False}):
    sys.stdout.buffer.write(msgpack.packb(m))' | mf-log "$all" >/dev/null && [[ $(jq -c '[.a, .b, .c]' run/logs/metrics.jsonl) == "[null,null,2]" ]]
}

# point RUN TIME NAME VALUE..: a head and one metrics frame; the name nil is no text.
point() {
    /usr/bin/python3 - "$@" <<'PY'
import sys, msgpack
run, time, *pairs = sys.argv[1:]
name = lambda s: None if s == "nil" else s
put = lambda m: sys.stdout.buffer.write(msgpack.packb(m, unicode_errors="surrogateescape"))
put({"mf": "head", "v": 1, "run": run, "src": "", "seed": 0, "spec": {}, "chain": []})
put({"mf": "metrics", "iter": 0, "step": 10, "time": float(time), "values": {name(k): float(v) for k, v in zip(pairs[::2], pairs[1::2])}})
put({"mf": "end", "src": "", "frames": 2, "samples": 0, "stopped": False})
PY
}

@test "a folder holds the logs of one run: another run's go to a subfolder of its name, and the first ones do not change" {
    mkdir tb runs runs/a && point runs/a 1 x 1 >a.mf && point runs/b 2 x 2 >b.mf &&
        mf-log log.dir=tb "$all" <a.mf >out && cp -r tb was &&
        run -0 --separate-stderr mf-log log.dir=tb "$all" <b.mf && [[ $stderr == "mf-log: warn: tb has the logs of $T/runs/a; those of this run go to tb/runs_b" ]] &&
        [[ $(tail -1 tb/runs_b/metrics.csv) == 0,10,2,2 && -e tb/runs_b/metrics.prom && $("$ROOT/tests/tools/tfevents.py" tb/runs_b/tensorboard/*) == "x 10 2" ]] &&
        rm -r was/tensorboard && for f in was/*; do cmp "$f" "tb/${f#was/}" || return 1; done && [[ $("$ROOT/tests/tools/tfevents.py" tb/tensorboard/*) == "x 10 1" ]] &&
        mf-log log.dir=tb log.formats=[csv] <b.mf >out && [[ $(wc -l <tb/runs_b/metrics.csv) -eq 2 && ! -e tb/runs_b-2 ]] && # the same run goes on there
        mkdir mine mine/runs_a && echo mine | tee mine/metrics.csv >mine/runs_a/x && mf-log log.dir=mine log.formats=[csv] <a.mf >out &&
        [[ $(cat mine/metrics.csv mine/runs_a/*) == $'mine\nmine' && -e mine/runs_a-2/metrics.csv ]]
}

@test "a pipe in the place of a log is named, and does not block" {
    local file
    for file in csv:metrics.csv jsonl:metrics.jsonl prometheus:metrics.prom prometheus:metrics.prom.part tensorboard:tensorboard/a.tfevents.1.maniflow; do
        rm -rf tb && mkdir tb && mf-log log.dir=tb log.formats=[csv] >out < <(metrics 0 3) && rm tb/metrics.csv && mkdir tb/tensorboard && mkfifo "tb/${file#*:}" || return 1
        run timeout 10 mf-log --out out log.dir=tb log.formats="[${file%:*}]" < <(metrics 0 3)
        [[ $status == [123] && $output == *"${file#*:}"*"a pipe"* ]] || { echo "$file: $status $output" && return 1; }
    done
}

@test "two runs that log into one folder at once do not mix" {
    mkdir tb && mkfifo a b && { mf-log log.dir=tb 'log.formats=[csv,jsonl]' <a >out & local one=$!; }
    exec 8>a && metrics 0 3 | head -c 300 >&8 # a head and some metrics: it is at work
    until [[ -s tb/metrics.run ]]; do sleep .02; done
    point other 1 x 1 | mf-log log.dir=tb 'log.formats=[csv,jsonl]' >out && [[ $(tail -1 tb/other/metrics.csv) == 0,10,1,1 ]] &&
        metrics 0 3 | tail -c +301 >&8 && exec 8>&- && ended_by 0 "$one" && [[ $(cut -d, -f1 tb/metrics.csv | xargs) == "iter 0 1 2" && $(jq .iter tb/metrics.jsonl | xargs) == "0 1 2" ]]
}

@test "a stream that only names a run leaves the run's logs alone" {
    point run 1 x 1 >run/logs/metrics.mf && mf-log log.formats=[csv] <run/logs/metrics.mf >out && cp run/logs/metrics.csv was &&
        mf-log log.formats=[csv] <run/logs/metrics.mf >out && cmp was run/logs/metrics.csv &&
        run -2 --separate-stderr mf-log log.formats=[csv] < <(point run 7 x 5) && cmp was run/logs/metrics.csv &&
        [[ $stderr == *"the stream names the run run, but its run/logs/metrics.mf has no such iteration 0: its logs stay unchanged; give log.dir=DIR"* ]]
}

@test "no name and no number makes a file invalid: quotes, commas, no text, NaN, two names that are one in Prometheus" {
    mkdir there && point $'r"u\\n' 1 'a,"b' 1 $'c\nd' 2 nil 3 a/b -nan a_b inf a.b -inf $'\xff' 4 "$(printf 'n%.0s' {1..250})" 5 | mf-log log.dir=there "$all" >out &&
        [[ $(jq -c '[.["a,\"b"], .["c?d"], .["a/b"], .["?"], (keys | length)]' there/metrics.jsonl) == '[1,2,null,4,10]' ]] &&
        [[ $(head -1 there/metrics.csv) == 'iter,step,time,"a,""b",c?d,a/b,a_b,a.b,?,'*n && $(tail -1 there/metrics.csv) == 0,10,1,1,2,nan,inf,-inf,4,5 ]] &&
        [[ $(grep -v '^#' there/metrics.prom | sed 's/{[^}]*}//;/nn/d' | xargs) == "maniflow_iteration 0 maniflow_steps 10 maniflow_a__b 1 maniflow_c_d 2 maniflow_a_b NaN maniflow_a_b__2 +Inf maniflow_a_b__3 -Inf maniflow__ 4" ]] &&
        [[ $(grep -c '{run="r\\"u\\\\n"} ' there/metrics.prom) -eq 9 && $("$ROOT/tests/tools/tfevents.py" there/tensorboard/* | wc -l) -eq 7 ]] &&
        point $'r"u\\n' 2 'a,"b' 6 new 7 | mf-log log.dir=there log.formats=[csv] >out && [[ $(tail -1 there/metrics.csv) == 0,10,2,6,,,,,,,7 ]]
}

@test "values that are text, bytes or nil are in no file, and the others are" {
    /usr/bin/python3 - >odd.mf <<'PY' && mkdir there && mf-log log.dir=there "$all" <odd.mf >out || return 1
import sys, msgpack
put = lambda m: sys.stdout.buffer.write(msgpack.packb(m))
put({"mf": "head", "v": 1, "run": "r", "src": "", "seed": 0, "spec": {}, "chain": [], None: 1})
put({"mf": "metrics", "iter": 0, "step": 10, "time": 1.0, "values": {"a": b"\xff" * 100, "b": 2.0, "c": "x", None: None, 7: 1, "d": [1], "e": {}}})
put({"mf": "metrics", "iter": 1, "step": 20, "time": 2.0, "values": "x", None: 3})
put({"mf": "metrics", "iter": 2, "step": 30, "time": 3.0, "values": {}})
put({"mf": "metrics", "iter": 3, "step": 40, "time": 4.0})
put({"mf": "end", "src": "", "frames": 5, "samples": 0, "stopped": False})
PY
    [[ $(cat there/metrics.csv) == $'iter,step,time,b\n0,10,1,2\n1,20,2,\n2,30,3,\n3,40,4,' && $(jq -c '[.iter, .b]' there/metrics.jsonl | xargs) == "[0,2] [1,null] [2,null] [3,null]" ]] &&
        [[ $("$ROOT/tests/tools/tfevents.py" there/tensorboard/*) == "b 10 2" ]]
}

@test "csv: if a column cannot be added, the file stays unchanged" {
    metrics 0 2 | mf-log log.formats=[csv] >out && cp run/logs/metrics.csv was && ln -s /dev/full run/logs/metrics.csv.part &&
        run -1 --separate-stderr mf-log log.formats=[csv] < <(metrics 2 5 eval/success) && cmp was run/logs/metrics.csv &&
        [[ $stderr == *"write run/logs/metrics.csv.part: No space left on device; csv is no longer written, the run continues"* ]]
}

@test "training from a saved stream is logged in the learner's folder, not in the run of the stream" {
    tiny=('policy.hidden=[8]' 'policy.critic_hidden=[8]' training.num_envs=4 training.num_steps_per_rollout=4 threads=1)
    mf-collect env=point "${tiny[@]}" training.total_timesteps=400 run.dir=first | tee first.mf | mf-gae | mf-ppo "${tiny[@]}" | mf-log >out &&
        cp first/logs/metrics.csv was && mf-gae <first.mf | mf-ppo "${tiny[@]}" run.dir=again | mf-log >m.mf && cmp was first/logs/metrics.csv &&
        [[ $(mf-view m.mf | jq -r 'select(.mf == "head").run') == again && $(wc -l <again/logs/metrics.csv) -eq $(wc -l <was) ]]
}
