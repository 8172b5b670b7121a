"""Progress reports: every ``progress=`` takes a function of one :class:`Progress`.

``progress=print`` prints a line per step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Progress:
    """One report of a running computation.

    Attributes
    ----------
    stage : str
        The current stage, in a few words.
    step : int
        Steps done in this stage: iterations, epochs, runs.
    total : int or None
        Steps of the stage, where that is known.
    fraction : float or None
        Share of the whole call that is done, from 0 to 1, where that is known.
    values : mapping of str to float
        Numbers to watch, by name: ``"objective"``, ``"gradient_norm"`` (relative), ``"loss"``.

    Examples
    --------
    >>> from nareg.progress import Progress
    >>> print(Progress("descent", 12, values={"objective": 0.5, "gradient_norm": 1e-3}))
    descent: step 12, objective 0.5, gradient_norm 0.001
    >>> print(Progress("smoothing", 3, 4, 0.75))
    smoothing: step 3 of 4, 75 %
    """

    stage: str
    step: int = 0
    total: int | None = None
    fraction: float | None = None
    values: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = []
        if self.step or self.total is not None:
            parts.append(f"step {self.step}" + ("" if self.total is None else f" of {self.total}"))
        if self.fraction is not None:
            parts.append(f"{self.fraction:.0%}".replace("%", " %"))
        parts += [f"{name} {value:.6g}" for name, value in self.values.items()]
        return f"{self.stage}: {', '.join(parts)}" if parts else self.stage


#: What ``progress=`` takes. Raising KeyboardInterrupt in it stops the computation, which keeps its best result.
ProgressCallback = Callable[[Progress], None]
