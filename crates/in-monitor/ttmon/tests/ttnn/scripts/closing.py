"""Devices are closed with live tensors and opened again; tensors of a closed device die later, and nothing must notice."""

import ttnn
from steps import L1, allocate, open_mesh, step

mesh = open_mesh()
old = [allocate(mesh, (512, 512)), allocate(mesh, (64, 64), L1)]
step("first", mesh)
ttnn.close_mesh_device(mesh)
step("closed with live tensors")
mesh = open_mesh(l1_small_size=0, trace_region_size=0)
step("opened anew, other sizes", mesh)
new = [allocate(mesh, (512, 512)), allocate(mesh, (64, 64), L1)]
step("at the same addresses", mesh)
old.clear()
step("the old tensors gone", mesh)
new.clear()
step("the new ones too", mesh)
ttnn.close_mesh_device(mesh)
step("closed")
