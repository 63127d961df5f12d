"""The functions of torch.cuda.memory, for Tenstorrent devices.

Figures of one kind of memory ("dram" unless another is named) on one chip, in bytes. `memory_allocated`, `max_memory_allocated` and
`reset_peak_memory_stats` ask the library in this process and take a microsecond. The others ask the program ttmon, which reads this process
from outside: about 20 ms. A figure that is not known is None.
"""

import contextlib
import os
import pickle
import time

from . import _chip, _kind, _program, max_memory_allocated, memory_allocated, reset_peak

KINDS = ("dram", "l1", "l1_small", "trace")

__all__ = [
    "KINDS",
    "dump_snapshot",
    "mem_get_info",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "record",
    "reset_peak_memory_stats",
]


def reset_peak_memory_stats(device=0, kind=None):
    """Begins a new peak for `max_memory_allocated`: of one kind, or of all."""
    for one in KINDS if kind is None else (kind,):
        reset_peak(device, one)


def memory_reserved(device=0, kind="dram"):
    """Bytes that the allocators took for live buffers: blocks in all banks, padding included. At least `memory_allocated`."""
    return _Figures(device).of_chip(kind).get("allocated")


def mem_get_info(device=0, kind="dram"):
    """(free, total) bytes of the allocator; None for what is not known. Free is not one block: see largest_free_block_bytes."""
    found = _Figures(device)
    return found.free(kind), found.total(kind)


def memory_stats(device=0, kind="dram"):
    """Figures under the names of torch.cuda.memory_stats and of jax.Device.memory_stats. What is not known is left out."""
    found = _Figures(device)
    of_chip = found.of_chip(kind)
    used, taken, peak = memory_allocated(device, kind), of_chip.get("allocated"), max_memory_allocated(device, kind)
    stats = {
        "bytes_in_use": used,
        "peak_bytes_in_use": peak,
        "bytes_limit": found.total(kind),
        "bytes_reserved": taken,
        "bytes_reservable_limit": found.total(kind),
        "largest_free_block_bytes": found.largest_free(kind),
        "allocated_bytes.all.current": used,
        "allocated_bytes.all.peak": peak,
        "requested_bytes.all.current": used,
        "requested_bytes.all.peak": peak,
        "reserved_bytes.all.current": taken,
        "allocation.all.current": of_chip.get("count"),
    }
    return {name: value for name, value in stats.items() if value is not None}


def memory_summary(device=None, abbreviated=False):
    """A table of the memory of this process: by chip and kind, then (unless abbreviated) by the line that asked for it."""
    document = _program.mem("--banks") if abbreviated else _program.mem("--banks", "--by", "line")
    rows = [("chip", "kind", "buffers", "used", "allocated", "peak", "free", "largest free")]
    for name, number, kinds in _chips(document):
        if device is not None and number != _chip(device):
            continue
        found = _Figures(number, document)
        for kind in KINDS:
            figures = kinds.get(kind, {})
            if figures.get("used") is not None:
                sizes = [figures.get("used"), figures.get("allocated"), figures.get("peak"), found.free(kind), found.largest_free(kind)]
                rows.append((name, kind, str(figures.get("count", "-")), *map(_size, sizes)))
    text = _table(rows)
    if not abbreviated:
        lines = [("bytes", "buffers", "largest", "line")]
        for group in document.get("groups", []):
            lines.append((_size(group["bytes"]), str(group["count"]), _size(group["largest"]), _line(group.get("line"))))
        text += "\n" + _table(lines, left=(3,))
    return text


def memory_snapshot():
    """The live buffers of this process and its last 65,536 events, as torch.cuda.memory._snapshot() gives them: a dictionary with
    `segments` and `device_traces`. `["ttmon"]["complete_since"]` says from when on every event is there."""
    return pickle.loads(_program.ask("export", "--to", "memory-viz", "-o", "-", str(os.getpid())))


def dump_snapshot(path="dump_snapshot.pickle"):
    """Writes `memory_snapshot` for pytorch.org/memory_viz, or a Chrome trace where the name ends with .json."""
    format_ = "chrome" if os.fspath(path).lower().endswith(".json") else "memory-viz"
    _program.ask("export", "--to", format_, "-o", os.fspath(path), str(os.getpid()))


@contextlib.contextmanager
def record(path=None):
    """Records the events inside `with`. The value has them in `snapshot` afterwards; with a path they are written there, too.

    The ring of a process has 65,536 events; `snapshot["ttmon"]["complete_since"]` says whether that was enough. For more use
    `ttmon run --snapshot`.
    """
    recording = Recording()
    try:
        yield recording
    except BaseException:
        # What the block raises is what its caller must see.
        with contextlib.suppress(_program.Error, OSError):
            recording.finish(path)
        raise
    recording.finish(path)


class Recording:
    """What `record` found; `snapshot` is None inside the block."""

    def __init__(self):
        self.snapshot = None
        self._begun = time.time()

    def finish(self, path):
        found = memory_snapshot()
        found["device_traces"] = [[e for e in events if e["time_us"] >= self._begun * 1e6] for events in found["device_traces"]]
        self.snapshot = found
        if path is not None:
            with open(path, "wb") as file:
                # The page reads protocols 2 to 4.
                pickle.dump(found, file, protocol=2)


def _visible(number):
    """TT-Metal's number of a chip on this host, by its number in this process."""
    visible = os.environ.get("TT_VISIBLE_DEVICES", "").split(",")
    try:
        return int(visible[number])
    except (ValueError, IndexError):
        return number


def _chips(document):
    """Name, number in this process, and figures by kind of each chip that this process has memory on."""
    metal = {device["id"]: device.get("metal_id") for device in document.get("devices", [])}
    for process in document.get("processes", []):
        if process["pid"] != os.getpid():
            continue
        for chip in process.get("devices", []):
            number = next((n for n in range(256) if _visible(n) == metal.get(chip["id"])), None)
            yield f"device {chip['id']}", number, chip["kinds"]
        for chip in process.get("unmapped", []):
            yield f"chip {chip['id']}", int(chip["id"]), chip["kinds"]


class _Figures:
    """What the program ttmon says of one chip."""

    def __init__(self, device, document=None):
        self.number = _chip(device)
        self.document = _program.mem("--banks") if document is None else document

    def of_chip(self, kind):
        name = KINDS[_index(kind)]
        return next((kinds.get(name, {}) for _, number, kinds in _chips(self.document) if number == self.number), {})

    def allocators(self, kind):
        name = KINDS[_index(kind)]
        metal = {device["id"]: device.get("metal_id") for device in self.document.get("devices", [])}
        for allocator in self.document.get("allocators", []):
            numbers = {metal.get(id_) for id_ in allocator.get("devices", [])} | {int(id_) for id_ in allocator.get("unmapped", [])}
            is_here = self.number in map(int, allocator.get("unmapped", [])) or _visible(self.number) in numbers
            if allocator["pid"] == os.getpid() and is_here and name in allocator["kinds"]:
                yield allocator["kinds"][name]

    def free(self, kind):
        return min((found["free"] for found in self.allocators(kind) if found.get("free") is not None), default=None)

    def total(self, kind):
        known = [found for found in self.allocators(kind) if found.get("bank_bytes") is not None]
        return max((found["banks"] * found["bank_bytes"] for found in known), default=None)

    def largest_free(self, kind):
        known = [found for found in self.allocators(kind) if found.get("largest_free_per_bank") is not None]
        return min((found["banks"] * found["largest_free_per_bank"] for found in known), default=None)


def _index(kind):
    number = {0: 0, 1: 1, 3: 2, 4: 3}.get(_kind(kind))
    if number is None:
        raise ValueError(f"{kind!r} is not device memory; there are {', '.join(KINDS)}")
    return number


def _size(number):
    if number is None:
        return "-"
    for unit in ("B", "KB", "MB", "GB"):
        if number < 1024 or unit == "GB":
            return f"{number}{unit}" if unit == "B" else f"{number:.1f}{unit}"
        number /= 1024


def _line(line):
    if not line:
        return "(no line)"
    text = f"{line['file']}:{line['line']} {line['function']}"
    # A file's name may contain anything.
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _table(rows, left=(0, 1)):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|\n"
    def cells(row):
        return (cell.ljust(width) if column in left else cell.rjust(width) for column, (cell, width) in enumerate(zip(row, widths)))
    lines = ["| " + " | ".join(cells(row)) + " |\n" for row in rows]
    return rule + lines[0] + rule + "".join(lines[1:]) + rule
