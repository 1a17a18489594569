//! The admin API: HTTP and JSON over what the CLI prints.
