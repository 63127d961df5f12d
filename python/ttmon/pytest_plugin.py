"""`pytest --ttmon`: peak and growth of device memory of each test, and a table at the end."""

import time

import pytest

from . import max_memory_allocated, reset_peak
from .memory import KINDS, _size
from .testing import _lines, live

UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
ROWS_MAX = 20


def size(text):
    """4096, 512K, 10M, 1.5G"""
    number = text.strip().upper()
    number = number[:-2] if number.endswith("IB") else number[:-1] if number.endswith("B") else number
    unit = number[-1:] if number[-1:] in UNITS and number[-1:] else ""
    try:
        bytes_ = float(number[: len(number) - len(unit)]) * 2 ** UNITS[unit]
        if not 0 <= bytes_ < 2**63:
            raise ValueError
    except ValueError:
        raise pytest.UsageError(f"{text!r} is no size: give bytes, or a number with K, M, G or T") from None
    return int(bytes_)


def pytest_addoption(parser):
    group = parser.getgroup("ttmon", "device memory of Tenstorrent chips")
    group.addoption("--ttmon", action="store_true", help="show the peak and the growth of device memory of each test")
    group.addoption("--ttmon-max-growth", metavar="SIZE", help="fail a test that leaves more than SIZE behind (implies --ttmon)")
    group.addoption("--ttmon-max-peak", metavar="SIZE", help="fail a test whose peak on a chip is above SIZE of one kind (implies --ttmon)")


def pytest_configure(config):
    growth, peak = (config.getoption(name) for name in ("--ttmon-max-growth", "--ttmon-max-peak"))
    if config.getoption("--ttmon") or growth is not None or peak is not None:
        limits = (None if growth is None else size(growth), None if peak is None else size(peak))
        config.pluginmanager.register(Memory(*limits), "ttmon-memory")


class Memory:
    def __init__(self, max_growth, max_peak):
        self.max_growth, self.max_peak = max_growth, max_peak
        self.rows = []

    # Setup and teardown are part of a test: what a fixture frees is not growth.
    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item):
        before, begun = live(), time.time()
        for chip, kind in before:
            reset_peak(chip, kind)
        yield
        after = live()
        peaks = {place: max_memory_allocated(*place) or 0 for place in after}
        grown = {place: used - before.get(place, 0) for place, used in after.items()}
        growth, peak = sum(grown.values()), max(peaks.values(), default=0)
        if not after:
            return
        by_kind = {kind: max((peaks[place] for place in peaks if place[1] == kind), default=0) for kind in KINDS}
        broken = []
        if self.max_growth is not None and growth > self.max_growth:
            broken.append(f"left {_size(growth)} behind, more than {_size(self.max_growth)}{_lines(begun)}")
        if self.max_peak is not None and peak > self.max_peak:
            broken.append(f"peak {_size(peak)}, more than {_size(self.max_peak)}")
        self.rows.append((item.nodeid, by_kind, growth, broken))

    def pytest_terminal_summary(self, terminalreporter):
        write = terminalreporter.write_line
        terminalreporter.section("device memory")
        if not self.rows:
            write("nothing was tracked: start pytest by `ttmon run -- pytest`, or with TTMON_TRACKING=1")
            return
        write(f"{'DRAM peak':>10} {'L1 peak':>10} {'growth':>10}  test")
        rows = sorted(self.rows, key=lambda row: -max(row[1].values()))
        shown = [row for row in rows if row[3]] + [row for row in rows if not row[3]][:ROWS_MAX]
        for name, peaks, growth, _ in shown:
            sign = "-" if growth < 0 else ""
            write(f"{_size(peaks['dram']):>10} {_size(peaks['l1']):>10} {sign + _size(abs(growth)):>10}  {name}")
        if len(rows) > len(shown):
            write(f"{len(rows) - len(shown)} more")
        for name, _, _, broken in rows:
            for why in broken:
                write(f"FAILED {name}: {why}", red=True)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        if session.exitstatus == 0 and any(broken for *_, broken in self.rows):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
