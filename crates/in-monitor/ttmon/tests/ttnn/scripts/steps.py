"""Functions of all scripts in this folder: they use ttnn, report the view of TT-Metal's own allocators, and wait.

A step is one line of JSON on the script's original standard output. The test program (tests/ttnn) then reads the process from outside,
compares, and answers with a line on the standard input. All output of ttnn goes to the standard error.
"""

import json
import os
import sys
import types

_out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import ttnn  # noqa: E402: after the standard output is ours alone

# Graph capture asks for torch's class of tensors, and nothing else of torch. ttnn itself is imported without it.
_torch = types.ModuleType("torch")
_torch.Tensor = type("Tensor", (), {})
sys.modules.setdefault("torch", _torch)

KINDS = {"dram": ttnn.BufferType.DRAM, "l1": ttnn.BufferType.L1, "l1_small": ttnn.BufferType.L1_SMALL, "trace": ttnn.BufferType.TRACE}
MESHES = {1: (1, 1), 2: (1, 2), 8: (2, 4), 32: (8, 4)}
DRAM = ttnn.DRAM_MEMORY_CONFIG
L1 = ttnn.L1_MEMORY_CONFIG
TILE = ttnn.TILE_LAYOUT
ROWS = ttnn.ROW_MAJOR_LAYOUT


def open_mesh(shape=None, l1_small_size=16384, trace_region_size=1 << 20):
    """All chips, or a mesh of that shape."""
    shape = shape or MESHES[ttnn.get_num_devices()]
    return ttnn.open_mesh_device(ttnn.MeshShape(*shape), l1_small_size=l1_small_size, trace_region_size=trace_region_size)


def allocate(device, shape, memory=DRAM, layout=TILE, dtype=ttnn.bfloat16):
    """A tensor on the device and nowhere else."""
    return ttnn.allocate_tensor_on_device(ttnn.Shape(shape), dtype, layout, device, memory)


def sharded(shard, cores, how="HEIGHT", kind=ttnn.BufferType.L1):
    """Shards of that many rows and columns on a grid of `cores` (columns, rows) from the first core on."""
    columns, rows = cores
    grid = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(columns - 1, rows - 1))})
    spec = ttnn.ShardSpec(grid, list(shard), ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(getattr(ttnn.TensorMemoryLayout, how + "_SHARDED"), kind, spec)


def view(device, kind):
    """What the allocator says of one kind, in the words of `ttmon mem --json`; blocks with their addresses."""
    said = ttnn.get_memory_view(device, KINDS[kind])
    try:
        table = said.block_table
    except TypeError:
        # ttnn 0.69 has it and cannot hand it to Python.
        table = None
    return {
        "banks": said.num_banks,
        "bank_bytes": said.total_bytes_per_bank,
        "allocated_per_bank": said.total_bytes_allocated_per_bank,
        "free_per_bank": said.total_bytes_free_per_bank,
        "largest_free_per_bank": said.largest_contiguous_bytes_free_per_bank,
        "blocks": table and len(table),
        "table": table and sorted([int(block["address"]), int(block["size"]), block["allocated"] == "no"] for block in table),
    }


def views(device):
    """One open mesh with all its kinds. Device addresses are those of the table plus the base, which old versions do not have."""
    ask = getattr(ttnn, "get_allocator_base_address", lambda device, kind: None)
    base = {kind: ask(device, KINDS[kind]) for kind in ("dram", "l1")}
    shape = list(device.shape)
    return {"chips": list(device.get_device_ids()), "mesh": shape, "base": base, "kinds": {kind: view(device, kind) for kind in KINDS}}


def report(**said):
    """Writes one line to the driver, and waits for its answer."""
    _out.write(json.dumps(said) + "\n")
    _out.flush()
    if sys.stdin.readline().strip() != "go":
        os._exit(3)


def step(name, *devices, **said):
    """Reports the current state: every open mesh must be named."""
    report(step=name, pid=os.getpid(), open=[views(device) for device in devices], **said)


def fails(call, words):
    """The words of the exception that the call must end with."""
    try:
        call()
    except RuntimeError as error:
        text = str(error)
        if words not in text:
            raise
        return text
    raise SystemExit(f"did not fail with {words!r}")


class capture:
    """A graph capture around a block; afterwards `nodes` has what it noted."""

    def __init__(self, mode):
        self.mode, self.nodes = getattr(ttnn.graph.RunMode, mode), []

    def __enter__(self):
        ttnn.graph.begin_graph_capture(self.mode)
        return self

    def __exit__(self, *exception):
        self.nodes = ttnn.graph.end_graph_capture()
        return False

    def noted(self, node_type):
        """Parameters of the nodes of one type."""
        return [node["params"] for node in self.nodes if node["node_type"] == node_type]
