"""Finds libttmon_client.so and declares its functions, as ttmon.h has them."""

import ctypes
import os
import shutil
import sys

NAME = "libttmon_client.so"

_DEVICE = ctypes.c_int32
_NUMBER = ctypes.c_uint64
_TYPE = ctypes.c_uint8
_RESULT = ctypes.POINTER(ctypes.c_uint64)

FUNCTIONS = {
    "ttmon_report_allocation": (_DEVICE, _NUMBER, _TYPE, _NUMBER),
    "ttmon_report_deallocation": (_DEVICE, _NUMBER),
    "ttmon_report_cb_allocation": (_DEVICE, _NUMBER, _NUMBER),
    "ttmon_report_cb_deallocation": (_DEVICE, _NUMBER, _NUMBER),
    "ttmon_report_kernel_load": (_DEVICE, _NUMBER, _TYPE, _NUMBER),
    "ttmon_report_kernel_unload": (_DEVICE, _NUMBER, _NUMBER),
    "ttmon_report_device_close": (_DEVICE,),
    "ttmon_tag_push": (ctypes.c_char_p,),
    "ttmon_tag_pop": (),
    "ttmon_mark": (),
    "ttmon_memory_allocated": (_DEVICE, _TYPE, _RESULT),
    "ttmon_max_memory_allocated": (_DEVICE, _TYPE, _RESULT),
    "ttmon_reset_peak": (_DEVICE, _TYPE),
    "ttmon_phase_begin": (ctypes.c_char_p,),
    "ttmon_phase_end": (ctypes.c_char_p,),
}


def places():
    """Paths where the library may be, the best first."""
    asked = os.environ.get("TTMON_LIB")
    if asked:
        yield asked if os.path.isfile(asked) else os.path.join(asked, NAME)
    yield os.path.join(os.path.dirname(os.path.abspath(__file__)), NAME)
    yield os.path.join(sys.prefix, "lib", "ttmon", NAME)
    program = shutil.which("ttmon")
    if program:
        folder = os.path.dirname(os.path.realpath(program))
        yield os.path.join(folder, NAME)
        yield os.path.join(os.path.dirname(folder), "lib", "ttmon", NAME)


def libraries():
    """What is in this process already for all to see, by `ttmon run` or ttmon.pth, and so has its ledger; then what can be loaded."""
    for place in [None, *places()]:
        if place is not None and not os.path.isfile(place):
            continue
        try:
            yield ctypes.CDLL(place)
        except OSError:
            continue


def load():
    """The library's functions by name; empty where there is no library that loads."""
    for library in libraries():
        functions = {}
        for name, arguments in FUNCTIONS.items():
            function = getattr(library, name, None)
            if function is not None:
                function.argtypes = arguments
                function.restype = ctypes.c_int32
                functions[name] = function
        if functions:
            return functions
    return {}
