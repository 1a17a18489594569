"""ReadyForQuery tells the transaction's status through failures, savepoints and deferred constraints checked at Sync."""
from wire import *


def run(ep):
    c = ep.connect()
    out = c.query("create temporary table p (a int primary key); create temporary table f (a int references p deferrable initially deferred)")
    for sql in ("begin", "selec", "select 1", "rollback", "begin; savepoint s", "select 1/0", "rollback to s", "commit",
                "insert into f values (1)", "select 1; select 1/0; select 2", "begin; insert into f values (2)", "commit"):
        out += c.query(sql)
    c.send(Run("insert into f values (3)"), Sync, Query("select 9"))
    return out + c.until("Z") + c.until("Z")
