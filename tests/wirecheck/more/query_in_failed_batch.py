"""After an error in the extended protocol, Query and FunctionCall are skipped too, up to the Sync; then all is well."""
from wire import *


def run(ep):
    c = ep.connect()
    c.send(Parse("selec 1"), Query("select 2"), FunctionCall(1598, []), Run("select 3"), Sync, Query("select 4"))
    out = c.until("Z") + c.until("Z")
    # The same, sent only after the error came.
    c.send(Parse("selec 1"), Flush)
    out += c.until("E")
    c.send(Query("select 5"), Sync)
    out += c.until("Z")
    # A Query that ends an open batch without an error.
    c.send(Run("select 6"), Query("select 7"), Sync)
    return out + c.until("Z") + c.until("Z") + c.query("select 8")
