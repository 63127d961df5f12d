"""ERRNO CALL,CALL,... COMMAND...: runs a command that may make these system calls. Every other one fails with this error."""

import ctypes
import os
import sys

seccomp = ctypes.CDLL("libseccomp.so.2")
seccomp.seccomp_init.restype = ctypes.c_void_p
seccomp.seccomp_rule_add.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int, ctypes.c_uint]
seccomp.seccomp_load.argtypes = [ctypes.c_void_p]
ALLOW = 0x7FFF0000
REFUSE = 0x00050000 | int(sys.argv[1])

context = seccomp.seccomp_init(REFUSE)
for name in sys.argv[2].split(","):
    number = seccomp.seccomp_syscall_resolve_name(name.encode())
    # Those of other architectures have a negative number.
    if number >= 0 and seccomp.seccomp_rule_add(context, ALLOW, number, 0) != 0:
        sys.exit(f"{name}: no rule")
if seccomp.seccomp_load(context) != 0:
    sys.exit("the filter was not loaded")
os.execvp(sys.argv[3], sys.argv[3:])
