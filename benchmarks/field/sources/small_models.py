"""Models of mambapy and rtdl-revisiting-models, and dense layers of torch-geometric."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

from field.sources import Build


def _mamba(where: str, config: str, name: str, **given: Any) -> Build:
    def build() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        module = import_module(f"mambapy.{where}")
        made = getattr(module, name)(getattr(module, config)(**given))
        return made, (torch.randn(1, 32, given["d_model"]),), {}

    return build


def _tabular(name: str, *inputs: torch.Tensor, **given: Any) -> Build:
    def build() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        return getattr(import_module("rtdl_revisiting_models"), name)(**given), inputs, {}

    return build


def _transformer() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    cls = import_module("rtdl_revisiting_models").FTTransformer
    made = cls(n_cont_features=12, cat_cardinalities=[4, 9], d_out=2, **cls.get_default_kwargs(n_blocks=2))
    return made, (torch.randn(32, 12), torch.randint(0, 4, (32, 2))), {}


def _dense(name: str, *more: torch.Tensor, **given: Any) -> Build:
    def build() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        adjacency = (torch.rand(4, 40, 40) > 0.8).float()
        layer = getattr(import_module("torch_geometric.nn"), name)(**given)
        return layer, (torch.randn(4, 40, 64), adjacency, *more), {}

    return build


def _gin() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    nn = import_module("torch_geometric.nn")
    perceptron = nn.MLP([64, 128, 64], norm=None)
    return nn.DenseGINConv(perceptron), (torch.randn(4, 40, 64), (torch.rand(4, 40, 40) > 0.8).float()), {}


def _plain(name: str, *inputs: torch.Tensor, **given: Any) -> Build:
    def build() -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
        return getattr(import_module("torch_geometric.nn"), name)(**given), inputs, {}

    return build


_ends = {"in_channels": 64, "out_channels": 96}

MODELS: dict[str, dict[str, Build]] = {
    "mambapy": {
        "mamba": _mamba("mamba", "MambaConfig", "Mamba", d_model=256, n_layers=1, pscan=False),
        "mamba_pscan": _mamba("mamba", "MambaConfig", "Mamba", d_model=128, n_layers=1, pscan=True),
        "mamba_norms": _mamba(
            "mamba", "MambaConfig", "Mamba", d_model=192, n_layers=1, pscan=False, inner_layernorms=True, mup=False
        ),
    },
    "rtdl_revisiting_models": {
        "MLP": _tabular("MLP", torch.randn(64, 20), d_in=20, d_out=2, n_blocks=2, d_block=384, dropout=0.1),
        "ResNet": _tabular(
            "ResNet", torch.randn(64, 20), d_in=20, d_out=2, n_blocks=2, d_block=192, d_hidden=None,
            d_hidden_multiplier=2.0, dropout1=0.15, dropout2=0.0,
        ),
        "FTTransformer": _transformer,
    },
    "torch_geometric": {
        "DenseGCNConv": _dense("DenseGCNConv", **_ends),
        "DenseSAGEConv": _dense("DenseSAGEConv", normalize=True, **_ends),
        "DenseGraphConv": _dense("DenseGraphConv", **_ends),
        "DenseGATConv": _dense("DenseGATConv", heads=4, **_ends),
        "DenseGINConv": _gin,
        "DMoNPooling": _dense("DMoNPooling", channels=64, k=8),
        "MLP": _plain("MLP", torch.randn(100, 64), channel_list=[64, 128, 32]),
        "BatchNorm": _plain("BatchNorm", torch.randn(100, 64), in_channels=64),
        "GraphNorm": _plain("GraphNorm", torch.randn(100, 64), in_channels=64),
        "PairNorm": _plain("PairNorm", torch.randn(100, 64)),
        "DiffGroupNorm": _plain("DiffGroupNorm", torch.randn(100, 64), in_channels=64, groups=4),
    },
}  # fmt: skip
