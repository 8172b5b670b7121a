"""The store of a model that unlearns: one SQLite file with remaining data, model, and every request."""
