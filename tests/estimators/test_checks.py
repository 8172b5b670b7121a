"""scikit-learn's own checks. What fails by design is named, with its reason."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from nareg.estimators import (
    EdgeDenoiser,
    GraphInterpolator,
    NodeAdaptiveDenoiser,
    SeasonalCycleRemover,
    SeasonallyAdjusted,
    SpaceTimeSmoother,
)

#: The checks score against class labels (n_samples,).
SCORE = dict.fromkeys(
    ("check_fit_score_takes_y", "check_pipeline_consistency", "check_array_api_input"),
    "score compares with a clean field of the shape of X; the check passes one label per sample, which is refused",
)
#: The checks expect each row's result whatever the rows before and after.
ORDER = dict.fromkeys(
    ("check_methods_sample_order_invariance", "check_methods_subset_invariance"),
    "a smoother estimates each time from the times before and after",
)


def expected_failures(estimator) -> dict[str, str]:
    if isinstance(estimator, SpaceTimeSmoother):
        return SCORE | ORDER
    return {} if isinstance(estimator, SeasonalCycleRemover) else SCORE


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::nareg.errors.DegenerateFitWarning")  # the checks' data are noise, or constant
@parametrize_with_checks(
    [
        NodeAdaptiveDenoiser(),
        NodeAdaptiveDenoiser(design="gcv"),
        EdgeDenoiser(),
        GraphInterpolator(),
        GraphInterpolator(weights=0.5),
        SeasonalCycleRemover(),
        SeasonallyAdjusted(),
        SpaceTimeSmoother(),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "estimator", [NodeAdaptiveDenoiser(), EdgeDenoiser(), GraphInterpolator(), SeasonallyAdjusted(), SpaceTimeSmoother()],
    ids=lambda e: type(e).__name__,
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::nareg.errors.DegenerateFitWarning")
def test_labels_in_the_place_of_a_field_are_refused_and_not_misread(estimator, waves):
    """The reason of the expected failures."""
    estimator.fit(waves, waves[:, 0])  # ignored
    with pytest.raises(ValueError, match=r"y has shape \(40,\) but X has \(40, 9\)"):
        estimator.score(waves, waves[:, 0])
