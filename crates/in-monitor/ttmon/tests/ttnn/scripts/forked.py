"""A fork with a device open: the child must not be taken for the parent, nor change what the parent has."""

import os

import ttnn
from steps import allocate, open_mesh, step

mesh = open_mesh()
a = allocate(mesh, (512, 512))
step("before", mesh)
go, done = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    # It has a copy of TT-Metal's tables: what it does there is about no device.
    del a
    b = allocate(mesh, (64, 64))
    os.write(done[1], b"x")
    os.read(go[0], 1)
    os._exit(0)
os.read(done[0], 1)
step("the child freed its copy", mesh, child=child)
c = allocate(mesh, (256, 256))
step("the parent goes on", mesh, child=child)
os.write(go[1], b"x")
os.waitpid(child, 0)
step("the child is gone", mesh)
ttnn.close_mesh_device(mesh)
step("closed")
