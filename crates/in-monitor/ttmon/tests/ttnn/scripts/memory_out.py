"""Out of memory: the program catches it and goes on, and neither side counts what was refused."""

import ttnn
from steps import DRAM, L1, allocate, fails, open_mesh, sharded, step

WORDS = "Out of Memory"

mesh = open_mesh()
kept = [allocate(mesh, (2048, 2048)) for _ in range(3)]
step("some", mesh)
text = fails(lambda: allocate(mesh, (1 << 19, 1 << 17)), WORDS)
step("refused in DRAM", mesh, refused=[{"kind": "dram", "message": text}])
text = fails(lambda: allocate(mesh, (1 << 14, 1 << 13), L1), WORDS)
step("refused in L1", mesh, refused=[{"kind": "l1", "message": text}])
text = fails(lambda: allocate(mesh, (2048, 64), sharded((1024, 64), (2, 1), kind=ttnn.BufferType.L1_SMALL)), WORDS)
step("refused in L1_SMALL", mesh, refused=[{"kind": "l1_small", "message": text}])
again = [{"kind": "dram", "message": fails(lambda: allocate(mesh, (1 << 19, 1 << 17)), WORDS)} for _ in range(20)]
kept.append(allocate(mesh, (512, 512), DRAM))
step("goes on", mesh, refused=again)

# Enough room in pieces, no piece large enough.
pieces = [allocate(mesh, (1024, 1024), L1) for _ in range(20)]
for piece in pieces[::2]:
    ttnn.deallocate(piece)
rest = ttnn.get_memory_view(mesh, ttnn.BufferType.L1).largest_contiguous_bytes_free_per_bank
filler = allocate(mesh, (rest // 2048 * 64 * 32 // 32, 1024), L1)
step("L1 in pieces", mesh)
text = fails(lambda: allocate(mesh, (2048, 1536), L1), WORDS)
step("refused for want of one piece", mesh, refused=[{"kind": "l1", "message": text}])
ttnn.close_mesh_device(mesh)
step("closed")
