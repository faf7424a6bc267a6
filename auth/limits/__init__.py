"""How much a principal may: buckets, where they are kept, and what happens without the store."""
