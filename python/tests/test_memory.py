"""The functions that users of torch.cuda.memory know. Wants TTMON_LIB: where libttmon_client.so is, and the program ttmon,
unless TTMON_PROGRAM names it.

Each case is a program of its own, since tracking is decided once in a process.
"""

import importlib.util
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(HERE)
LIBRARY = os.environ.get("TTMON_LIB", "")
PROGRAM = os.environ.get("TTMON_PROGRAM") or os.path.join(LIBRARY, "ttmon")
# A folder with pytest, where this Python has none.
READERS = os.environ.get("TTMON_READERS", "")


@unittest.skipUnless(os.path.isfile(PROGRAM), "no program ttmon: name it in TTMON_PROGRAM")
class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_program(self, words, expected=0, **environment):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("TTMON", "TT_"))}
        clean.pop("LD_PRELOAD", None)
        clean["PATH"] = os.path.dirname(PROGRAM) + os.pathsep + clean.get("PATH", "")
        clean.update({"PYTHONPATH": os.pathsep.join([PACKAGE, READERS]).rstrip(os.pathsep), "TTMON_LIB": LIBRARY, "TTMON_TRACKING": "1", "PYTHONDONTWRITEBYTECODE": "1"}, **environment)
        done = subprocess.run([sys.executable, *words], env=clean, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, cwd=self.folder)
        said = done.stdout.decode("utf-8", "replace")
        self.assertEqual(done.returncode, expected, said)
        return said

    def program(self, text, **options):
        return self.run_program(["-c", "import os, ttmon\n" + text], **options)

    def test_figures(self):
        self.program(
            "for i in range(1, 5): ttmon.report_allocation(3, 1000 * i, ttmon.DRAM, i)\n"
            "ttmon.report_allocation(3, 64, ttmon.L1, 9)\n"
            "ttmon.report_deallocation(3, 4)\n"
            "assert ttmon.memory_allocated(3) == 6000\n"
            "assert ttmon.max_memory_allocated(3) == 10000\n"
            "stats = ttmon.memory_stats(3)\n"
            "assert stats['bytes_in_use'] == stats['allocated_bytes.all.current'] == 6000, stats\n"
            "assert stats['peak_bytes_in_use'] == stats['allocated_bytes.all.peak'] == 10000, stats\n"
            "assert stats['allocation.all.current'] == 3, stats\n"
            "assert 'bytes_limit' not in stats, 'banks are not known of what is reported by hand'\n"
            "assert ttmon.memory_reserved(3) is None and ttmon.mem_get_info(3) == (None, None)\n"
            "assert ttmon.memory_stats(3, 'l1')['bytes_in_use'] == 64\n"
            "assert not ttmon.memory_stats(7).get('bytes_in_use')\n"
            "ttmon.reset_peak_memory_stats(3)\n"
            "assert ttmon.max_memory_allocated(3) == 6000 and ttmon.max_memory_allocated(3, 'l1') == 64\n"
            "for wrong in ('moon', 'system_memory'):\n"
            "    try: ttmon.memory_reserved(3, wrong)\n"
            "    except ValueError: pass\n"
            "    else: raise SystemExit(wrong)\n"
        )

    def test_summary(self):
        said = self.program(
            "ttmon.report_allocation(0, 2048, ttmon.DRAM, 1)\nttmon.report_allocation(1, 10, ttmon.L1, 2)\n"
            "print(ttmon.memory_summary())\nprint('--', ttmon.memory_summary(1, abbreviated=True))\n"
        )
        both, short = said.split("--\x20")
        for expected in ("chip 0", "2.0KB", "largest free", "(no line)"):
            self.assertIn(expected, both)
        self.assertTrue("chip 1" in short and "chip 0" not in short and "line" not in short, short)

    def test_snapshot_and_record(self):
        said = self.program(
            "ttmon.report_allocation(0, 100, ttmon.DRAM, 1)\n"
            "import time; time.sleep(0.01)\n"
            "with ttmon.record('a.pickle') as found:\n"
            "    ttmon.report_allocation(0, 50, ttmon.DRAM, 2)\n"
            "    assert found.snapshot is None\n"
            "actions = lambda snapshot: [event['action'] for event in snapshot['device_traces'][0]]\n"
            "assert actions(found.snapshot) == ['alloc'], actions(found.snapshot)\n"
            "assert actions(ttmon.memory_snapshot()).count('alloc') == 2\n"
            "ttmon.dump_snapshot('b.pickle'); ttmon.dump_snapshot('b.json')\n"
            "try:\n"
            "    with ttmon.record('none/c.pickle') as found: raise KeyError('its own')\n"
            "except KeyError: assert found.snapshot is not None\n"
        )
        self.assertEqual(said, "")
        for name, count in (("a.pickle", 1), ("b.pickle", 3)):
            with open(os.path.join(self.folder, name), "rb") as file:
                content = file.read()
            self.assertTrue(content.startswith(b"\x80\x02"))
            found = pickle.loads(content)
            self.assertEqual(len(found["device_traces"][0]), count)
            live = [b["size"] for s in found["segments"] for b in s["blocks"] if b["state"] == "active_allocated"]
            self.assertEqual(live, [100, 50])
        self.assertTrue(os.path.getsize(os.path.join(self.folder, "b.json")) > 100)

    def test_growth_fails(self):
        said = self.program(
            "from ttmon.testing import assert_no_growth\n"
            "@assert_no_growth(tolerance=10)\n"
            "def step(size): ttmon.report_allocation(0, size, ttmon.DRAM, size)\n"
            "step(10)\n"
            "import time; time.sleep(0.01)\n"
            "try: step(4096)\n"
            "except AssertionError as error: print(error)\n"
            "with assert_no_growth(kinds='l1'): ttmon.report_allocation(0, 5, ttmon.DRAM, 5)\n"
            "try:\n"
            "    with ttmon.testing.assert_no_growth(): raise KeyError('its own')\n"
            "except KeyError: print('kept')\n"
        )
        self.assertEqual(said, "device memory grew: 4.0KB of dram on chip 0\n  4.0KB (no line)\nkept\n")

    def test_without_tracking(self):
        said = self.program(
            "assert ttmon.memory_allocated() is None and ttmon.max_memory_allocated() is None\n"
            "ttmon.reset_peak_memory_stats()\n"
            "with ttmon.testing.assert_no_growth(allow_untracked=True): pass\n"
            "for ask in (ttmon.memory_snapshot, ttmon.memory_reserved, ttmon.memory_summary, ttmon.testing.assert_no_growth().__enter__().__exit__):\n"
            "    try: ask(*[None] * 3) if 'exit' in ask.__name__ else ask()\n"
            "    except RuntimeError as error: print(error)\n"
            "    else: raise SystemExit(ask)\n",
            TTMON_TRACKING="0",
        )
        self.assertEqual(said.count("\n"), 4, said)
        self.assertIn("start the program by `ttmon run`", said)

    def test_without_the_program(self):
        said = self.program(
            "ttmon.report_allocation(0, 100, ttmon.DRAM, 1)\nassert ttmon.memory_allocated() == 100\n"
            "try: ttmon.memory_summary()\n"
            "except RuntimeError as error: print(error)\n",
            TTMON_LIB=self.alone(),
            PATH="/nonexistent",
        )
        self.assertIn("was not found", said)

    def alone(self):
        """A folder with the library and nothing else."""
        os.symlink(os.path.join(LIBRARY, "libttmon_client.so"), os.path.join(self.folder, "libttmon_client.so"))
        return self.folder

    @unittest.skipUnless(importlib.util.find_spec("pytest") or os.path.isdir(os.path.join(READERS, "pytest")), "pytest is not installed")
    def test_pytest(self):
        with open(os.path.join(self.folder, "test_some.py"), "w") as file:
            file.write(
                "import ttmon\n"
                "def test_clean():\n    ttmon.report_allocation(0, 5000, ttmon.DRAM, 1)\n    ttmon.report_deallocation(0, 1)\n"
                "def test_leak():\n    ttmon.report_allocation(0, 3 << 20, ttmon.L1, 2)\n"
            )
        pytest = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "ttmon.pytest_plugin"]
        said = self.run_program([*pytest, "--ttmon"])
        rows = [line.split() for line in said.splitlines() if "::" in line]
        self.assertEqual([row[1:] for row in rows], [["3.0MB", "3.0MB", "test_some.py::test_leak"], ["0B", "0B", "test_some.py::test_clean"]], said)
        self.assertEqual(rows[1][0], "4.9KB")
        said = self.run_program([*pytest, "--ttmon-max-growth", "1M"], expected=1)
        self.assertIn("FAILED test_some.py::test_leak: left 3.0MB behind, more than 1.0MB", said)
        self.run_program([*pytest, "--ttmon-max-growth", "3M", "--ttmon-max-peak", "3MiB"])
        said = self.run_program([*pytest, "--ttmon-max-peak", "4k"], expected=1)
        self.assertEqual(said.count("FAILED"), 2, said)
        self.run_program([*pytest, "--ttmon-max-peak", "much"], expected=4)
        said = self.run_program([*pytest, "--ttmon"], TTMON_TRACKING="0")
        self.assertIn("nothing was tracked", said)
        self.assertNotIn("device memory", self.run_program(pytest))


if __name__ == "__main__":
    unittest.main()
