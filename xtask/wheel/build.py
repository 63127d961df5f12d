"""Builds the wheel of ttmon: build.py PYTHON_FOLDER LICENSE VERSION STAGED_FOLDER OUTPUT_FOLDER

A wheel is a zip of the files of site-packages, with a list of their checksums. Files below `.data/scripts` go to the environment's
bin folder, those below `.data/data` to its prefix. Nothing is compiled here. The same files give the same bytes. The platform's
tag names the newest glibc that the libraries need.
"""

import base64
import hashlib
import os
import re
import sys
import zipfile

LIBRARIES = ["libttmon_client.so", "libttmon_monitor.so", "libttmon_hook.so", "libttmon_stub.so"]
MACHINES = {62: "x86_64", 183: "aarch64"}
# The newest glibc that the tag may name: that of ttnn's own wheels.
GLIBC_MINOR_MAX = 34
SIZE_MAX = 8_000_000
# The year in which zip's calendar begins.
TIME = (1980, 1, 1, 0, 0, 0)


def main(python, license_file, version, staged, output):
    declared = re.search(r'^version = "(.+)"$', read(os.path.join(python, "pyproject.toml")).decode(), re.M)[1]
    if declared != version:
        sys.exit(f"python/pyproject.toml says version {declared}, the workspace {version}")
    files = {}
    for name in sorted(os.listdir(os.path.join(python, "ttmon"))):
        if name.endswith((".py", ".typed")):
            files["ttmon/" + name] = read(os.path.join(python, "ttmon", name))
    for name in ("_ttmon_start.py", "ttmon.pth"):
        files[name] = read(os.path.join(python, name))
    binaries = {name: read(os.path.join(staged, "lib/ttmon", name)) for name in LIBRARIES}
    files.update({"ttmon/" + name: content for name, content in binaries.items()})
    data = f"ttmon-{version}.data/"
    files[data + "scripts/ttmon"] = read(os.path.join(staged, "bin/ttmon"))
    for folder, _, names in sorted(os.walk(os.path.join(staged, "share"))):
        for name in sorted(names):
            path = os.path.join(folder, name)
            files[data + "data/" + os.path.relpath(path, staged)] = read(path)
    tag = f"py3-none-{platform(binaries)}"
    info = f"ttmon-{version}.dist-info/"
    files[info + "METADATA"] = metadata(python, version)
    files[info + "WHEEL"] = f"Wheel-Version: 1.0\nGenerator: ttmon\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    files[info + "entry_points.txt"] = b"[pytest11]\nttmon = ttmon.pytest_plugin\n"
    files[info + "licenses/LICENSE"] = read(license_file)
    path = os.path.join(output, f"ttmon-{version}-{tag}.whl")
    write(path, files, info + "RECORD")
    if os.path.getsize(path) > SIZE_MAX:
        sys.exit(f"{path} has {os.path.getsize(path)} bytes; at most {SIZE_MAX} are allowed")
    print(path)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def platform(binaries):
    """manylinux_2_N is a promise: it loads with glibc 2.N."""
    machines = {int.from_bytes(content[18:20], "little") for content in binaries.values()}
    if len(machines) != 1 or not machines <= MACHINES.keys():
        sys.exit(f"libraries for machines {sorted(machines)}: a wheel is for one of {sorted(MACHINES)}")
    asked = [int(minor) for content in binaries.values() for minor in re.findall(rb"GLIBC_2\.(\d+)", content)]
    if max(asked) > GLIBC_MINOR_MAX:
        sys.exit(f"the libraries need glibc 2.{max(asked)}; ttnn's own wheels need 2.{GLIBC_MINOR_MAX}")
    return f"manylinux_2_{max(asked)}_{MACHINES[machines.pop()]}"


def metadata(python, version):
    head = f"""\
Metadata-Version: 2.1
Name: ttmon
Version: {version}
Summary: nvidia-smi, nvtop and a memory profiler for Tenstorrent cards
License: Apache-2.0
Requires-Python: >=3.8
Description-Content-Type: text/markdown

"""
    return head.encode() + read(os.path.join(python, "README.md"))


def write(path, files, record):
    lines = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            wheel.writestr(entry(name), content, compresslevel=9)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(content)}\n")
        wheel.writestr(entry(record), "".join(lines) + f"{record},,\n")


def entry(name):
    info = zipfile.ZipInfo(name, TIME)
    info.compress_type = zipfile.ZIP_DEFLATED
    is_executable = name.endswith(".so") or ".data/scripts/" in name
    info.external_attr = (0o100755 if is_executable else 0o100644) << 16
    return info


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    main(*sys.argv[1:])
