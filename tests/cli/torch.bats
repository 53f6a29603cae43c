# mf-ckpt on PyTorch's files: shown without Python; nothing in them is executed; what is wrong is one sentence.
load helpers

setup() { cd "$BATS_TEST_TMPDIR" || return 1; }

zip() { "$ROOT/tests/tools/torch_zip.py" "$@"; }

# refused FILE 'pattern': exit 3, and not for want of patience, and one sentence that names the file
refused() {
    run -3 timeout 60 mf-ckpt show "$1"
    [[ ${#lines[@]} -eq 1 && $output == *"$1"* && $output == *$2* ]] || { echo "$output" && return 1; }
}

@test "show prints layout, configuration and tensors, also as JSON" {
    run -0 mf-ckpt show "$ROOT/tests/fixtures/torch_workspace.ckpt"
    [[ ${lines[0]} == *"workspace of diffusion policy or ManiFlow"*"average in state_dicts.ema_model" ]] &&
        [[ $output == *"cfg.policy.dims          [64, 16]"* && $output == *"pickles.global_step      123"* ]] &&
        [[ $output == *"state_dicts.model.net.0.weight "*" float32 (2, 3)"* ]] &&
        mf-ckpt show "$ROOT/tests/fixtures/torch_workspace.ckpt" ckpt.format=json |
        jq -e '.__metadata__["cfg.name"] == "small" and .["state_dicts.model.net.0.weight"].shape == [2, 3]'
}

@test "functions that a pickle would call are named and never called" {
    zip a.pt 'tree = {"w": T([1, 2], [2]), "x": Call(G("os", "system"), "touch executed"),
        "y": Call(G("builtins", "eval"), "open(\"executed\", \"w\")")}'
    run -0 mf-ckpt show a.pt
    [[ $output == *"posix.system>"* && $output == *"builtin"*".eval>"* && $output == *"w "*"float32 (2)"* && ! -e executed ]]
}

@test "a pickle that contains itself, grows exponentially, or nests without end" {
    zip self.pt 'tree = {}; tree["a"] = tree'
    refused self.pt "does it hold itself?"
    zip laughs.pt 'tree = ["ha", {}]
for _ in range(60): tree = [tree] * 10'
    refused laughs.pt "refers to the same things too often"
    zip long.pt 'tree = ["x" * 4000] * 60
for _ in range(20): tree = [[tree] * 30, {}]'
    refused long.pt "refers to the same things too often"
    zip deep.pt 'pickled = b"\x80\x02" + b"]" * 200000 + b"a" * 199999 + b"."'
    refused deep.pt "nested deeper than 64"
    zip marks.pt 'pickled = b"\x80\x02" + b"(" * 5000000 + b"."'
    refused marks.pt "stack"
    zip memo.pt 'pickled = b"\x80\x02N" + b"r\xff\xff\xff\xff."'
    refused memo.pt "remembers more than"
    zip things.pt 'pickled = b"\x80\x02" + b"}0" * 5000000 + b"N."'
    refused things.pt "makes more than 4194304 things"
    zip few.pt 'pickled = b"\x80\x02" + b"}0" * 100000 + b"N."; method = zipfile.ZIP_DEFLATED'
    refused few.pt "makes more than 6"
    zip bytes.pt 'pickled = b"\x80\x02" + b"}0" * 5000000 + b"N."; method = zipfile.ZIP_DEFLATED'
    refused bytes.pt "has 10000004 bytes, in "
}

@test "a pickle that is cut, of protocol 0, or nonsense" {
    zip cut.pt 'pickled = pickle.dumps({"a": 1}, 2)[:-3]'
    refused cut.pt "it is cut at byte"
    zip old.pt 'pickled = pickle.dumps({"a": 1}, 0)'
    refused old.pt "which PyTorch does not write"
    zip empty.pt 'pickled = b""'
    refused empty.pt "it is cut"
    zip pop.pt 'pickled = b"\x80\x020."'
    refused pop.pt "taken from where nothing is"
    zip get.pt 'pickled = b"\x80\x02h\x07."'
    refused get.pt "recalls number 7"
    zip fill.pt 'pickled = b"\x80\x02NNa."'
    refused fill.pt "put into what does not hold it"
}

@test "tensors with false sizes" {
    zip far.pt 'tree = {"w": T([1, 2], [3])}'
    refused far.pt "w reaches to number 2 of the 2 in its storage"
    zip offset.pt 'tree = {"w": T([1, 2], [1], offset=1 << 62)}'
    refused offset.pt "w reaches"
    zip huge.pt 'tree = {"w": T([1, 2], [1 << 40, 1 << 40])}'
    refused huge.pt "does not fit 64 bits"
    zip stride.pt 'tree = {"w": T([1, 2], [3, 3], stride=[1 << 62, 1 << 62])}'
    refused stride.pt "w "
    zip negative.pt 'tree = {"w": T([1, 2], [-1])}'
    refused negative.pt "w has no shape"
    zip gone.pt 'tree = {"w": T(None, [1], key="9", numel=1)}'
    refused gone.pt "archive/data/9, which the file does not hold"
    zip type.pt 'tree = {"w": T([1], [1], type="QInt8Storage")}'
    refused type.pt "unknown type torch.QInt8Storage"
    zip rank.pt 'tree = {"w": T([1], [1] * 9)}'
    refused rank.pt "9 dimensions"
}

@test "zip files with false sizes and offsets" {
    zip good.pt 'tree = {"w": T(range(100), [100])}'
    run -0 mf-ckpt show good.pt
    zip other.pt 'tree = 0'
    python3 - <<'PY'
import struct, warnings, zipfile
raw = open("good.pt", "rb").read()
open("end.pt", "wb").write(raw[:-30])
open("half.pt", "wb").write(raw[: len(raw) // 2])
at = raw.index(b"PK\1\2")
def change(path, raw, form, values, *places):
    b = bytearray(raw)
    for at in places:
        struct.pack_into(form, b, at, *values)
    open(path, "wb").write(b)
change("crypt.pt", raw, "<H", [1], 6, at + 8)
change("method.pt", raw, "<H", [93], 8, at + 10)
change("size.pt", raw, "<I", [1 << 30], 22, at + 24)
change("place.pt", raw, "<I", [5], at + 42)
change("two.pt", raw, "<I", [1 << 30], at + 24)
change("wide.pt", raw, "<I", [(1 << 32) - 1], at + 24)
with warnings.catch_warnings(action="ignore"), zipfile.ZipFile("twins.pt", "w") as z:
    z.writestr("m/data.pkl", b"\x80\x02N."); z.writestr("m/data.pkl", b"\x80\x02N.")
with zipfile.ZipFile("both.pt", "w") as z:
    z.writestr("m/data.pkl", b"\x80\x02N."); z.writestr("m/x", b"x" * 1000)
raw = open("both.pt", "rb").read()
at = raw.index(b"PK\1\2")
change("overlap.pt", raw, "<II", [at - 40] * 2, 18, at + 20)
with zipfile.ZipFile("deflated.pt", "w", zipfile.ZIP_DEFLATED) as z: z.writestr("m/data.pkl", b"\x80\x02N.")
raw = open("deflated.pt", "rb").read()
change("more.pt", raw, "<I", [1], 22, raw.index(b"PK\1\2") + 24)
change("sum.pt", raw, "<I", [1], 14, raw.index(b"PK\1\2") + 16)
with zipfile.ZipFile("npz.pt", "w") as z: z.writestr("a.npy", b"x")
with zipfile.ZipFile("script.pt", "w") as z:
    z.writestr("m/data.pkl", b"\x80\x02N."); z.writestr("m/constants.pkl", b"")
with zipfile.ZipFile("big.pt", "w") as z:
    z.writestr("m/data.pkl", b"\x80\x02N."); z.writestr("m/byteorder", b"big")
with zipfile.ZipFile("bomb.pt", "w", zipfile.ZIP_DEFLATED) as z: z.writestr("m/data.pkl", b"\0" * (100 << 20))
PY
    refused end.pt "it is half-written or cut"
    refused half.pt "it is half-written or cut"
    refused crypt.pt "is encrypted"
    refused method.pt "compressed by method 93"
    refused size.pt "claims 1073741824 bytes"
    refused place.pt "or an entry listed there, is missing"
    refused two.pt "its directory contradicts its entries"
    refused twins.pt "two of its entries have one name"
    refused wide.pt "its directory contradicts its entries"
    refused more.pt "1 bytes that it should: its size is another"
    refused overlap.pt "they overlap"
    refused sum.pt "CRC error"
    refused npz.pt "torch.save did not write it"
    refused script.pt "TorchScript"
    refused big.pt "big-endian"
    refused bomb.pt "has 104857600 bytes, in "
}

@test "a zip directory beyond the memory is not reported as an invalid file" {
    ! ldd "$ROOT/bin/mf-ckpt" | grep -q 'lib[at]san' || skip "a sanitizer needs the address space"
    python3 - <<'PY'
import zipfile
with zipfile.ZipFile("many.pt", "w") as z:
    z.writestr("m/data.pkl", b"\x80\x02N.")
    for i in range(150000):
        z.writestr(zipfile.ZipInfo(f"m/{i}"), b"")
PY
    run -0 mf-ckpt show many.pt
    run -1 bash -c "ulimit -v 60000; mf-ckpt show many.pt" && [[ $output == *"error: cannot allocate the directory of many.pt" ]]
}

@test "the error for a file that is no zip file has advice" {
    python3 -c 'import pickle; pickle.dump(0x1950a86a20f9469cfc6c, open("legacy.pt", "wb"), 2)'
    refused legacy.pt "before version 1.6 torch.save wrote such files"
    printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\n' >lfs.pt
    refused lfs.pt "git lfs pull"
}
