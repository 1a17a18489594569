//! The evidence: the hash-chained log of everything a session did, and the plans the server ran.
