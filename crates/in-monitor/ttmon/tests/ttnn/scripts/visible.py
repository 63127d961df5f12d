"""TT_VISIBLE_DEVICES, from the shell or set here: metal ids then count what is visible, unique ids stay those of the chips."""

import os
import sys

import ttnn
from steps import allocate, open_mesh, step

if len(sys.argv) > 1:
    os.environ["TT_VISIBLE_DEVICES"] = sys.argv[1]
mesh = open_mesh((1, 1))
a = allocate(mesh, (256, 256))
step("one chip of those that are visible", mesh, visible=os.environ.get("TT_VISIBLE_DEVICES"), shm="agrees")
ttnn.close_mesh_device(mesh)
step("closed")
