"""A file system that falls silent, and a process that holds one of its files which resembles a ledger. For tests, as root.

Prints "ready PID" (of the holder) once nobody answers any more, and stays until its input ends.
"""

import ctypes
import os
import struct
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
MNT_DETACH = 2
FILE_ID = 2
LOOKUP, FORGET, GETATTR, OPEN, UNLINK, RELEASE, INIT, BATCH_FORGET = 1, 2, 3, 14, 10, 18, 26, 42


def called(result, what):
    if result != 0:
        sys.exit(f"{what}: {os.strerror(ctypes.get_errno())}")


def attributes(node):
    mode = 0o040755 if node == 1 else 0o100400
    return struct.pack("<6Q10I", node, 1 << 20, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(opcode, node):
    """The file system's answer; None: an error that makes the kernel stop asking."""
    if opcode == INIT:
        return struct.pack("<4I2H2I2H8I", 7, 31, 0, 0, 12, 10, 65536, 1, 0, 0, *[0] * 8)
    if opcode == LOOKUP:
        return struct.pack("<4Q2I", FILE_ID, 1, 0, 0, 0, 0) + attributes(FILE_ID)
    if opcode == GETATTR:
        return struct.pack("<Q2I", 0, 0, 0) + attributes(node)
    if opcode == OPEN:
        return struct.pack("<Q2I", 0, 0, 0)
    if opcode in (UNLINK, RELEASE):
        return b""
    return None


def serve(device, is_over):
    while not is_over():
        request = os.read(device, 1 << 17)
        _, opcode, unique, node = struct.unpack("<2I2Q", request[:24])
        if opcode in (FORGET, BATCH_FORGET):
            continue
        said = answer(opcode, node)
        body = said or b""
        os.write(device, struct.pack("<IiQ", 16 + len(body), 0 if said is not None else -38, unique) + body)
        if opcode == UNLINK:
            return


def main():
    mount = sys.argv[1]
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    called(LIBC.mount(b"ttmon-test", mount.encode(), b"fuse", 0, options.encode()), "mount")
    reader, writer = os.pipe()
    holder = os.fork()
    if holder == 0:
        os.close(device)
        path = os.path.join(mount, "memfd:ttmon-ledger")
        held = os.open(path, os.O_RDONLY)
        os.unlink(path)
        called(LIBC.umount2(mount.encode(), MNT_DETACH), "umount")
        os.write(writer, b"x")
        os.read(held, 1)  # nobody answers this any more: the holder waits until it is killed
        os._exit(0)
    serve(device, lambda: False)
    os.read(reader, 1)
    print("ready", holder, flush=True)
    sys.stdin.read()
    os.kill(holder, 9)


main()
