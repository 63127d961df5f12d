"""Operations: their outputs, what they take for themselves, and a program cache that is cleared."""

import ttnn
from steps import L1, allocate, open_mesh, sharded, step

mesh = open_mesh(l1_small_size=32768)
a = allocate(mesh, (512, 512))
step("input", mesh)
b = ttnn.matmul(a, a)
step("matmul", mesh)
c = ttnn.matmul(a, b, memory_config=L1)
step("matmul into L1", mesh)
d = ttnn.softmax(c, dim=-1)
step("softmax", mesh)
del c
step("softmax's input gone", mesh)
e = ttnn.to_memory_config(a, sharded((64, 512), (8, 1)))
step("to shards", mesh)
f = ttnn.relu(e)
g = ttnn.add(e, f)
step("relu and add on shards", mesh)
del e, f, g

image = ttnn.zeros((1, 1, 64, 32), dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=mesh)
weights = ttnn.Tensor([0.0] * (32 * 32 * 3 * 3), [32, 32, 3, 3], ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT)
step("image", mesh)
for turn in range(2):
    out = ttnn.conv2d(
        input_tensor=image,
        weight_tensor=weights,
        device=mesh,
        in_channels=32,
        out_channels=32,
        batch_size=1,
        input_height=8,
        input_width=8,
        kernel_size=(3, 3),
        stride=(1, 1),
        padding=(1, 1),
    )
    step(f"conv2d {turn}", mesh)
del out, image
step("what conv2d keeps for its next call", mesh)

x = a
for _ in range(240):
    x = ttnn.relu(x)
step("240 operations in a chain", mesh)
del x, d
h = ttnn.topk(a, 32)
s = ttnn.sum(a, dim=-1)
t = ttnn.transpose(a, 0, 1)
u = ttnn.concat([a, b], dim=0)
v = ttnn.typecast(a, ttnn.bfloat8_b)
w = ttnn.to_layout(a, ttnn.ROW_MAJOR_LAYOUT)
step("several more", mesh)
del h, s, t, u, v, w
step("and gone", mesh)
mesh.clear_program_cache()
step("program cache cleared", mesh)
ttnn.close_mesh_device(mesh)
step("closed with live tensors")
