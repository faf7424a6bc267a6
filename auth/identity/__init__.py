"""Who asks: keys, where they are kept, and how a request's headers become a principal."""
