--
-- PostgreSQL database dump
--

\restrict fxQxz2n574re4gGEeGQklxPdue6jIUet5k3w2T1c07t5K3XXFL3JGK9E9UexEI9

-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: public; Type: SCHEMA; Schema: -; Owner: postern_owner
--

-- *not* creating schema, since initdb creates it


ALTER SCHEMA public OWNER TO postern_owner;

--
-- Name: SCHEMA public; Type: COMMENT; Schema: -; Owner: postern_owner
--

COMMENT ON SCHEMA public IS '';


--
-- Name: sales; Type: SCHEMA; Schema: -; Owner: app
--

CREATE SCHEMA sales;


ALTER SCHEMA sales OWNER TO app;

--
-- Name: nocase; Type: COLLATION; Schema: sales; Owner: postern_owner
--

CREATE COLLATION sales.nocase (provider = icu, deterministic = false, locale = 'und-u-ks-level2');


ALTER COLLATION sales.nocase OWNER TO postern_owner;

--
-- Name: citext; Type: EXTENSION; Schema: -; Owner: -
--

CREATE EXTENSION IF NOT EXISTS citext WITH SCHEMA sales;


--
-- Name: EXTENSION citext; Type: COMMENT; Schema: -; Owner: 
--

COMMENT ON EXTENSION citext IS 'data type for case-insensitive character strings';


--
-- Name: hstore; Type: EXTENSION; Schema: -; Owner: -
--

CREATE EXTENSION IF NOT EXISTS hstore WITH SCHEMA public;


--
-- Name: EXTENSION hstore; Type: COMMENT; Schema: -; Owner: 
--

COMMENT ON EXTENSION hstore IS 'x';


--
-- Name: uuid-ossp; Type: EXTENSION; Schema: -; Owner: -
--

CREATE EXTENSION IF NOT EXISTS "uuid-ossp" WITH SCHEMA public;


--
-- Name: EXTENSION "uuid-ossp"; Type: COMMENT; Schema: -; Owner: 
--

COMMENT ON EXTENSION "uuid-ossp" IS 'generate universally unique identifiers (UUIDs)';


--
-- Name: mood; Type: TYPE; Schema: public; Owner: app
--

CREATE TYPE public.mood AS ENUM (
    'a',
    'b'
);


ALTER TYPE public.mood OWNER TO app;

--
-- Name: d; Type: DOMAIN; Schema: sales; Owner: postern_owner
--

CREATE DOMAIN sales.d AS integer
	CONSTRAINT d_check CHECK ((VALUE > 0));


ALTER DOMAIN sales.d OWNER TO postern_owner;

--
-- Name: def(); Type: FUNCTION; Schema: public; Owner: postern_owner
--

CREATE FUNCTION public.def() RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    AS $$begin return 1; end$$;


ALTER FUNCTION public.def() OWNER TO postern_owner;

--
-- Name: trg(); Type: FUNCTION; Schema: public; Owner: postern_owner
--

CREATE FUNCTION public.trg() RETURNS trigger
    LANGUAGE plpgsql
    AS $$begin return new; end$$;


ALTER FUNCTION public.trg() OWNER TO postern_owner;

--
-- Name: vol(); Type: FUNCTION; Schema: public; Owner: app
--

CREATE FUNCTION public.vol() RETURNS integer
    LANGUAGE plpgsql
    AS $$begin return 1; end$$;


ALTER FUNCTION public.vol() OWNER TO app;

--
-- Name: en; Type: TEXT SEARCH CONFIGURATION; Schema: sales; Owner: postern_owner
--

CREATE TEXT SEARCH CONFIGURATION sales.en (
    PARSER = pg_catalog."default" );

ALTER TEXT SEARCH CONFIGURATION sales.en
    ADD MAPPING FOR asciiword WITH english_stem;

ALTER TEXT SEARCH CONFIGURATION sales.en
    ADD MAPPING FOR word WITH english_stem;

ALTER TEXT SEARCH CONFIGURATION sales.en
    ADD MAPPING FOR numword WITH simple;

ALTER TEXT SEARCH CONFIGURATION sales.en
    ADD MAPPING FOR email WITH simple;

ALTER TEXT SEARCH CONFIGURATION sales.en
    ADD MAPPING FOR url WITH simple;

ALTER TEXT SEARCH CONFIGURATION sales.en
    ADD MAPPING FOR host WITH simple;

ALTER TEXT SEARCH CONFIGURATION sales.en
    ADD MAPPING FOR sfloat WITH simple;

ALTER TEXT SEARCH CONFIGURATION sales.en
    ADD MAPPING FOR version WITH simple;

ALTER TEXT SEARCH CONFIGURATION sales.en
    ADD MAPPING FOR hword_numpart WITH simple;

ALTER TEXT SEARCH CONFIGURATION sales.en
    ADD MAPPING FOR hword_part WITH english_stem;

ALTER TEXT SEARCH CONFIGURATION sales.en
    ADD MAPPING FOR hword_asciipart WITH english_stem;

ALTER TEXT SEARCH CONFIGURATION sales.en
    ADD MAPPING FOR numhword WITH simple;

ALTER TEXT SEARCH CONFIGURATION sales.en
    ADD MAPPING FOR asciihword WITH english_stem;

ALTER TEXT SEARCH CONFIGURATION sales.en
    ADD MAPPING FOR hword WITH english_stem;

ALTER TEXT SEARCH CONFIGURATION sales.en
    ADD MAPPING FOR url_path WITH simple;

ALTER TEXT SEARCH CONFIGURATION sales.en
    ADD MAPPING FOR file WITH simple;

ALTER TEXT SEARCH CONFIGURATION sales.en
    ADD MAPPING FOR "float" WITH simple;

ALTER TEXT SEARCH CONFIGURATION sales.en
    ADD MAPPING FOR "int" WITH simple;

ALTER TEXT SEARCH CONFIGURATION sales.en
    ADD MAPPING FOR uint WITH simple;


ALTER TEXT SEARCH CONFIGURATION sales.en OWNER TO postern_owner;

--
-- Name: free_seq; Type: SEQUENCE; Schema: public; Owner: postern_owner
--

CREATE SEQUENCE public.free_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


ALTER TABLE public.free_seq OWNER TO postern_owner;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: pub; Type: TABLE; Schema: public; Owner: postern_owner
--

CREATE TABLE public.pub (
    id integer NOT NULL,
    x text
);


ALTER TABLE public.pub OWNER TO postern_owner;

--
-- Name: TABLE pub; Type: COMMENT; Schema: public; Owner: postern_owner
--

COMMENT ON TABLE public.pub IS 'hey';


--
-- Name: mv; Type: MATERIALIZED VIEW; Schema: public; Owner: postern_owner
--

CREATE MATERIALIZED VIEW public.mv AS
 SELECT pub.id,
    pub.x
   FROM public.pub
  WITH NO DATA;


ALTER TABLE public.mv OWNER TO postern_owner;

--
-- Name: pub_id_seq; Type: SEQUENCE; Schema: public; Owner: postern_owner
--

ALTER TABLE public.pub ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.pub_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: v; Type: VIEW; Schema: public; Owner: postern_owner
--

CREATE VIEW public.v AS
 SELECT pub.id,
    pub.x
   FROM public.pub;


ALTER TABLE public.v OWNER TO postern_owner;

--
-- Name: t; Type: TABLE; Schema: sales; Owner: app
--

CREATE TABLE sales.t (
    id integer NOT NULL,
    m public.mood,
    h public.hstore,
    c sales.citext,
    u uuid DEFAULT public.uuid_generate_v4()
);


ALTER TABLE sales.t OWNER TO app;

--
-- Name: t_id_seq; Type: SEQUENCE; Schema: sales; Owner: app
--

CREATE SEQUENCE sales.t_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


ALTER TABLE sales.t_id_seq OWNER TO app;

--
-- Name: t_id_seq; Type: SEQUENCE OWNED BY; Schema: sales; Owner: app
--

ALTER SEQUENCE sales.t_id_seq OWNED BY sales.t.id;


--
-- Name: t id; Type: DEFAULT; Schema: sales; Owner: app
--

ALTER TABLE ONLY sales.t ALTER COLUMN id SET DEFAULT nextval('sales.t_id_seq'::regclass);


--
-- Name: 77; Type: BLOB; Schema: -; Owner: postern_owner
--

SELECT pg_catalog.lo_create('77');


ALTER LARGE OBJECT 77 OWNER TO postern_owner;

--
-- Data for Name: pub; Type: TABLE DATA; Schema: public; Owner: postern_owner
--

COPY public.pub (id, x) FROM stdin;
1	1
\.


--
-- Data for Name: t; Type: TABLE DATA; Schema: sales; Owner: app
--

COPY sales.t (id, m, h, c, u) FROM stdin;
1	a	"a"=>"1"	\N	b41cecab-4e38-46ab-9aa0-a86f3cf2d521
\.


--
-- Name: free_seq; Type: SEQUENCE SET; Schema: public; Owner: postern_owner
--

SELECT pg_catalog.setval('public.free_seq', 1, false);


--
-- Name: pub_id_seq; Type: SEQUENCE SET; Schema: public; Owner: postern_owner
--

SELECT pg_catalog.setval('public.pub_id_seq', 1, true);


--
-- Name: t_id_seq; Type: SEQUENCE SET; Schema: sales; Owner: app
--

SELECT pg_catalog.setval('sales.t_id_seq', 1, true);


--
-- Data for Name: BLOBS; Type: BLOBS; Schema: -; Owner: -
--

BEGIN;

SELECT pg_catalog.lo_open('77', 131072);
SELECT pg_catalog.lowrite(0, '\x73656564');
SELECT pg_catalog.lo_close(0);

COMMIT;

--
-- Name: t t_pkey; Type: CONSTRAINT; Schema: sales; Owner: app
--

ALTER TABLE ONLY sales.t
    ADD CONSTRAINT t_pkey PRIMARY KEY (id);


--
-- Name: pub_x_idx; Type: INDEX; Schema: public; Owner: postern_owner
--

CREATE INDEX pub_x_idx ON public.pub USING btree (x);


--
-- Name: st; Type: STATISTICS; Schema: public; Owner: postern_owner
--

CREATE STATISTICS public.st ON id, x FROM public.pub;


ALTER STATISTICS public.st OWNER TO postern_owner;

--
-- Name: v r; Type: RULE; Schema: public; Owner: postern_owner
--

CREATE RULE r AS
    ON UPDATE TO public.v DO INSTEAD NOTHING;


--
-- Name: pub tr; Type: TRIGGER; Schema: public; Owner: postern_owner
--

CREATE TRIGGER tr BEFORE INSERT ON public.pub FOR EACH ROW EXECUTE FUNCTION public.trg();


--
-- Name: pub p; Type: POLICY; Schema: public; Owner: postern_owner
--

CREATE POLICY p ON public.pub USING (true);


--
-- Name: pub; Type: ROW SECURITY; Schema: public; Owner: postern_owner
--

ALTER TABLE public.pub ENABLE ROW LEVEL SECURITY;

--
-- Name: px; Type: PUBLICATION; Schema: -; Owner: postern_owner
--

CREATE PUBLICATION px WITH (publish = 'insert, update, delete, truncate');


ALTER PUBLICATION px OWNER TO postern_owner;

--
-- Name: px pub; Type: PUBLICATION TABLE; Schema: public; Owner: postern_owner
--

ALTER PUBLICATION px ADD TABLE ONLY public.pub;


--
-- Name: SCHEMA public; Type: ACL; Schema: -; Owner: postern_owner
--

REVOKE USAGE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO postern_read;
GRANT USAGE ON SCHEMA public TO postern_write;
GRANT ALL ON SCHEMA public TO app;
GRANT ALL ON SCHEMA public TO reporter;


--
-- Name: SCHEMA sales; Type: ACL; Schema: -; Owner: app
--

GRANT USAGE ON SCHEMA sales TO postern_read;
GRANT USAGE ON SCHEMA sales TO postern_write;
GRANT ALL ON SCHEMA sales TO reporter;
GRANT ALL ON SCHEMA sales TO postern_owner;


--
-- Name: FUNCTION def(); Type: ACL; Schema: public; Owner: postern_owner
--

REVOKE ALL ON FUNCTION public.def() FROM PUBLIC;
GRANT ALL ON FUNCTION public.def() TO postern_write;


--
-- Name: FUNCTION trg(); Type: ACL; Schema: public; Owner: postern_owner
--

REVOKE ALL ON FUNCTION public.trg() FROM PUBLIC;
GRANT ALL ON FUNCTION public.trg() TO postern_write;


--
-- Name: FUNCTION vol(); Type: ACL; Schema: public; Owner: app
--

REVOKE ALL ON FUNCTION public.vol() FROM PUBLIC;
GRANT ALL ON FUNCTION public.vol() TO postern_write;
GRANT ALL ON FUNCTION public.vol() TO postern_owner;


--
-- Name: SEQUENCE free_seq; Type: ACL; Schema: public; Owner: postern_owner
--

GRANT SELECT ON SEQUENCE public.free_seq TO postern_read;
GRANT ALL ON SEQUENCE public.free_seq TO postern_write;


--
-- Name: TABLE pub; Type: ACL; Schema: public; Owner: postern_owner
--

GRANT SELECT ON TABLE public.pub TO postern_read;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.pub TO postern_write;
GRANT TRUNCATE ON TABLE public.pub TO postern_truncate;
GRANT SELECT ON TABLE public.pub TO reporter;


--
-- Name: TABLE mv; Type: ACL; Schema: public; Owner: postern_owner
--

GRANT SELECT ON TABLE public.mv TO postern_read;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.mv TO postern_write;
GRANT TRUNCATE ON TABLE public.mv TO postern_truncate;


--
-- Name: SEQUENCE pub_id_seq; Type: ACL; Schema: public; Owner: postern_owner
--

GRANT SELECT ON SEQUENCE public.pub_id_seq TO postern_read;
GRANT ALL ON SEQUENCE public.pub_id_seq TO postern_write;


--
-- Name: TABLE v; Type: ACL; Schema: public; Owner: postern_owner
--

GRANT SELECT ON TABLE public.v TO postern_read;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE public.v TO postern_write;
GRANT TRUNCATE ON TABLE public.v TO postern_truncate;


--
-- Name: TABLE t; Type: ACL; Schema: sales; Owner: app
--

GRANT SELECT ON TABLE sales.t TO postern_read;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE sales.t TO postern_write;
GRANT TRUNCATE ON TABLE sales.t TO postern_truncate;


--
-- Name: SEQUENCE t_id_seq; Type: ACL; Schema: sales; Owner: app
--

GRANT SELECT ON SEQUENCE sales.t_id_seq TO postern_read;
GRANT ALL ON SEQUENCE sales.t_id_seq TO postern_write;


--
-- Name: LARGE OBJECT 77; Type: ACL; Schema: -; Owner: postern_owner
--

GRANT SELECT ON LARGE OBJECT 77 TO postern_read;
GRANT ALL ON LARGE OBJECT 77 TO postern_write;


--
-- Name: DEFAULT PRIVILEGES FOR SEQUENCES; Type: DEFAULT ACL; Schema: -; Owner: app
--

ALTER DEFAULT PRIVILEGES FOR ROLE app GRANT SELECT ON SEQUENCES  TO postern_read;
ALTER DEFAULT PRIVILEGES FOR ROLE app GRANT ALL ON SEQUENCES  TO postern_write;


--
-- Name: DEFAULT PRIVILEGES FOR SEQUENCES; Type: DEFAULT ACL; Schema: -; Owner: postern_owner
--

ALTER DEFAULT PRIVILEGES FOR ROLE postern_owner GRANT SELECT ON SEQUENCES  TO postern_read;
ALTER DEFAULT PRIVILEGES FOR ROLE postern_owner GRANT ALL ON SEQUENCES  TO postern_write;


--
-- Name: DEFAULT PRIVILEGES FOR SEQUENCES; Type: DEFAULT ACL; Schema: -; Owner: reporter
--

ALTER DEFAULT PRIVILEGES FOR ROLE reporter GRANT SELECT ON SEQUENCES  TO postern_read;
ALTER DEFAULT PRIVILEGES FOR ROLE reporter GRANT ALL ON SEQUENCES  TO postern_write;


--
-- Name: DEFAULT PRIVILEGES FOR FUNCTIONS; Type: DEFAULT ACL; Schema: -; Owner: app
--

ALTER DEFAULT PRIVILEGES FOR ROLE app REVOKE ALL ON FUNCTIONS  FROM PUBLIC;
ALTER DEFAULT PRIVILEGES FOR ROLE app GRANT ALL ON FUNCTIONS  TO postern_write;


--
-- Name: DEFAULT PRIVILEGES FOR FUNCTIONS; Type: DEFAULT ACL; Schema: -; Owner: postern_owner
--

ALTER DEFAULT PRIVILEGES FOR ROLE postern_owner REVOKE ALL ON FUNCTIONS  FROM PUBLIC;
ALTER DEFAULT PRIVILEGES FOR ROLE postern_owner GRANT ALL ON FUNCTIONS  TO postern_write;


--
-- Name: DEFAULT PRIVILEGES FOR FUNCTIONS; Type: DEFAULT ACL; Schema: -; Owner: reporter
--

ALTER DEFAULT PRIVILEGES FOR ROLE reporter REVOKE ALL ON FUNCTIONS  FROM PUBLIC;
ALTER DEFAULT PRIVILEGES FOR ROLE reporter GRANT ALL ON FUNCTIONS  TO postern_write;


--
-- Name: DEFAULT PRIVILEGES FOR SCHEMAS; Type: DEFAULT ACL; Schema: -; Owner: app
--

ALTER DEFAULT PRIVILEGES FOR ROLE app GRANT USAGE ON SCHEMAS  TO postern_read;
ALTER DEFAULT PRIVILEGES FOR ROLE app GRANT USAGE ON SCHEMAS  TO postern_write;


--
-- Name: DEFAULT PRIVILEGES FOR SCHEMAS; Type: DEFAULT ACL; Schema: -; Owner: postern_owner
--

ALTER DEFAULT PRIVILEGES FOR ROLE postern_owner GRANT USAGE ON SCHEMAS  TO postern_read;
ALTER DEFAULT PRIVILEGES FOR ROLE postern_owner GRANT USAGE ON SCHEMAS  TO postern_write;
ALTER DEFAULT PRIVILEGES FOR ROLE postern_owner GRANT ALL ON SCHEMAS  TO app;
ALTER DEFAULT PRIVILEGES FOR ROLE postern_owner GRANT ALL ON SCHEMAS  TO reporter;


--
-- Name: DEFAULT PRIVILEGES FOR SCHEMAS; Type: DEFAULT ACL; Schema: -; Owner: reporter
--

ALTER DEFAULT PRIVILEGES FOR ROLE reporter GRANT USAGE ON SCHEMAS  TO postern_read;
ALTER DEFAULT PRIVILEGES FOR ROLE reporter GRANT USAGE ON SCHEMAS  TO postern_write;


--
-- Name: DEFAULT PRIVILEGES FOR TABLES; Type: DEFAULT ACL; Schema: -; Owner: app
--

ALTER DEFAULT PRIVILEGES FOR ROLE app GRANT SELECT ON TABLES  TO postern_read;
ALTER DEFAULT PRIVILEGES FOR ROLE app GRANT SELECT,INSERT,DELETE,UPDATE ON TABLES  TO postern_write;
ALTER DEFAULT PRIVILEGES FOR ROLE app GRANT TRUNCATE ON TABLES  TO postern_truncate;


--
-- Name: DEFAULT PRIVILEGES FOR TABLES; Type: DEFAULT ACL; Schema: -; Owner: postern_owner
--

ALTER DEFAULT PRIVILEGES FOR ROLE postern_owner GRANT SELECT ON TABLES  TO postern_read;
ALTER DEFAULT PRIVILEGES FOR ROLE postern_owner GRANT SELECT,INSERT,DELETE,UPDATE ON TABLES  TO postern_write;
ALTER DEFAULT PRIVILEGES FOR ROLE postern_owner GRANT TRUNCATE ON TABLES  TO postern_truncate;


--
-- Name: DEFAULT PRIVILEGES FOR TABLES; Type: DEFAULT ACL; Schema: -; Owner: reporter
--

ALTER DEFAULT PRIVILEGES FOR ROLE reporter GRANT SELECT ON TABLES  TO postern_read;
ALTER DEFAULT PRIVILEGES FOR ROLE reporter GRANT SELECT,INSERT,DELETE,UPDATE ON TABLES  TO postern_write;
ALTER DEFAULT PRIVILEGES FOR ROLE reporter GRANT TRUNCATE ON TABLES  TO postern_truncate;


--
-- Name: mv; Type: MATERIALIZED VIEW DATA; Schema: public; Owner: postern_owner
--

REFRESH MATERIALIZED VIEW public.mv;


--
-- PostgreSQL database dump complete
--

\unrestrict fxQxz2n574re4gGEeGQklxPdue6jIUet5k3w2T1c07t5K3XXFL3JGK9E9UexEI9

