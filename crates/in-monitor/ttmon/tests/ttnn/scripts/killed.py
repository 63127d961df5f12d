"""Dies of SIGKILL with tensors on the device: TT-Metal's own statistics keep them for ever."""

import os
import signal

from steps import L1, allocate, open_mesh, step

mesh = open_mesh()
kept = [allocate(mesh, (1024, 1024)), allocate(mesh, (64, 64), L1)]
step("alive", mesh, shm="agrees", killed=True)
os.kill(os.getpid(), signal.SIGKILL)
