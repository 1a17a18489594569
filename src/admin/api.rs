//! The paths of the admin API.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::StreamExt;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use super::{ApiError, ErrorBody};
use crate::branch::BranchInfo;
use crate::branch::snapshot::{ImportRequest, Progress, Snapshot};
use crate::lease::{CreatedLease, Lease, NewLease};
use crate::service::Service;

type Shared = State<Arc<Service>>;

/// All paths of the admin API.
pub fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/v1/version", get(version))
        .route("/v1/openapi.json", get(async || Json(super::document())))
        .route("/v1/snapshots", get(list_snapshots).post(import_snapshot))
        .route("/v1/snapshots/{name}", get(show_snapshot).delete(remove_snapshot))
        .route("/v1/leases", get(list_leases).post(create_lease))
        .route("/v1/leases/{id}", get(show_lease).delete(revoke_lease))
        .route("/v1/leases/{id}/renew", post(renew_lease))
        .route("/v1/leases/{id}/url", get(lease_url))
        .route("/v1/branches", get(list_branches))
        .route("/v1/branches/{id}", get(show_branch))
        .fallback(async || ApiError::not_found())
        .with_state(service)
}

/// A JSON body whose faults are answered in our form.
pub(super) struct JsonBody<T>(T);

impl<T, S> FromRequest<S> for JsonBody<T>
where
    Json<T>: FromRequest<S, Rejection = JsonRejection>,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<Self, ApiError> {
        match Json::<T>::from_request(request, state).await {
            Ok(Json(value)) => Ok(Self(value)),
            Err(rejection) => Err(ApiError::bad_request(rejection.body_text())),
        }
    }
}

/// The running postern.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// The version of the package.
    pub version: String,
    /// The process id.
    pub pid: u32,
}

#[utoipa::path(get, path = "/v1/version", responses((status = 200, body = Version)))]
pub(super) async fn version() -> Json<Version> {
    Json(Version { version: env!("CARGO_PKG_VERSION").to_owned(), pid: std::process::id() })
}

/// One line of the answer to an import.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub enum ImportEvent {
    /// How far it is.
    Progress(Progress),
    /// The sealed snapshot: the last line of an import that worked.
    Sealed(Box<Snapshot>),
    /// The last line of one that did not; nothing was left behind.
    Failed(ErrorBody),
}

/// Imports a snapshot. The answer is one JSON object a line; closing the connection cancels.
#[utoipa::path(post, path = "/v1/snapshots", request_body = ImportRequest,
    responses((status = 200, body = ImportEvent, content_type = "application/x-ndjson")))]
pub(super) async fn import_snapshot(
    State(service): Shared,
    JsonBody(request): JsonBody<ImportRequest>,
) -> Response {
    let (sender, receiver) = mpsc::unbounded_channel();
    let cancel = CancellationToken::new();
    let guard = cancel.clone().drop_guard();
    tokio::spawn(async move {
        let progress = |progress| {
            // The receiver is gone only when the import is being cancelled.
            let _ = sender.send(ImportEvent::Progress(progress));
        };
        let result = service.snapshots.import(request, progress, cancel).await;
        let _ = sender.send(match result {
            Ok(snapshot) => ImportEvent::Sealed(Box::new(snapshot)),
            Err(error) => ImportEvent::Failed(ErrorBody::of(&error)),
        });
    });
    // The guard lives in the stream: when the caller goes away, the import is cancelled.
    let lines = futures_util::stream::unfold((receiver, guard), |(mut receiver, guard)| async {
        let event = receiver.recv().await?;
        let mut line = serde_json::to_vec(&event).ok()?;
        line.push(b'\n');
        Some((Ok::<_, std::convert::Infallible>(line), (receiver, guard)))
    });
    ([(CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines.boxed())).into_response()
}

#[utoipa::path(get, path = "/v1/snapshots", responses((status = 200, body = Vec<Snapshot>)))]
pub(super) async fn list_snapshots(
    State(service): Shared,
) -> Result<Json<Vec<Snapshot>>, ApiError> {
    Ok(Json(service.snapshots.list().await?))
}

#[utoipa::path(get, path = "/v1/snapshots/{name}",
    responses((status = 200, body = Snapshot), (status = 404, body = ErrorBody)))]
pub(super) async fn show_snapshot(
    State(service): Shared,
    Path(name): Path<String>,
) -> Result<Json<Snapshot>, ApiError> {
    Ok(Json(service.snapshots.show(&name).await?))
}

/// Removes a snapshot; refused while branches of it exist.
#[utoipa::path(delete, path = "/v1/snapshots/{name}",
    responses((status = 200, body = Snapshot), (status = 409, body = ErrorBody)))]
pub(super) async fn remove_snapshot(
    State(service): Shared,
    Path(name): Path<String>,
) -> Result<Json<Snapshot>, ApiError> {
    Ok(Json(service.snapshots.remove(&name).await?))
}

/// Makes a lease; the answer holds its URL, this once.
#[utoipa::path(post, path = "/v1/leases", request_body = NewLease,
    responses((status = 200, body = CreatedLease), (status = 400, body = ErrorBody)))]
pub(super) async fn create_lease(
    State(service): Shared,
    JsonBody(wanted): JsonBody<NewLease>,
) -> Result<Json<CreatedLease>, ApiError> {
    // In a task of its own: a caller that goes away must not leave a half-made lease.
    let leases = Arc::clone(&service.leases);
    let made = tokio::spawn(async move { leases.create(wanted).await }).await;
    Ok(Json(made.map_err(|e| ApiError::internal(&e))??))
}

/// Which leases to list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
pub(super) struct ListLeases {
    /// Ended ones too.
    #[serde(default)]
    all: bool,
}

#[utoipa::path(get, path = "/v1/leases", params(ListLeases),
    responses((status = 200, body = Vec<Lease>)))]
pub(super) async fn list_leases(
    State(service): Shared,
    Query(query): Query<ListLeases>,
) -> Result<Json<Vec<Lease>>, ApiError> {
    Ok(Json(service.leases.list(query.all).await?))
}

#[utoipa::path(get, path = "/v1/leases/{id}",
    responses((status = 200, body = Lease), (status = 404, body = ErrorBody)))]
pub(super) async fn show_lease(
    State(service): Shared,
    Path(id): Path<String>,
) -> Result<Json<Lease>, ApiError> {
    Ok(Json(service.leases.show(&id).await?))
}

/// How long from now on.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Renewal {
    /// Lifetime in seconds; the configuration's default when absent.
    #[serde(default)]
    pub ttl_seconds: Option<u64>,
}

#[utoipa::path(post, path = "/v1/leases/{id}/renew", request_body = Renewal,
    responses((status = 200, body = Lease), (status = 409, body = ErrorBody)))]
pub(super) async fn renew_lease(
    State(service): Shared,
    Path(id): Path<String>,
    JsonBody(renewal): JsonBody<Renewal>,
) -> Result<Json<Lease>, ApiError> {
    Ok(Json(service.leases.renew(&id, renewal.ttl_seconds).await?))
}

/// Ends a lease now.
#[utoipa::path(delete, path = "/v1/leases/{id}",
    responses((status = 200, body = Lease), (status = 404, body = ErrorBody)))]
pub(super) async fn revoke_lease(
    State(service): Shared,
    Path(id): Path<String>,
) -> Result<Json<Lease>, ApiError> {
    let leases = Arc::clone(&service.leases);
    let ended = tokio::spawn(async move { leases.revoke(&id).await }).await;
    Ok(Json(ended.map_err(|e| ApiError::internal(&e))??))
}

/// The secret of a lease.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseUrl {
    /// The `DATABASE_URL` with the token in it.
    pub database_url: String,
}

#[utoipa::path(get, path = "/v1/leases/{id}/url",
    responses((status = 200, body = DatabaseUrl), (status = 409, body = ErrorBody)))]
pub(super) async fn lease_url(
    State(service): Shared,
    Path(id): Path<String>,
) -> Result<Json<DatabaseUrl>, ApiError> {
    let url = service.leases.url(&id).await?;
    Ok(Json(DatabaseUrl { database_url: url.expose_secret().to_owned() }))
}

#[utoipa::path(get, path = "/v1/branches", responses((status = 200, body = Vec<BranchInfo>)))]
pub(super) async fn list_branches(
    State(service): Shared,
) -> Result<Json<Vec<BranchInfo>>, ApiError> {
    Ok(Json(service.branches.list().await?))
}

#[utoipa::path(get, path = "/v1/branches/{id}",
    responses((status = 200, body = BranchInfo), (status = 404, body = ErrorBody)))]
pub(super) async fn show_branch(
    State(service): Shared,
    Path(id): Path<String>,
) -> Result<Json<BranchInfo>, ApiError> {
    Ok(Json(service.branches.show(&id).await?))
}
