#!/usr/bin/env python3
"""torch_zip.py OUT 'python': write OUT as torch.save would, without PyTorch, and also as it never would.

The code sets `tree`, or `pickled` (bytes); it may change `files` ({name: bytes} beside data.pkl) and `method`. A tensor
of the tree is T(list of floats, shape, key=.., stride=.., offset=.., numel=.., type=..); G("module", "name") is a global.
"""
import io
import pickle
import struct
import sys
import types
import zipfile
from collections import OrderedDict


def G(module, name):
    made = sys.modules.setdefault(module, types.ModuleType(module))
    if not hasattr(made, name):
        f = types.FunctionType((lambda: None).__code__, {}, name)
        f.__module__, f.__qualname__ = module, name
        setattr(made, name, f)
    return getattr(made, name)


class Call:
    """What a pickle calls when it is loaded."""

    def __init__(self, f, *args):
        self.reduced = f, args

    def __reduce__(self):
        return self.reduced


class Storage:
    def __init__(self, *pid):
        self.pid = pid


class Pickler(pickle.Pickler):
    def persistent_id(self, o):
        return o.pid if isinstance(o, Storage) else None


files = {"version": b"3\n"}
method = zipfile.ZIP_STORED
REBUILD = G("torch._utils", "_rebuild_tensor_v2")


def T(values, shape, key=None, stride=None, offset=0, numel=None, type="FloatStorage"):
    key = str(len(files)) if key is None else key
    if values is not None:
        files[f"data/{key}"] = struct.pack(f"<{len(values)}f", *values)
    if stride is None:
        stride, step = [], 1
        for n in reversed(shape):
            stride, step = [step, *stride], step * n
    numel = len(files.get(f"data/{key}", b"")) // 4 if numel is None else numel
    return Call(REBUILD, Storage("storage", G("torch", type), key, "cpu", numel), offset, tuple(shape), tuple(stride),
                False, OrderedDict())


out, code = sys.argv[1:]
tree = pickled = None
exec(code)
if pickled is None:
    to = io.BytesIO()
    Pickler(to, 2).dump(tree)
    pickled = to.getvalue()
with zipfile.ZipFile(out, "w", method) as z:
    for name, data in {"data.pkl": pickled, **files}.items():
        z.writestr(f"archive/{name}", data)
