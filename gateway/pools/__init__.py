"""The pools of a deployment as they are to be, and one watch over their servers a host."""
