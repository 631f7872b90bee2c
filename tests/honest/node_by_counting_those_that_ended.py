# task: honest/tasks/rows_of_edges
# expect: correct
# why: an index that is made of comparisons, how many hold: on made-up values it may lie behind the table
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def edge_kernel(
    x_ptr, end_ptr, weight_ptr, out_ptr, edges, nodes, features, EDGES: tl.constexpr, NODES: tl.constexpr, BLOCK: tl.constexpr
):
    edge = tl.program_id(0) * EDGES + tl.arange(0, EDGES)
    node = tl.arange(0, NODES)
    end = tl.load(end_ptr + node, mask=node < nodes, other=edges + 1)
    ended = tl.sum((end[None, :] <= edge[:, None]).to(tl.int32), axis=1)
    at = tl.arange(0, BLOCK)
    inside = (edge[:, None] < edges) & (at[None, :] < features)
    row = (ended)[:, None].to(tl.int64)
    x = tl.load(x_ptr + row * features + at[None, :], mask=inside, other=0.0)
    weight = tl.load(weight_ptr + edge, mask=edge < edges, other=0.0)
    tl.store(out_ptr + edge[:, None].to(tl.int64) * features + at[None, :], x * weight[:, None], mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, end, weight):
        nodes, features = x.shape
        edges = weight.shape[0]
        out = torch.empty((edges, features), dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(edges, 16),)
        edge_kernel[grid](
            x, end, weight, out, edges, nodes, features, EDGES=16,
            NODES=triton.next_power_of_2(nodes), BLOCK=triton.next_power_of_2(features),
        )
        return out
