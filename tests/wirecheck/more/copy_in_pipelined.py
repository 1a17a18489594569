"""A COPY with its data, the end and the next query all in one write; and one that fails before it begins."""
from wire import *


def run(ep):
    c = ep.connect()
    out = c.query("create temporary table t (a int)")
    c.send(Query("copy t from stdin"), CopyData(b"1\n2\n"), CopyDone, Query("select count(*) from t"))
    out += c.until("Z") + c.until("Z")
    c.send(Query("copy nowhere from stdin"), CopyData(b"1\n"), CopyDone, Query("select count(*) from t"))
    out += c.until("Z") + c.until("Z")
    c.send(CopyData(b"stray"), CopyDone, CopyFail("stray"), Query("select 1"))
    return out + c.until("Z")
