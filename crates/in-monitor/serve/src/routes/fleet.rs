//! Data of a store of many hosts. The page gets this data and the address of the store, never its password.

use std::sync::Arc;

use hyper::Response;
use ttmon_hosts::fleet::{FindRequest, HOSTS_SHOWN};

use super::parameters::Parameters;
use super::{aged, line};
use crate::access::Visibility;
use crate::body::Body;
use crate::problem::Problem;
use crate::service::{Service, now};

/// Returns all hosts, worst first.
pub(super) async fn overview(service: &Arc<Service>, visibility: Visibility) -> Result<Response<Body>, Problem> {
    let making = Arc::clone(service);
    let text = service.store_responses.make(visibility, move || {
        let store = making.options.fleet.as_ref().ok_or(Problem::NotFound)?;
        let document = store.overview().document(making.options.version, &now().rfc3339(), HOSTS_SHOWN);
        Ok(line(&document))
    });
    Ok(aged(text.await?, 0))
}

/// Returns hosts with idle chips.
pub(super) async fn find(service: &Arc<Service>, visibility: Visibility, request: FindRequest) -> Result<Response<Body>, Problem> {
    let making = Arc::clone(service);
    let text = service.store_responses.make(visibility, move || {
        let store = making.options.fleet.as_ref().ok_or(Problem::NotFound)?;
        let found = store.find(&request).map_err(|error| Problem::Stale(format!("the store {error}")))?;
        Ok(line(&request.document(Some(store.url()), &found)))
    });
    Ok(aged(text.await?, 0))
}

pub(super) fn request(parameters: &Parameters) -> Result<FindRequest, Problem> {
    let chips = parameters.number("chips", 1, u32::from(u16::MAX))?.unwrap_or(1);
    let free_dram = parameters.number("free_dram", 0, u64::from(u32::MAX) << 20)?.unwrap_or(0);
    Ok(FindRequest { chips, board: parameters.get("board").map(str::to_owned), free_dram })
}
