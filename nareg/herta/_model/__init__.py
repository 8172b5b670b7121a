"""The unfolded network as a system of equations: H = I + lam L, features, the map from weights to outputs, losses."""
