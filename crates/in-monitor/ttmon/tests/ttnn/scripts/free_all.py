"""Everything freed at once while the program still has its tensors: they are stale, and some lie where new ones are."""

import ttnn
from steps import L1, allocate, open_mesh, step

free_all = ttnn.device.DeallocateBuffers

mesh = open_mesh()
stale = [allocate(mesh, (512, 512)), allocate(mesh, (256, 256)), allocate(mesh, (64, 64), L1)]
step("three", mesh)
free_all(mesh)
step("all freed", mesh)
fresh = [allocate(mesh, (512, 512)), allocate(mesh, (128, 128), L1)]
step("new ones at the old addresses", mesh)
# TT-Metal frees by address: the death of a stale tensor takes the new one's memory.
stale.clear()
step("the stale ones gone", mesh)
fresh.clear()
step("the new ones gone", mesh)
again = [allocate(mesh, (64 * (1 + i % 5), 64)) for i in range(200)]
step("two hundred", mesh)
free_all(mesh)
step("all freed again", mesh)
again = [allocate(mesh, (64 * (1 + i % 3), 64)) for i in range(100)]
step("a hundred over them", mesh)
ttnn.close_mesh_device(mesh)
step("closed")
