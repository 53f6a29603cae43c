"""Writes tests/fixtures/reference.safetensors with the reference implementation (pip: safetensors, numpy)."""
import numpy as np
from safetensors.numpy import save_file

save_file(
    {
        "b.weight": np.arange(6, dtype="<f4").reshape(2, 3) / 4,
        "a": np.array([-7, 1 << 40], "<i8"),
        "mask": np.array([True, False, True]),
        "bytes": np.arange(5, dtype="u1"),
        "scalar": np.array(2.5, "<f8"),
        "none": np.zeros((2, 0), "<f4"),
        'tw"o\nλ': np.array([1.5], "<f2"),
    },
    "tests/fixtures/reference.safetensors",
    metadata={"kind": "reference", "q": 'a "quoted" \\ λ'},
)
