"""Tensors of every kind, layout and place come and go, in an order that leaves holes."""

import ttnn
from steps import DRAM, L1, ROWS, allocate, open_mesh, sharded, step

SMALL = ttnn.BufferType.L1_SMALL

mesh = open_mesh()
step("open", mesh)
kept = [allocate(mesh, (1024, 1024)) for _ in range(6)]
step("six in DRAM", mesh)
ttnn.deallocate(kept[1])
ttnn.deallocate(kept[4])
step("two holes", mesh)
kept.append(allocate(mesh, (64, 64)))
kept.append(allocate(mesh, (96, 2048)))
step("holes filled in part", mesh)

# Small pages of rows: blocks of L1 are rounded up to the alignment of DRAM, 32 bytes on Wormhole, 64 on Blackhole.
rows = [allocate(mesh, shape, L1, ROWS) for shape in [(33, 70), (5, 8), (65, 40), (1, 2), (7, 14), (1000, 6)]]
step("small pages in L1", mesh)
rows += [allocate(mesh, shape, DRAM, ROWS) for shape in [(33, 70), (5, 8), (65, 40), (1, 2), (7, 14), (1000, 6)]]
step("small pages in DRAM", mesh)
del rows[::2]
step("every other one of them gone", mesh)

for name, dtype in [("bfloat8_b", ttnn.bfloat8_b), ("bfloat4_b", ttnn.bfloat4_b), ("float32", ttnn.float32), ("uint32", ttnn.uint32)]:
    kept.append(allocate(mesh, (224, 416), L1, dtype=dtype))
    step(name, mesh)

shards = [
    allocate(mesh, (256, 64), sharded((64, 64), (4, 1))),
    allocate(mesh, (64, 512), sharded((64, 128), (2, 2), "WIDTH")),
    allocate(mesh, (256, 256), sharded((64, 128), (2, 4), "BLOCK")),
    allocate(mesh, (90, 8), sharded((15, 8), (3, 2)), ROWS),
    allocate(mesh, (64, 64), sharded((32, 64), (2, 1), kind=SMALL)),
    allocate(mesh, (3, 20), sharded((1, 20), (3, 1), kind=SMALL), ROWS),
]
step("sharded", mesh)
ttnn.deallocate(shards[0])
ttnn.deallocate(shards[4])
step("some shards gone", mesh)
alias = ttnn.reshape(kept[0], (512, 2048))
step("reshape", mesh)
kept[0] = None
step("one of two names of a buffer gone", mesh)
del alias
step("both gone", mesh)
moved = ttnn.reallocate(kept[5])
kept[5] = None
step("reallocate", mesh)
zeros = ttnn.zeros((300, 500), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=mesh)
step("zeros", mesh)
kept.clear()
shards.clear()
rows.clear()
del moved, zeros
step("all gone", mesh)
ttnn.close_mesh_device(mesh)
step("closed")
