"""The composer's side of the cache's evidence: modes, audits through the pool, decisions kept for explaining."""
