"""Public sources of data sets: where they are, how they are downloaded, and how they become prepared files."""
