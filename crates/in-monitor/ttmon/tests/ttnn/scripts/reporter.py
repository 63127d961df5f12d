"""TT-Metal's own MemoryReporter writes its files; `ttmon mem --csv` writes the same from outside."""

import ttnn
from steps import L1, allocate, open_mesh, sharded, step

mesh = open_mesh()
ttnn.device.dump_device_memory_state(mesh, "")
step("nothing yet", mesh, reporter=True)
kept = [allocate(mesh, (1024, 1024)), allocate(mesh, (96, 224), L1), allocate(mesh, (1024, 1024), L1)]
kept.append(allocate(mesh, (64, 64), sharded((32, 64), (2, 1), kind=ttnn.BufferType.L1_SMALL)))
kept.pop(1)
ttnn.device.dump_device_memory_state(mesh, "")
step("some, with a hole", mesh, reporter=True)
ttnn.close_mesh_device(mesh)
step("closed")
