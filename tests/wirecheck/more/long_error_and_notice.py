"""Errors and notices of 300 kB pass whole, and what follows them is in order."""
from wire import *


def run(ep):
    c = ep.connect()
    out = c.query("do $$ begin raise notice '%', repeat('n', 300000); raise exception '%', repeat('e', 300000); end $$")
    out = [short(e.encode()) for e in out]
    c.send(Run("do $$ begin raise exception '%', repeat('e', 300000); end $$"), Run("select 2"), Sync, Query("select 3"))
    out += [short(e.encode()) for e in c.until("Z") + c.until("Z")]
    return out + c.query("select 1")
