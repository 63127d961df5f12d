"""A decoder, a convolution net and a training loop: every allocation must carry the line that made it.

The functions of ttnn are wrapped; the wrapper notes the caller's line by `sys._getframe` as the tag of what is allocated meanwhile. It has
the file name of an installed package, so that ttmon passes it over as it does ttnn itself.
"""

import ctypes
import sys

import ttnn
from steps import L1, TILE, open_mesh, step

NAMES = "allocate_tensor_on_device matmul softmax relu add multiply subtract to_memory_config conv2d transpose sum typecast concat zeros".split()
WRAPPER = """
def wrapped(function):
    def call(*arguments, **named):
        push(b"line %d" % frame(1).f_lineno)
        try:
            return function(*arguments, **named)
        finally:
            pop()
    return call
"""
library = ctypes.CDLL(None)
space = {"push": library.ttmon_tag_push, "pop": library.ttmon_tag_pop, "frame": sys._getframe}
exec(compile(WRAPPER, "/usr/lib/python3/site-packages/ttmon/wrapper.py", "exec"), space)
for name in NAMES:
    setattr(ttnn, name, space["wrapped"](getattr(ttnn, name)))


def parameter(mesh, *shape):
    return ttnn.allocate_tensor_on_device(ttnn.Shape(shape), ttnn.bfloat16, TILE, mesh, ttnn.DRAM_MEMORY_CONFIG)


class Layer:
    """Attention and a feed-forward part."""

    def __init__(self, mesh):
        self.q, self.k, self.v = (parameter(mesh, 256, 256) for _ in range(3))
        self.up = parameter(mesh, 256, 512)
        self.down = parameter(mesh, 512, 256)

    def attention(self, x):
        q = ttnn.matmul(x, self.q)
        k = ttnn.matmul(x, self.k)
        scores = ttnn.softmax(
            ttnn.matmul(q, ttnn.transpose(k, 0, 1), memory_config=L1),
            dim=-1,
        )
        return ttnn.matmul(scores, ttnn.matmul(x, self.v))

    def __call__(self, x):
        x = ttnn.add(x, self.attention(x))
        hidden = ttnn.relu(ttnn.matmul(x, self.up))
        return ttnn.add(x, ttnn.matmul(hidden, self.down))


def decode(mesh):
    layers = [Layer(mesh) for _ in range(4)]
    cache = []

    def tokens():
        x = parameter(mesh, 64, 256)
        for _ in range(6):
            for layer in layers:
                x = layer(x)
            cache.append(ttnn.typecast(x, ttnn.bfloat8_b))
            yield x

    return sum(1 for _ in tokens())


def convolve(mesh):
    image = ttnn.zeros((1, 1, 64, 32), dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=mesh)
    weights = ttnn.Tensor([0.0] * (32 * 32 * 3 * 3), [32, 32, 3, 3], ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT)
    shape = {"in_channels": 32, "out_channels": 32, "batch_size": 1, "input_height": 8, "input_width": 8}
    for _ in range(3):
        out = ttnn.conv2d(input_tensor=image, weight_tensor=weights, device=mesh, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), **shape)
    return out


def train(mesh):
    weight = parameter(mesh, 256, 256)
    for _ in range(20):
        x = parameter(mesh, 128, 256)
        y = ttnn.matmul(x, weight)
        error = ttnn.subtract(y, x)
        gradient = ttnn.matmul(ttnn.transpose(x, 0, 1), error)
        weight = ttnn.subtract(weight, ttnn.multiply(gradient, 0.01))
    return weight


mesh = open_mesh(l1_small_size=32768)
step("decoder", mesh, lines=decode(mesh) * 40)
convolve(mesh)
step("convolutions", mesh, lines=250)
train(mesh)
step("training", mesh, lines=350)
ttnn.close_mesh_device(mesh)
step("closed")
