#!/usr/bin/env python3
"""torch_prefix.py FILE.pt PREFIX OUT NAME..: a copy of what torch.save wrote, with the prefix before each key that ends
one of the tensors' names as mf-ckpt show lists them."""
import pickletools
import sys
import zipfile

src, prefix, out, *names = sys.argv[1:]


def is_key(text):
    return any(n == text or n.endswith("." + text) for n in names) and text not in ("weight", "bias")


def renamed(pickled):
    ops = list(pickletools.genops(pickled))
    ends = [at for _, _, at in ops[1:]] + [len(pickled)]
    for (op, arg, at), end in zip(ops, ends):
        if op.name == "BINUNICODE" and is_key(arg):
            key = (prefix + arg).encode()
            yield b"X" + len(key).to_bytes(4, "little") + key
        else:
            yield pickled[at:end]


with zipfile.ZipFile(src) as z, zipfile.ZipFile(out, "w") as to:
    for name in z.namelist():
        bytes_ = z.read(name)
        to.writestr(name, b"".join(renamed(bytes_)) if name.endswith("data.pkl") else bytes_)
