"""What psycopg 3 sees, as text: run direct and through the proxy, the output must be the same."""

import datetime
import decimal
import os
import threading

import psycopg
from psycopg.rows import tuple_row

url = os.environ["DATABASE_URL"]


def show(name, value):
    print(f"{name}: {value!r}")


def refused(name, work):
    try:
        work()
    except psycopg.Error as e:
        d = e.diag
        print(f"{name}: {type(e).__name__} {d.sqlstate} {d.severity} {d.message_primary!r} "
              f"{d.message_detail!r} {d.message_hint!r} {d.constraint_name!r}")
    else:
        print(f"{name}: NOT refused")


with psycopg.connect(url, autocommit=True, row_factory=tuple_row) as conn:
    for binary in (False, True):
        cur = conn.cursor(binary=binary)
        cur.execute(
            "select %s::int, %s::text, %s::numeric, %s::bytea, %s::jsonb, %s::date, %s::int[], null",
            (7, "ü€", decimal.Decimal("1.50"), b"\0\xff", '{"a": [1, null]}', datetime.date(2024, 2, 29), [1, 2]),
        )
        show(f"types binary={binary}", cur.fetchall())
        show(f"columns binary={binary}", [(c.name, c.type_code) for c in cur.description])

    cur = conn.cursor()
    cur.execute("drop table if exists psycopg_case; create table psycopg_case (id int primary key, t text)")
    show("status", cur.statusmessage)
    with cur.copy("copy psycopg_case from stdin") as copy:
        for i in range(10_000):
            copy.write_row((i, f"row {i}"))
    show("copy in", cur.rowcount)
    with cur.copy("copy (select * from psycopg_case order by id) to stdout") as copy:
        show("copy out", sum(len(b) for b in copy))
    cur.executemany("update psycopg_case set t = %s where id = %s", [(f"new {i}", i) for i in range(100)])
    show("executemany", cur.rowcount)
    show("stream", sum(r[0] for r in cur.stream("select id from psycopg_case")))

    refused("duplicate", lambda: cur.execute("insert into psycopg_case values (1, 'x')"))
    refused("syntax", lambda: cur.execute("selec 1"))
    refused("division", lambda: cur.execute("select 1/0"))
    refused("raise", lambda: cur.execute(
        "do $$ begin raise exception 'no' using detail = 'd', hint = 'h', errcode = 'P0099'; end $$"))

    for i in range(7):  # past psycopg's threshold: a server-side prepared statement
        cur.execute("select t from psycopg_case where id = %s", (i,))
    show("prepared", cur.fetchone())

    with conn.transaction():
        with conn.cursor("server_side") as named:
            named.execute("select id from psycopg_case order by id")
            show("named cursor", named.fetchmany(5))
        try:
            with conn.transaction():
                cur.execute("insert into psycopg_case values (20000, 'gone')")
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        show("savepoint", cur.execute("select count(*) from psycopg_case").fetchone())

    with conn.pipeline():
        one = conn.execute("select 1")
        two = conn.execute("select generate_series(1, 3)")
        show("pipeline", (one.fetchall(), two.fetchall()))
    try:
        with conn.pipeline() as pipe:
            conn.execute("select 1")
            bad = conn.execute("select 1/0")
            conn.execute("select 2")
            pipe.sync()
            after = conn.execute("select 'after'")
            show("pipeline after an error", after.fetchall())
    except psycopg.Error as e:
        show("pipeline error", (type(e).__name__, e.sqlstate))

    notices = []
    conn.add_notice_handler(lambda d: notices.append((d.severity, d.message_primary)))
    cur.execute("do $$ begin raise notice 'seen'; end $$")
    show("notices", notices)

    conn.execute("listen psycopg_case")
    conn.execute("notify psycopg_case, 'hello'")
    show("notify", [(n.channel, n.payload) for n in conn.notifies(timeout=5, stop_after=1)])

    timer = threading.Timer(0.3, conn.cancel)
    timer.start()
    refused("cancel", lambda: cur.execute("select pg_sleep(20)"))
    show("after cancel", cur.execute("select 'alive'").fetchone())
    show("big", len(cur.execute("select repeat('x', 20000000)").fetchone()[0]))
    show("parameters", [conn.info.parameter_status(p) for p in
                        ("server_version", "client_encoding", "DateStyle", "integer_datetimes", "TimeZone")])
    show("database", conn.info.dbname)
    show("pid", cur.execute("select pg_backend_pid()").fetchone()[0] == conn.info.backend_pid)
    cur.execute("drop table psycopg_case")
