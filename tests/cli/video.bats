# Videos of trials: tiles side by side, framed by how they ended.
load helpers

setup_file() {
    mf-collect run.dir="$BATS_FILE_TMPDIR/run" run.seed=1 training.total_timesteps=40000 | # some trials succeed
        mf-gae | mf-ppo >/dev/null 2>&1
}
setup() {
    cp -r "$BATS_FILE_TMPDIR/run" "$T/run"
    RUN="$T/run"
}

probe() { ffprobe -v error -count_frames -show_entries stream=width,height,nb_read_frames,r_frame_rate -of csv=p=0 "$1"; }
# pixel FILE X Y: of its last picture, as r g b.
pixel() { ffmpeg -v error -sseof -1 -i "$1" -update 1 -f rawvideo -pix_fmt rgb24 - | tail -c 921600 | od -An -tu1 -j $((3 * (640 * $3 + $2))) -N 3 | xargs; }

@test "a removed folder of videos is made again" {
    cp -r "$RUN" "$T/again" && rm -rf "$T/again/videos" && mf-eval "$T/again" eval.num_episodes=2 eval.video=1 eval.video_format=gif >/dev/null && ls "$T"/again/videos/*.gif
}

@test "the first trials, at the environment's pace, and the results are the same as without" {
    mf-eval "$RUN" eval.num_episodes=6 eval.json="$T/without" >/dev/null 2>&1 &&
        mf-eval "$RUN" eval.num_episodes=6 eval.json="$T/with" eval.video=3 >/dev/null 2>"$T/said" &&
        cmp "$T/without" "$T/with" && grep -q "run/videos/.*.mp4 shows the first 3 trials" "$T/said"
    video=("$RUN"/videos/*.mp4)
    longest=$(jq '.results[0].trials.length[:3] | max' "$T/with")
    # 2 x 2 tiles; the start and every step, then a second of the end
    [[ $(probe "${video[0]}") == "640,480,20/1,$((longest + 21))" ]]
}

@test "an environment in another process renders itself: a picture for each control step, its proportions kept" {
    # 3 steps of grey 60 * steps, 40 x 60 pixels in a tile of 320 x 240; 10 Hz, so 10 pictures of the end
    mf-collect env=exec env.command="$ROOT/tests/tools/env_server.py" env.workers=1 training.num_envs=2 training.total_timesteps=8 training.num_steps_per_rollout=2 \
        policy.horizon=2 policy.n_action_steps=2 'policy.hidden=[8,8,8]' training.batch_size=4 run.dir="$T/c" | mf-gae | mf-ppo >/dev/null 2>&1
    for workers in 1 2; do
        mf-eval "$T/c" env=exec env.command="$ROOT/tests/tools/env_server.py" env.workers=$workers eval.num_episodes=4 eval.num_envs=3 eval.video=4 >/dev/null 2>"$T/said" &&
            video=("$T"/c/videos/*.mp4) && [[ $(probe "${video[0]}") == 640,480,10/1,14 ]] || { cat "$T/said"; return 1; }
        ffmpeg -v error -i "${video[0]}" -f rawvideo -pix_fmt gray - >"$T/grey" && /usr/bin/python3 - "$T/grey" <<'END' || return 1
import sys
import numpy as np
tiles = np.fromfile(sys.argv[1], "u1").reshape(14, 2, 240, 2, 320).astype(int)
inside, beside = tiles[:, :, 120, :, 160], tiles[:, :, 120, :, 60]  # in the middle, and in the black beside the picture
assert (abs(inside[:3] - np.array([0, 60, 120])[:, None, None]) < 5).all(), inside
assert (inside[3:] > 170).all() and (beside < 5).all(), (inside, beside)
END
    done
    run -3 mf-eval --out "$T/m" "$T/c" env=exec env.command="$ROOT/tests/tools/env_server.py picture:1" env.workers=1 eval.num_episodes=2 eval.video=1 && [[ $output == *"'image' is |u1 (1, 2, 60, 40, 2) instead of |u1 (1, 2, 60, 40, 3)"* ]]
}

@test "a server that renders no pictures is named before a trial" {
    run -2 mf-eval --out "$T/m" "$RUN" env=exec env.command='mf-env point' eval.num_episodes=2 eval.video=1 && [[ $output == *"no video of env=point: its server renders no images"* ]]
}

@test "a tile's frame shows the result of its trial" {
    mf-eval "$RUN" eval.num_episodes=4 eval.json="$T/r" eval.video=4 >/dev/null 2>&1
    video=("$RUN"/videos/*.mp4)
    for i in 0 1 2 3; do
        read -r r g _ <<<"$(pixel "${video[0]}" $((i % 2 * 320 + 100)) $((2 + (i > 1 ? 240 : 0))))"
        [[ $(jq ".results[0].trials.success_once[$i]" "$T/r") =~ ^(true|1)$ ]] && good=1 || good=0
        [[ $((g > r)) -eq $good ]] || { echo "tile $i: $r $g, success $good"; return 1; }
    done
    [[ $(jq ".results[0].trials.success_once | unique | length" "$T/r") -eq 2 ]]
}

@test "MuJoCo renders a task without a screen; a GIF beside a checkpoint outside a run" {
    mf-collect env=lift run.dir="$T/lift" training.total_timesteps=40 training.num_envs=2 training.num_steps_per_rollout=5 \
        policy.hidden='[16,16,16]' | mf-gae | mf-ppo training.num_epochs=1 >/dev/null 2>&1
    cp "$T"/lift/checkpoints/*.safetensors "$T/lone.safetensors"
    run -0 env -u DISPLAY mf-eval --out "$T/m" "$T/lone.safetensors" env=lift env.max_steps=3 eval.num_episodes=1 eval.video=1 eval.video_format=gif
    [[ $(probe "$T/lone.gif") == "320,240,20/1,24" ]] &&
        # sky above, a table below
        [[ $(ffmpeg -v error -i "$T/lone.gif" -frames:v 1 -f rawvideo -pix_fmt rgb24 - | od -An -tu1 -j $((3 * (320 * 8 + 160))) -N 3 | awk '{print ($3 > 180)}') -eq 1 ]]
}

@test "without ffmpeg there is an error before the first trial; if ffmpeg fails, the results are kept" {
    mkdir "$T/bin" && ln -s "$(command -v mf-eval)" "$T/bin"
    filmed() { run -1 env PATH="$T/bin" mf-eval --out "$T/m" "$RUN" eval.num_episodes=2 eval.video=1 eval.results="$T/results" && [[ -z $(ls "$RUN/videos") ]]; }
    filmed && [[ $output == *"videos are made by ffmpeg, which cannot be started (is it installed?): No such file"* && $output != *"trials "* && ! -s $T/results ]] || return 1
    # shellcheck disable=SC2016 # for the script to expand
    printf '#!/bin/sh\n[ "$1" = -version ]\n' >"$T/bin/ffmpeg" && chmod +x "$T/bin/ffmpeg" && filmed && [[ $output == *"trials "* && -s $T/results ]] || return 1
    # shellcheck disable=SC2016
    printf '#!/bin/sh\n[ "$1" = -version ] || kill -9 $$\n' >"$T/bin/ffmpeg" && filmed && [[ $output == *"ffmpeg was killed by signal 9 (Killed) before $RUN/videos/"*" was made"* ]] || return 1
    printf '#!/bin/sh\nexit 1\n' >"$T/bin/ffmpeg" && filmed && [[ $output == *"'ffmpeg -version' fails here: it ended with exit status 1"* && $output != *"trials "* ]]
}

# small WORD..: a run of a few rounds, filmed.
small() {
    mf-collect run.dir="$T/r" training.total_timesteps=4000 training.num_envs=10 training.num_steps_per_rollout=10 'policy.hidden=[8]' threads=1 "$@" |
        mf-gae | mf-ppo 'policy.hidden=[8]' threads=1 | mf-film film.every=2 film.trials=2 "$@" | mf-log >"$T/m"
}

@test "a policy is filmed during training, and TensorBoard's events have the video at its step" {
    small 2>"$T/said" && gif=("$T"/r/videos/*.gif) && [[ $(probe "${gif[0]}") == 640,240,* ]] && ! ls "$T"/r/videos/*.safetensors &&
        mf-view "$T/m" | jq -r 'select(.mf == "video") | "eval/video \(.step) 640x240 \(.path)"' | while read -r tag step size path; do
            echo "$tag $step $size $(sha256sum <"$path" | cut -d' ' -f1)"
        done >"$T/want" &&
        [[ $(wc -l <"$T/want") -eq ${#gif[@]} ]] && "$ROOT/tests/tools/tfevents.py" "$T"/r/logs/tensorboard/* | grep '^eval/video' | diff "$T/want" - &&
        mf-check "$T/m" && step=$(mf-view "$T/m" | jq 'select(.mf == "video").iter') && [[ ${step%%$'\n'*} -eq 1 ]]
}

@test "a run in a folder whose name has a = is filmed, too, at its checkpoints" {
    cd "$T" && mf-collect run.dir=a=b training.total_timesteps=400 training.num_envs=4 training.num_steps_per_rollout=10 'policy.hidden=[8]' threads=1 |
        mf-gae | mf-ppo 'policy.hidden=[8]' threads=1 training.save_every=2 | mf-film film.every=1 film.trials=2 training.save_every=2 >m 2>said && [[ -n $(find a=b/videos -name '*2.gif') ]] && ! grep warn said
}

@test "a failed film is reported, and neither ends nor changes the run" {
    mkdir "$T/bin" && for p in mf-collect mf-gae mf-ppo mf-film mf-log mf-eval nice; do ln -s "$(command -v $p)" "$T/bin"; done
    (PATH="$T/bin" small) 2>"$T/said" && grep -q "mf-film: warn: no video of iteration 2: .*/logs/mf-eval.log" "$T/said" &&
        grep -q "ffmpeg, which cannot be started" "$T/r/logs/mf-eval.log" &&
        (cd "$T/r/checkpoints" && sha256sum -- *.safetensors) >"$T/want" && [[ -s "$T/want" ]] && rm -r "$T/r" &&
        small film.every=0 2>"$T/said" && (cd "$T/r/checkpoints" && sha256sum --check --quiet "$T/want") && ! grep -q film "$T/said"
}
