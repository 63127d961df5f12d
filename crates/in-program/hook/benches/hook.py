"""What recording costs a program of ttnn: the same work with recording on and off, in turns, inside one process.

    hook.py FOLDER-OF-LIBRARIES PAIRS          with the hook preloaded: on against off
    hook.py - PAIRS                            alone: how long it takes, with any preloaded library

Prints the nanoseconds of every turn in lines such as `event on 910 905`: of an allocation with its free, and of
a step. It is this thread's own time on the processor, so that what others do on the machine does not count.
"""

import ctypes
import sys
import time

import ttnn

folder, pairs = sys.argv[1], int(sys.argv[2])
record = None if folder == "-" else ctypes.CDLL(folder + "/libttmon_hook.so").ttmon_hook_record
# Short turns, and many: most are over before the scheduler runs another process.
ALLOCATIONS = 100
TURNS = 10
OPERATIONS = 240

chips = ttnn.get_num_devices()
shape = {1: (1, 1), 2: (1, 2), 8: (2, 4), 32: (4, 8)}[chips]
mesh = ttnn.open_mesh_device(ttnn.MeshShape(*shape))
mesh.enable_program_cache()
first = ttnn.zeros((32, 1024), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=mesh)
form = ttnn.Shape((32, 1024))


def allocations():
    """One allocation and its free, repeatedly."""
    allocate, free = ttnn.allocate_tensor_on_device, ttnn.deallocate
    start = time.thread_time_ns()
    for _ in range(ALLOCATIONS):
        free(allocate(form, ttnn.bfloat16, ttnn.TILE_LAYOUT, mesh, ttnn.DRAM_MEMORY_CONFIG))
    return (time.thread_time_ns() - start) / ALLOCATIONS


def step():
    """A decode-like step: short operations one after the other, their programs in the cache."""
    start = time.thread_time_ns()
    value = first
    for _ in range(OPERATIONS):
        value = ttnn.relu(value)
    return time.thread_time_ns() - start


def measure(name, work, count):
    turns = {"on": [], "off": []}
    for number in range(count):
        # Which comes first changes, so that a drift of the machine is nobody's.
        for kind in ("on", "off") if number % 2 else ("off", "on"):
            if record:
                record(1 if kind == "on" else 0)
            turns[kind].append(work())
    if record:
        record(1)
    for kind, times in turns.items():
        print(name, kind, *times)


# Twice over: the ledger's recorder of 65,536 events has been everywhere, and programs are in the cache.
for work in [allocations] * 660 + [step] * 2:
    work()
measure("event", allocations, pairs * TURNS)
measure("step", step, pairs)
sys.stdout.flush()
del first
ttnn.close_mesh_device(mesh)
