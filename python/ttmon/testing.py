"""For tests: that a piece of a program leaves no device memory behind.

    with ttmon.testing.assert_no_growth():
        step()

`pytest --ttmon` shows the peak and the growth of every test.
"""

import contextlib
import datetime
import time

from . import _kind, _program, memory_allocated
from .memory import KINDS, _line, _size

__all__ = ["assert_no_growth", "live"]

CHIPS_MAX = 64
LINES_MAX = 10


def live(kinds=KINDS):
    """Live bytes by chip and kind, as asked for; empty where nothing was tracked so far."""
    found = {}
    for chip in range(CHIPS_MAX):
        for kind in kinds:
            used = memory_allocated(chip, kind)
            if used is not None:
                found[chip, kind] = used
    return found


class assert_no_growth(contextlib.ContextDecorator):
    """Fails where more bytes are live after the block than before, on any chip, beyond `tolerance`.

    The first pass of a program fills caches: run it once before. The message lists the lines that asked for what is new. Raises
    RuntimeError where nothing is tracked, unless `allow_untracked`.
    """

    def __init__(self, tolerance=0, kinds=KINDS, allow_untracked=False):
        self.tolerance = tolerance
        self.kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds)
        for kind in self.kinds:
            _kind(kind)
        self.allow_untracked = allow_untracked

    def __enter__(self):
        self.begun = time.time()
        self.before = live(self.kinds)
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None:
            return False
        after = live(self.kinds)
        if not after:
            if self.allow_untracked:
                return False
            raise RuntimeError("device memory is not tracked: start the program by `ttmon run`, or with TTMON_TRACKING=1")
        grown = {place: used - self.before.get(place, 0) for place, used in after.items()}
        grown = {place: more for place, more in grown.items() if more > self.tolerance}
        if grown:
            places = ", ".join(f"{_size(more)} of {name} on chip {chip}" for (chip, name), more in sorted(grown.items()))
            raise AssertionError(f"device memory grew: {places}{_lines(self.begun)}")
        return False


def _lines(since):
    """Lines that asked for buffers that are live and were allocated since a time, most bytes first."""
    try:
        document = _program.mem("--buffers")
    except _program.Error as error:
        return f" ({error})"
    now = datetime.datetime.strptime(document["time"], "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()
    sums = {}
    for buffer in document.get("buffers", []):
        # Ages and times are in milliseconds.
        if buffer.get("age_s") is not None and now - buffer["age_s"] >= since - 0.002:
            line = _line(buffer.get("line"))
            sums[line] = sums.get(line, 0) + buffer["size"]
    largest = sorted(sums.items(), key=lambda item: -item[1])[:LINES_MAX]
    return "".join(f"\n  {_size(size)} {line}" for line, size in largest)
