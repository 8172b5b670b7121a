"""The stores of a model that unlearns: one SQLite file, or a folder of memory-mapped files that requests change in place."""
