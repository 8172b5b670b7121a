"""The store of a model that unlearns: a folder of tables with remaining data, model and every request."""
