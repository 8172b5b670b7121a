"""Which method suits: three questions that end in code, as the page "Choose a method" answers them."""

from __future__ import annotations

from typing import Any

#: Each question has answers; an answer leads to the next question or to an advice, by name.
QUESTIONS: dict[str, dict[str, Any]] = {
    "time": {
        "text": "Do the readings of a station follow each other in time?",
        "answers": [["Yes, 10 times or more", "clean"], ["No, single snapshots", "known"]],
    },
    "known": {
        "text": "What do you know besides the readings?",
        "answers": [
            ["Nothing", "gcv"],
            ["The noise variance", "neighbors-noise"],
            ["The noise variance, and a clean history", "neighbors-history"],
        ],
    },
    "neighbors-noise": {
        "text": "May a station compute with its neighbors only?",
        "answers": [["Yes, neighbors only", "blind"], ["No, and I have coordinates", "kriging"]],
    },
    "neighbors-history": {
        "text": "May a station compute with its neighbors only?",
        "answers": [["Yes, or N is large", "edge"], ["No, any station may talk to any other", "lmmse"]],
    },
}

_OPEN = """import nareg

stations = nareg.io.read_stations("stations.csv")
table = nareg.io.read_readings("readings.csv", stations)
places = [stations.names.index(name) for name in table.names]
coordinates = stations.coordinates[places]
graph = nareg.Graph.from_knn(coordinates, 7, metric=stations.metric)
"""
_CENTER = """mean = table.values.mean()  # no gaps here: see the guide "Denoise readings"
y = table.values - mean
"""
_HISTORY = """half = y.shape[1] // 2
past, new = y[:, :half], y[:, half:]  # past: clean history, in the place of yours
"""


_NOISE = "noise = 1.0  # variance of the readings' noise: yours\n"

#: Title, reason and code of each advice.
ADVICE: dict[str, dict[str, str]] = {
    "clean": {
        "title": "The space-time model: nareg clean",
        "why": "Readings before and after are worth more than any weights. It needs no option, and names the bad sensors.",
        "code": "import nareg\n\n"
        'cleaned = nareg.clean("readings.csv", "stations.csv")\n'
        "print(cleaned.summary())\n"
        'cleaned.save("clean")  # clean.csv, std.csv, flags.csv, report.html\n',
    },
    "gcv": {
        "title": "One weight, by generalized cross-validation",
        "why": "It needs neither the noise variance nor a history.",
        "code": f'{_OPEN}{_CENTER}weight = nareg.design.node_invariant(graph, rule="gcv", measurements=y)\n'
        "x = nareg.filters.denoise(graph, weight, y).x + mean\n",
    },
    "blind": {
        "title": "Node weights from noisy readings: blind",
        "why": "Given 30 readings per station and more, edge(measurements=...) is at least as good.",
        "code": f"{_OPEN}{_CENTER}{_NOISE}weights = nareg.design.blind(graph, measurements=y, noise=noise)\n"
        "x = nareg.filters.denoise(graph, weights, y).x + mean\n",
    },
    "kriging": {
        "title": "Kriging",
        "why": "With coordinates it is better than blind in 20 of 30 cases. It estimates the noise itself, and fills gaps.",
        "code": _OPEN + "x = nareg.baselines.kriging(graph, table.values, metric=stations.metric).x\n",
    },
    "edge": {
        "title": "Edge weights: edge",
        "why": "It uses neighbors only, and lies 7 % above the Wiener filter in the middle of all cases.",
        "code": f"{_OPEN}{_CENTER}{_HISTORY}{_NOISE}weights = nareg.design.edge(graph, signals=past, noise=noise)\n"
        "x = nareg.filters.denoise(graph, weights, new).x + mean\n",
    },
    "lmmse": {
        "title": "The Wiener filter: lmmse",
        "why": "It is the best linear filter if the history is typical. It needs a dense matrix of N times N.",
        "code": f"{_OPEN}{_CENTER}{_HISTORY}{_NOISE}x = nareg.baselines.lmmse(graph, new, signals=past, noise=noise) + mean\n",
    },
}
