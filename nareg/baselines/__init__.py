"""What a user would compare with: kernel ridge, total variation, band-limited least squares, LMMSE."""

from nareg.baselines.bandlimited import bandlimited
from nareg.baselines.kernel_ridge import kernel_ridge
from nareg.baselines.lmmse import lmmse
from nareg.baselines.total_variation import total_variation

__all__ = ["bandlimited", "kernel_ridge", "lmmse", "total_variation"]
