#!/usr/bin/env python3
"""peak.py FILE COMMAND..: run it as it stands; the most memory that it had, in MiB, goes to FILE."""
import resource
import subprocess
import sys

status = subprocess.call(sys.argv[2:])
with open(sys.argv[1], "w") as f:
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024, file=f)
sys.exit(status)
