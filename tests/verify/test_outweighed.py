"""Keys whose weights are small individually, but not together."""

from collections.abc import Sequence

import pytest
import torch

from kernelwright.verify.reference.outweighed import outweigh


def attend(inputs: Sequence[torch.Tensor], keys: slice = slice(None)) -> torch.Tensor:
    q, k, v = (one.double() for one in inputs)
    return (q @ k[:, keys].mT / q.shape[-1] ** 0.5).softmax(-1) @ v[:, keys]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("length", [20, 600])
def test_a_sink_outweighs_each_other_key_and_their_sum_is_half_of_the_output(
    dtype: torch.dtype, length: int
) -> None:
    drawn = [torch.randn(2, length, 16).to(dtype) for _ in range(3)]
    made = outweigh(drawn, lambda inputs: [attend(inputs)], 5)  # type: ignore[arg-type]
    q, k, _ = (one.double() for one in made)
    scores = q @ k.mT / 4.0
    assert float((scores[..., 0] - scores[..., 1:].amax(-1)).min()) > torch.log(torch.tensor(length)) + 2.5
    whole, sink = attend(made), attend(made, slice(1))
    assert float((whole - sink).abs().median()) > 0.3 * float(whole.abs().median())
