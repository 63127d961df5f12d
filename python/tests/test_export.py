"""`ttmon run --snapshot` and `ttmon export`, read by programs that are not ours.

Wants TTMON_LIB: where libttmon_client.so is, and the program ttmon, unless TTMON_PROGRAM names it. TTMON_READERS is a folder with
_memory_viz.py, which the gate takes from torch's wheel; without it the files are read by Python alone.
"""

import importlib.util
import json
import os
import pickle
import pickletools
import signal
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(HERE)
LIBRARY = os.environ.get("TTMON_LIB", "")
PROGRAM = os.environ.get("TTMON_PROGRAM") or os.path.join(LIBRARY, "ttmon")
VIEWER = os.path.join(os.environ.get("TTMON_READERS", ""), "_memory_viz.py")
# What the page of memory_viz reads; see its unpickle().
OPCODES = set(
    """PROTO EMPTY_DICT EMPTY_LIST MARK APPEND APPENDS SETITEMS BININT BININT1 BININT2 LONG1 BINUNICODE BINPUT LONG_BINPUT BINGET
    LONG_BINGET STOP""".split()
)


def viewer():
    spec = importlib.util.spec_from_file_location("_memory_viz", VIEWER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@unittest.skipUnless(os.path.isfile(PROGRAM), "no program ttmon: name it in TTMON_PROGRAM")
class Exports(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def environment(self):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("TTMON", "TT_ALLOC"))}
        clean.pop("LD_PRELOAD", None)
        clean.update({"PYTHONPATH": PACKAGE, "TTMON_LIB": LIBRARY, "TMPDIR": self.folder})
        return clean

    def ttmon(self, *words, expected=0):
        done = subprocess.run([PROGRAM, *words], env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        self.assertEqual(done.returncode, expected, done.stderr.decode())
        return done.stderr.decode()

    def run_program(self, text, *flags, expected=0):
        return self.ttmon("run", *flags, "--", sys.executable, "-B", "-c", "import os, sys, ttmon\n" + text, expected=expected)

    def snapshot(self, name="a.pickle"):
        with open(self.path(name), "rb") as file:
            content = file.read()
        for opcode, argument, _ in pickletools.genops(content):
            self.assertIn(opcode.name, OPCODES)
            self.assertTrue(opcode.name != "PROTO" or argument <= 4)
        found = pickle.loads(content)
        self.check(found)
        return found

    def check(self, found):
        """What the page and the text tool rely on."""
        for segment in found["segments"]:
            self.assertEqual(sum(block["size"] for block in segment["blocks"]), segment["total_size"])
            address = segment["address"]
            for block in segment["blocks"]:
                self.assertEqual(block["address"], address)
                self.assertLessEqual(block["requested_size"], block["size"])
                address += block["size"]
            self.assertLess(address, 2**53)
        for device, events in enumerate(found["device_traces"]):
            ranges = [(s["address"], s["address"] + s["total_size"]) for s in found["segments"] if s["device"] == device]
            live = {}
            for event in events:
                if event["action"] in ("alloc", "free_completed"):
                    # The page fails on an address without a segment.
                    self.assertTrue(any(low <= event["addr"] < high for low, high in ranges), event)
                if event["action"] == "alloc":
                    self.assertNotIn(event["addr"], live)
                    live[event["addr"]] = event["size"]
                elif event["action"] == "free_completed":
                    live.pop(event["addr"], None)
            if found["ttmon"]["lost_events"] == 0 and "note" not in found["ttmon"]:
                blocks = [b for s in found["segments"] if s["device"] == device for b in s["blocks"] if b["state"] != "inactive"]
                self.assertEqual(live, {block["address"]: block["size"] for block in blocks})
        categories = {event["category"] for events in found["device_traces"] for event in events if "category" in event}
        self.assertTrue(not categories or "unknown" in categories)
        if os.path.isfile(VIEWER):
            self.assertIn("total_allocated", viewer().segsum(found))
            viewer().trace(found)
            viewer().trace_plot(found)

    def test_run_keeps_every_event_of_a_ring_that_overruns(self):
        # With pauses, as a program has: nothing follows one that only reports.
        text = (
            "import time\n"
            "for i in range(1, 90001):\n"
            "    ttmon.report_allocation(0, 4096 * (i % 5 + 1), ttmon.DRAM, 4096 * i)\n"
            "    if i % 9: ttmon.report_deallocation(0, 4096 * i)\n"
            "    if i % 5000 == 0: time.sleep(0.1)\n"
        )
        self.run_program(text, "--snapshot", self.path("a.pickle"))
        found = self.snapshot()
        self.assertEqual((found["ttmon"]["complete_since"], found["ttmon"]["lost_events"]), ("start", 0))
        actions = [event["action"] for event in found["device_traces"][0]]
        self.assertEqual((actions.count("alloc"), actions.count("free_completed")), (90000, 80000))
        self.assertEqual(os.listdir(self.folder), ["a.pickle"])

    def test_tags_kinds_and_chips(self):
        text = (
            "with ttmon.tag('weights'): ttmon.report_allocation(0, 100, ttmon.DRAM, 7)\n"
            "ttmon.report_allocation(2, 50, ttmon.L1, 7)\n"
            "ttmon.report_allocation(2, 50, ttmon.SYSTEM_MEMORY, 7)\n"
            "ttmon.mark()\n"
            "ttmon.device_close(2)\n"
        )
        self.run_program(text, "--snapshot", self.path("a.pickle"))
        found = self.snapshot()
        self.assertEqual(found["ttmon"]["devices"], ["chip 0", "", "chip 2"])
        first, second, third = found["device_traces"]
        self.assertEqual((first[1]["category"], first[1]["stream"], first[1]["size"], second), ("weights", 0, 100, []))
        self.assertEqual([event["action"] for event in third], ["snapshot", "alloc", "free_requested", "free_completed"])
        self.assertEqual(third[1]["stream"], 1)

    def test_a_chrome_trace_has_counters_spans_and_marks(self):
        text = "for i in range(20): ttmon.report_allocation(0, 10, ttmon.DRAM, i)\nttmon.mark()\nttmon.report_deallocation(0, 3)\n"
        self.run_program(text, "--snapshot", self.path("a.json"))
        with open(self.path("a.json"), "rb") as file:
            found = json.load(file)
        events = found["traceEvents"]
        begun = {event["id2"]["local"]: event["ts"] for event in events if event["ph"] == "b"}
        ended = {event["id2"]["local"]: event["ts"] for event in events if event["ph"] == "e"}
        self.assertEqual((len(begun), begun.keys()), (20, ended.keys()))
        self.assertTrue(all(begun[id] <= ended[id] for id in begun))
        counters = [event["args"]["dram"] for event in events if event["ph"] == "C"]
        self.assertEqual((max(counters), counters[-1], counters[0]), (200, 190, 0))
        self.assertIn("mark", [event["name"] for event in events if event["ph"] == "i"])
        self.assertEqual(found["otherData"]["complete_since"], "start")

    def test_processes_one_after_another_do_not_add_up(self):
        text = (
            "import subprocess\n"
            "one = 'import ttmon; ttmon.report_allocation(0, 100, ttmon.DRAM, 1)'\n"
            "for _ in range(3): subprocess.run([sys.executable, '-B', '-c', one], check=True)\n"
        )
        self.run_program(text, "--snapshot", self.path("a.pickle"))
        found = self.snapshot()
        live = [block for segment in found["segments"] for block in segment["blocks"] if block["state"] == "active_allocated"]
        self.assertEqual([block["size"] for block in live], [100])

    def test_names_that_are_not_utf8_and_control_characters(self):
        text = "with ttmon.tag('a\\x1b[2J\\u202e\\ud800b'): ttmon.report_allocation(0, 100, ttmon.DRAM, 1)\n"
        name = os.fsdecode(os.fsencode(self.folder) + b"/a\xff\n.pickle")
        self.run_program(text, "--snapshot", name)
        os.rename(name, self.path("a.pickle"))
        self.assertIn("\x1b[2J", self.snapshot()["device_traces"][0][1]["category"])

    def test_the_command_is_not_started_where_the_file_cannot_be_written(self):
        said = self.run_program("os.mkdir(os.environ['TMPDIR'] + '/x')", "--snapshot", self.path("no/a.pickle"), expected=125)
        self.assertIn("not started", said)
        self.run_program("", "--snapshot", "-", expected=2)
        self.run_program("", "--snapshot", self.path("a"), "--report", self.path("a"), expected=2)
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_full_disk_fails_the_run_and_not_the_command(self):
        said = self.run_program("ttmon.report_allocation(0, 1, ttmon.DRAM, 1)", "--snapshot", "/dev/full", expected=125)
        self.assertIn("No space left", said)
        self.run_program("os._exit(7)", "--snapshot", "/dev/full", expected=7)

    def test_a_killed_program_leaves_a_snapshot(self):
        text = "import signal\nfor i in range(500): ttmon.report_allocation(0, 10, ttmon.DRAM, i)\nos.kill(os.getpid(), signal.SIGKILL)\n"
        self.run_program(text, "--snapshot", self.path("a.pickle"), expected=-signal.SIGKILL)
        self.assertEqual(len(self.snapshot()["device_traces"][0]), 501)

    def test_reports_recordings_and_processes(self):
        text = "for i in range(5): ttmon.report_allocation(0, 10, ttmon.DRAM, i)\n"
        self.run_program(text, "--report", self.path("r.json"))
        self.ttmon("export", "--to", "memory-viz", "-o", self.path("a.pickle"), self.path("r.json"))
        found = self.snapshot()
        self.assertEqual(len(found["device_traces"][0]), 6)
        self.assertIn("never freed", found["ttmon"]["note"])
        self.ttmon("record", "--sim", "n150,procs=1,buffers=20", "-r", "200", "--duration", "1s", self.path("rec"))
        self.ttmon("export", "--to", "memory-viz", "-o", self.path("a.pickle"), self.path("rec"))
        self.assertIn("between two samples", self.snapshot()["ttmon"]["note"])
        self.ttmon("export", "--to", "chrome", "-o", self.path("a.json"), self.path("rec"))
        with open(self.path("a.json"), "rb") as file:
            self.assertIn("b", {event["ph"] for event in json.load(file)["traceEvents"]})

    def test_a_live_process_has_its_last_events(self):
        text = (
            "import ttmon, sys\n"
            "for i in range(1, 100001): ttmon.report_allocation(0, 10, ttmon.DRAM, i)\n"
            "print('ready', flush=True)\nsys.stdin.read()\n"
        )
        clean = dict(self.environment(), TTMON_TRACKING="1")
        with subprocess.Popen([sys.executable, "-B", "-c", text], env=clean, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                process.stdout.readline()
                said = self.ttmon("export", "--to", "memory-viz", "-o", self.path("a.pickle"), str(process.pid))
                found = self.snapshot()
                self.assertGreater(found["ttmon"]["lost_events"], 30000)
                self.assertIn("are missing", said)
                live = [block for segment in found["segments"] for block in segment["blocks"] if block["state"] == "active_allocated"]
                self.assertEqual(len(live), 100000)
            finally:
                process.stdin.close()

    def test_bad_input_is_refused(self):
        with open(self.path("x"), "w") as file:
            file.write('{"command": [], "devices": [], "leaks": [')
        for bad, code in [(self.path("x"), 1), (self.path("none"), 1), (self.folder, 1), ("4294967295", 3), ("99999999999", 1)]:
            said = self.ttmon("export", "--to", "chrome", "-o", self.path("y"), bad, expected=code)
            self.assertTrue(said.startswith("ttmon: ") and said.count("\n") == 1, said)
        self.ttmon("export", "--to", "svg", "-o", self.path("y"), self.path("x"), expected=2)
        self.ttmon("export", "--to", "chrome", "-o", self.path("y"), "-d", "0", self.path("x"), expected=2)
        self.assertEqual(os.listdir(self.folder), ["x"])


if __name__ == "__main__":
    unittest.main()
