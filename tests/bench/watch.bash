# shellcheck shell=bash disable=SC2154 # dir, bin and the functions are those of tests/bench/run, which reads this
# Rows of what surrounds learning: the memory that is said, logs, the dashboard, evaluation tables, the report.

# said FILE: the MiB that a program said it takes.
said() { sed -n 's/.*takes about \([0-9.]*\) \([MG]\)iB.*/\1 \2/p' "$1" | awk '{ print $2 == "G" ? $1 * 1024 : $1; exit }'; }

if wanted "memory table"; then # of mf-ppo, 128 decisions of each environment a round; the same in MiB where it was run
    lift=(env=lift training.num_steps_per_rollout=128)
    printf '\nmemory table: MiB of mf-ppo by num_envs x batch_size, planned\n'
    printf '%-52s' "  network"; printf '%11s' 64x128 128x256 256x256 512x256 1024x512; printf '\n'
    for net in "MLPs of 3 x 256:" "MLPs of 3 x 1024:policy.hidden=[1024,1024,1024] policy.critic_hidden=[1024,1024,1024]" \
        "U-Net of 256, 512, 1024:policy.network=shortcut_unet policy.horizon=16 policy.n_action_steps=8" \
        "transformer of 4 x 256, 128 points:policy.network=ditx policy.n_layer=4 policy.n_emb=256 policy.obs_keys=[robot0_eef_pos,point_cloud] env.num_points=128 policy.horizon=16 policy.n_action_steps=8 policy.critic_hidden=[256,128]"; do
        read -ra words <<<"${net#*:}"
        printf '%-52s' "  ${net%%:*}"
        for cell in 64:128 128:256 256:256 512:256 1024:512; do
            printf '%11s' "$("$bin/memory" "${lift[@]}" "${words[@]}" training.num_envs="${cell%:*}" training.batch_size="${cell#*:}")"
        done
        printf '\n'
    done
    for cell in 64:128 256:256; do # a round of each, run
        words=("${lift[@]}" run.dir="$dir/cell" run.force=true training.num_envs="${cell%:*}" training.batch_size="${cell#*:}"
            training.num_epochs=1 training.total_timesteps=$((${cell%:*} * 128 * 2)) training.target_kl=inf)
        peak=$(value "$(bin/mf-collect "${words[@]}" 2>>"$dir/log" | bin/mf-gae "${words[@]}" 2>>"$dir/log" |
            "$bin/spawn" 1 bin/mf-ppo "${words[@]}" 2>"$dir/said")" peak_mib)
        told=$(said "$dir/said")
        plain "memory said, ${cell/:/ x }" "$told" "$told of $peak MiB" "within 10 %, 8 MiB" \
            "($told - $peak) ^ 2 <= (.1 * $peak + 8) ^ 2"
    done
    printf '\n'
fi

# A run of the point mass, for those who watch: its metrics, and the seconds of an iteration.
if wanted "log" || wanted "top"; then
    words=(run.dir="$dir/watched" run.force=true training.total_timesteps=30000)
    bin/mf-collect "${words[@]}" 2>>"$dir/log" | bin/mf-gae 2>>"$dir/log" | bin/mf-ppo training.save_interval=1 >"$dir/watched.mf" 2>>"$dir/log"
    iteration=$(bin/mf-view "$dir/watched.mf" | jq -s 'map(select(.mf == "metrics")) | last.time / length')
    frames=$(bin/mf-view "$dir/watched.mf" | jq -s 'map(select(.mf == "metrics")) | length')
fi
if wanted "log"; then # CPU seconds, all four formats, with the start of the program shared by the iterations
    mkdir -p "$dir/watched/log"
    TIMEFORMAT='%U %S'
    read -r user system < <({ time bin/mf-log log.dir="$dir/watched/log" "log.formats=[tensorboard,jsonl,csv,prometheus]" \
        <"$dir/watched.mf" >/dev/null 2>>"$dir/log"; } 2>&1)
    share=$(calc "100 * ($user + $system) / $frames / $iteration")
    plain "log: of an iteration" "$share" "$(printf '%.2f %% of %.0f ms' "$share" "$(calc "1e3 * $iteration")")" "<= 1 %" "$share <= 1"
fi
if wanted "top"; then # ten seconds of a screen of its own
    TIMEFORMAT='%R %U %S'
    read -r wall user system < <({ time script -qec "stty cols 80 rows 24; timeout --foreground -s INT 10 bin/mf-top $dir/watched" \
        /dev/null >/dev/null 2>&1 </dev/null || true; } 2>&1)
    share=$(calc "100 * ($user + $system) / $wall")
    plain "top: of a core" "$share" "$(printf '%.2f %%' "$share")" "<= 1 %" "$share <= 1"
fi
if wanted "eval table"; then # of the CPU seconds that there are, the start and the last trials included
    words=(env=lift run.dir="$dir/lift4" run.force=true training.num_envs=8 training.num_steps_per_rollout=2 training.total_timesteps=256)
    bin/mf-collect "${words[@]}" 2>>"$dir/log" | bin/mf-gae 2>>"$dir/log" | bin/mf-ppo training.save_interval=1 >/dev/null 2>>"$dir/log"
    mapfile -t four < <(find "$dir/lift4/checkpoints" -name '[0-9]*.safetensors' | sort | tail -n 4)
    TIMEFORMAT='%R %U %S'
    read -r wall user system < <({ time bin/mf-eval "${four[@]}" eval.num_inference_steps="[1,2,4,8]" eval.num_episodes=256 \
        eval.num_envs=256 >/dev/null 2>>"$dir/log"; } 2>&1)
    share=$(calc "100 * ($user + $system) / $wall / $(nproc)")
    plain "eval table: 4 x 4, of all cores" "$share" "$(printf '%.0f %% of %.1f s' "$share" "$wall")" ">= 85 %" "$share >= 85"
fi
if wanted "report"; then # 22 experiments of 3 seeds
    rm -rf "$dir/runs"
    for ((i = 0; i < 22; i++)); do tests/tools/runs.py "$dir/runs/experiment$i" 0 1 2; done
    took=$(value "$("$bin/spawn" 3 bin/mf-report "$dir"/runs/*/*)" seconds)
    plain "report: 22 x 3 runs" "$took" "$(seconds "$took")" "<= 5 s" "$took <= 5"
fi
