"""A submesh has an allocator of its own over its parent's chips: two live allocators on one chip, and buffers on the same bytes."""

import ttnn
from steps import L1, allocate, open_mesh, step

mesh = open_mesh()
a = allocate(mesh, (1024, 1024))
step("parent", mesh, shm="agrees")
shape = (1, 1) if ttnn.get_num_devices() == 2 else (1, 2)
sub = mesh.create_submesh(ttnn.MeshShape(*shape))
step("submesh, nothing in it", mesh, sub, overlap=False)
b = allocate(sub, (512, 512))
step("the same address twice", mesh, sub, overlap=b.buffer_address() == a.buffer_address())
c = allocate(sub, (256, 256), L1)
d = allocate(mesh, (256, 512), L1)
step("both have L1", mesh, sub)
del c
step("one lets go of L1", mesh, sub)
ttnn.close_mesh_device(sub)
step("submesh closed with a live tensor", mesh, shm="differs", overlap=False)
del b
step("its tensor gone", mesh)
second = mesh.create_submesh(ttnn.MeshShape(*shape))
e = allocate(second, (64, 64))
step("another submesh", mesh, second)
# A submesh that is still referenced outlives its parent: TT-Metal would even allocate in it.
ttnn.close_mesh_device(mesh)
step("parent closed first", second)
ttnn.close_mesh_device(second)
step("all closed")
