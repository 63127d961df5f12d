"""Who holds how much memory of which Tenstorrent device, read from your own program.

    from ttmon.monitor import SystemMemoryMonitor

    with SystemMemoryMonitor() as monitor:
        stats = monitor.system_stats(0)
        print(stats["dram_used"], stats["missing"].get("dram_used"))

What is not known is None, and the dict's "missing" has the reason under the same key: {"dram_used": "not_tracked"}. The
methods return None where there is no such device or process, and raise MonitorError where the machine cannot be read.
Threads may share a monitor; a fork of the program has to make one of its own.
"""

import ctypes
import operator
import os

from . import _library

__all__ = ["MonitorError", "SystemMemoryMonitor"]

NAME = "libttmon_monitor.so"

_OK = 0
_NOT_FOUND = -2
_ALL_DEVICES = 2**32 - 1
_KINDS = 6
_NAME_BYTES = 64


class MonitorError(Exception):
    """The library was not found, or the machine cannot be read."""


class _Figure(ctypes.Structure):
    _fields_ = [("value", ctypes.c_uint64), ("missing", ctypes.c_int32)]


class _Source(_Figure):
    """A figure whose value stands for a word."""


class _Real(ctypes.Structure):
    _fields_ = [("value", ctypes.c_double), ("missing", ctypes.c_int32)]


def _fields(figures, kind=_Figure):
    return [(name, kind) for name in figures.split()]


class _SystemStats(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("device", ctypes.c_uint32),
        ("time_ns", ctypes.c_uint64),
        ("state", ctypes.c_uint32),
        ("health", ctypes.c_uint32),
        *_fields("dram_total dram_used dram_free l1_total l1_used l1_free"),
        ("processes", ctypes.c_uint64),
        ("untracked_processes", ctypes.c_uint64),
        ("hidden_processes", ctypes.c_uint64),
        *_fields("temperature power", _Real),
        ("aiclk_mhz", _Figure),
    ]


class _ProcessKind(ctypes.Structure):
    _fields_ = [*_fields("used allocated peak peak_time_ns count"), ("source", _Source)]


class _ProcessStats(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("pid", ctypes.c_int32),
        ("device", ctypes.c_uint32),
        ("status", ctypes.c_uint32),
        ("devices", ctypes.c_uint32),
        ("name_missing", ctypes.c_int32),
        ("name", ctypes.c_char * _NAME_BYTES),
        ("kinds", _ProcessKind * _KINDS),
    ]


class _KindStats(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("device", ctypes.c_uint32),
        ("kind", ctypes.c_uint32),
        ("processes", ctypes.c_uint32),
        *_fields("total capacity used allocated free peak count"),
        ("source", _Source),
    ]


class _BankStats(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("device", ctypes.c_uint32),
        ("kind", ctypes.c_uint32),
        ("pid", ctypes.c_int32),
        ("allocator", ctypes.c_char * _NAME_BYTES),
        *_fields("banks bank_bytes allocated_per_bank free_per_bank largest_free_per_bank"),
        ("fragmentation", _Real),
        ("blocks", _Figure),
    ]


_HANDLE = ctypes.c_void_p
_COUNT = ctypes.POINTER(ctypes.c_uint32)

# As ttmon_monitor.h has them: what is returned, then the arguments.
_FUNCTIONS = {
    "open": (_HANDLE, ctypes.c_char_p),
    "close": (None, _HANDLE),
    "last_error": (ctypes.c_char_p,),
    "set_max_age": (ctypes.c_int32, _HANDLE, ctypes.c_uint32),
    "device_count": (ctypes.c_int32, _HANDLE, _COUNT),
    "device_ids": (ctypes.c_int32, _HANDLE, ctypes.POINTER(ctypes.c_uint32), ctypes.c_uint32, _COUNT),
    "process_ids": (ctypes.c_int32, _HANDLE, ctypes.c_uint32, ctypes.POINTER(ctypes.c_int32), ctypes.c_uint32, _COUNT),
    "system_stats": (ctypes.c_int32, _HANDLE, ctypes.c_uint32, ctypes.POINTER(_SystemStats)),
    "process_stats": (ctypes.c_int32, _HANDLE, ctypes.c_int32, ctypes.c_uint32, ctypes.POINTER(_ProcessStats)),
    "detailed_stats": (ctypes.c_int32, _HANDLE, ctypes.c_uint32, ctypes.c_uint8, ctypes.POINTER(_KindStats)),
    "bank_stats": (ctypes.c_int32, _HANDLE, ctypes.c_uint32, ctypes.c_uint8, ctypes.c_uint32, ctypes.POINTER(_BankStats)),
    "missing_name": (ctypes.c_char_p, ctypes.c_int32),
    "kind_name": (ctypes.c_char_p, ctypes.c_uint8),
    "status_name": (ctypes.c_char_p, ctypes.c_uint32),
    "source_name": (ctypes.c_char_p, ctypes.c_uint64),
    "state_name": (ctypes.c_char_p, ctypes.c_uint32),
    "health_name": (ctypes.c_char_p, ctypes.c_uint32),
}

_loaded = None


def _places():
    """Beside the client's library, or where TTMON_LIB itself points."""
    asked = os.environ.get("TTMON_LIB", "")
    if os.path.basename(asked) == NAME:
        yield asked
    for place in _library.places():
        yield os.path.join(os.path.dirname(place), NAME)


def _functions():
    global _loaded
    if _loaded is None:
        _loaded = _load()
    return _loaded


def _load():
    reason = "it is in none of the places where ttmon looks; set TTMON_LIB to its folder"
    for place in _places():
        if not os.path.isfile(place):
            continue
        try:
            library = ctypes.CDLL(place)
            functions = {}
            for name, (returned, *arguments) in _FUNCTIONS.items():
                function = getattr(library, "ttmon_monitor_" + name)
                function.restype, function.argtypes = returned, arguments
                functions[name] = function
            return functions
        except (OSError, AttributeError) as error:
            reason = str(error)
    raise MonitorError(f"cannot load {NAME}: {reason}")


class SystemMemoryMonitor:
    """This machine, or the one below a directory that stands for `/`.

    A sample answers all calls for max_age_ms after it was taken."""

    def __init__(self, root=None, max_age_ms=100):
        # First, so that __del__ finds it in every case.
        self._handle = None
        path = None if root is None else os.fsencode(root)
        if path is not None and b"\0" in path:
            raise ValueError("a path has no NUL in it")
        max_age_ms = _number(max_age_ms, "max_age_ms")
        self._call = _functions()
        self._handle = self._call["open"](path)
        if self._handle is None:
            raise MonitorError(self._error())
        self._call["set_max_age"](self._handle, max_age_ms)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()
        return False

    def __del__(self):
        self.close()

    def close(self):
        """The monitor cannot be used any more. No other thread may be using it."""
        handle, self._handle = self._handle, None
        if handle is not None:
            self._call["close"](handle)

    def device_count(self):
        """How many devices there are."""
        count = ctypes.c_uint32()
        self._do("device_count", ctypes.byref(count))
        return count.value

    def device_ids(self):
        """Their ids, in order. They may have gaps."""
        return self._list("device_ids", ctypes.c_uint32) or []

    def system_stats(self, device):
        """A device, all processes together."""
        raw = self._fill("system_stats", _SystemStats, _number(device, "device"))
        if raw is None:
            return None
        stats = self._readings(raw)
        stats["state"] = self._word("state_name", raw.state)
        stats["health"] = self._word("health_name", raw.health)
        return stats

    def process_stats(self, pid, device=None):
        """A process: its memory on each device, and in total; with a device its memory there ("kinds"). For one that holds no device all processes have to be looked
        through, which may take 0.2 s."""
        pid = operator.index(pid)
        if not 0 < pid < 2**31:
            raise ValueError(f"{pid} is no pid")
        if device is not None:
            raw = self._fill("process_stats", _ProcessStats, pid, _number(device, "device"))
            return None if raw is None else {"device": raw.device, **self._process(raw)}
        raw = self._fill("process_stats", _ProcessStats, pid, _ALL_DEVICES)
        if raw is None:
            return None
        stats = self._process(raw)
        stats["total"] = stats.pop("kinds")
        stats["devices"] = []
        for device in self.device_ids() if raw.devices else []:
            one = self._fill("process_stats", _ProcessStats, pid, device)
            if one is not None:
                stats["devices"].append({"device": device, "kinds": self._kinds(one)})
        return stats

    def detailed_stats(self, device):
        """Every kind of memory of a device, the processes on it, and the banks of their allocators."""
        device = _number(device, "device")
        kinds = {}
        for kind in range(_KINDS):
            raw = self._fill("detailed_stats", _KindStats, device, kind)
            if raw is None:
                return None
            kinds[self._word("kind_name", kind)] = self._readings(raw, "device", "kind", "processes")
        processes = []
        for pid in self._list("process_ids", ctypes.c_int32, device) or []:
            raw = self._fill("process_stats", _ProcessStats, pid, device)
            # One that has gone since it was listed is not there.
            if raw is not None:
                processes.append(self._process(raw))
        return {"device": device, "kinds": kinds, "processes": processes, "allocators": self._allocators(device)}

    def _allocators(self, device):
        """Open allocators on a device, with the banks of each kind."""
        allocators = []
        while True:
            kinds, raw = {}, None
            for kind in range(_KINDS):
                raw = self._fill("bank_stats", _BankStats, device, kind, len(allocators))
                if raw is None:
                    return allocators
                kinds[self._word("kind_name", kind)] = self._readings(raw, "device", "kind", "pid", "allocator")
            allocators.append({"id": raw.allocator.decode("ascii"), "pid": raw.pid, "kinds": kinds})

    def _process(self, raw):
        name, missing = raw.name.decode("utf-8", "replace"), {}
        if raw.name_missing:
            name, missing["name"] = None, self._word("missing_name", raw.name_missing)
        status = self._word("status_name", raw.status)
        return {"pid": raw.pid, "name": name, "status": status, "kinds": self._kinds(raw), "missing": missing}

    def _kinds(self, raw):
        return {self._word("kind_name", kind): self._readings(raw.kinds[kind]) for kind in range(_KINDS)}

    def _readings(self, raw, *others):
        """The fields of a struct, and the reasons of those that are missing."""
        readings, missing = {}, {}
        for name, _ in raw._fields_:
            value = getattr(raw, name)
            if name == "struct_size" or name in others:
                continue
            if isinstance(value, (_Figure, _Real)):
                if value.missing:
                    missing[name] = self._word("missing_name", value.missing)
                    value = None
                else:
                    value = self._word("source_name", value.value) if isinstance(value, _Source) else value.value
            readings[name] = value
        readings["missing"] = missing
        return readings

    def _fill(self, name, shape, *arguments):
        raw = shape(struct_size=ctypes.sizeof(shape))
        return raw if self._do(name, *arguments, ctypes.byref(raw)) else None

    def _list(self, name, number, *arguments):
        """Asks with more room until all fit."""
        capacity = 64
        while True:
            found, count = (number * capacity)(), ctypes.c_uint32()
            if not self._do(name, *arguments, found, capacity, ctypes.byref(count)):
                return None
            if count.value <= capacity:
                return list(found[: count.value])
            capacity = count.value

    def _do(self, name, *arguments):
        """False where there is no such thing."""
        if self._handle is None:
            raise ValueError("this monitor is closed")
        code = self._call[name](self._handle, *arguments)
        if code not in (_OK, _NOT_FOUND):
            raise MonitorError(self._error())
        return code == _OK

    def _error(self):
        return self._call["last_error"]().decode("utf-8", "replace")

    def _word(self, name, number):
        return self._call[name](number).decode("ascii")


def _number(number, name):
    """ctypes would cut what does not fit, and ask for another device."""
    number = operator.index(number)
    if not 0 <= number < 2**32:
        raise ValueError(f"{name} {number} is out of range")
    return number
