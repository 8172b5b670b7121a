"""Filter systems on torch: NumPy arrays or tensors in and out, on the CPU or on CUDA, with gradients."""

from nareg._solvers._torch._engines import TorchEngines

__all__ = ["TorchEngines"]
