"""A Python program of the stand-in: executes commands on stdin, and answers each line with one. As ttnn, ctypes calls without the lock."""

import ctypes
import sys

metal = ctypes.CDLL(sys.argv[1])
metal.fake_open.restype = metal.fake_buffer.restype = ctypes.c_void_p
mesh = ctypes.c_void_p(metal.fake_open(1))


def buffer():
    return ctypes.c_void_p(metal.fake_buffer(mesh, 0, ctypes.c_uint64(1024), ctypes.c_uint64(256), 0))


def allocate():
    metal.fake_allocate(buffer())


def allocate_in_thread():
    metal.fake_allocate_in_thread(buffer())


def forbid_copies():
    """Lets process_vm_readv fail from now on, as a sandbox does."""
    rules = [(0x20, 0, 0, 0), (0x15, 0, 1, 310), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
    code = b"".join(number.to_bytes(2, "little") + bytes([yes, no]) + word.to_bytes(4, "little") for number, yes, no, word in rules)

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("rules", ctypes.c_char_p)]

    libc = ctypes.CDLL(None)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.byref(Program(len(rules), code))) == 0


for line in sys.stdin:
    globals()[line.strip()]()
    print("ok ", flush=True)
