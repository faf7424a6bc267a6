"""Which network addresses are never connected to: those where clouds hand out the machine's own credentials."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

# Link-local, and the metadata services that are elsewhere (AWS over IPv6, Alibaba, Oracle's old one).
DENIED_NETWORKS = ("169.254.0.0/16", "fe80::/10", "fd00:ec2::254/128", "100.100.100.200/32", "192.0.0.192/32")

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class DeniedAddress(OSError):
    """Raised in place of connecting."""


class AddressRule:
    """`allowed` networks are exceptions from the denied ones."""

    def __init__(self, *, denied: Iterable[str] = DENIED_NETWORKS, allowed: Iterable[str] = ()) -> None:
        self._denied = [ipaddress.ip_network(network) for network in denied]
        self._allowed = [ipaddress.ip_network(network) for network in allowed]

    def permits(self, address: str) -> bool:
        """Of a numeric address, as a name was resolved to. An IPv4 address inside an IPv6 one counts as itself."""
        ip = ipaddress.ip_address(address.partition("%")[0])
        if isinstance(ip, ipaddress.IPv6Address):
            ip = ip.ipv4_mapped or ip.sixtofour or _behind_nat64(ip) or ip
        if any(ip in network for network in self._allowed):
            return True
        return not any(ip in network for network in self._denied)


def _behind_nat64(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None
