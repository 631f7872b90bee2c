"""Twenty files in the style of a benchmark of fused modules, and each again: respelled, resized, with functions.

Written for this test; contains no benchmark's text. `FILES` maps a name to (module as a file, the same function respelled).
"""

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"
FILE = (
    HEAD
    + """class Model(nn.Module):
    def __init__(self, {init}):
        super().__init__()
{made}

    def forward(self, x):
{forward}
        return x

{sizes}

def get_inputs():
    return [torch.rand({shape})]

def get_init_inputs():
    return [{values}]
"""
)
LINEAR = ("        self.linear = nn.Linear(a, b)", "a, b", "a = 512\nb = 1024", "64, a", "a, b")
CONV = (
    "        self.conv = nn.Conv2d(a, b, 3, padding=1)",
    "a, b",
    "a = 16\nb = 32\nh = 28",
    "8, a, h, h",
    "a, b",
)
CONV_T = (
    "        self.conv = nn.ConvTranspose2d(a, b, 3, stride=2)",
    "a, b",
    "a = 16\nb = 32\nh = 14",
    "8, a, h, h",
    "a, b",
)


def file(base: tuple[str, ...], steps: str, more: str = "") -> str:
    made, init, sizes, shape, values = base
    first = "x = self.linear(x)" if "linear" in made else "x = self.conv(x)"
    lines = [first, *steps.split("; ")]
    return FILE.format(
        init=init, made=made + "".join(f"\n        {line}" for line in filter(None, more.split("; "))),
        forward="\n".join(f"        {line}" for line in lines), sizes=sizes, shape=shape, values=values,
    )  # fmt: skip


W2 = "w = torch.randn(33, 20); c = torch.randn(33)"
"""For the respelled forms: other sizes, weights as arguments of a function of (x, w, c)."""
FILES: dict[str, tuple[str, str]] = {
    "linear_relu_scale": (file(LINEAR, "x = torch.relu(x); x = x * 2.5"), "(x @ w.t() + c).clamp(min=0) / 0.3"),
    "linear_sigmoid_gate": (file(LINEAR, "x = x * torch.sigmoid(x)"), "F.silu(F.linear(x, w) + c)"),
    "linear_gelu_softmax": (file(LINEAR, "x = F.gelu(x); x = F.softmax(x, dim=1)"), "torch.softmax(nn.GELU()(torch.addmm(c, x, w.t())), -1)"),
    "linear_square_mean": (file(LINEAR, "x = x ** 2; x = x.mean(dim=1)"), "torch.mean(torch.square(x.matmul(w.T) + c), -1)"),
    "linear_tanh_sum": (file(LINEAR, "x = torch.tanh(x); x = x.sum(1, keepdim=True)"), "torch.tanh(F.linear(x, w, c)).sum(-1)"),
    "linear_shift_mish": (file(LINEAR, "x = x + 3.0; x = F.mish(x)"), "(y := F.linear(x, w, c) - 0.2) * torch.tanh(F.softplus(y))"),
    "linear_max_scale": (file(LINEAR, "x = x.max(dim=1).values; x = x * 4"), "torch.amax(c + x @ w.t(), 1) * 0.7"),
    "linear_norm_relu": (file(LINEAR, "x = self.norm(x); x = torch.relu(x)", "self.norm = nn.LayerNorm(b)"),
                         "F.relu(F.layer_norm(F.linear(x, w, c), (33,), torch.ones(33), torch.zeros(33)))"),
    "linear_logsumexp_gelu": (file(LINEAR, "x = torch.logsumexp(x, dim=1); x = F.gelu(x)"), "F.gelu(torch.logsumexp(torch.addmm(c, x, w.t()), 1))"),
    "linear_clip_double": (file(LINEAR, "x = x * 2; x = torch.clamp(x, -1, 1); x = x + x"), "(y := F.hardtanh(F.linear(x, w, c) / 3)) + y"),
    "conv_relu_bias": (file(CONV, "x = torch.relu(x); x = x + self.bias", "self.bias = nn.Parameter(torch.randn(b, 1, 1))"), "F.conv2d(x, w, c).clamp(min=0) + d"),
    "conv_tanh_scale": (file(CONV, "x = torch.tanh(x); x = x * 0.5"), "torch.tanh(F.conv2d(x, w, c, padding=2)) / 4"),
    "conv_silu": (file(CONV, "x = x * torch.sigmoid(x); x = x - 1"), "F.silu(F.conv2d(x, w, c)) + 2"),
    "conv_mean_act": (file(CONV, "x = F.relu(x); x = x.mean(dim=[2, 3])"), "F.adaptive_avg_pool2d(torch.relu(F.conv2d(x, w, c)), 1).flatten(1)"),
    "conv_pool_gelu": (file(CONV, "x = F.max_pool2d(x, 2); x = F.gelu(x)"), "F.gelu(F.max_pool2d(F.conv2d(x, w, c), 3))"),
    "conv_min_tanh": (file(CONV, "x = torch.min(x, dim=1, keepdim=True)[0]; x = torch.tanh(x)"), "torch.amin(F.conv2d(x, w, c), 1).tanh()"),
    "conv_groupnorm": (file(CONV, "x = self.norm(x); x = x * 2", "self.norm = nn.GroupNorm(4, b)"), "F.group_norm(F.conv2d(x, w, c), 3, torch.ones(33), torch.zeros(33)) * 0.1"),
    "deconv_relu_scale": (file(CONV_T, "x = F.relu(x); x = x / 2"), "F.conv_transpose2d(x, v, d.flatten()).clamp(min=0.0) * 3"),
    "deconv_softmax": (file(CONV_T, "x = torch.softmax(x, dim=1); x = torch.sigmoid(x)"), "F.softmax(F.conv_transpose2d(x, v, d.flatten()), 1).sigmoid()"),
    "deconv_add_hardswish": (file(CONV_T, "x = x + 1.5; x = F.hardswish(x)"), "F.hardswish(F.conv_transpose2d(x, v, d.flatten(), stride=3) + 0.25)"),
}  # fmt: skip
