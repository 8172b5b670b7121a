"""The data of a model that unlearns in memory-mapped files: a folder that is changed in place, by requests as a whole."""
