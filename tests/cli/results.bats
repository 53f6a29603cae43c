# Tables of evaluations: checkpoints x denoising steps x seeds, kept in a file, taken up again, compared.
load helpers

# Three small policies for all tests: made once, with as little training as there can be.
setup_file() {
    mf-collect run.dir="$BATS_FILE_TMPDIR/run" run.seed=3 training.total_timesteps=400 training.num_envs=4 \
        training.num_steps_per_rollout=10 policy.hidden='[16,16,16]' |
        mf-gae | mf-ppo training.num_epochs=1 >"$BATS_FILE_TMPDIR/metrics.mf" 2>/dev/null
}
setup() {
    cd "$T" || return 1
    c=("$BATS_FILE_TMPDIR"/run/checkpoints/*.safetensors)
}

# evaluates KEY=VALUE ..: two checkpoints, two numbers of steps, two seeds; only its table and its messages are kept.
grid=(eval.num_inference_steps='[1,4]' eval.seed='[0,1]' eval.num_episodes=20)
evaluates() { mf-eval --out out.mf "${c[0]}" "${c[2]}" "${grid[@]}" "$@" 2>said; }

@test "a row for every checkpoint and number of steps over all seeds; every result is in the JSON" {
    evaluates eval.json=all.json && [[ $(grep -c '^ *40 ' said) -eq 4 ]] &&
        [[ $(jq -c '[.results[] | [.denoising_steps, .seed]]' all.json) == '[[1,0],[1,1],[4,0],[4,1],[1,0],[1,1],[4,0],[4,1]]' ]] &&
        mf-check <out.mf && [[ $(mf-view <out.mf | jq -c 'select(.mf == "metrics") | [.denoising_steps, .seed]' | tail -2 | xargs) == "[4,0] [4,1]" ]] || return 1
    mf-eval --out x.mf "${c[2]}" eval.num_episodes=20 eval.num_inference_steps=4 eval.seed=1 eval.json=one.json 2>/dev/null
    [[ $(jq -c .results[7].trials all.json) == "$(jq -c .results[0].trials one.json)" && $(jq .seed one.json) == 1 ]]
}

@test "the table as Markdown, CSV and JSON" {
    cp "${c[0]}" 'a|b,"c".safetensors'
    for format in markdown csv json; do
        mf-eval --out x.mf "${c[2]}" 'a|b,"c".safetensors' eval.num_episodes=20 eval.compare=true log.level=error eval.format=$format 2>table.$format || return 1
    done
    [[ $(sed -n 2p table.markdown) =~ ^(\|\ :?--:?\ )+\|$ && $(sed -n '$p' table.markdown) == *' a\|b,"c".safetensors |' ]] || return 1
    python3 - <<'PY'
import csv, json
rows, table = list(csv.DictReader(open("table.csv"))), json.load(open("table.json"))
assert [r["checkpoint"] for r in rows] == [r["checkpoint"] for r in table], rows
assert rows[1]["checkpoint"] == 'a|b,"c".safetensors' and rows[0]["difference"] == "" and table[0]["difference"] is None
assert len({r["digest"] for r in rows}) == 2
for r, t in zip(rows, table):
    assert r.keys() == t.keys()
    for k in ("denoising_steps", "seeds", "n", "success_once", "success_once_high", "return", "length"):
        assert float(r[k]) == t[k], (k, r[k], t[k])
assert table[1]["difference"] == round(table[1]["success_once"] - table[0]["success_once"], 9)
PY
}

@test "results in the file are not computed again" {
    evaluates eval.results=r.jsonl eval.json=first.json && grep '^ *40 ' said >first && [[ $(wc -l <r.jsonl) -eq 8 ]] &&
        evaluates eval.results=r.jsonl eval.json=second.json && grep '^ *40 ' said | cmp - first && cmp first.json second.json &&
        grep -q 'r.jsonl already had 8 of the results' said && [[ $(wc -l <r.jsonl) -eq 8 ]] || return 1
    # A value that only this file has: were the result computed, it would differ.
    jq -c '.trials.success_once |= map(1)' r.jsonl >forged.jsonl
    evaluates eval.results=forged.jsonl && [[ $(grep -c '1.000 \[0.912, 1.000\]' said) -eq 4 ]]
}

@test "more checkpoints, steps, seeds and tasks go into the same file" {
    evaluates eval.results=r.jsonl && evaluates eval.results=r.jsonl eval.seed='[1,2]' && grep -q 'had 4 of' said && [[ $(wc -l <r.jsonl) -eq 12 ]] &&
        evaluates eval.results=r.jsonl env.max_steps=30 && [[ $(wc -l <r.jsonl) -eq 20 ]] &&
        evaluates eval.results=r.jsonl policy.n_action_steps=2 && [[ $(wc -l <r.jsonl) -eq 28 ]] &&
        evaluates eval.results=r.jsonl device=ref eval.num_episodes=2 && [[ $(wc -l <r.jsonl) -eq 36 ]] || return 1
    [[ $(jq -r '"\(.env) \(.engine.device) \(.max_steps) \(.policy.n_action_steps)"' r.jsonl | sort -u | wc -l) -eq 4 ]]
}

@test "killed at any moment, it resumes after the last result" {
    mf-eval --out x.mf "${c[@]}" "${grid[@]}" eval.num_episodes=500 eval.results=whole.jsonl eval.json=whole.json 2>/dev/null
    mf-eval --out x.mf "${c[@]}" "${grid[@]}" eval.num_episodes=500 eval.results=r.jsonl 2>/dev/null &
    local pid=$!
    until [[ -s r.jsonl ]]; do sleep .01; done
    kill -KILL $pid
    ended_by 137 $pid || return 1
    had=$(wc -l <r.jsonl)
    cp r.jsonl had && head -c 700 had >>r.jsonl # as if the kill had come while it wrote
    mf-eval --out x.mf "${c[@]}" "${grid[@]}" eval.num_episodes=500 eval.results=r.jsonl eval.json=r.json 2>said &&
        cmp r.json whole.json && cmp r.jsonl whole.jsonl && grep -q "r.jsonl already had $had of the results" said
}

@test "several at the same time share a file" {
    for seed in 0 1 2 3; do
        mf-eval --out /dev/null "${c[@]}" eval.num_episodes=20 eval.seed=$seed threads=1 eval.results=r.jsonl 2>/dev/null &
    done
    wait
    [[ $(jq -c '[.checkpoint, .seed]' r.jsonl | sort -u | wc -l) -eq 12 && $(wc -l <r.jsonl) -eq 12 ]]
}

@test "policies are compared with the first one on the same trials" {
    evaluates eval.compare=true eval.json=all.json && [[ $(grep -c '[0-9]:[0-9]' said) -eq 2 ]] || return 1
    # won:lost of the last row, counted anew
    want=$(jq -r '[.results[2,3].trials.success_once] as $a | [.results[6,7].trials.success_once] as $b |
        [$a[][]] as $a | [$b[][]] as $b | [range($a | length) | $b[.] - $a[.]] | "\(map(select(. > 0)) | length):\(map(select(. < 0)) | length)"' all.json)
    [[ $(sed -n '$p' said) == *" $want "* ]] &&
        run -2 mf-eval --out x.mf "${c[0]}" eval.compare=true && [[ $output == *"give two or more"* ]]
}

@test "one success anywhere in a table, and all its rows compare successes: by mf-eval, and by mf-report" {
    local all=("${c[@]:0:3}" eval.num_episodes=20 eval.results=r.jsonl)
    mf-eval --out x.mf "${all[@]}" 2>said || return 1
    jq -c '.trials.success_once |= map(0)' r.jsonl >none.jsonl && jq -c --arg last "${c[2]}" '(.checkpoint == $last) as $won | .trials.success_once |= map(if $won then 1 else 0 end)' r.jsonl >one.jsonl || return 1
    measure_is() { # WORD FILE
        mkdir -p "$1/logs" && cp "$BATS_FILE_TMPDIR/run/logs/metrics.mf" "$1/logs" && cp "$2" "$1/logs/r.jsonl" && mf-eval --out x.mf "${all[@]:0:4}" eval.results="$2" eval.compare=true log.level=error 2>table &&
            cat table && [[ $(wc -l <table) -eq 4 && $(head -1 table) == *" $1 against first, 95 % "* ]] && [[ $(grep -c '[0-9]:[0-9]' table) -eq 2 ]] &&
            mf-report "$1" >r.html && grep -qF "<th>difference of $1</th>" r.html
    }
    measure_is return none.jsonl && measure_is success one.jsonl && grep -q ' +0.000 \[' table && grep -q ' +1.000 \[' table
}

@test "a file that is no file of results is an error of one line, and stays unchanged" {
    echo "my notes" >notes
    run -3 mf-eval --out x.mf "${c[0]}" eval.results=notes && [[ $output == *"'notes', line 1, is no result"* && $(<notes) == "my notes" ]] || return 1
    printf 'my notes' >notes
    run -3 mf-eval --out x.mf "${c[0]}" eval.results=notes && [[ $output == *"holds no results"* && $(<notes) == "my notes" ]] &&
        run -2 mf-eval --out x.mf "${c[0]}" eval.results=/dev/null && [[ $output == *"a device"* ]] &&
        run -1 mf-eval --out x.mf "${c[0]}" eval.results=/nowhere/r && [[ $output == *"No such file"* ]] &&
        run -2 mf-eval --out x.mf "${c[0]}" eval.seed='[]' && [[ $output == *"eval.seed=[] is empty"* ]] &&
        run -2 mf-eval --out x.mf "${c[0]}" eval.num_inference_steps='[1,2000]' && [[ $output == *"must be in"* ]]
}

@test "a full disk leaves complete lines" {
    mf-eval --out x.mf "${c[0]}" "${grid[@]}" eval.results=r.jsonl 2>/dev/null && cp r.jsonl before || return 1
    run -1 bash -c "ulimit -f 11; exec mf-eval --out /dev/null ${c[2]@Q} ${grid[*]@Q} eval.num_episodes=21 eval.results=r.jsonl"
    [[ $output == *"cannot add a result to 'r.jsonl': File too large"* ]] && head -c "$(wc -c <before)" r.jsonl | cmp - before && [[ $(tail -c 1 r.jsonl | wc -l) -eq 1 ]]
}
