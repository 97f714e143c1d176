"""One file a logical operation; each lists its operations in `OPERATIONS`."""
