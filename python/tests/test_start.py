"""ttmon.pth: nothing happens without the variable, nothing is ever printed or raised, and a library it loads is there for all.

Wants TTMON_LIB: where libttmon_client.so is; under the name of the stub it stands in for it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIBRARY = os.environ.get("TTMON_LIB", "")


class Start(unittest.TestCase):
    def start(self, text, folder=PACKAGE, **environment):
        """The interpreter with the folder as one of its site-packages."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("TTMON", "TT_ALLOC", "PYTHON", "LD_"))}
        clean.update(environment)
        code = f"import site, sys; site.addsitedir({folder!r}); " + text
        done = subprocess.run([sys.executable, "-B", "-c", code], env=clean, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        self.assertEqual((done.returncode, done.stdout.decode()), (0, ""))

    def test_off(self):
        before = "assert '_ttmon_start' not in sys.modules and '_ctypes' not in sys.modules"
        self.start(before)
        for value in ["", "0", "no"]:
            self.start(before, TTMON_TRACKING=value, TT_ALLOC_TRACKING_ENABLED=value)

    def test_on_without_a_library(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "libttmon_stub.so"), "w") as file:
                file.write("not a library")
            self.start("import _ttmon_start as s; assert s.load() is False", TTMON_TRACKING="1", TTMON_LIB=folder)
            self.start("assert '_ttmon_start' in sys.modules", TT_ALLOC_TRACKING_ENABLED="1", TTMON_LIB="/nowhere")

    def test_left_over(self):
        """An environment from which the rest was removed."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(os.path.join(PACKAGE, "ttmon.pth"), folder)
            self.start("pass", folder, TTMON_TRACKING="1")
            with open(os.path.join(folder, "_ttmon_start.py"), "w") as file:
                file.write("raise OSError")
            self.start("pass", folder, TTMON_TRACKING="1")

    def test_on(self):
        library = LIBRARY if os.path.isfile(LIBRARY) else os.path.join(LIBRARY, "libttmon_client.so")
        seen = "import ctypes; assert hasattr(ctypes.CDLL(None), 'ttmon_mark')"
        unseen = "import ctypes; assert not hasattr(ctypes.CDLL(None), 'ttmon_mark')"
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(library, os.path.join(folder, "libttmon_stub.so"))
            self.start(unseen, TTMON_LIB=folder)
            self.start(seen, TTMON_TRACKING="1", TTMON_LIB=folder)
            self.start(seen, TT_ALLOC_TRACKING_ENABLED="1", TTMON_LIB=folder)
            # What is preloaded is not loaded a second time from elsewhere.
            twice = "import _ttmon_start as s; assert s.load() is False"
            self.start(twice, TTMON_TRACKING="1", TTMON_LIB=folder, LD_PRELOAD=os.path.join(folder, "libttmon_stub.so"))


if __name__ == "__main__":
    unittest.main()
