"""A client that sends a pipeline and closes its sending side gets all replies, then the end."""
import socket
from wire import *


def run(ep):
    c = ep.connect()
    if c.tls:
        raise Skip("half-closing is a matter of TCP")
    c.send(Query("select generate_series(1, 3)"), Run("select 'last'"), Sync)
    c.sock.shutdown(socket.SHUT_WR)
    return c.to_end()
