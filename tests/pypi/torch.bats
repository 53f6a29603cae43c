# What PyTorch and safetensors themselves read of what mf-ckpt writes, and mf-ckpt of what they write. (PyTorch's package
# wants some 5 GB.)
load ../cli/helpers

setup() { cd "$BATS_TEST_TMPDIR" && python=$ROOT/build/venv/torch/bin/python && F=$ROOT/tests/fixtures; }

@test "torch.load reads an exported policy, weights only and mapped; safetensors reads the other" {
    mf-ckpt import "$F/policy_tuned.pt" p policy.activation=mish policy.horizon=3 normalizer="$F/policy.npz" &&
        mf-ckpt export p p.pt && mf-ckpt export p p.safetensors || return 1
    "$python" - "$F/policy_tuned.pt" <<'PY'
import sys
import torch
from safetensors.torch import load_file

a, b = torch.load("p.pt", weights_only=True), load_file("p.safetensors")
mapped = torch.load("p.pt", weights_only=True, mmap=True)
assert sorted(a) == sorted(b) == sorted(mapped)
assert all(torch.equal(a[k], b[k]) and torch.equal(a[k], mapped[k]) and a[k].shape == b[k].shape for k in a)
source = torch.load(sys.argv[1], weights_only=True)["model"]
theirs = {"network.": "actor_ft.policy.", "explore_noise_net.": "actor_ft.explore_noise_net.", "critic.": "critic."}
found = 0
for ours, prefix in theirs.items():
    for k in (k for k in a if k.startswith(ours)):
        assert torch.equal(a[k].flatten(), source[prefix + k[len(ours):]].flatten()), k
        found += 1
assert found + 4 == len(a), (found, len(a))
PY
}

@test "files of this PyTorch read as the committed ones, whose makers may be older" {
    "$python" - <<'PY'
import torch
x = torch.arange(12.0).reshape(3, 4)
torch.save({"plain": x, "turned": x.t(), "half": x.bfloat16(), "n": 7}, "new.pt")
torch.save(x, "legacy.pt", _use_new_zipfile_serialization=False)
PY
    run -0 mf-ckpt show new.pt
    [[ $output == *"n                        7"* && $output == *"turned "*"float32 (4, 3)"* && $output == *"half "*"bfloat16 (3, 4)"* ]] || return 1
    run -3 mf-ckpt show legacy.pt
    [[ $output == *"before version 1.6"* ]]
}
