"""Utility: how close a model is to the one that was trained from nothing."""

from __future__ import annotations

import numpy as np

from nareg.errors import InputError


def accuracy(logits: np.ndarray, labels: np.ndarray, classes: np.ndarray) -> float:
    """Share of rows (K, C) whose largest logit is that of the label (K,)."""
    return float((classes[logits.argmax(axis=1)] == labels).mean())


def fidelity(logits: np.ndarray, reference: np.ndarray) -> float:
    """Share of rows for which both have the same largest logit."""
    return float((logits.argmax(axis=1) == reference.argmax(axis=1)).mean())


def logit_distance(logits: np.ndarray, reference: np.ndarray) -> float:
    """Mean over rows of the L2 distance."""
    return float(np.linalg.norm(logits - reference, axis=1).mean())


def logit_scale(reference: np.ndarray) -> float:
    """Mean length of the reference's logits around their mean per node: what a distance is compared with.

    A constant that is added to all logits of a node changes no probability, so it is left out.
    """
    return float(np.linalg.norm(reference - reference.mean(axis=1, keepdims=True), axis=1).mean())


def weight_distance(weights: np.ndarray | None, reference: np.ndarray | None) -> dict[str, float]:
    """L2 distance, cosine, and L2 distance over the norm of the reference; empty without weights of both.

    Raises
    ------
    InputError
        If the models have different numbers of weights.
    """
    if weights is None or reference is None:
        return {}
    if weights.shape != reference.shape:
        raise InputError(f"the model has {weights.size} weights and the retrained one {reference.size}: pass the same kind.")
    distance, lengths = float(np.linalg.norm(weights - reference)), (np.linalg.norm(weights), np.linalg.norm(reference))
    product = float(lengths[0] * lengths[1])
    return {
        "l2": distance,
        "cosine": float(weights @ reference) / product if product else float("nan"),
        "relative": distance / float(lengths[1]) if lengths[1] else float("nan"),
    }
