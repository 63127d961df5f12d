"""Requests that are refused, as users met them, and the sentence that `ttmon run` must print for each.

`says` are parts of that sentence: the verdict, and the line of this file whose buffers are in the way.
"""

import ctypes
import inspect

import ttnn
from steps import DRAM, L1, TILE, fails, open_mesh, step

WORDS = "Out of Memory"
MIB = 1 << 20

library = ctypes.CDLL(None)


def tensor(mesh, mib, memory=DRAM):
    """Arguments of an interleaved tensor of so many MiB, for the caller to allocate on a line of its own."""
    return ttnn.Shape((mib * 512, 1024)), ttnn.bfloat16, TILE, mesh, memory


def pin(mesh, mib):
    return ttnn.allocate_tensor_on_device(*tensor(mesh, mib))


def weights(mesh, mib):
    return ttnn.allocate_tensor_on_device(*tensor(mesh, mib))


def small(mesh, mib):
    return ttnn.allocate_tensor_on_device(*tensor(mesh, mib))


def in_l1(mesh, mib):
    return ttnn.allocate_tensor_on_device(*tensor(mesh, mib, L1))


def line_of(function):
    """As ttmon prints it."""
    return f"scripts/refusals.py:{inspect.getsourcelines(function)[1] + 1} {function.__name__}"


def asks(mesh, mib, kind, *says, memory=DRAM):
    text = fails(lambda: ttnn.allocate_tensor_on_device(*tensor(mesh, mib, memory)), WORDS)
    return {"kind": kind, "message": text, "says": list(says)}


mesh = open_mesh()

# Contiguity, not capacity (tt-xla 4130): much is free, in pieces.
pinned = [pin(mesh, 128) for _ in range(90)]
for number in range(0, 90, 2):
    ttnn.deallocate(pinned[number])
fragmented = "would fit if not fragmented; releasing "
step("pieces", mesh, refused=[asks(mesh, 1024, "dram", fragmented, "per bank makes room: ", f"buffers of {line_of(pin)}")])

# Capacity (tt-xla 5494): too little is free, wherever it is.
more = [weights(mesh, 128) for _ in range(44)]
step("full", mesh, refused=[asks(mesh, 1024, "dram", "per bank too little is free; releasing ")])
for number in range(1, 90, 2):
    ttnn.deallocate(pinned[number])
for one in more:
    ttnn.deallocate(one)

# One absurd request (tt-xla 4040).
step("absurd", mesh, refused=[asks(mesh, 16 * 1024, "dram", "can never fit, a bank has ")])

# The weights of the first part stay when the second one begins (tt-metal 39222).
kept, passing = [], []
for _ in range(30):
    kept.append(weights(mesh, 128))
    passing.append(pin(mesh, 256))
for one in passing:
    ttnn.deallocate(one)
step("two parts", mesh, refused=[asks(mesh, 4096, "dram", fragmented, f"buffers of {line_of(weights)}")])
for one in kept:
    ttnn.deallocate(one)

# Order of allocation (tt-xla 5501): one small buffer in the middle is the cheapest to move.
first = pin(mesh, 5 * 1024)
middle = small(mesh, 1)
ttnn.deallocate(first)
step("order", mesh, refused=[asks(mesh, 10 * 1024, "dram", fragmented, f"makes room: 1 buffer of {line_of(small)}")])
ttnn.deallocate(middle)

# L1 in pieces (tt-metal 35516).
pieces = [in_l1(mesh, 4) for _ in range(16)]
for number in range(0, 16, 2):
    ttnn.deallocate(pieces[number])
rest = ttnn.get_memory_view(mesh, ttnn.BufferType.L1).largest_contiguous_bytes_free_per_bank
filler = in_l1(mesh, rest * 64 // MIB)
step("L1 in pieces", mesh, refused=[asks(mesh, 16, "l1", fragmented, f"of {line_of(in_l1)}", memory=L1)])
for number in range(1, 16, 2):
    ttnn.deallocate(pieces[number])
ttnn.deallocate(filler)

# A buffer a step is left behind.
left = []
for _ in range(6):
    library.ttmon_phase_begin(b"step")
    working = pin(mesh, 4)
    left.append(small(mesh, 2))
    ttnn.deallocate(working)
    library.ttmon_phase_end(b"step")

# Host memory grows by each request, and the device is fine (tt-inference-server 4430).
requests = []
for _ in range(8):
    library.ttmon_phase_begin(b"request")
    working = pin(mesh, 4)
    requests.append(bytes([1]) * (8 * MIB))
    ttnn.deallocate(working)
    library.ttmon_phase_end(b"request")

# The exact peak and the tightest bank of a phase (tt-metal 50909).
library.ttmon_phase_begin(b"estimate")
working = pin(mesh, 64)
largest = ttnn.get_memory_view(mesh, ttnn.BufferType.DRAM).largest_contiguous_bytes_free_per_bank
library.ttmon_phase_end(b"estimate")
ttnn.deallocate(working)

library.ttmon_mark()
left.append(small(mesh, 2))
source = {
    "file": __file__,
    "line": inspect.getsourcelines(small)[1] + 1,
    "function": "small",
    "text": "return ttnn.allocate_tensor_on_device(*tensor(mesh, mib))",
}
expected = {
    "/phases/0/name": "step",
    "/phases/0/count": 6,
    "/phases/0/growth_per_iteration/dram": 2 * MIB,
    "/phases/0/growth_per_iteration/lines/0/count": 1,
    "/phases/0/growth_per_iteration/lines/0/bytes": 2 * MIB,
    "/phases/0/growth_per_iteration/lines/0/line": source,
    "/phases/1/name": "request",
    "/phases/1/change/dram": 0,
    "/phases/2/peak/dram": (6 * 2 + 64) * MIB,
    "/phases/2/smallest_largest_free/dram": largest,
    "/growth_by_line/0/line": source,
    "/growth_by_line/0/bytes": 2 * MIB,
}
printed = [
    ["  phase step: 6 times in ", "   DRAM peak ", ", +12.0MB"],
    [f"{line_of(small)} keeps 1 buffer (2.0MB) per iteration: {source['text']}"],
    ["  phase request: 8 times in ", "   DRAM peak ", "   host memory +6"],
    ["  host memory: peak ", " at first, ", " at last)"],
    ["  largest free DRAM block of a bank: down to "],
]
ttnn.close_mesh_device(mesh)
step("closed", report=expected, prints=printed)
