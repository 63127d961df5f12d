"""Compares the frames that the library reads with those that Python gives, in every way a call can come about."""

import asyncio
import ctypes
import gc
import os
import sys
import threading

library = ctypes.CDLL(sys.argv[1])
library.pystack_probe.restype = ctypes.c_ssize_t
library.pystack_hash.restype = ctypes.c_uint64
checks = 0


def probe():
    buffer = ctypes.create_string_buffer(1 << 18)
    length = library.pystack_probe(buffer, 1 << 18)
    assert length > 0, length
    return buffer.raw[:length].decode().splitlines()[1:]


def walked(frame):
    lines = []
    while frame is not None and len(lines) < 63:
        code = frame.f_code
        name = code.co_qualname if hasattr(code, "co_qualname") else code.co_name
        lines.append(f"{code.co_filename}:{frame.f_lineno}:{name}")
        frame = frame.f_back
    return lines


def same(got, expected):
    global checks
    checks += 1
    assert got == expected, f"\n{got}\n{expected}"


def plain(depth):
    if depth == 0:
        same(probe(), walked(sys._getframe()))
        return
    plain(
        depth - 1
    ) if depth % 2 else plain(depth - 1)


def generator():
    for number in range(3):
        same(probe(), walked(sys._getframe()))
        yield number


def delegating():
    yield from generator()


class Thing:
    def __init__(self):
        self.method()

    def method(self):
        same(probe(), walked(sys._getframe()))

    @property
    def value(self):
        same(probe(), walked(sys._getframe()))

    def __getattr__(self, name):
        same(probe(), walked(sys._getframe()))
        return 1


async def coroutine(depth):
    if depth:
        await coroutine(depth - 1)
    await asyncio.sleep(0)
    same(probe(), walked(sys._getframe()))


async def main():
    await asyncio.gather(*(coroutine(depth) for depth in range(3)))


plain(0)
plain(3)
plain(30)
plain(200)
list(generator())
list(delegating())
thing = Thing()
thing.value
thing.anything
asyncio.run(main())
sorted([3, 1], key=lambda number: same(probe(), walked(sys._getframe())) or number)
[same(probe(), walked(sys._getframe())) for _ in range(2)]
list(map(lambda _: same(probe(), walked(sys._getframe())), range(2)))
exec("def dynamic():\n\n    same(probe(), walked(sys._getframe()))\ndynamic()\n")
exec(compile("\n" * 70000 + "same(probe(), walked(sys._getframe()))\n", "/far/äöü 日本 \U0001f600.py", "exec"))
exec(compile("x = 0\n" * 3000 + "same(probe(), walked(sys._getframe()))\n", "x" * 900 + ".py", "exec"))
try:
    raise ValueError
except ValueError:
    same(probe(), walked(sys._getframe()))
with open(os.devnull) as _:
    same(probe(), walked(sys._getframe()))

# Code objects at addresses that others had: never the old line.
for number in range(300):
    exec(compile("\n" * (number % 7) + "x = 1\n" * (number % 11) + "same(probe(), walked(sys._getframe()))\n", "again.py", "exec"))
    if number % 50 == 0:
        gc.collect()

threads = [threading.Thread(target=lambda: [plain(depth) for depth in range(40)]) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]

# Another thread holds the global lock and runs while frames are read.
stop = False


def busy():
    while not stop:
        sum(range(100))


thread = threading.Thread(target=busy)
thread.start()
for _ in range(50):
    plain(20)
stop = True
thread.join()


def hashes():
    first = [library.pystack_hash(1) for _ in range(3)]
    second = library.pystack_hash(1)
    return first, second


(first, second), (third, fourth) = hashes(), hashes()
assert len(set(first)) == 1 and second not in first, "the hash knows the instruction"
assert first != third and second != fourth, "and where the caller is"

child = os.fork()
if child == 0:
    plain(5)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0

print(sys.version.split()[0], checks)
