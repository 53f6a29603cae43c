#!/usr/bin/env -S jq -n -r --unbuffered -f
# A stage in jq, which ends its pipe: the success of every round as it comes, and of the ten rounds before it.
#
#   mf-collect | tee >(mf-view view.arrays=none | examples/success.jq >&2) | mf-gae | mf-ppo > metrics.mf
#
# JSON has neither bytes nor types of numbers, so that nothing made here can be a stream again: whoever wants to change
# frames does it in Python (filter.py), or in C. Exit 3 where the stream was cut.
def mean: if length == 0 then null else add / length end;
def percent: if . == null then "  -  " else "\(. * 1000 | round / 10) %" end;

foreach (inputs, {mf: "eof"}) as $f ({recent: [], ended: false};
    .text = null
    | if $f.mf == "round" then
        (if $f.episodes.n > 0 then $f.episodes.success else null end) as $success
        | .recent = (.recent + [$success | values])[-10:]
        | .text = "round \($f.iter): \($success | percent) of \($f.episodes.n) episodes, \(.recent | mean | percent) lately"
    elif $f.mf == "end" then
        .ended = true | .text = "\($f.samples) decisions\(if $f.stopped then ", stopped" else "" end)"
    elif $f.mf == "eof" and (.ended | not) then
        "success.jq: error: the stream stops without an end\n" | halt_error(3)
    else . end;
    .text | values)
