"""Asks the program ttmon about this process."""

import json
import os
import shutil
import subprocess
import sys

NAME = "ttmon"
TIMEOUT = 60


class Error(RuntimeError):
    """The program ttmon is missing, or could not answer."""


def places():
    """Paths where the program may be, the best first."""
    asked = os.environ.get("TTMON_LIB")
    if asked:
        yield os.path.join(asked if os.path.isdir(asked) else os.path.dirname(asked), NAME)
    try:
        # The one that `ttmon run` started this process with.
        parent = os.readlink(f"/proc/{os.getppid()}/exe")
        if os.path.basename(parent) == NAME:
            yield parent
    except OSError:
        pass
    yield os.path.join(os.path.dirname(sys.executable), NAME)
    yield os.path.join(sys.prefix, "bin", NAME)
    found = shutil.which(NAME)
    if found:
        yield found


def find():
    for place in places():
        if os.path.isfile(place) and os.access(place, os.X_OK):
            return place
    raise Error("the program ttmon was not found; install the wheel, or put the program into PATH")


def ask(*words):
    """What the program prints, in bytes. It is not tracked, and reads this machine."""
    hidden = ("LD_PRELOAD", "TTMON_TRACKING", "TT_ALLOC_TRACKING_ENABLED", "TTMON_HANDOVER", "TTMON_HANDOVER_OUTER", "TTMON_SIM", "TTMON_ROOT")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    try:
        done = subprocess.run(
            [find(), *words], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Error(f"the program ttmon did not run: {error}") from None
    if done.returncode != 0:
        raise Error(done.stderr.decode("utf-8", "replace").strip() or f"the program ttmon ended with {done.returncode}")
    return done.stdout


def mem(*words):
    """`ttmon mem` of this process, as a document."""
    return json.loads(ask("mem", "--no-server", "--pid", str(os.getpid()), "--json", *words))
