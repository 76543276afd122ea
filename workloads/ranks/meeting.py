"""Meeting places of hosts: this one's addresses, a free port, and the other hosts that it reaches.

A name by which one host is known says little about how others reach it: it may stand for loopback
there, or be an alias of one user's ssh. So each host listens on a port that is free, the others
try its addresses, and the first address that answers is used. The port is free again when this
process ends, and torchrun takes it.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from workloads.protocol import process
from workloads.protocol.process import Channel

TRY_S = 3.0
"""Seconds for one address to answer."""
_SIOCGIFADDR = 0x8915  # linux/sockios.h
_IFREQ = 40  # sizeof(struct ifreq)
_ADDRESS = slice(20, 24)
"""Bytes of the IPv4 address in a ``struct ifreq`` with a ``struct sockaddr_in``."""
_GLOBAL = "00"
"""Scope of an address in /proc/net/if_inet6 that is valid beyond its link."""


@dataclass(frozen=True, slots=True)
class MeetingPlace:
    """Event: this host listens on a port."""

    port: int
    token: str
    """The text that a visitor receives: another host may have the same address, such as a
    bridge's."""
    interfaces: dict[str, str]
    """Network interfaces by their addresses, the most likely address first."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Request: find out at which address this host reaches another."""

    host: str
    """Name of the other host, for the answer."""
    port: int
    token: str
    addresses: tuple[str, ...]
    """Addresses to try, in this order."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Event: the answer to :class:`Reach`."""

    host: str
    address: str
    """The other host's address that answered; empty if none did."""
    own: str
    """This host's address on that connection; empty if none."""
    reason: str
    """Why none answered; empty if one did."""


def serve(reading: int, writing: int) -> int:
    """Listen, and answer requests until they end.

    Args:
        reading: descriptor of the requests.
        writing: descriptor of the events.

    Returns:
        The exit code: 1 if this host can listen on no port.
    """
    channel = Channel(reading, writing, (Reach,))
    token = secrets.token_hex(16)
    try:
        listening = _listen()
    except OSError as error:
        print(f"no free port to meet at: {error}", file=sys.stderr)  # noqa: T201 (the reason)
        return 1
    with listening:
        threading.Thread(target=_greet, args=(listening, token), daemon=True).start()
        port = listening.getsockname()[1]
        channel.send(MeetingPlace(port, token, find_interfaces()))
        while not channel.ended:
            for request in channel.receive(None):
                assert isinstance(request, Reach)
                channel.send(reach(request))
    return 0


def _listen() -> socket.socket:
    """Return a socket that listens on a free port of every address, of IPv6 too where it is."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", 0))


def _greet(listening: socket.socket, token: str) -> None:
    """Send the token to each visitor, until the socket is closed."""
    while True:
        try:
            visitor, _ = listening.accept()
        except OSError:
            return
        with visitor:
            visitor.settimeout(TRY_S)
            try:
                visitor.sendall(token.encode())
                # The visitor closes first: then no closed connection is left on this port.
                visitor.recv(1)
            except OSError:
                continue


def reach(request: Reach) -> Reached:
    """Try the addresses of another host until one answers."""
    reasons = []
    for address in request.addresses:
        try:
            with socket.create_connection((address, request.port), timeout=TRY_S) as connection:
                token = _read(connection, len(request.token))
                own = str(connection.getsockname()[0]).removeprefix("::ffff:")
        except OSError as error:
            reasons.append(f"{address}: {error.strerror or error}")
            continue
        if token == request.token:
            return Reached(request.host, address, own, "")
        reasons.append(f"{address}: another host answers there")
    return Reached(request.host, "", "", "; ".join(reasons) or "it has no address but loopback")


def _read(connection: socket.socket, count: int) -> str:
    data = b""
    while len(data) < count:
        chunk = connection.recv(count - len(data))
        if not chunk:
            break
        data += chunk
    return data.decode("ascii", "replace")


def find_interfaces() -> dict[str, str]:
    """Return the network interfaces by their addresses, the most likely address first.

    First comes the address that ssh was called at, then those of the host's own name; loopback and
    addresses that are valid on one link alone are left out.
    """
    interfaces = dict(_addresses())
    called_at = os.environ.get("SSH_CONNECTION", "").split(" ")[2:3]
    try:
        named = [str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None)]
    except OSError:
        named = []
    order = [address for address in (*called_at, *named, *interfaces) if address in interfaces]
    return {address: interfaces[address] for address in dict.fromkeys(order)}


def _addresses() -> Iterable[tuple[str, str]]:
    """Yield the addresses of this host with their interfaces, without loopback; Linux only."""
    if sys.platform != "linux":
        return
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            query = struct.pack(f"{_IFREQ}s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, query)
            except OSError:
                # It has no IPv4 address.
                continue
            address = socket.inet_ntoa(answer[_ADDRESS])
            if not address.startswith("127."):
                yield address, name
    try:
        lines = Path("/proc/net/if_inet6").read_text(encoding="ascii").splitlines()
    except OSError:
        return
    for line in lines:
        digits, _, _, scope, _, name = line.split()
        if scope == _GLOBAL and int(digits, 16) != 1:
            yield socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits)), name


def main() -> int:
    """Serve on standard input and output; return the exit code."""
    return serve(*process.separate_protocol())
