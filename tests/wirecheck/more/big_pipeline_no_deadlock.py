"""A pipeline that sends and is sent tens of megabytes at once flows, whoever's buffers are full."""
from wire import *


def run(ep):
    c = ep.connect()
    value = b"v" * 20000
    c.send(*[Parse("select $1::text", "s") if i == 0 else Bind([value], "s") + Execute() for i in range(1500)], Sync)
    out = c.until("Z")
    return [out[0], str(len(out)), out[1], out[-1]]
