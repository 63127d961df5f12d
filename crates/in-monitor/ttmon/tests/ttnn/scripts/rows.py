"""Chips on the rows of a machine: a tree like the driver's, and the cluster descriptor that these mock chips were made from.

Mock chips are on no row. So the program lets go of the variable that says so once TT-Metal has read it, and before it opens a
device: what is seen then is what would be seen of real chips with these unique ids.
"""

import os
import sys

import ttnn
from steps import L1, allocate, open_mesh, step

# By chip of chips/t3k.yaml: the device it is, or, for a remote one, the row after the local ones that its gateway gives it.
ROWS = {0: 0, 1: 1, 2: 3, 3: 2, 4: 4, 5: 5, 6: 7, 7: 6}
# The chip that metal id 0 is.
first = int(sys.argv[1]) if len(sys.argv) > 1 else 0
if first:
    os.environ["TT_VISIBLE_DEVICES"] = sys.argv[1]

ttnn.get_num_devices()
del os.environ["TT_METAL_MOCK_CLUSTER_DESC_PATH"]
mesh = open_mesh((1, 1) if first else None)
rows = [ROWS[first + chip] for chip in mesh.get_device_ids()]
step("open", mesh, rows=rows)
a = allocate(mesh, (1024, 1024))
b = allocate(mesh, (64, 64), L1)
step("two on every chip", mesh, rows=rows)
if not first:
    sub = mesh.create_submesh(ttnn.MeshShape(1, 2))
    c = allocate(sub, (256, 256))
    step("one more on two of them", mesh, sub, rows=rows)
    ttnn.close_mesh_device(sub)
del a
step("one on every chip", mesh, rows=rows)
ttnn.close_mesh_device(mesh)
step("closed")
