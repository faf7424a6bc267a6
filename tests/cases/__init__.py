"""Troubles that users of other gateways and caches have reported, tried on this one through its public doors."""
