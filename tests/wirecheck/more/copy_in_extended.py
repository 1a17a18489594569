"""COPY FROM STDIN as libpq does it in the extended protocol: Sync with the Execute, one more after CopyDone or CopyFail."""
from wire import *


def run(ep):
    c = ep.connect()
    out = c.query("create temporary table t (a int, b text)")
    c.send(Run("copy t from stdin"), Sync)
    out += c.until("G")
    c.send(CopyData(b"1\tone\n"), Sync, Flush, CopyData(b"2\ttwo\n"), CopyDone, Sync)
    out += c.until("Z")
    c.send(Run("copy t from stdin"), Sync, CopyData(b"3\tthree\n"), CopyDone, Sync)
    out += c.until("Z")
    c.send(Run("copy t from stdin"), Sync)
    out += c.until("G")
    c.send(CopyData(b"4\tfour\n"), CopyFail("enough"), Sync)
    out += c.until("Z")
    c.send(Run("copy t from stdin"), Sync)
    out += c.until("G")
    c.send(CopyData(b"x\tbad\n"), CopyDone, Sync)
    out += c.until("Z")
    return out + c.query("select * from t order by a")
