"""What keys, services and tenants have used."""
