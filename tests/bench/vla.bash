# shellcheck shell=bash disable=SC2154 # dir, bin and the functions are those of tests/bench/run, which reads this
# The rows of pi0.5: a layer of each kind as large as published, decisions of a tiny one, and behind the word `full` one as
# large as published, which has no peer.

vla() { # NAME QUESTION GATE
    compare "pi05: $1" "vla_peer$suffix" "vla$suffix" "$2" "$3"
}

fast_bf16=$(grep -c avx512_bf16 /proc/cpuinfo || true)
if wanted pi05; then
    suffix=
    start vla_peer env "${malloc[@]}" "$python" tests/bench/vla_peer.py serve "$dir"
    start vla "$bin/vla" "$dir" serve
    vla "a Gemma layer, 537 tokens" "gemma 1" 1
    vla "a SigLIP layer, 512 tokens" "siglip 1" 1
    vla "a tiny one decides, N=1" "decide 1" 2
    vla "a tiny one decides, N=8" "decide 8" 2
    if ((fast_bf16)); then
        suffix=_bf16
        start vla_peer_bf16 env "${malloc[@]}" "$python" tests/bench/vla_peer.py serve "$dir" bf16
        start vla_bf16 "$bin/vla" "$dir" serve bf16
        vla "a Gemma layer, bf16" "gemma 1" 1
        vla "a SigLIP layer, bf16" "siglip 1" 1
    fi
fi
if [[ " ${only[*]} " == *" full "* ]]; then # 25 tokens in 200 slots, 2 pictures, 10 steps; weights bf16, mapped
    if ((fast_bf16)); then how=bf16 most=10; else how=fp32 most=16; fi
    said=$("$bin/pi05" "$dir/pi05.safetensors" "$how" 3 2>>"$dir/log")
    took=$(awk '/^decision/ { print $3 }' <<<"$said" | sort -g | head -1)
    peak=$(awk '/^at most/ { print $3 }' <<<"$said")
    plain "pi05: as published decides, $how" "$took" "$took s" "<= $most s" "$took <= $most"
    plain "pi05: as published, memory" "$peak" "$peak GiB" "<= 9 GiB" "$peak <= 9"
fi
