"""Graph signal processing: the graph Fourier transform and filter banks.

The frequencies of a graph are the eigenvalues of its Laplacian, and its Fourier basis holds the eigenvectors. A filter bank
is a list of kernels ``g_f``: it maps a signal ``y`` to the signals ``g_f(L) y``. Definitions are those of PyGSP.
"""

from nareg.spectral._bank import FilterBank
from nareg.spectral._basis import FourierBasis, fourier_basis, gft, igft
from nareg.spectral._kernels import gabor, heat, itersine, mexican_hat, meyer

__all__ = [
    "FilterBank",
    "FourierBasis",
    "fourier_basis",
    "gabor",
    "gft",
    "heat",
    "igft",
    "itersine",
    "mexican_hat",
    "meyer",
]
