"""A user's program with scikit-learn and torch. No line runs: mypy checks what each call returns."""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import torch

import nareg
from nareg import datasets, estimators, filters, gnn, results, unlearning


def estimate(graph: nareg.Graph, X: np.ndarray) -> np.ndarray:
    denoiser = estimators.NodeAdaptiveDenoiser(graph, noise=0.1)
    assert_type(denoiser, estimators.NodeAdaptiveDenoiser)
    assert_type(denoiser.fit(X), estimators.NodeAdaptiveDenoiser)
    assert_type(denoiser.design_, results.WeightDesign)
    assert_type(denoiser.score(X), float)
    assert_type(estimators.EdgeDenoiser(graph).fit(X), estimators.EdgeDenoiser)
    assert_type(estimators.GraphInterpolator(graph).fit(X), estimators.GraphInterpolator)
    assert_type(estimators.SpaceTimeSmoother(graph).fit(X), estimators.SpaceTimeSmoother)
    return denoiser.fit(X).means_


def layers(x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
    layer = gnn.NodeAdaptiveConv(16, 4)
    assert_type(layer, gnn.NodeAdaptiveConv)
    assert_type(layer.forward(x, edge_index), torch.Tensor)
    assert_type(gnn.NGC(16, 4).forward(x, edge_index), torch.Tensor)
    return layer.forward(x, edge_index)


def tensors(graph: nareg.Graph, y: torch.Tensor) -> results.Solution:
    return filters.denoise(graph, 0.5, y)


def forget(data: datasets.NodeClassification) -> unlearning.Certificate:
    model = unlearning.CertifiedGPR(rng=np.random.default_rng(0))
    assert_type(model.fit(data.graph, data.features, data.labels, [0, 1]), unlearning.CertifiedGPR)
    assert_type(model.decision(), np.ndarray)
    assert_type(unlearning.CertifiedGPR.load("model.npz"), unlearning.CertifiedGPR)
    assert_type(model.remove_edges([(0, 1)]), unlearning.Certificate)
    return model.certificate()


def misspell() -> Any:
    estimators.EdgeDenoisr  # type: ignore[attr-defined]  # noqa: B018
    return gnn.NodeAdaptivConv  # type: ignore[attr-defined]
