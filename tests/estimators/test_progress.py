"""What a fit tells while it runs, and how it ended."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from nareg.estimators import EdgeDenoiser, NodeAdaptiveDenoiser, SpaceTimeSmoother


class Interrupted(io.StringIO):
    """Somebody presses Ctrl-C while the third line is printed."""

    def write(self, text: str) -> int:
        if self.getvalue().count("\n") == 2:
            raise KeyboardInterrupt
        return super().write(text)


@pytest.mark.slow
@pytest.mark.parametrize("make", [NodeAdaptiveDenoiser, EdgeDenoiser, SpaceTimeSmoother])
def test_a_verbose_fit_prints_and_gives_the_same(make, grid, waves, capsys):
    quiet = make(grid).fit(waves).transform(waves)
    assert capsys.readouterr().out == ""
    np.testing.assert_array_equal(make(grid, verbose=True).fit(waves).transform(waves), quiet)
    assert capsys.readouterr().out.count("\n") > 2


def test_an_interrupted_fit_keeps_the_best_weights_and_says_so(grid, waves):
    """A search would score it as any other."""
    denoiser = EdgeDenoiser(grid, noise=0.25, verbose=True)
    with contextlib.redirect_stdout(Interrupted()), pytest.warns(ConvergenceWarning, match="fit ended early: interrupted"):
        denoiser.fit(waves)
    assert np.isfinite(denoiser.transform(waves)).all()
