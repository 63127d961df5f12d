"""Loads the tracking library before anything of TT-Metal is loaded; ttmon.pth imports this where tracking is asked for.

It stands outside the package, so that the client library is not loaded before the hook. On any failure, the
program runs on untracked, and nothing is printed. `ttmon mem` then shows the process as not tracked.
"""

import os
import sys

LIBRARIES = ("libttmon_stub.so", "libttmon_hook.so")


def places():
    """Paths where a library may be, the best first: the stub, which costs next to nothing, or else the hook itself."""
    folders = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "ttmon")]
    asked = os.environ.get("TTMON_LIB")
    if asked:
        folders.insert(0, asked)
    return [os.path.join(folder, name) for name in LIBRARIES for folder in folders]


def load():
    """True once a library is loaded for all to see; False where none is, or where a preload has done it."""
    preloaded = os.environ.get("LD_PRELOAD", "")
    if any(name in preloaded for name in LIBRARIES):
        return False
    # Importing ctypes itself takes ten times as long as importing the needed part.
    import _ctypes

    for place in places():
        if os.path.isfile(place):
            try:
                _ctypes.dlopen(place, os.RTLD_NOW | os.RTLD_GLOBAL)
                return True
            except OSError:
                continue
    return False


if sys.platform == "linux":
    try:
        load()
    except Exception:
        pass
