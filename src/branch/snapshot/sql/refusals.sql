-- Functions that PostgreSQL runs without asking whether the caller may, and that run with their
-- owner's rights: an ORDER BY by a reader would be enough to call them.
SELECT DISTINCT p.oid::regprocedure::text
FROM pg_proc p
WHERE p.prosecdef AND p.oid IN (
    SELECT amproc FROM pg_amproc
    UNION ALL SELECT o.oprcode FROM pg_amop a JOIN pg_operator o ON o.oid = a.amopopr
    UNION ALL SELECT oprrest FROM pg_operator
    UNION ALL SELECT oprjoin FROM pg_operator
    UNION ALL SELECT rngcanonical FROM pg_range
    UNION ALL SELECT rngsubdiff FROM pg_range
    UNION ALL SELECT prosupport FROM pg_proc
    UNION ALL SELECT unnest(ARRAY[typinput, typoutput, typreceive, typsend, typmodin, typmodout, typanalyze]) FROM pg_type
    UNION ALL SELECT unnest(ARRAY[trffromsql, trftosql]) FROM pg_transform
)
ORDER BY 1
