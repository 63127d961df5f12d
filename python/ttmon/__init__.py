"""Report your program's device memory to ttmon, with names.

    with ttmon.tag("layer 7"):
        ...

Functions return RECORDED, OFF (tracking is off, or there is no library) or a negative number; see ttmon.h.
"""

import contextlib
import ctypes
import operator

from . import _library

__all__ = [
    "BAD_ARGUMENT",
    "DRAM",
    "INTERNAL",
    "L1",
    "L1_SMALL",
    "LOST",
    "OFF",
    "RECORDED",
    "SYSTEM_MEMORY",
    "TRACE",
    "available",
    "device_close",
    "dump_snapshot",
    "mark",
    "max_memory_allocated",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "phase",
    "record",
    "report_allocation",
    "report_cb_allocation",
    "report_cb_deallocation",
    "report_deallocation",
    "report_device_close",
    "report_kernel_load",
    "report_kernel_unload",
    "reset_peak",
    "reset_peak_memory_stats",
    "tag",
    "testing",
]

RECORDED = 0
OFF = 1
BAD_ARGUMENT = -1
LOST = -2
INTERNAL = -3

# Buffer types, as TT-Metal numbers them.
DRAM = 0
L1 = 1
SYSTEM_MEMORY = 2
L1_SMALL = 3
TRACE = 4

_functions = _library.load()

available = bool(_functions)
"""Whether the library was found. It does not say that tracking is on."""


def report_allocation(device, size, buffer_type, buffer_id):
    """A buffer, after its allocator returned it."""
    return _numbers("ttmon_report_allocation", device, size, _type(buffer_type), buffer_id)


def report_deallocation(device, buffer_id):
    """The end of a buffer, before its allocator takes it back."""
    return _numbers("ttmon_report_deallocation", device, buffer_id)


def report_cb_allocation(device, size, cb_id):
    """A circular buffer."""
    return _numbers("ttmon_report_cb_allocation", device, size, cb_id)


def report_cb_deallocation(device, size, cb_id):
    """The end of a circular buffer."""
    return _numbers("ttmon_report_cb_deallocation", device, size, cb_id)


def report_kernel_load(device, size, kernel_type, kernel_id):
    """A loaded kernel; its type is 0 application, 1 fabric, 2 dispatch."""
    return _numbers("ttmon_report_kernel_load", device, size, _type(kernel_type), kernel_id)


def report_kernel_unload(device, size, kernel_id):
    """The end of a kernel."""
    return _numbers("ttmon_report_kernel_unload", device, size, kernel_id)


def report_device_close(device):
    """A device was closed: all that was reported for it is gone."""
    return _numbers("ttmon_report_device_close", device)


device_close = report_device_close


def mark():
    """Set the mark that `ttmon run --fail-on-growth` compares the end of the program with."""
    return _call("ttmon_mark")


def memory_allocated(device=0, kind="dram"):
    """Bytes of this program's live buffers on one chip, as they were asked for; None where tracking is off.

    `device` is TT-Metal's number of a chip in this program, or an open device of ttnn: of a mesh its first chip, for a mesh
    has the same on all. `kind` is "dram", "l1", "l1_small" or "trace", or ttnn's buffer type; ValueError for any other.
    """
    return _figure("ttmon_memory_allocated", device, kind)


def max_memory_allocated(device=0, kind="dram"):
    """The most that `memory_allocated` was since tracking began or since `reset_peak`; None where tracking is off."""
    return _figure("ttmon_max_memory_allocated", device, kind)


def reset_peak(device=0, kind="dram"):
    """From now on `max_memory_allocated` is that of what follows. What ttmon shows as the peak stays."""
    return _call("ttmon_reset_peak", _chip(device), _kind(kind))


class tag(contextlib.ContextDecorator):
    """What this thread allocates carries the text, at most 62 bytes of UTF-8, inside `with`, or in every call of a
    decorated function."""

    def __init__(self, text):
        if not isinstance(text, str):
            raise TypeError(f"a tag is a text, not {type(text).__name__}")
        self._bytes = text.encode("utf-8", "replace")

    def __enter__(self):
        _call("ttmon_tag_push", self._bytes)
        return self

    def __exit__(self, *exception):
        _call("ttmon_tag_pop")
        return False


class phase(contextlib.ContextDecorator):
    """A phase of the program inside `with`, or in every call of a decorated function: a step, a request, a part of a pipeline.

    `ttmon run` reports peak, growth and time of each name, all iterations together, and names the lines that keep memory in
    each of them. Phases may lie inside one another.
    """

    def __init__(self, name):
        if not isinstance(name, str):
            raise TypeError(f"the name of a phase is a text, not {type(name).__name__}")
        self._bytes = name.encode("utf-8", "replace")

    def __enter__(self):
        _call("ttmon_phase_begin", self._bytes)
        return self

    def __exit__(self, *exception):
        _call("ttmon_phase_end", self._bytes)
        return False


_KINDS = {"dram": DRAM, "l1": L1, "l1_small": L1_SMALL, "trace": TRACE, "system_memory": SYSTEM_MEMORY}


def _figure(name, device, kind):
    bytes_ = ctypes.c_uint64()
    return bytes_.value if _call(name, _chip(device), _kind(kind), ctypes.byref(bytes_)) == RECORDED else None


def _chip(device):
    """TT-Metal's number of the chip."""
    if hasattr(device, "get_device_ids"):
        device = next(iter(device.get_device_ids()), -1)
    device = operator.index(device)
    if not 0 <= device < 2**31:
        raise ValueError(f"no chip has the number {device}")
    return device


def _kind(kind):
    """The number of a buffer type, from its name, ttnn's enum value, or a number."""
    try:
        number = operator.index(kind)
    except TypeError:
        number = _KINDS.get(str(kind).rsplit(".", 1)[-1].lower(), -1)
    if not 0 <= number < 256:
        raise ValueError(f"no kind of memory is called {kind!r}; there are {', '.join(_KINDS)}")
    return number


def _type(number):
    """A type that does not fit its byte is none that is known."""
    number = operator.index(number)
    return number if 0 <= number < 256 else 255


def _numbers(name, device, *numbers):
    """ctypes would cut what does not fit, and report another buffer. Without a device, the library reports the error."""
    device, *numbers = map(operator.index, (device, *numbers))
    if not 0 <= device < 2**31 or any(not 0 <= number < 2**64 for number in numbers):
        device, numbers = -1, [0] * len(numbers)
    return _call(name, device, *numbers)


def _call(name, *arguments):
    function = _functions.get(name)
    return OFF if function is None else function(*arguments)


# In a module of its own, which a program that only reports does not load.
_LATER = (
    "dump_snapshot",
    "mem_get_info",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "record",
    "reset_peak_memory_stats",
)


def __getattr__(name):
    if name in _LATER:
        from . import memory

        return getattr(memory, name)
    if name == "testing":
        import importlib

        return importlib.import_module(".testing", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
