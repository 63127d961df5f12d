"""Other threads than the one that opened the device allocate and free: TT-Metal's own statistics do not see them."""

import threading

import ttnn
from steps import DRAM, L1, allocate, open_mesh, step


def elsewhere(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


mesh = open_mesh()
here = [allocate(mesh, (512, 512))]
step("one by the first thread", mesh, shm="agrees")
there = []
elsewhere(lambda: there.append(allocate(mesh, (1024, 1024))))
step("one by a second thread", mesh, shm="differs")
here.clear()
step("the first one's gone", mesh, shm="differs")
there.clear()
step("the second one's freed by the first thread", mesh)


def churn(number):
    mine = []
    for turn in range(300):
        mine.append(allocate(mesh, (32, 32 * (1 + (turn * 7 + number) % 40)), L1 if turn % 3 else DRAM))
        if turn % 2:
            mine.pop(turn // 3 % len(mine))
        if len(mine) > 40:
            del mine[:20]
    there.append(mine)


threads = [threading.Thread(target=churn, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
step("four threads at once", mesh, shm="differs")
elsewhere(there.clear)
step("all freed in a fifth", mesh)
ttnn.close_mesh_device(mesh)
step("closed")
