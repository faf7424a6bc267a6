"""Starting model servers for a try-out and for tests; production brings its own."""
