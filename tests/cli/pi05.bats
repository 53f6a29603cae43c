# mf-ckpt with files of pi0.5: safetensors in and out under both published prefixes, bfloat16, shards.
load helpers

setup() { cd "$BATS_TEST_TMPDIR" && tiny=$ROOT/tests/fixtures/pi05_tiny.safetensors; }

words=(policy.encoder_heads=4 policy.horizon=5 normalizer=identity)

# rewrite 'python': FILE -> new.safetensors, where t is {name: [dtype, shape, bytes]}
rewrite() {
    python3 - "$1" "$2" <<'PY'
import json, struct, sys
b = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", b[:8])[0]
h = json.loads(b[8:8 + n])
h.pop("__metadata__", None)
t = {k: [v["dtype"], v["shape"], b[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]] for k, v in h.items()}
def save(path, t):
    head, at = {}, 0
    for k, (d, s, x) in t.items():
        head[k] = {"dtype": d, "shape": s, "data_offsets": [at, at + len(x)]}
        at += len(x)
    text = json.dumps(head).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + b"".join(x for _, _, x in t.values()))
exec(sys.argv[2])
PY
}

@test "what is imported is exported to the same bytes, under openpi's names and LeRobot's" {
    run -0 mf-ckpt import "$tiny" a.safetensors "${words[@]}"
    [[ $output == *"the action expert predicts no words"* ]] || return 1
    run -0 mf-ckpt verify a.safetensors
    mf-ckpt export a.safetensors out.safetensors || return 1
    run -0 mf-ckpt diff "$tiny" out.safetensors
    [[ $(grep -v "^cfg\..*(nothing) and [0-9]*$" <<<"$output") == "paligemma_with_expert.gemma_expert.lm_head.weight"*"only in the first" && ${#lines[@]} == 5 ]] || return 1
    # what no shape tells comes along
    mf-ckpt export a.safetensors lerobot.safetensors ckpt.prefix=model. || return 1
    run -0 mf-ckpt import lerobot.safetensors b.safetensors normalizer=identity
    [[ $output == *"the prefix 'model.'"* && $output != *"are assumed"* ]] || return 1
    cmp a.safetensors b.safetensors
}

@test "bfloat16 is read exactly, from shards too" {
    rewrite "$tiny" 'save("half.safetensors", {k: ["BF16", s, bytes(x[i + j] for i in range(2, len(x), 4) for j in (0, 1))] for k, (d, s, x) in t.items()})
save("cut.safetensors", {k: [d, s, bytes(c if i % 4 > 1 else 0 for i, c in enumerate(x))] for k, (d, s, x) in t.items()})' || return 1
    run -0 mf-ckpt show half.safetensors
    [[ $output == *"action_in_proj.weight"*"bfloat16 (32, 8)"* ]] || return 1
    rewrite half.safetensors 'names = list(t)
save("one.safetensors", {k: t[k] for k in names[::2]})
save("two.safetensors", {k: t[k] for k in names[1::2]})
json.dump({"weight_map": {k: ["one", "two"][i % 2] + ".safetensors" for i, k in enumerate(names)}}, open("model.safetensors.index.json", "w"))' || return 1
    for from in half.safetensors cut.safetensors model.safetensors.index.json; do
        mf-ckpt import $from $from.in "${words[@]}" || return 1
        cmp $from.in half.safetensors.in || return 1
    done
    mf-ckpt import half.safetensors kept "${words[@]}" ckpt.keep_bf16=true && mf-ckpt verify kept || return 1
    (($(stat -c %s kept) * 10 < $(stat -c %s half.safetensors.in) * 6)) || return 1
    mf-ckpt export kept again.safetensors && mf-ckpt export half.safetensors.in floats.safetensors || return 1
    mf-ckpt import again.safetensors back "${words[@]}" && cmp back half.safetensors.in
}

@test "other names of published files, and what a file lacks" {
    rewrite "$tiny" 'save("old.safetensors", {k.replace("time_mlp", "action_time_mlp").replace("vision_tower.vision_model.", "vision_tower."): v for k, v in t.items()})' || return 1
    mf-ckpt import "$tiny" a.safetensors "${words[@]}" && mf-ckpt import old.safetensors b.safetensors "${words[@]}" || return 1
    cmp a.safetensors b.safetensors || return 1
    run -2 mf-ckpt import "$tiny" c.safetensors policy.horizon=5 normalizer=identity
    [[ $output == *"give policy.encoder_heads=N"* ]] || return 1
    run ! mf-ckpt import "$tiny" c.safetensors policy.encoder_heads=4 policy.horizon=5
    [[ $output == *normalizer* ]] || return 1
    rewrite "$tiny" 'del t["time_mlp_out.bias"]; save("less.safetensors", t)' || return 1
    run -3 mf-ckpt import less.safetensors c.safetensors "${words[@]}"
    [[ $output == *"time_mlp_out.bias is missing"* ]] || return 1
    rewrite "$tiny" 't["count"] = ["U16", [2], bytes(4)]; save("more.safetensors", t)' || return 1
    run -3 mf-ckpt import more.safetensors c.safetensors "${words[@]}"
    [[ $output == *"count is left over"* ]] || return 1
    { printf '{"weight_map": ['; head -c 3000000 /dev/zero | tr '\0' ','; } >many.safetensors.index.json
    run -3 mf-ckpt import many.safetensors.index.json c.safetensors "${words[@]}"
    [[ $output == *"more than the 2097152 values"* ]] || return 1
    echo '{"weight_map": {"a": "../a"}}' >bad.safetensors.index.json
    run -3 mf-ckpt import bad.safetensors.index.json c.safetensors "${words[@]}"
    [[ $output == *"is not one beside it"* ]]
}

@test "heads that are not wanted, an actor of the noise, and what is assumed are said" {
    rewrite "$tiny" 'f = lambda *s: ["F32", list(s), bytes(4 * s[0] * s[-1] if s[1:] else 4 * s[0])]
for i, (rows, cols) in enumerate([(6, 32), (8, 6)]):
    at = f"noise_head.mlp_logvar.moduleList.{i}.linear_1."
    t[at + "weight"], t[at + "bias"] = f(rows, cols), f(rows)
t["noise_head.logvar_min"], t["noise_head.logvar_max"], t["latent_actor.mean_head.bias"] = f(1), f(1), f(8)
save("noisy.safetensors", t)' || return 1
    run -0 mf-ckpt import noisy.safetensors a "${words[@]}"
    [[ $output == *"are assumed: policy.n_action_steps=5, policy.num_inference_steps=4"* && $output == *"2 tensors are not imported"* ]] || return 1
    run -0 mf-ckpt import noisy.safetensors b policy.encoder_heads=4 normalizer=identity policy.learned_noise=false
    [[ $output == *"are assumed: policy.horizon=4, policy.n_action_steps=4"* && $output == *"8 tensors are not imported"* ]] || { echo "$output"; return 1; }
    run -2 mf-ckpt import "$tiny" c policy.steer=sac "${words[@]}"
    [[ $output == *"policy.steer adds an actor"* && ! -e c ]] || return 1
}

@test "sizes that no policy can have are refused, whatever the shapes of a file say" {
    local patch position shape
    for shape in "1048576 1048576" "14 1048576" "14 16"; do
        read -r patch position <<<"$shape"
        rewrite "$tiny" "at = 'paligemma_with_expert.paligemma.model.vision_tower.vision_model.embeddings.'
t[at + 'patch_embedding.weight'] = ['F32', [48, 3, $patch, 0], b'']
t[at + 'position_embedding.weight'] = ['F32', [$position, 0], b'']
if $position < 20: t['action_in_proj.weight'] = ['F32', [0, 1000000], b'']
save('huge.safetensors', t)" || return 1
        run -3 mf-ckpt import huge.safetensors c "${words[@]}"
        [[ ($output == *"reads the observation image as uint8 ("* || $output == *"action_width cannot be '1000000'"*) && ! -e c ]] ||
            { echo "$shape: $output"; return 1; }
    done
}

@test "pi0.5 from pictures and words of env=blocks: cloned, evaluated, tuned by four methods whose first ratio is 1" {
    cd "$T" || return 1
    local words=(policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model" policy.prompt_length=20 env.image_size=28 threads=2) extra
    local sizes=(policy.network=pi05 policy.n_layer=2 policy.n_head=2 policy.n_emb=32 policy.head_dim=16 policy.mlp_dim=48 policy.expert_width=32
        policy.expert_mlp=48 policy.encoder_width=16 policy.encoder_heads=2 policy.encoder_layers=1 policy.encoder_mlp=32)
    mf-collect env=blocks collect.actor=expert collect.episodes=4 'policy.obs_keys=[image,tokens]' "${words[@]}" 2>err | mf-record demos.hdf5 >/dev/null 2>>err &&
        mf-bc "${sizes[@]}" training.freeze_encoder=true clone.dataset=demos.hdf5 clone.steps=10 clone.batch_size=8 'policy.obs_keys=[image,tokens]' run.dir=clone "${words[@]}" >/dev/null 2>>err &&
        mf-eval clone eval.num_episodes=4 "${words[@]}" >/dev/null 2>>err || { cat err; return 1; }
    grep -q "fresh weights all learn" err && mf-ckpt show clone | grep -q '^opt/paligemma_with_expert.paligemma' || { cat err; return 1; }
    local program more text
    while IFS='|' read -r program more text; do
        # shellcheck disable=SC2086 # several words
        run -2 $program "${words[@]}" "${sizes[@]}" 'policy.obs_keys=[image,tokens]' policy.vocabulary=9 $more --out /dev/null &&
            [[ $output == *"$text"*"has embeddings of policy.vocabulary=9"* ]] || { echo "$output"; return 1; }
    done <<END
mf-bc|clone.dataset=demos.hdf5 policy.tokenizer=null|obs/tokens of demo_0 has the token
mf-bc|clone.dataset=demos.hdf5|policy.tokenizer has 416 tokens
mf-collect|env=blocks run.dir=x|policy.tokenizer has 416 tokens
END
    mf-bc clone.dataset=demos.hdf5 policy.checkpoint=clone policy.weights=raw training.freeze_encoder=true clone.steps=2 clone.batch_size=8 run.dir=expert \
        "${words[@]}" >/dev/null 2>err && mf-ckpt diff clone expert >differences || { cat err; return 1; }
    grep -q "^paligemma_with_expert.gemma_expert.*max difference" differences && ! grep -q "^paligemma_with_expert.paligemma.*max difference" differences &&
        grep -q "^opt/paligemma_with_expert.paligemma.*only in the first" differences && grep -q "^frozen .* encoder" differences || { head differences; return 1; }
    words+=(policy.checkpoint=clone training.num_envs=4 training.num_steps_per_rollout=8 training.total_timesteps=250 training.batch_size=16)
    for extra in "policy.noise_method=flow_sde policy.denoise=single policy.objective=step" training.rfc_coef=.05 'policy.objective=fpo training.freeze_encoder=true' policy.steer=ppo; do
        # shellcheck disable=SC2086 # several words
        mf-collect "${words[@]}" $extra run.dir=run run.force=true 2>err | mf-gae 2>>err | mf-ppo "${words[@]}" $extra >metrics.mf 2>>err
        mf-view metrics.mf | jq -es 'map(select(.mf == "metrics").values["train/logratio_gap"]) | length > 1 and all(.[]; . == 0)' >/dev/null ||
            { echo "$extra"; cat err; return 1; }
        rm -rf run
    done
    mf-ckpt export clone floats.safetensors && rewrite floats.safetensors 'save("half.safetensors", {k: ["BF16", s, bytes(x[i + j] for i in range(2, len(x), 4) for j in (0, 1))] for k, (d, s, x) in t.items()})' &&
        mf-ckpt import half.safetensors base.safetensors ckpt.keep_bf16=true env=blocks normalizer=identity policy.encoder_heads=2 'policy.obs_keys=[image,tokens]' \
            "${words[@]:0:4}" 2>err || { cat err; return 1; }
    words=("${words[@]/checkpoint=clone/checkpoint=base.safetensors}" training.freeze_encoder=true policy.noise_method=flow_sde)
    mf-collect "${words[@]}" run.dir=run 2>err | mf-gae 2>>err | mf-ppo "${words[@]}" >metrics.mf 2>>err || { cat err; return 1; }
    mf-view metrics.mf | jq -es 'map(select(.mf == "metrics").values["train/logratio_gap"]) | length > 1 and all(.[]; . == 0)' >/dev/null &&
        mf-ckpt diff base.safetensors run >differences && mf-ckpt show run >shown || { cat err; return 1; }
    grep -q "^paligemma_with_expert.gemma_expert" differences && ! grep -q "^paligemma_with_expert.paligemma" differences &&
        grep -q "language_model.layers.0.mlp.up_proj.weight *bfloat16" shown || { cat differences; return 1; }
    # mf-bc learns the same from them as from float copies, and its checkpoints may leave them out
    mf-ckpt import half.safetensors copied.safetensors env=blocks normalizer=identity policy.encoder_heads=2 'policy.obs_keys=[image,tokens]' "${words[@]:0:4}" 2>err || { cat err; return 1; }
    local start
    for start in base copied; do
        mf-bc clone.dataset=demos.hdf5 "${words[@]}" policy.checkpoint=$start.safetensors clone.steps=2 clone.batch_size=8 run.dir=bc.$start training.save_frozen=false >/dev/null 2>err || { cat err; return 1; }
    done
    mf-ckpt diff bc.base bc.copied >differences
    [[ bc.base/checkpoints/base -ef base.safetensors && $(grep -c "^paligemma_with_expert.paligemma.*only in the second" differences) -gt 20 ]] &&
        ! grep -v "^base\|^paligemma_with_expert.paligemma.*only in the second" differences &&
        mf-ckpt diff bc.base base.safetensors | grep -q "^paligemma_with_expert.gemma_expert.*max difference" || { cat differences; return 1; }
    # the same, without the frozen ones in its checkpoints
    mf-collect "${words[@]}" run.dir=less 2>err | mf-gae 2>>err | mf-ppo "${words[@]}" training.save_frozen=false >/dev/null 2>>err || { cat err; return 1; }
    mf-ckpt export run whole.safetensors && mf-ckpt export less joined.safetensors && cmp whole.safetensors joined.safetensors || return 1
    mf-ckpt verify less/checkpoints/*[0-9].safetensors && mf-ckpt show less >shown && grep -q "^base " shown && ! grep -q language_model.layers.0.mlp shown || return 1
    # verify reads what the base has beside that, too; its digest shows a change of so small a matrix, and is made to agree
    cp base.safetensors sound && /usr/bin/python3 - base.safetensors <<'PY'
import json, struct, sys
with open(sys.argv[1], "r+b") as f:
    n = struct.unpack("<Q", f.read(8))[0]
    begin = min(v["data_offsets"][0] for k, v in json.loads(f.read(n)).items() if "gemma_expert.model.layers" in k)
    f.seek(8 + n + begin)
    f.write(b"\xc0\x7f\xc0\x7f")
PY
    run mf-ckpt verify less && [[ $output =~ digest\ ([0-9a-f]{16}),.*\ has\ ([0-9a-f]{16}): ]] && LC_ALL=C sed -i "s/${BASH_REMATCH[1]}/${BASH_REMATCH[2]}/" less/checkpoints/*[0-9].safetensors &&
        run -3 mf-ckpt verify less && [[ $output == *"less/checkpoints/base: number 0 of paligemma_with_expert.gemma_expert."*" is nan"* ]] || { echo "$output"; return 1; }
    rm less/checkpoints/base
    run -3 mf-ckpt verify less
    [[ $output == *"leaves its frozen parameters in another checkpoint: copy or link that to less/checkpoints/base"* ]] || { echo "$output"; return 1; }
    ln -s "$PWD/floats.safetensors" less/checkpoints/base
    run -2 mf-ckpt export less other.safetensors
    [[ $output == *"in the checkpoint of digest"*"copy or link the right one there"* ]] || { echo "$output"; return 1; }
}
