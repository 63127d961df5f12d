"""What a Python program reads of a machine. Wants TTMON_LIB: where libttmon_monitor.so is.

crates/in-monitor/monitor/tests also makes a full machine and describes the expected values: TTMON_TEST_TREE, TTMON_TEST_EXPECTED,
TTMON_TEST_PIDS. Elsewhere the machine is an empty directory.
"""

import os
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from ttmon import monitor  # noqa: E402

FULL = os.environ.get("TTMON_TEST_TREE")
EMPTY = tempfile.TemporaryDirectory()
TREE = FULL or EMPTY.name
IS_THERE = any(map(os.path.isfile, monitor._places()))


def tearDownModule():
    EMPTY.cleanup()


def text(readings, name, form=str):
    value = readings[name]
    if value is None:
        return f"{name}={readings['missing'][name]}"
    assert name not in readings["missing"], name
    return f"{name}={form(value)}"


def line(what, readings, names):
    return " ".join([what, *(text(readings, name) for name in names.split())])


def kinds_lines(what, kinds):
    return [line(f"{what} {kind}", one, "used allocated peak peak_time_ns count source") for kind, one in kinds.items()]


def lines(machine, pids):
    found = []
    for device in machine.device_ids():
        stats = machine.system_stats(device)
        figures = line(f"system {stats['device']}", stats, "state health dram_total dram_used dram_free l1_total l1_used l1_free")
        counts = f"processes={stats['processes']} untracked={stats['untracked_processes']} hidden={stats['hidden_processes']}"
        reals = [text(stats, name, "{:.3f}".format) for name in ("temperature", "power")]
        found.append(" ".join([figures, counts, *reals, text(stats, "aiclk_mhz")]))
        detailed = machine.detailed_stats(device)
        for kind, one in detailed["kinds"].items():
            found.append(line(f"kind {device} {kind}", one, "total capacity used allocated free peak count source"))
        for allocator in detailed["allocators"]:
            for kind, one in allocator["kinds"].items():
                figures = line(
                    f"banks {device} {allocator['id']} {allocator['pid']} {kind}",
                    one,
                    "banks bank_bytes allocated_per_bank free_per_bank largest_free_per_bank",
                )
                found.append(" ".join([figures, text(one, "fragmentation", "{:.3f}".format), text(one, "blocks")]))
        found += [f"on {device} {process['pid']}" for process in detailed["processes"]]
    for pid in pids:
        stats = machine.process_stats(pid)
        found.append(f"process {stats['pid']} {stats['name'] or stats['missing']['name']} {stats['status']}")
        found += kinds_lines(f"total {pid}", stats["total"])
        for one in stats["devices"]:
            assert machine.process_stats(pid, one["device"])["kinds"] == one["kinds"]
            assert machine.process_stats(pid, 4000) is None
            found += kinds_lines(f"use {pid} {one['device']}", one["kinds"])
    return found


@unittest.skipUnless(IS_THERE, "no libttmon_monitor.so where TTMON_LIB says: cargo build -p ttmon-monitor")
class Monitor(unittest.TestCase):
    maxDiff = None

    @unittest.skipUnless(FULL, "no full machine to read: run by cargo test -p ttmon-monitor")
    def test_figures(self):
        with open(os.environ["TTMON_TEST_EXPECTED"]) as file:
            expected = file.read().splitlines()
        pids = [int(pid) for pid in os.environ["TTMON_TEST_PIDS"].split()]
        with monitor.SystemMemoryMonitor(TREE) as machine:
            self.assertEqual(lines(machine, pids), expected)
            self.assertEqual(machine.device_count(), len(machine.device_ids()))

    def test_what_is_not_there(self):
        with monitor.SystemMemoryMonitor(TREE) as machine:
            self.assertIsNone(machine.system_stats(4000))
            self.assertIsNone(machine.detailed_stats(4000))
            self.assertIsNone(machine.process_stats(2**30))
            for call in [lambda: machine.system_stats(-1), lambda: machine.system_stats(2**32), lambda: machine.process_stats(0)]:
                self.assertRaises(ValueError, call)
            for call in [lambda: machine.system_stats("0"), lambda: machine.process_stats(1.5)]:
                self.assertRaises(TypeError, call)
        self.assertRaises(ValueError, machine.device_count)
        machine.close()

    @unittest.skipUnless(os.geteuid() == 0, "only root can change the user")
    def test_a_process_of_another_user_is_not_called_missing(self):
        ours, pid = os.getpid(), os.fork()
        if pid == 0:
            try:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                with monitor.SystemMemoryMonitor() as machine:
                    stats = machine.process_stats(ours)
                is_right = stats["status"] == "no_permission" and stats["total"]["dram"]["missing"]["used"] == "no_permission"
            finally:
                os._exit(0 if locals().get("is_right") else 1)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)

    def test_what_cannot_be_opened(self):
        with self.assertRaisesRegex(monitor.MonitorError, "/nonexistent"):
            monitor.SystemMemoryMonitor("/nonexistent")
        self.assertRaises(ValueError, monitor.SystemMemoryMonitor, "a\0b")
        self.assertRaises(TypeError, monitor.SystemMemoryMonitor, 7)

    def test_threads(self):
        seen = []
        with monitor.SystemMemoryMonitor(TREE, max_age_ms=0) as machine:
            threads = [threading.Thread(target=lambda: seen.append(machine.device_ids())) for _ in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(seen, [[0, 1, 2] if FULL else []] * 16)

    def test_a_fork_opens_its_own(self):
        with monitor.SystemMemoryMonitor(TREE) as machine:
            count = machine.device_count()
            child = os.fork()
            if child == 0:
                try:
                    machine.device_count()
                except monitor.MonitorError:
                    machine.close()
                    with monitor.SystemMemoryMonitor(TREE) as own:
                        os._exit(0 if own.device_count() == count else 2)
                os._exit(1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)


class Library(unittest.TestCase):
    def test_without_a_library(self):
        before = monitor._loaded, monitor._places
        try:
            monitor._loaded, monitor._places = None, lambda: ["/nonexistent/" + monitor.NAME, __file__]
            with self.assertRaisesRegex(monitor.MonitorError, "cannot load libttmon_monitor.so"):
                monitor.SystemMemoryMonitor()
        finally:
            monitor._loaded, monitor._places = before


if __name__ == "__main__":
    unittest.main()
