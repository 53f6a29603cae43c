"""Writes tests/fixtures/tokenizer.model, a SentencePiece BPE model with PaliGemma's settings, and tests/fixtures/tokens.json,
what SentencePiece makes with it of texts and prompts of pi0.5 (pip:
sentencepiece 0.2.3, numpy)."""
import io, json, random
import numpy as np
import sentencepiece

TASKS = """push the red block into the left bin
push the green block into the right bin
push the blue block into the left bin
push the yellow block into the right bin
pick up the black bowl between the plate and the ramekin and place it on the plate
put both the alphabet soup and the tomato sauce in the basket
turn on the stove and put the moka pot on it
open the top drawer of the cabinet
close the bottom drawer of the cabinet and open the microwave
stack the left bowl on the right bowl and place them in the tray
Task: push the red block, State: 12 255 0 128 74;
Action: 0 1 2 3 4 5 6 7 8 9""".split("\n")

model = io.BytesIO()
sentencepiece.SentencePieceTrainer.train(
    sentence_iterator=iter(TASKS * 4), model_writer=model, vocab_size=416, model_type="bpe", byte_fallback=True,
    split_digits=True, add_dummy_prefix=False, remove_extra_whitespaces=False, normalization_rule_name="identity",
    allow_whitespace_only_pieces=True, pad_id=0, eos_id=1, bos_id=2, unk_id=3, character_coverage=1., num_threads=1,
    user_defined_symbols=["\n", "\n\n", "\u2581\u2581", "\u2581\u2581\u2581", "<loc0000>", "<loc0001>", "<loc"])
open("tests/fixtures/tokenizer.model", "wb").write(model.getvalue())
sp = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())

texts = TASKS + ["", " ", "\n\n\n", "a    b     c", "<loc0001> stove <loc0000>", "<loc00", "  two  spaces ", "0123456789", "a\nb",
                 "caf\u00e9 \u2603 \U0001f916", "TASK task", "\u2581a \u2581", "bl bl block blockblock", "\u00a0<s></s><0x41>"]
draw = random.Random(0)
for _ in range(200):
    texts.append("".join(draw.choice(["the", "bl", "ock", " ", "re", "d", "\n", "<loc", "0000>", "\u00e9", "o", "n", "q"])
                         for _ in range(draw.randrange(1, 40))))


def prompt(task, state):
    """pi0.5's, with the bins as openpi finds them."""
    text = task.strip().replace("_", " ").replace("\n", " ")
    if state is None:
        return [2, *sp.encode(text), *sp.encode("\n")]
    bins = np.digitize(np.float32(state), bins=np.linspace(-1, 1, 256 + 1)[:-1]) - 1
    return [2, *sp.encode(f"Task: {text}, State: {' '.join(map(str, bins))};\nAction: ")]


edges = [-1.5, -1, -.99999, -1e-9, 0, 1e-9, .0078125, .0078124, .5, .992187, .9921875, .999, 1, 7]
prompts = [(" put_both_the alphabet soup\nin the basket \t", None), (" put_both_the alphabet soup\nin the basket \t", edges),
           (TASKS[0], None), (TASKS[0], [0]), ("", None), ("__", [1])]
json.dump({"encode": [{"text": t, "ids": sp.encode(t)} for t in texts],
           "prompts": [{"task": t, **({} if s is None else {"state": s}), "ids": prompt(t, s)} for t, s in prompts]},
          open("tests/fixtures/tokens.json", "w"), separators=(",", ":"))
