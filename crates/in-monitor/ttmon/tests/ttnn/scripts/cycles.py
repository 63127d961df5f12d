"""Three hundred times: open, allocate, close. TT-Metal makes a new allocator each time, mostly at the same place in memory."""

import ttnn
from steps import L1, allocate, open_mesh, step

TURNS = 300

left = []
for turn in range(TURNS):
    mesh = open_mesh()
    left.append(allocate(mesh, (32 * (1 + turn % 7), 64)))
    left.append(allocate(mesh, (32, 64), L1))
    if turn % 50 == 0 or turn == TURNS - 1:
        step(f"turn {turn}", mesh)
    if turn % 3 == 0:
        left.clear()
    ttnn.close_mesh_device(mesh)
    if turn % 50 == 0:
        step(f"turn {turn}, closed")
step("the end")
