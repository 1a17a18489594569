//! Errors as the admin API answers them and the command line prints them.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::{ErrorKind, SqlState, UserFacingError};

/// The body of every answer that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// The SQLSTATE.
    pub sqlstate: String,
    /// Whose fault it was: `user`, `control_plane`, `compute`, …
    pub kind: String,
    /// What happened.
    pub message: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What can be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl ErrorBody {
    /// The user-facing part of `error`.
    pub fn of(error: &dyn UserFacingError) -> Self {
        Self {
            sqlstate: error.sqlstate().to_string(),
            kind: error.kind().as_str().to_owned(),
            message: error.message(),
            detail: error.detail(),
            hint: error.hint(),
        }
    }
}

/// An error on its way out of a handler.
#[derive(Debug)]
pub struct ApiError {
    status: StatusCode,
    /// What the caller reads.
    pub body: ErrorBody,
}

impl<E: UserFacingError> From<E> for ApiError {
    fn from(error: E) -> Self {
        Self { status: status(error.kind(), error.sqlstate()), body: ErrorBody::of(&error) }
    }
}

impl ApiError {
    /// A request that is itself wrong.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, SqlState::PROTOCOL_VIOLATION, message)
    }

    /// A caller without the right token.
    pub fn unauthorized() -> Self {
        let mut error = Self::new(
            StatusCode::UNAUTHORIZED,
            SqlState::INVALID_AUTHORIZATION,
            "the admin API over TCP needs a bearer token",
        );
        error.body.hint =
            Some("Send `Authorization: Bearer …` with the token of admin.token_file.".to_owned());
        error
    }

    /// A handler that ended without an answer.
    pub fn internal(error: &tokio::task::JoinError) -> Self {
        tracing::error!(%error, "a request ended without an answer");
        let mut answer = Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            SqlState::INTERNAL_ERROR,
            "the request ended without an answer; the log says why",
        );
        ErrorKind::Service.as_str().clone_into(&mut answer.body.kind);
        answer
    }

    /// Nothing is served under that path.
    pub fn not_found() -> Self {
        let mut error = Self::new(
            StatusCode::NOT_FOUND,
            SqlState::UNDEFINED_OBJECT,
            "the admin API has nothing under this path",
        );
        error.body.hint = Some("GET /v1/openapi.json lists all paths.".to_owned());
        error
    }

    fn new(status: StatusCode, sqlstate: SqlState, message: impl Into<String>) -> Self {
        Self {
            status,
            body: ErrorBody {
                sqlstate: sqlstate.to_string(),
                kind: ErrorKind::User.as_str().to_owned(),
                message: message.into(),
                detail: None,
                hint: None,
            },
        }
    }
}

fn status(kind: ErrorKind, sqlstate: SqlState) -> StatusCode {
    match (sqlstate, kind) {
        (SqlState::UNDEFINED_OBJECT, _) => StatusCode::NOT_FOUND,
        (SqlState::OBJECT_IN_USE | SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, _) => {
            StatusCode::CONFLICT
        }
        (SqlState::DISK_FULL | SqlState::INSUFFICIENT_RESOURCES, _) => {
            StatusCode::INSUFFICIENT_STORAGE
        }
        (_, ErrorKind::User) => StatusCode::BAD_REQUEST,
        (_, ErrorKind::RateLimit | ErrorKind::Quota) => StatusCode::TOO_MANY_REQUESTS,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(self.body)).into_response()
    }
}
