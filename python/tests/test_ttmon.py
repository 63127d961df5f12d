"""What a Python program sees of ttmon, and what its ledger then holds. Wants TTMON_LIB: where libttmon_client.so is.

Each case is a program of its own, since tracking is decided once in a process.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(HERE)
LIBRARY = os.environ.get("TTMON_LIB", "")

# Reads this process's own ledger, by the offsets of docs/ledger.md.
PRELUDE = """
import os, struct, threading
import ttmon

def ledger():
    for name in os.listdir("/proc/self/fd"):
        path = "/proc/self/fd/" + name
        try:
            if "ttmon-ledger" in os.readlink(path):
                file = open(path, "rb")
                file.seek(0x80)
                if struct.unpack("<I", file.read(4))[0] == os.getpid():
                    return file
        except OSError:
            pass

def word(offset):
    with ledger() as file:
        file.seek(offset)
        return struct.unpack("<Q", file.read(8))[0]

def live():
    return word(0x220), word(0x228)

def tags():
    with ledger() as file:
        file.seek(0x218)
        used = struct.unpack("<Q", file.read(8))[0]
        # The third table, as the header has it.
        file.seek(0x18 + 2 * 16)
        file.seek(struct.unpack("<Q", file.read(8))[0])
        texts = [file.read(64) for _ in range(max(used, 16))]
        return {text[1:1 + text[0]].decode() for text in texts if text[0]}
"""


class Programs(unittest.TestCase):
    def run_program(self, text, **environment):
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("TTMON", "TT_ALLOC"))}
        clean.pop("LD_PRELOAD", None)
        clean.update({"PYTHONPATH": PACKAGE, "TTMON_LIB": LIBRARY}, **environment)
        command = [sys.executable, "-B", "-c", PRELUDE + text]
        done = subprocess.run(command, env=clean, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        self.assertEqual((done.returncode, done.stdout.decode()), (0, ""))

    def test_preloaded(self):
        """As `ttmon run` starts it: the library is in the process, and nowhere that this package would look."""
        library = LIBRARY if os.path.isfile(LIBRARY) else os.path.join(LIBRARY, "libttmon_client.so")
        text = """
assert ttmon.available
with ttmon.tag("weights"):
    assert ttmon.report_allocation(0, 4096, ttmon.DRAM, 16) == 0
assert ttmon.memory_allocated(0) == 4096 and "weights" in tags()
"""
        self.run_program(text, TTMON_TRACKING="1", TTMON_LIB="", PATH="", LD_PRELOAD=library)

    def test_off_by_default(self):
        self.run_program(
            """
assert ttmon.available
assert ttmon.report_allocation(0, 1, ttmon.DRAM, 1) == ttmon.OFF
assert ttmon.report_allocation(-1, 2**64, ttmon.DRAM, 1) == ttmon.OFF
with ttmon.tag("nothing"):
    assert ttmon.mark() == ttmon.OFF
assert ttmon.memory_allocated() is None and ttmon.max_memory_allocated(0, "l1") is None
assert ttmon.reset_peak() == ttmon.OFF
assert ledger() is None
"""
        )

    def test_every_function(self):
        text = """
assert ttmon.report_allocation(0, 100, ttmon.DRAM, 0x1000) == ttmon.RECORDED
assert ttmon.report_allocation(0, 1, ttmon.L1, 0x2000) == 0
assert ttmon.report_deallocation(0, 0x2000) == 0
assert ttmon.report_cb_allocation(0, 20, 1) == 0
assert ttmon.report_cb_allocation(0, 20, 2) == 0
assert ttmon.report_cb_deallocation(0, 20, 2) == 0
assert ttmon.report_kernel_load(1, 3, 2, 1) == 0
assert ttmon.report_kernel_load(1, 3, 2, 2) == 0
assert ttmon.report_kernel_unload(1, 3, 2) == 0
assert ttmon.report_allocation(2, 7, ttmon.TRACE, 1) == 0
assert ttmon.device_close(2) == 0
assert ttmon.mark() == 0
with ttmon.phase("step"), ttmon.phase("forward"):
    pass
try:
    ttmon.phase(7)
    raise AssertionError("a number is no name")
except TypeError:
    pass
assert live() == (3, 123), live()
"""
        self.run_program(text, TTMON_TRACKING="1")
        self.run_program(text, TT_ALLOC_TRACKING_ENABLED="1")

    def test_own_figures(self):
        self.run_program(
            """
assert ttmon.memory_allocated() == ttmon.max_memory_allocated(7, "l1") == 0
ttmon.report_allocation(3, 100, ttmon.DRAM, 0x1000)
ttmon.report_allocation(3, 50, ttmon.DRAM, 0x2000)
ttmon.report_allocation(3, 7, ttmon.L1_SMALL, 0x2000)
ttmon.report_deallocation(3, 0x1000)

class Mesh:
    def get_device_ids(self):
        return [3, 4]

for device in (3, Mesh()):
    for kind in ("dram", "DRAM", "BufferType.DRAM", ttmon.DRAM):
        assert ttmon.memory_allocated(device, kind) == 50, (device, kind)
        assert ttmon.max_memory_allocated(device, kind) == 150, (device, kind)
assert ttmon.memory_allocated(3, "l1_small") == 7
assert ttmon.reset_peak(3) == ttmon.RECORDED
assert ttmon.max_memory_allocated(3) == 50
class Number:
    def __index__(self):
        return ttmon.DRAM

assert ttmon.memory_allocated(3, Number()) == 50

class NoMesh:
    def get_device_ids(self):
        return []

for function in (ttmon.memory_allocated, ttmon.max_memory_allocated, ttmon.reset_peak):
    for device, kind in [(-1, "dram"), (2**31, "dram"), (3, "no such"), (3, "cb"), (3, 256), (3, -1), (NoMesh(), "dram")]:
        try:
            function(device, kind)
        except ValueError as error:
            assert "no " in str(error), error
        else:
            raise SystemExit(f"took {device} {kind}")
try:
    ttmon.memory_allocated("0")
except TypeError:
    pass
else:
    raise SystemExit("took a wrong type")
""",
            TTMON_TRACKING="1",
        )

    def test_numbers_that_do_not_fit(self):
        self.run_program(
            """
for device, size, address in [(-1, 1, 1), (2**31, 1, 1), (0, -1, 1), (0, 2**64, 1), (0, 1, 2**64), (0, 2**40, 1)]:
    assert ttmon.report_allocation(device, size, ttmon.DRAM, address) == ttmon.BAD_ARGUMENT, (device, size, address)
assert ttmon.report_allocation(0, 1, 1000, 2**64 - 1) == 0
assert live() == (1, 1), live()
for call in [lambda: ttmon.tag(7), lambda: ttmon.report_deallocation("0", 1), lambda: ttmon.report_deallocation(0, 1.5)]:
    try:
        call()
    except TypeError:
        continue
    raise SystemExit("took a wrong type")
""",
            TTMON_TRACKING="1",
        )

    def test_tags(self):
        self.run_program(
            """
calls = []

@ttmon.tag("decorated")
def work(depth):
    "Works."
    calls.append(depth)
    ttmon.report_allocation(0, 1, ttmon.DRAM, depth)
    if depth:
        work(depth - 1)

assert work.__name__ == "work" and work.__doc__ == "Works."
work(100)
with ttmon.tag("Schicht 7 \\U0001F9E0"), ttmon.tag("cut" * 40), ttmon.tag("a\\0b"), ttmon.tag("\\udc80"):
    pass
try:
    with ttmon.tag("fails"):
        raise KeyError
except KeyError:
    pass
assert ttmon._call("ttmon_tag_pop") == ttmon.BAD_ARGUMENT, "a tag was left"
assert tags() >= {"decorated", "Schicht 7 \\U0001F9E0", ("cut" * 40)[:62], "a", "?", "fails"}, tags()
""",
            TTMON_TRACKING="1",
        )

    def test_threads_and_fork(self):
        self.run_program(
            """
def work(base):
    with ttmon.tag("thread"):
        for address in range(100):
            ttmon.report_allocation(0, 1, ttmon.L1, base + address)

threads = [threading.Thread(target=work, args=(1000 * i,)) for i in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert live() == (1600, 1600), live()
pid = os.fork()
if pid == 0:
    ttmon.report_allocation(0, 5, ttmon.L1, 1)
    os._exit(0 if live() == (1, 5) else 1)
assert os.waitpid(pid, 0)[1] == 0
assert live() == (1600, 1600), live()
""",
            TTMON_TRACKING="1",
        )

    def test_without_a_library(self):
        with tempfile.TemporaryDirectory() as folder:
            broken = os.path.join(folder, "libttmon_client.so")
            with open(broken, "w") as file:
                file.write("not a library")
            for place in [os.path.join(folder, "nowhere"), folder, broken]:
                self.run_program(
                    """
assert not ttmon.available
assert ttmon.report_allocation(0, 1, ttmon.DRAM, 1) == ttmon.OFF
assert ttmon.report_allocation(-1, 1, ttmon.DRAM, 1) == ttmon.OFF
assert ttmon.device_close(0) == ttmon.OFF
assert ttmon.memory_allocated() is None and ttmon.reset_peak() == ttmon.OFF
with ttmon.tag("nothing"):
    assert ttmon.mark() == ttmon.OFF
""",
                    TTMON_TRACKING="1",
                    TTMON_LIB=place,
                    PATH="/nowhere",
                )

    def test_where_it_looks(self):
        library = LIBRARY if os.path.isfile(LIBRARY) else os.path.join(LIBRARY, "libttmon_client.so")
        found = "assert ttmon.available and ttmon.mark() == 0"
        self.run_program(found, TTMON_TRACKING="1", TTMON_LIB=library)
        with tempfile.TemporaryDirectory() as folder:
            programs, libraries = os.path.join(folder, "bin"), os.path.join(folder, "lib", "ttmon")
            os.makedirs(programs)
            os.makedirs(libraries)
            program = os.path.join(programs, "ttmon")
            with open(program, "w"):
                os.chmod(program, 0o755)
            shutil.copy(library, libraries)
            self.run_program(found, TTMON_TRACKING="1", TTMON_LIB="", PATH=programs)


if __name__ == "__main__":
    unittest.main()
