#!/usr/bin/env python3
"""Compose what Hydra composes, with both, and compare: compose_both.py FOLDER MF-CONF < CASES

A case is a line: the configuration's name, then overrides. Every value that Hydra gives has to be mf-conf's, in type
too; mf-conf has the defaults of its own keys besides. Unknown resolvers of Hydra's are left out on both sides.
"""

import io
import re
import shlex
import subprocess
import sys

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

# As mf-conf prints it, in double quotes, where a backslash is two.
UNRESOLVED = r"(?<!\\)(\\\\\\\\)*\$\{"


def differences(want, got, path=""):
    if isinstance(want, dict) and isinstance(got, dict):
        for key in want:
            if want[key] != {}:
                yield from differences(want[key], got.get(key, "nothing"), f"{path}.{key}")
    elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        for i, (a, b) in enumerate(zip(want, got)):
            yield from differences(a, b, f"{path}[{i}]")
    elif isinstance(got, dict) and not isinstance(want, dict) and len(path.split(".")) == 2:
        yield from differences(want, got.get("_value_", got.get("name", "nothing")), path)  # env: NAME, of a group of ours
    elif (want != got and want == want) or type(want) is not type(got):
        yield f"{path[1:]}: Hydra has {want!r}, mf-conf {got!r}"


def main():
    folder, mf_conf = sys.argv[1:3]
    OmegaConf.register_new_resolver("eval", lambda s: eval(s, {"round": round}))
    failed = 0
    for line in sys.stdin:
        name, *words = shlex.split(line)
        with initialize_config_dir(folder, version_base=None):
            want = OmegaConf.to_container(compose(name, words), resolve=True)
        want.pop("hydra", None)
        ours = subprocess.run(
            [mf_conf, "--config-dir", folder, "--config-name", name, "conf.unknown=keep", *words],
            capture_output=True,
            text=True,
        )
        found = [ours.stderr.strip()]
        if ours.returncode == 0:
            text = re.sub("^hydra:.*", "", ours.stdout, flags=re.MULTILINE)  # what only Hydra can resolve
            got = OmegaConf.load(io.StringIO(text))
            found = [f"unresolved: {line}" for line in text.splitlines() if re.search(UNRESOLVED, line)]
            found += list(differences(want, OmegaConf.to_container(got, resolve=True)))
        print("not ok" if found else "ok", line.strip(), *found, sep="\n    " if found else " ")
        failed += bool(found)
    return failed > 0


sys.exit(main())
