"""What cleaning will do, and about how long that takes: said before it begins."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from nareg._core.memory import room
from nareg.cleaning._words import number, plural
from nareg.spacetime import LARGEST

#: "fast" leaves out the space-time model and everything that needs it, "thorough" nothing.
Effort: TypeAlias = Literal["fast", "normal", "thorough"]
EFFORTS: tuple[Effort, ...] = get_args(Effort)
#: Seconds of one core are ``SCALE N^STATIONS T^TIMES``, and with dense covariances ``CUBE N^3 T`` more: a third off at most for
#: 9 x 500 to 300 x 1,000 and 36 x 8,759. Without a model they grow with the readings. The least is for what is written.
SCALE, STATIONS, TIMES, CUBE, FAST, LEAST = 6e-4, 1.2, 0.72, 1.2e-9, 3e-6, 1.0
#: And so many times these with effort "thorough": .8 to 1.4 for four jobs up to 140 x 365 and 20 x 8,760.
MORE = 1.2
#: Numbers per station and time that are in memory at once: 360 were for 5 x 40,000 and 420 for 20 x 8,760.
ARRAYS: dict[Effort, int] = {"fast": 20, "normal": 400, "thorough": 400}
#: Longer than so many seconds, it is said what would make it shorter.
PATIENCE = 600

#: What is said of little effort.
LEFT_OUT = (
    "Effort is fast: the best of quick methods is used. No model is fitted, no covariate or series is followed, and no station "
    "is checked, so that only stuck and absurd readings are flagged."
)


def plan(n: int, n_times: int, effort: Effort, parts: int = 1) -> str:
    """The plan for so many stations and times in a sentence or two; directions have two ``parts``.

    Examples
    --------
    >>> plan(7, 2593, "normal")
    '7 stations x 2,593 times: about 3 s.'
    """
    model = SCALE * n**STATIONS * n_times**TIMES + (CUBE * n**3 * n_times if n <= LARGEST else 0.0)
    seconds = LEAST + parts * (FAST * n * n_times if effort == "fast" else model)
    seconds *= MORE if effort == "thorough" else 1
    sentence = f"{plural(n, 'station')} x {plural(n_times, 'time')}: about {_span(seconds)}."
    need, (free, limit) = 8.0 * ARRAYS[effort] * n * n_times, room()
    if need > free:
        sentence += f" That takes about {need / 2**30:.1f} GiB of memory, and {limit}."
    if need > free or seconds > PATIENCE:
        quicker = "" if effort == "fast" else ", or use effort fast, which fits no model"
        sentence += f" Averages over longer steps, or a part of the stations or times, are quicker{quicker}."
    return sentence


def _span(seconds: float) -> str:
    for unit, name in ((3600, "hours"), (60, "minutes")):
        if seconds > 1.5 * unit:
            return f"{number(seconds / unit, 2)} {name}"
    return f"{round(seconds)} s"
