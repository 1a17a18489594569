"""An unknown message type, and a body that does not parse, get the server's own answer."""
from wire import *


def run(ep):
    c = ep.connect()
    c.send(msg("B", b"\0"), Sync)
    out = brief(c.until("Z"))
    c.send(msg("E", b"nothing"), Sync)
    out += brief(c.until("Z"))
    c.send(msg("D", b"Xname\0"), Sync)
    out += brief(c.until("Z"))
    c.send(msg("y", b"what"))
    return out + brief(c.to_end())
