"""
Constraints on the convex programs
==================================

Four constraints on 15 stations in and near California: equal weights in groups, a bounded error at every station, no smoothing
at some stations, and a promised number of rounds.
"""

import matplotlib.pyplot as plt
import numpy as np

import nareg
from nareg.design import programs

network = nareg.datasets.load("us-weather").complete()
latitude, longitude = network.graph.coordinates.T
network = network.select(np.flatnonzero((longitude < -117) & (latitude < 43)))
graph, field = network.graph, network.signals - network.signals.mean()
noise = 25.0  # variance, °C^2
year = np.std(field, axis=1)  # °C
coast = np.flatnonzero(year < 5)  # the sea evens out the year
inland = np.flatnonzero(year >= 5)


def station_error(design):
    """Expected error at every station, °C: bias and remaining noise."""
    bias = nareg.filters.denoise(graph, design, field).x - field
    return np.sqrt(np.mean(bias**2, axis=1) + nareg.filters.uncertainty(graph, design, noise=noise) ** 2)


def share(design):
    """Expected error over signal power."""
    return nareg.design.risk(graph, design, signals=field, noise=noise).nmse


# %%
# Equal weights in groups
# -----------------------
# One weight for the coast and one for inland stations have most of the gain of 15 weights.
program = programs.filter_step(graph, signals=field, noise=noise, lower=0.0)
for group in (coast, inland):
    program.add(program.w2[group] == program.w2[group[0]])
two = program.solve()
one = nareg.design.node_invariant(graph, rule="oracle", signals=field, noise=noise)
free = nareg.design.exact(graph, signals=field, noise=noise)

figure, ax = plt.subplots(figsize=(6, 3.6))
ax.plot(year, free.weights, "o", label=f"15 weights: {share(free):.3f}")
ax.plot(year, two.weights, "s", fillstyle="none", label=f"two weights: {share(two):.3f}")
ax.axhline(one.weights[0], color="gray", linewidth=1, label=f"one weight: {share(one):.3f}")
ax.set(xlabel="standard deviation over the year (°C)", ylabel="weight w", ylim=(0, None))
ax.legend(title="expected error over signal power")
figure.tight_layout()
print("coast, inland:", np.round(two.weights[[coast[0], inland[0]]], 2))

# %%
# A bounded error at every station
# --------------------------------
# The smallest total error leaves one station in the mountains at 4.6 °C. A bound of 4.2 °C holds everywhere; others pay.
program = programs.filter_step(graph, signals=field, noise=noise, lower=0.0)
bounded = program.add(program.error <= 4.2**2).solve()

order = np.argsort(station_error(free))
figure, ax = plt.subplots(figsize=(6, 4.2))
ax.plot(station_error(free)[order], range(order.size), "o", label="no bound")
ax.plot(station_error(bounded)[order], range(order.size), "s", fillstyle="none", label="with the bound")
ax.axvline(4.2, color="gray", linewidth=1)
ax.set_yticks(range(order.size), [graph.names[i].title() for i in order], fontsize=7)
ax.set(xlabel="expected error (°C)")
ax.legend()
figure.tight_layout()
print(f"largest error: {station_error(free).max():.2f} and {station_error(bounded).max():.2f} °C")
print(f"error over signal power: {share(free):.4f} and {share(bounded):.4f}")

# %%
# No smoothing at some stations
# -----------------------------
# Stations on the coast have weight zero. They keep their readings and send nothing. Of the others, Paso Robles loses most.
program = programs.filter_step(graph, signals=field, noise=noise, lower=0.0)
sparse = program.add(program.w2[coast] == 0).solve().weights

figure, axes = plt.subplots(1, 2, figsize=(6.4, 4.6), layout="constrained")
for ax, w, title in zip(axes, (free.weights, sparse), ("all stations smooth", "inland stations smooth"), strict=True):
    shown = np.where(w == 0, np.nan, station_error(w))
    nareg.plotting.network(graph, shown, ax=ax, label="expected error (°C)", limits=(1.9, 4.6), colorbar=ax is axes[1])
    ax.set_title(title)
    solution = nareg.filters.denoise(graph, w, field[:, 0], method="jacobi")
    print(f"{title}: {solution.messages // solution.rounds} messages per round")
change = station_error(sparse) - station_error(free)
print("coast:", np.round(station_error(sparse)[coast], 2), "°C")
for i in inland[np.argsort(-change[inland])]:
    print(f"{graph.names[i].title()}: {change[i]:+.2f} °C")

# %%
# A promised number of rounds
# ---------------------------
# At a rate of 0.5 every Jacobi round leaves at most half of the distance to the final estimate. A promise is ahead after two
# rounds and behind after twelve. The paper's condition for its recursion (19) excludes large weights: rate 0.5 of Jacobi ends
# with less error.
noisy = field + np.sqrt(noise) * np.random.default_rng(0).standard_normal(field.shape)
rounds = np.arange(1, 13)
choices = (
    ("no promise", None, None, "jacobi", "o-"),
    ("Jacobi, 0.5", programs.jacobi, 0.5, "jacobi", "s-"),
    ("Jacobi, 0.3", programs.jacobi, 0.3, "jacobi", "^-"),
    ("recursion (19), 0.9", programs.recursion, 0.9, "recursion", "v--"),
)
figure, ax = plt.subplots(figsize=(6, 3.6))
for name, promise, rate, method, style in choices:
    program = programs.prony(graph, signals=field, noise=noise, lower=0.02)
    if promise:
        program.add(*promise(program, rate))
    design = program.solve()
    estimates = [nareg.filters.denoise(graph, design, noisy, method=method, max_iterations=k).x for k in rounds]
    errors = [np.sqrt(np.mean((x - field) ** 2)) for x in estimates]
    ax.plot(rounds, errors, style, label=name)
    print(f"{name}: {errors[1]:.2f} °C after 2 rounds, {errors[-1]:.2f} °C after {rounds[-1]}")
ax.set(xlabel="rounds", ylabel="error (°C)")
ax.legend()
figure.tight_layout()
