"""What a program tells its marking host of what it writes, as options of a TCP socket.

Without an agent (`catnip agent start`) they do nothing and return False, so that nothing else is needed:

    catnip.context.document(connection, len(body))
    connection.sendall(body)
"""

import errno
import socket
import struct

LEVEL = 0x4350
"""Of all these options, as crates/agent/include/catnip.h has it."""
DOCUMENT, CLASS, THRESHOLDS, WEIGHT = 1, 2, 3, 4
_ABSENT = {errno.ENOPROTOOPT, errno.EOPNOTSUPP}


def document(connection: socket.socket, size: int) -> bool:
    """The next `size` bytes that are written are one document. False without an agent."""
    return _tell(connection, DOCUMENT, struct.pack("=Q", size))


def service_class(connection: socket.socket, number: int) -> bool:
    """Who waits: 1 somebody for each packet, 2 for each document, 3 nobody, 0 as the host's policy says.

    Raises PermissionError beyond what the policy allows. False without an agent.
    """
    return _tell(connection, CLASS, struct.pack("=I", number))


def thresholds(connection: socket.socket, high: int, med: int) -> bool:
    """Marks by the state of TCP: the largest windows whose packets are HIGH, and MED at least, segments.

    Raises PermissionError beyond what the policy allows. False without an agent.
    """
    return _tell(connection, THRESHOLDS, struct.pack("=II", high, med))


def weight(connection: socket.socket, priority: int) -> bool:
    """The priority that the queue discipline is told (SO_PRIORITY). False without an agent."""
    return _tell(connection, WEIGHT, struct.pack("=I", priority))


def _tell(connection: socket.socket, option: int, value: bytes) -> bool:
    try:
        connection.setsockopt(LEVEL, option, value)
    except OSError as error:
        if error.errno in _ABSENT:
            return False
        raise
    return True
