// What node-postgres sees, as text: run direct and through the proxy, the output must be the same.
const { Client, Pool } = require('pg');

const config = { connectionString: process.env.DATABASE_URL };
const show = (name, value) => console.log(`${name}: ${JSON.stringify(value)}`);

async function refused(name, work) {
  try {
    await work();
    console.log(`${name}: NOT refused`);
  } catch (e) {
    show(name, [e.code, e.severity, e.message, e.detail, e.hint, e.constraint]);
  }
}

async function main() {
  const client = new Client(config);
  await client.connect();
  const types = await client.query(
    "select $1::int a, $2::text b, $3::jsonb c, $4::int[] d, $5::bytea e, null f",
    [7, 'ü', { k: [1, null] }, [1, 2], Buffer.from([0, 255])]);
  show('types', types.rows);
  show('fields', types.fields.map((f) => [f.name, f.dataTypeID]));
  const many = await client.query('drop table if exists node_case; create table node_case (id int primary key, t text); select 1 as one');
  show('multi', many.map((r) => [r.command, r.rowCount]));
  for (let i = 0; i < 50; i++) {
    await client.query({ name: 'put', text: 'insert into node_case values ($1, $2)', values: [i, `row ${i}`] });
  }
  show('named', (await client.query('select count(*), sum(length(t)) from node_case')).rows);
  show('array rows', (await client.query({ text: 'select id, t from node_case order by id limit 3', rowMode: 'array' })).rows);
  await refused('duplicate', () => client.query("insert into node_case values (1, 'x')"));
  await refused('syntax', () => client.query('selec 1'));
  await refused('division', () => client.query('select $1::int / 0', [1]));
  const heard = new Promise((resolve) => client.once('notification', (m) => resolve([m.channel, m.payload])));
  await client.query('listen node_case');
  await client.query("notify node_case, 'hello'");
  show('notify', await heard);
  const notice = new Promise((resolve) => client.once('notice', (n) => resolve([n.severity, n.message])));
  await client.query("do $$ begin raise notice 'seen'; end $$");
  show('notice', await notice);
  await client.query('drop table node_case');
  await client.end();

  const pool = new Pool({ ...config, max: 5 });
  const results = await Promise.all(Array.from({ length: 30 }, (_, i) => pool.query('select $1::int * 2 as n', [i])));
  show('pool', results.map((r) => r.rows[0].n));
  await pool.end();
}

main().catch((e) => { console.error(e); process.exit(1); });
