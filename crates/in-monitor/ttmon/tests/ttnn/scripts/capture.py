"""Graph capture without dispatch makes tensors that are nowhere; TT-Metal's own statistics count them."""

import ttnn
from steps import allocate, capture, open_mesh, step

mesh = open_mesh()
a = allocate(mesh, (512, 512))
step("before", mesh, shm="agrees")
with capture("NO_DISPATCH"):
    b = allocate(mesh, (2048, 2048))
    c = ttnn.matmul(a, a)
    step("in a capture without dispatch", mesh, shm="differs")
    del b, c
step("after it", mesh)
with capture("NORMAL"):
    d = ttnn.matmul(a, a)
    step("in a capture with dispatch", mesh)
step("after that", mesh)
ttnn.close_mesh_device(mesh)
step("closed")
