"""Fetches programs that read what ttmon writes: python_readers.py FOLDER

pytest, and _memory_viz.py out of torch's wheel: only that file, out of the smallest wheel. Nothing is installed for other programs.
"""

import os
import subprocess
import sys
import tempfile
import zipfile

VIEWER = "_memory_viz.py"
# Every platform has the same file; the wheel for Linux is four times as large.
SMALL = ["--only-binary=:all:", "--platform", "macosx_11_0_arm64", "--platform", "macosx_14_0_arm64", "--python-version", "3.12"]


def main(folder):
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    if not os.path.isdir(os.path.join(folder, "pytest")):
        subprocess.run([*pip, "install", "--target", folder, "pytest"], check=True, timeout=60)
    if not os.path.isfile(os.path.join(folder, VIEWER)):
        with tempfile.TemporaryDirectory() as place:
            subprocess.run([*pip, "download", "--no-deps", "--dest", place, *SMALL, "torch"], check=True, timeout=90)
            with zipfile.ZipFile(os.path.join(place, os.listdir(place)[0])) as wheel:
                content = wheel.read("torch/cuda/" + VIEWER)
        with open(os.path.join(folder, VIEWER), "wb") as file:
            file.write(content)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
