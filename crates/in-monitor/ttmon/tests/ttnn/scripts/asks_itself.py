"""The program asks for its own figures while it runs, as one does with torch.cuda."""

import ttmon
import ttnn
from steps import L1, allocate, open_mesh, step


def asked(device):
    """By kind: what lies on one chip now, and the most that did since the last reset."""
    kinds = ("dram", "l1", "l1_small")
    return {kind: [ttmon.memory_allocated(device, kind), ttmon.max_memory_allocated(device, kind)] for kind in kinds}


mesh = open_mesh()
step("open", mesh, asked=asked(mesh), largest={"dram": 0, "l1": 0})
a = allocate(mesh, (1024, 1024))
b = allocate(mesh, (256, 256), L1)
step("two", mesh, asked=asked(0), largest={"dram": 2 << 20, "l1": 128 << 10})
with ttmon.tag("attention"):
    c = allocate(mesh, (512, 512))
step("a tagged one", mesh, asked=asked(1), largest={"dram": 5 << 19, "l1": 128 << 10}, tagged="attention")
ttnn.deallocate(a)
ttnn.deallocate(b)
step("two gone", mesh, asked=asked(mesh), largest={"dram": 5 << 19, "l1": 128 << 10})
for kind in ("dram", "l1"):
    assert ttmon.reset_peak(mesh, kind) == ttmon.RECORDED
step("peaks forgotten", mesh, asked=asked(mesh), largest={"dram": 1 << 19, "l1": 0})
assert ttmon.mark() == ttmon.RECORDED
assert ttmon.memory_allocated(7) == 0
try:
    ttmon.memory_allocated(0, "no such kind")
except ValueError:
    pass
else:
    raise SystemExit("a kind that there is not was taken")
ttnn.close_mesh_device(mesh)
step("closed")
