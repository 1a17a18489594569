//! The OpenAPI document, made from the handlers.

use utoipa::OpenApi;

use super::api;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Postern admin API",
        description = "Leases, branches and snapshots. Bodies are the JSON that the command line prints with --json.",
    ),
    paths(
        api::version,
        api::list_snapshots,
        api::import_snapshot,
        api::show_snapshot,
        api::remove_snapshot,
        api::list_leases,
        api::create_lease,
        api::show_lease,
        api::renew_lease,
        api::revoke_lease,
        api::lease_url,
        api::list_branches,
        api::show_branch,
    )
)]
struct Document;

/// The OpenAPI 3.1 document of the admin API.
pub fn document() -> utoipa::openapi::OpenApi {
    Document::openapi()
}
