"""Terminate ends the connection without a word, also inside a transaction or with a message behind it."""
from wire import *


def run(ep):
    out = []
    for more in (b"", Query("select 1")):
        c = ep.connect()
        out += c.query("begin")
        c.send(Terminate, more)
        out += c.to_end() + ["ended"]
    return out
