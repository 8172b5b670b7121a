"""
Clean readings in a scikit-learn pipeline
=========================================

A yearly cycle is removed, the rest is denoised with the graph, and the cycle is put back. Blocks of time judge the choice of
the design.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.model_selection import GridSearchCV

import nareg
from nareg.estimators import NodeAdaptiveDenoiser, SeasonallyAdjusted, TimeBlockSplit

network = nareg.datasets.load("us-weather").complete()
dates = pd.DatetimeIndex(network.times)
clean = pd.DataFrame(network.signals.T, index=dates, columns=list(network.names))  # rows are times
X = clean + 3.0 * np.random.default_rng(0).standard_normal(clean.shape)  # noise of 3 °C

adjusted = SeasonallyAdjusted(NodeAdaptiveDenoiser(network.graph))
search = GridSearchCV(adjusted, {"estimator__design": ["gcv", "sure", "blind"]}, cv=TimeBlockSplit(4))
search.fit(X)
results = pd.DataFrame(search.cv_results_)[["param_estimator__design", "mean_test_score"]]
print(results)

# %%
x = search.transform(X)
print(f"error {np.sqrt(((X - clean) ** 2).to_numpy().mean()):.2f} °C before, ", end="")
print(f"{np.sqrt(np.mean((np.asarray(x) - clean.to_numpy()) ** 2)):.2f} °C after")

figure, ax = plt.subplots(figsize=(9, 3.4))
ax.plot(dates, X.iloc[:, 40], ".", color="0.6", label="readings")
ax.plot(dates, np.asarray(x)[:, 40], color="#0072B2", label="denoised")
ax.plot(dates, clean.iloc[:, 40], "--", color="black", linewidth=1, label="truth")
ax.set_ylabel(f"{network.names[40]} (°C)")
ax.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))
figure.tight_layout()
