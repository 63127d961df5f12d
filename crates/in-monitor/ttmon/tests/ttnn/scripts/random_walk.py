"""Hundreds of allocations and frees at random, from a seed: kinds, layouts, types, sizes, threads, and sometimes everything at once."""

import random
import sys
import threading

import ttnn
from steps import DRAM, L1, ROWS, TILE, allocate, open_mesh, sharded, step

chance = random.Random(int(sys.argv[1]))
TYPES = [ttnn.bfloat16, ttnn.float32, ttnn.uint32, ttnn.bfloat8_b]
SMALL = ttnn.BufferType.L1_SMALL


def one():
    """A tensor of some sort; None where there was no room."""
    sort = chance.randrange(6)
    try:
        if sort == 0:
            rows, columns = chance.randrange(1, 5), chance.randrange(1, 5)
            shard = (32 * chance.randrange(1, 4), 32 * chance.randrange(1, 4))
            return allocate(mesh, (shard[0] * rows * columns, shard[1]), sharded(shard, (columns, rows)))
        if sort == 1:
            return allocate(mesh, (2, 16 * chance.randrange(1, 9)), sharded((1, 16 * 8), (2, 1), kind=SMALL), ROWS)
        if sort == 2:
            shape = (chance.randrange(1, 400), 2 * chance.randrange(1, 100))
            return allocate(mesh, shape, chance.choice([DRAM, L1]), ROWS, chance.choice(TYPES[:3]))
        shape = (32 * chance.randrange(1, 20), 32 * chance.randrange(1, 20))
        return allocate(mesh, shape, chance.choice([DRAM, DRAM, L1]), TILE, chance.choice(TYPES))
    except RuntimeError:
        return None


def some(count):
    for _ in range(count):
        if kept and chance.random() < 0.45:
            kept.pop(chance.randrange(len(kept)))
        else:
            tensor = one()
            if tensor is not None:
                kept.append(tensor)


mesh = open_mesh(l1_small_size=1 << 15)
kept = []
for turn in range(12):
    if turn % 3:
        some(60)
    else:
        thread = threading.Thread(target=some, args=(60,))
        thread.start()
        thread.join()
    step(f"turn {turn}, {len(kept)} live", mesh)
    if turn == 7:
        kept.clear()
        step("all gone", mesh)
ttnn.close_mesh_device(mesh)
step("closed")
