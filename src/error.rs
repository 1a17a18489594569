//! What every error of ours tells: a SQLSTATE, a message, a hint, and whose fault it was.
//!
//! The text a client may see is kept apart from the text that is logged: only types that implement
//! [`UserFacingError`] by hand reach a client, so nothing internal (a path, a secret, a driver's
//! message) can slip out by conversion.

use std::fmt;

/// Whose fault an error is; doubles as the label of the error metrics, so the set stays small.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The client asked for something wrong: bad protocol, bad credentials, refused statement.
    User,
    /// The client went away.
    ClientDisconnect,
    /// A limit on connections or rates was reached.
    RateLimit,
    /// A budget of the lease was used up.
    Quota,
    /// Postern itself failed.
    Service,
    /// State, admin API or configuration failed.
    ControlPlane,
    /// The PostgreSQL behind a branch failed or refused.
    Postgres,
    /// Starting, cloning or stopping a branch failed.
    Compute,
}

impl ErrorKind {
    /// The metric label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::ClientDisconnect => "client_disconnect",
            Self::RateLimit => "rate_limit",
            Self::Quota => "quota",
            Self::Service => "service",
            Self::ControlPlane => "control_plane",
            Self::Postgres => "postgres",
            Self::Compute => "compute",
        }
    }
}

/// A five-character SQLSTATE (PostgreSQL manual, Appendix A "PostgreSQL Error Codes").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState(pub &'static str);

impl SqlState {
    /// `protocol_violation`
    pub const PROTOCOL_VIOLATION: Self = Self("08P01");
    /// `connection_failure`
    pub const CONNECTION_FAILURE: Self = Self("08006");
    /// `feature_not_supported`
    pub const FEATURE_NOT_SUPPORTED: Self = Self("0A000");
    /// `invalid_authorization_specification`
    pub const INVALID_AUTHORIZATION: Self = Self("28000");
    /// `invalid_password`
    pub const INVALID_PASSWORD: Self = Self("28P01");
    /// `insufficient_privilege`
    pub const INSUFFICIENT_PRIVILEGE: Self = Self("42501");
    /// `undefined_object`
    pub const UNDEFINED_OBJECT: Self = Self("42704");
    /// `insufficient_resources`
    pub const INSUFFICIENT_RESOURCES: Self = Self("53000");
    /// `disk_full`
    pub const DISK_FULL: Self = Self("53100");
    /// `too_many_connections`
    pub const TOO_MANY_CONNECTIONS: Self = Self("53300");
    /// `configuration_limit_exceeded`
    pub const CONFIGURATION_LIMIT_EXCEEDED: Self = Self("53400");
    /// `program_limit_exceeded`
    pub const PROGRAM_LIMIT_EXCEEDED: Self = Self("54000");
    /// `statement_too_complex`
    pub const STATEMENT_TOO_COMPLEX: Self = Self("54001");
    /// `object_not_in_prerequisite_state`
    pub const OBJECT_NOT_IN_PREREQUISITE_STATE: Self = Self("55000");
    /// `object_in_use`
    pub const OBJECT_IN_USE: Self = Self("55006");
    /// `query_canceled`
    pub const QUERY_CANCELED: Self = Self("57014");
    /// `admin_shutdown`
    pub const ADMIN_SHUTDOWN: Self = Self("57P01");
    /// `cannot_connect_now`
    pub const CANNOT_CONNECT_NOW: Self = Self("57P03");
    /// `system_error`
    pub const SYSTEM_ERROR: Self = Self("58000");
    /// `io_error`
    pub const IO_ERROR: Self = Self("58030");
    /// `config_file_error`
    pub const CONFIG_FILE_ERROR: Self = Self("F0000");
    /// `internal_error`
    pub const INTERNAL_ERROR: Self = Self("XX000");
}

impl fmt::Display for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// An error whose text a person or an agent may see. It never holds a secret.
///
/// `Display` is the log line; [`UserFacingError::message`] is what the client reads. Never
/// implement this for a type-erased error.
pub trait UserFacingError: std::error::Error {
    /// Whose fault it was.
    fn kind(&self) -> ErrorKind;
    /// The SQLSTATE the client gets.
    fn sqlstate(&self) -> SqlState;
    /// The primary message for the person.
    fn message(&self) -> String {
        self.to_string()
    }
    /// More about what happened.
    fn detail(&self) -> Option<String> {
        None
    }
    /// What can be done about it.
    fn hint(&self) -> Option<String> {
        None
    }
}
