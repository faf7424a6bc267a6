"""What the cache keeps in its store: how entries are written, found, sealed, counted, looked through and removed."""
