"""What model servers send that needs mending or translating on its way."""
