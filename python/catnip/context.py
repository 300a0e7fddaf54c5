"""Socket options with which a program describes its data to the marking host.

Without an agent (`catnip agent start`) the options have no effect and the functions return False:

    catnip.context.document(connection, len(body))
    connection.sendall(body)
"""

import errno
import socket
import struct

LEVEL = 0x4350
"""Level of all these socket options: SOL_CATNIP in crates/agent/include/catnip.h."""
DOCUMENT, CLASS, THRESHOLDS, WEIGHT = 1, 2, 3, 4
_ABSENT = {errno.ENOPROTOOPT, errno.EOPNOTSUPP}


def document(connection: socket.socket, size: int) -> bool:
    """Declares the next `size` bytes written as one document. Returns False without an agent."""
    return _set_option(connection, DOCUMENT, struct.pack("=Q", size))


def service_class(connection: socket.socket, number: int) -> bool:
    """Sets the service class: 1 highly interactive, 2 interactive, 3 other, 0 as the host's policy specifies.

    A user waits for each packet in class 1, for each document in class 2, and for neither in class 3. Raises
    PermissionError if the policy does not allow the class. Returns False without an agent.
    """
    return _set_option(connection, CLASS, struct.pack("=I", number))


def thresholds(connection: socket.socket, high: int, med: int) -> bool:
    """Sets marking by the state of TCP, with thresholds on the window in segments.

    `high` is the largest window whose packets are HIGH, `med` the largest whose packets are at least MED.
    Raises PermissionError if the policy does not allow it. Returns False without an agent.
    """
    return _set_option(connection, THRESHOLDS, struct.pack("=II", high, med))


def weight(connection: socket.socket, priority: int) -> bool:
    """Sets the priority passed to the queue discipline (SO_PRIORITY). Returns False without an agent."""
    return _set_option(connection, WEIGHT, struct.pack("=I", priority))


def _set_option(connection: socket.socket, option: int, value: bytes) -> bool:
    try:
        connection.setsockopt(LEVEL, option, value)
    except OSError as error:
        if error.errno in _ABSENT:
            return False
        raise
    return True
