"""All chips as one mesh: one allocation lies on every chip."""

import ttnn
from steps import L1, allocate, open_mesh, step

mesh = open_mesh()
step("open", mesh)
a = allocate(mesh, (1024, 1024))
b = allocate(mesh, (256, 320), L1)
step("two tensors", mesh, shm="agrees")
c = ttnn.matmul(a, a)
d = ttnn.softmax(b, dim=-1)
step("matmul and softmax", mesh)
ttnn.deallocate(a)
step("a hole", mesh)
ttnn.close_mesh_device(mesh)
step("closed")
