"""Files: atomic writes, folders, arrays, sparse matrices and graph folders, read without trust."""
