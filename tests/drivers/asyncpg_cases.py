"""What asyncpg sees, as text: run direct and through the proxy, the output must be the same."""

import asyncio
import datetime
import os

import asyncpg

url = os.environ["DATABASE_URL"]


def show(name, value):
    print(f"{name}: {value!r}")


async def refused(name, awaitable):
    try:
        await awaitable
    except asyncpg.PostgresError as e:
        print(f"{name}: {type(e).__name__} {e.sqlstate} {str(e)!r} {e.detail!r} {e.hint!r}")
    else:
        print(f"{name}: NOT refused")


async def main():
    conn = await asyncpg.connect(url)
    row = await conn.fetchrow(
        "select $1::int8, $2::text, $3::timestamptz, $4::int[], $5::bytea, $6::jsonb, $7::float8",
        2**40, "ü", datetime.datetime(2024, 2, 29, tzinfo=datetime.timezone.utc), [1, None, 3], b"\0\1", '{"k": 1}', 1.5)
    show("types", tuple(row))
    await conn.execute("drop table if exists asyncpg_case; create table asyncpg_case (id int primary key, t text)")
    show("copy in", await conn.copy_records_to_table("asyncpg_case", records=[(i, f"row {i}") for i in range(10_000)]))
    await conn.executemany("update asyncpg_case set t = $2 where id = $1", [(i, f"n{i}") for i in range(200)])
    show("sum", await conn.fetchval("select sum(length(t)) from asyncpg_case"))
    async with conn.transaction():
        total = 0
        async for record in conn.cursor("select id from asyncpg_case", prefetch=500):
            total += record["id"]
        show("cursor", total)
    statement = await conn.prepare("select t from asyncpg_case where id = $1")
    show("prepared", [await statement.fetchval(i) for i in range(3)])
    show("attributes", [(a.name, a.type.name) for a in statement.get_attributes()])
    await refused("duplicate", conn.execute("insert into asyncpg_case values (1, 'x')"))
    await refused("syntax", conn.fetch("selec 1"))
    await refused("division", conn.fetch("select 1/0"))
    heard = asyncio.get_running_loop().create_future()
    await conn.add_listener("asyncpg_case", lambda c, pid, channel, payload: heard.set_result((channel, payload)))
    await conn.execute("notify asyncpg_case, 'hello'")
    show("notify", await asyncio.wait_for(heard, 5))
    try:
        await conn.fetch("select pg_sleep(20)", timeout=0.3)  # asyncpg sends a CancelRequest
    except asyncio.TimeoutError:
        show("timeout", "cancelled")
    show("after timeout", await conn.fetchval("select 'alive'"))
    show("settings", (conn.get_settings().server_encoding, conn.get_server_version()[:2]))
    await conn.execute("drop table asyncpg_case")
    await conn.close()

    pool = await asyncpg.create_pool(url, min_size=4, max_size=8)
    show("pool", await asyncio.gather(*[pool.fetchval("select $1::int * 2", i) for i in range(40)]))
    await pool.close()


asyncio.run(main())
