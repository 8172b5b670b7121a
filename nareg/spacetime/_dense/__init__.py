"""The engine of dense covariances: a Kalman filter and smoother over all stations."""
