"""Behaviour of the servers of a replay, as its options choose it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Behaviour:
    """Behaviour of all servers of a replay; by default as recorded."""

    protocol: str | None = None
    """Protocol that servers with TLS prefer; None for the recorded one of each origin."""
    congestion: str | None = None
    """Congestion control of servers and commands; None for that of new network namespaces."""
    has_ipv4: bool = True
    """True if hosts with names have IPv4 addresses."""
    has_ipv6: bool = False
    """True if hosts with names have IPv6 addresses."""
    thinks: bool = True
    """True if servers take the recorded time before they respond."""
