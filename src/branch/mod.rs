//! Branches: snapshots, copy-on-write clones of them, and the servers that run on these.
