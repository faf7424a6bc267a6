"""A store's client: one server, sentinels or a cluster behind one interface."""
