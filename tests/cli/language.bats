# Tasks in words: tokens, prompts, suites; and pictures beside them.
load helpers

setup() {
    /usr/bin/python3 -c 'import msgpack, numpy' || skip "no python3-msgpack, python3-numpy"
    cd "$T" || return 1
}

@test "tasks of a suite as tokens, in rollouts and in words beside demonstrations; a server's are the same bytes" {
    words=(policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model" 'policy.obs_keys=[gripper,tokens]' training.num_envs=6
        training.total_timesteps=600 training.num_steps_per_rollout=16)
    mf-collect env=blocks env.suite=unseen "${words[@]}" run.dir=in 2>in.err | tee in.mf | mf-gae 2>>in.err |
        mf-ppo run.dir=in 2>>in.err >/dev/null || cat in.err
    mf-collect env=exec env.workers=2 env.command='mf-env blocks env.suite=unseen' "${words[@]}" run.dir=out 2>out.err |
        mf-gae 2>>out.err | mf-ppo run.dir=out 2>>out.err >/dev/null || cat out.err
    cmp in/checkpoints/000002.safetensors out/checkpoints/000002.safetensors
    [[ $(mf-view in.mf | jq -c 'select(.mf == "rollout").arrays.task | [.shape, .min, .max]' | sort -u) == '[[16,6],8,11]' ]]
    [[ $(mf-view in.mf | jq -r 'select(.mf == "head").tasks' | sed -n 9p) == "put the red block into the middle bin" ]]
    mf-collect env=blocks collect.actor=expert collect.episodes=9 2>/dev/null | mf-record demos.hdf5 >/dev/null 2>&1
    /usr/bin/python3 -c 'import h5py' || skip "no h5py for /usr/bin/python3 (Debian: python3-h5py)"
    [[ $(/usr/bin/python3 -c 'import h5py; print(h5py.File("demos.hdf5")["data/demo_7"].attrs["language"])') == "put the yellow block into the right bin" ]]
}

@test "success for each task; results of another suite are others" {
    words=(policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model" 'policy.obs_keys=[gripper,tokens]' training.num_envs=4
        training.total_timesteps=1 training.num_steps_per_rollout=1)
    mf-collect env=blocks "${words[@]}" run.dir=run 2>log | mf-gae 2>>log | mf-ppo run.dir=run 2>>log >/dev/null || cat log
    run -0 mf-eval run env.suite=unseen eval.num_episodes=10 eval.num_envs=3 eval.tasks=true eval.json=e.json eval.results=r.jsonl
    [[ $output == *"   10 "*"    3 "*"put the red block into the middle bin"*"    2 "*"put the yellow block into the middle bin"* ]]
    [[ $(jq -c '.results[0] | [.suite, [.tasks[].n], .trials.task]' e.json) == '["unseen",[3,3,2,2],[8,9,10,11,8,9,10,11,8,9]]' ]]
    run -0 mf-eval run eval.num_episodes=10 eval.json=train.json eval.results=r.jsonl
    [[ $output != *"already had"* && $(jq -c '.results[0].tasks | length' train.json) == 8 ]]
    run -0 mf-eval run env.suite=unseen eval.num_episodes=10 eval.json=again.json eval.results=r.jsonl
    [[ $output == *"already had 1"* ]] && cmp e.json again.json
    cp -r run twin && run -0 mf-eval run twin 'eval.suites=[unseen,train]' eval.num_inference_steps=[1,4] eval.num_episodes=10 eval.compare=true eval.results=r.jsonl eval.json=both.json
    [[ $output == *"already had 6"* && $(grep -c " unseen .* raw " <<<"$output") == 4 && $(grep -c " train .* raw " <<<"$output") == 4 ]]
    [[ $(jq -c '[.results[] | [.denoising_steps, .suite]][:4]' both.json) == '[[1,"unseen"],[1,"train"],[4,"unseen"],[4,"train"]]' ]]
    cmp <(jq '.results[2].trials' both.json) <(jq '.results[0].trials' e.json)
    run -2 mf-eval run 'eval.suites=[unseen,other]'
    [[ $output == *"no suite 'other'"* ]]
}

@test "mf-bc makes tokens of the words of demonstrations, as the environment makes them" {
    /usr/bin/python3 -c 'import h5py' || skip "no h5py for /usr/bin/python3 (Debian: python3-h5py)"
    tokenizer=policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model"
    words=("$tokenizer" 'policy.obs_keys=[gripper,tokens,blocks]' clone.steps=20)
    for name in recorded made; do
        extra=()
        [[ $name == made ]] || extra=("$tokenizer")
        mf-collect env=blocks collect.actor=expert collect.episodes=10 "${extra[@]}" 2>log |
            mf-record $name.hdf5 2>>log >/dev/null
        mf-bc clone.dataset=$name.hdf5 "${words[@]}" run.dir=$name >bc.mf 2>>log || cat log
    done
    cmp {recorded,made}/checkpoints/clone.safetensors
    /usr/bin/python3 - <<'PY'
import h5py
with h5py.File("made.hdf5", "r+") as f:
    for i in range(10):
        del f[f"data/demo_{i}"].attrs["language"]
PY
    run -3 mf-bc clone.dataset=made.hdf5 "${words[@]}" run.dir=none
    [[ $output == *"'made.hdf5': /data/demo_0 has no attribute 'language'"* ]]
    /usr/bin/python3 -c 'import h5py; h5py.File("made.hdf5", "r+")["data"].attrs["problem_info"] = "{\"language_instruction\": \"turn on the stove\"}"'
    mf-bc clone.dataset=made.hdf5 "${words[@]}" run.dir=all >bc.mf 2>log || cat log
    run -0 mf-bc clone.dataset=made.hdf5 "${words[@]}" policy.prompt_length=3 clone.steps=1 run.dir=short
    [[ $(grep -c "'turn on the stove' has .* is cut to 3," <<<"$output") == 1 ]]
}

@test "ids are no numbers: a policy reads tokens where policy.obs_keys names them" {
    words=(policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model" clone.steps=0 training.num_envs=2 training.total_timesteps=1 training.num_steps_per_rollout=1)
    unread() { grep -q 'policy.tokenizer has no effect: the policy reads tokens where' "$1.log" && mf-ckpt show "$1" | grep -q 'spec.obs.*gripper' && run ! grep 'spec.obs.*tokens' <(mf-ckpt show "$1"); }
    mf-collect env=blocks collect.actor=expert collect.episodes=2 "${words[0]}" 2>/dev/null | mf-record demos.hdf5 >/dev/null 2>&1
    mf-bc clone.dataset=demos.hdf5 "${words[@]}" run.dir=bc 2>bc.log >/dev/null || return 1
    unread bc
    mf-collect env=blocks "${words[@]}" run.dir=ppo 2>ppo.log | mf-gae 2>>ppo.log | mf-ppo run.dir=ppo training.freeze_encoder=true 2>>ppo.log >/dev/null || return 1
    unread ppo
    grep -q 'mf-ppo: warn: training.freeze_encoder=true has no effect: the policy has no encoder' ppo.log
    run ! grep -h 'as numbers' bc.log ppo.log
    mf-bc clone.dataset=demos.hdf5 "${words[@]}" 'policy.obs_keys=[gripper,tokens]' run.dir=named 2>named.log >/dev/null || return 1
    run ! unread named
    grep -q 'mf-bc: warn: the network reads the ids of tokens as numbers: policy.network=pi05 has an embedding' named.log
    run -0 mf-bc clone.dataset=demos.hdf5 policy.checkpoint=bc training.freeze_encoder=true clone.steps=0 run.dir=further --out /dev/null
    [[ $output == *"mf-bc: warn: training.freeze_encoder=true has no effect"* ]]
    /usr/bin/python3 -c 'import h5py' || skip "no h5py for /usr/bin/python3 (Debian: python3-h5py)"
    /usr/bin/python3 -c 'import h5py; del h5py.File("demos.hdf5", "r+")["data"].attrs["env_args"]'
    mf-bc clone.dataset=demos.hdf5 "${words[@]}" run.dir=nowhere 2>nowhere.log >/dev/null || return 1
    unread nowhere
}

@test "what is refused" {
    run -2 mf-collect env=blocks env.suite=other
    [[ $output == *"no suite 'other'"*"train, unseen, all"* ]]
    run -2 mf-collect env=point policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model"
    [[ $output == *"env=point has no language"* ]]
    run -2 mf-collect env=blocks 'policy.obs_keys=[tokens]'
    [[ $output == *"tokens with policy.tokenizer=FILE"* ]]
    run -3 mf-collect env=blocks policy.tokenizer="$ROOT/README.md"
    [[ $output == *"SentencePiece"* ]]
    mf-bc clone.dataset="$ROOT/tests/fixtures/point.hdf5" clone.steps=0 run.dir=mute --out /dev/null 2>err
    run -2 mf-eval mute eval.tasks=true --out /dev/null
    [[ $output == *"eval.tasks=true has a row for each task in words, and env=point has none"* ]]
    run -2 mf-collect env=blocks policy.state_in_prompt=true
    [[ $output == *"a policy that reads a prompt: give policy.tokenizer"* ]]
    run -2 mf-collect env=blocks policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model" 'policy.obs_keys=[tokens]' policy.state_in_prompt=true
    [[ $output == *"policy.obs_keys has no state"* ]]
    for word in image_size=40 turn_images=true; do
        run -2 mf-collect env=blocks policy.$word run.dir=x
        [[ $output == *"policy.$word is for color pictures, and the policy reads none"* ]]
    done
}

@test "a policy keeps to its tokenizer, and to the state in its prompts" {
    words=('policy.obs_keys=[gripper,tokens]' policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model")
    python3 -c 'import sys; b = open(sys.argv[1], "rb").read(); open("other.model", "wb").write(b + b"\x98\x06\x01")' "$ROOT/tests/fixtures/tokenizer.model"
    mf-collect env=blocks collect.actor=expert collect.episodes=4 "${words[@]}" policy.prompt_length=70 2>log |
        mf-record demos.hdf5 2>>log >/dev/null
    mf-bc clone.dataset=demos.hdf5 "${words[@]}" policy.prompt_length=70 policy.state_in_prompt=true clone.normalizer=identity \
        clone.steps=5 run.dir=clone >bc.mf 2>>log || cat log
    [[ $(mf-ckpt show clone) =~ spec.state_in_prompt\ +true.*spec.tokenizer\ +[0-9a-f]{16} ]]
    run -2 mf-bc clone.dataset=demos.hdf5 policy.checkpoint=clone run.dir=none policy.state_in_prompt=true
    [[ $output == *"policy.tokenizer is not given"* ]]
    for program in "mf-bc clone.dataset=demos.hdf5" mf-collect mf-eval; do
        # shellcheck disable=SC2086 # several words
        run -2 $program policy.checkpoint=clone policy.tokenizer=other.model run.dir=none
        [[ $output == *"policy.tokenizer has the digest "*" was trained with the tokenizer "* ]]
    done
    mf-eval clone eval.num_episodes=2 eval.json=e.json 2>>log >/dev/null || cat log
    words=(policy.checkpoint=clone policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model" training.num_envs=4 training.num_steps_per_rollout=8
        training.total_timesteps=200 policy.state_in_prompt=true)
    mf-collect "${words[@]}" run.dir=run 2>>log | tee in.mf | mf-gae 2>>log | mf-ppo "${words[@]}" 2>>log >out.mf || cat log
    mf-view out.mf | jq -es 'map(select(.mf == "metrics").values["train/logratio_gap"]) | length > 1 and all(.[]; . == 0)'
    [[ $(mf-ckpt show run) =~ spec.state_in_prompt\ +true.*spec.tokenizer\ +[0-9a-f]{16} ]]
    sed -i 's/prompt_length: 0/prompt_length: 70/' run/configs/mf-collect.yaml && grep -q 'prompt_length: 70' run/configs/mf-collect.yaml
    mf-collect "${words[@]}" run.dir=run run.resume=auto 2>>log | mf-gae 2>>log | mf-ppo "${words[@]}" run.resume=auto 2>>log >again.mf || cat log
    grep -q 'resuming run' log
    /usr/bin/python3 -c 'import h5py' || skip "no h5py for /usr/bin/python3 (Debian: python3-h5py)"
    mf-collect "${words[@]}" policy.n_action_steps=1 run.dir=one 2>>log | mf-record seen.hdf5 2>>log | mf-gae 2>>log | mf-ppo 2>>log >/dev/null || cat log
    words=(clone.dataset=seen.hdf5 clone.normalizer=identity clone.steps=5 'policy.obs_keys=[gripper,tokens]')
    mf-bc "${words[@]}" run.dir=read >bc.mf 2>>log || cat log
    mf-bc "${words[@]}" policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model" policy.prompt_length=70 policy.state_in_prompt=true run.dir=made >bc.mf 2>>log || cat log
    run -0 mf-ckpt diff {read,made}/checkpoints/clone.safetensors
    [[ ${#lines[@]} == 2 && $output == "spec.state_in_prompt "*"spec.tokenizer "* ]]
    words=(policy.checkpoint=clone policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model")
    run -2 mf-collect "${words[@]}" policy.state_in_prompt=false run.dir=none
    [[ $output == *"policy.state_in_prompt=false contradicts"* ]]
}

@test "a server in Python lists its tasks, and rows have them" {
    /usr/bin/python3 -c 'import msgpack' 2>/dev/null || skip "no python3-msgpack"
    cat >talker.py <<PY
import sys; sys.path.insert(0, "$ROOT/examples/envs")
import numpy as np
from serving import Each, keep_stdout, serve
class Talker:
    def __init__(self, first): self.first = first
    def see(self): return {"task_is": np.full(1, self.task, "f4")}
    def reset(self, seed, episode):
        self.t, self.task = 0, (self.first + episode) % 2 * int(sys.argv[1])
        return self.see()
    def step(self, action):
        self.t += 1
        return self.see(), 0.0, self.t == 3, False, self.task == 2
out = keep_stdout()
serve(Each(Talker, "talker", 5, 10, -np.ones(1), np.ones(1), {"task_is": np.zeros(1, "f4")}, tasks=["turn on\nthe stove", "", "red bin"]), None, out)
PY
    words=(env=exec env.workers=2 policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model" 'policy.obs_keys=[task_is,tokens]' policy.n_action_steps=2 training.num_envs=3
        training.total_timesteps=1 training.num_steps_per_rollout=6 run.dir=run)
    mf-collect env.command='/usr/bin/python3 talker.py 2' "${words[@]}" 2>log | tee a.mf | mf-gae 2>>log | mf-ppo run.dir=run 2>>log >/dev/null || cat log
    /usr/bin/python3 - <<'PY'
import msgpack, numpy as np
of = lambda m: np.frombuffer(m[b"data"], m[b"type"]).reshape(m[b"shape"]) if m.get(b"nd") else m
head, *frames = [f for f in msgpack.Unpacker(open("a.mf", "rb"), object_hook=of)]
assert head["tasks"] == "turn on the stove\n\nred bin", head
a = next(f for f in frames if f["mf"] == "rollout")["arrays"]
task, tokens = a["task"], a["obs/tokens"][:, :, 0]
assert set(task.ravel()) == {0, 2} and (a["obs/task_is"][:, :, 0, 0] == task).all(), task
for i in 0, 2:
    mine = tokens[task == i]
    assert (mine == mine[0]).all() and mine[0][0] == 2 and mine[0][-1] == 0, mine
assert (tokens[task == 0][0] != tokens[task == 2][0]).any()
PY
    run -0 mf-eval run eval.num_episodes=4 eval.json=e.json
    [[ $(jq -c '.results[0] | [.tasks[] | [.task, .n, .success_once]]' e.json) == '[["turn on the stove",2,0],["red bin",2,1]]' ]]
    sed 's/"red bin"\]/"red bin", ""]/' talker.py >more.py
    run -0 mf-eval run env=exec env.command='/usr/bin/python3 more.py 3' eval.num_episodes=4
    run -3 mf-eval run env=exec env.command='/usr/bin/python3 talker.py 7' eval.num_episodes=4
    [[ $output == *"task["*"is 7, and it has 3 tasks"* ]]
}

@test "pictures of demonstrations and of a server are resized to policy.image_size, and turned" {
    words=('policy.obs_keys=[gripper,image]' policy.encoder=nature 'policy.encoder_channels=[4,4,4]' policy.encoder_output_dim=8 'policy.hidden=[8,8,8]')
    mf-collect env=blocks collect.actor=expert collect.episodes=4 env.image_size=60 "${words[@]}" 2>log | mf-record demos.hdf5 2>>log >/dev/null
    mf-bc clone.dataset=demos.hdf5 "${words[@]}" policy.image_size=40 policy.turn_images=true clone.steps=5 run.dir=clone >bc.mf 2>>log || cat log
    [[ $(mf-ckpt show clone) =~ spec.obs\ +4:gripper,40x40x3u8:image.*spec.turn_images\ +true ]]
    run -2 mf-eval clone eval.num_episodes=2
    [[ $output == *"policy.turn_images=true: env=blocks draws pictures that are upright"* ]]
    run -2 mf-bc clone.dataset=demos.hdf5 policy.checkpoint=clone run.dir=again
    [[ $output == *"'image' is uint8 (40, 40, 3) in "*", and uint8 (60, 60, 3) in demos.hdf5: give policy.image_size=40 "* && ! -e again ]]
    run -2 mf-eval clone eval.num_episodes=2 policy.turn_images=false policy.image_size=30
    [[ $output == *"(30, 30, 3) in the environment: policy.image_size=30 is another size: give policy.image_size=40 "* ]]
    words=(policy.checkpoint=clone env=exec env.workers=1 env.command='mf-env blocks env.image_size=60')
    run -2 mf-eval "${words[@]}" eval.num_episodes=2 policy.image_size=0
    [[ $output == *"'image' is uint8 (40, 40, 3) in "*"(60, 60, 3) in the environment"*", or policy.image_size=40 "* ]]
    words+=(policy.image_size=40)
    run -0 mf-eval "${words[@]}" eval.num_episodes=2
    words+=(training.num_envs=2 training.num_steps_per_rollout=4 training.total_timesteps=60)
    mf-collect "${words[@]}" run.dir=run 2>>log | tee in.mf | mf-gae 2>>log | mf-ppo "${words[@]}" 2>>log >out.mf || cat log
    mf-view out.mf | jq -es 'map(select(.mf == "metrics").values["train/logratio_gap"]) | length > 1 and all(.[]; . == 0)'
    [[ $(mf-view in.mf | jq -c 'select(.mf == "rollout").arrays["obs/image"].shape' | sort -u) == '[4,2,1,40,40,3]' ]]
}
