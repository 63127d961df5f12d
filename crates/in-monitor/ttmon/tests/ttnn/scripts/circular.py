"""Circular and dataflow buffers of programs, beside what graph capture and the message of a clash say of them."""

import re

import ttnn
from steps import L1, allocate, capture, fails, open_mesh, sharded, step

OPERATIONS = [
    ("add", lambda: ttnn.add(a, a)),
    ("softmax", lambda: ttnn.softmax(a, dim=-1)),
    ("matmul", lambda: ttnn.matmul(a, a)),
    ("relu", lambda: ttnn.relu(a)),
    # On shards the buffers of a program lie in the tensors themselves, and are not counted again.
    ("add on shards", lambda: ttnn.add(shards, shards)),
    ("relu on shards", lambda: ttnn.relu(shards)),
    ("matmul of shards", lambda: ttnn.matmul(shards, a)),
]


def planned(operation):
    """What a capture without dispatch notes: sizes and cores of both sorts, no addresses."""
    with capture("NO_DISPATCH") as graph:
        operation()
    found = []
    for sort in ("circular", "dataflow"):
        for node in graph.noted(sort + "_buffer_allocate"):
            shared = node.get("globally_allocated", node.get("borrows_memory")) not in ("0", 0, False)
            found.append({"dataflow": sort == "dataflow", "size": int(node["size"]), "cores": node["core_range_set"], "shared": shared})
    return found


mesh = open_mesh()
a = allocate(mesh, (512, 512))
shards = allocate(mesh, (512, 512), sharded((64, 512), (8, 1)))
for name, operation in OPERATIONS:
    plan = planned(operation)
    mesh.clear_program_cache()
    step(f"nothing before {name}", mesh, circulars=[])
    operation()
    step(name, mesh, circulars=plan)
mesh.clear_program_cache()
ttnn.deallocate(shards)

# The region ends where TT-Metal says that it clashes.
room = ttnn.get_memory_view(mesh, ttnn.BufferType.L1).total_bytes_free_per_bank
cores = ttnn.get_memory_view(mesh, ttnn.BufferType.L1).num_banks
pages = (room - 40000) // 2048
filler = allocate(mesh, (pages * cores * 32, 32), L1)
text = fails(OPERATIONS[1][1], "clash with L1 buffers")
end = int(re.search(r"region ends at (\d+)", text)[1])
step("a clash", mesh, circulars=[], clash={"message": text, "end": end, "says": ["into the L1 buffer at ", "in the way: 1 buffer of scripts/steps.py:"]})
ttnn.deallocate(filler)

# A clash by less than a page is cured by a smaller l1_small_size (tt-metal 54876).
reach = end - int(re.search(r"L1 buffer allocated at (\d+)", text)[1])
over = (reach - 1) % 2048 + 1
filler = allocate(mesh, ((pages - (reach - over) // 2048) * cores * 32, 32), L1)
text = fails(OPERATIONS[1][1], "clash with L1 buffers")
lever = f"l1_small_size is 16.0KB with 0B in use: reducing it by {over} bytes makes room"
step("a clash by a few bytes", mesh, circulars=[], clash={"message": text, "end": end, "says": [f"reach {over} bytes into the L1 buffer at ", lever]})
ttnn.deallocate(filler)
ttnn.softmax(a, dim=-1)
step("the same without it", mesh, end=end)
ttnn.close_mesh_device(mesh)
step("closed")
