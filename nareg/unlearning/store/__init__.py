"""The store of a service that forgets: one SQLite file with what remains, the model, and every request."""
