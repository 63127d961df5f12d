//! The JSON documents. Slow ones are computed on another thread, so that other requests do not wait.

use std::collections::HashSet;
use std::mem;
use std::sync::Arc;

use hyper::Response;
use serde_json::{Value, json};
use ttmon_alerts::Sender;
use ttmon_collect::budget::Budget;
use ttmon_collect::ledgers::{self, LedgerDetail, OpenLedger};
use ttmon_collect::reads::boot_time;
use ttmon_hosts::fleet::{FindRequest, HOSTS_SHOWN};
use ttmon_json::{MemoryJson, MemoryParts, Part, PartJson, SCHEMA, SnapshotJson, rounded};
use ttmon_model::fields::{DEVICE, DEVICE_KIND, DeviceField, Field, FieldInfo, PROCESS, PROCESS_KIND};
use ttmon_model::ledger::LedgerSample;
use ttmon_model::mesh::{Link, Mesh, Tile};
use ttmon_model::order::BufferOrder;
use ttmon_model::{Device, Process, ProcessKey, Snapshot};

use super::parameters::Parameters;
use super::{aged, line};
use crate::access::Visibility;
use crate::body::Body;
use crate::ended_processes;
use crate::history::Query;
use crate::limits::{BUFFERS_DEFAULT, BUFFERS_MAX, MEMORY_BUFFERS_MAX};
use crate::newest::{Form, Published};
use crate::problem::Problem;
use crate::service::{Service, now};

/// Runs a function on a thread for slow work.
pub(super) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Problem::Defect)
}

pub(super) async fn part(service: &Arc<Service>, form: Form, visibility: Visibility) -> Result<Response<Body>, Problem> {
    let newest = service.fresh()?;
    let age = newest.age().as_secs();
    let version = service.options.version;
    let text = aside(move || text(&newest, form, visibility, version)).await?;
    Ok(aged(text, age))
}

/// Returns alerts, rules, silences and receivers. They contain no data of processes.
pub(super) fn alerts(service: &Service) -> Result<Response<Body>, Problem> {
    let newest = service.fresh()?;
    let snapshot = &newest.snapshot;
    let sender = Sender { version: service.options.version, host: &snapshot.host, origin: snapshot.origin.name(), is_test: false };
    Ok(aged(format!("{}\n", service.alerting.document(sender)), newest.age().as_secs()))
}

pub(super) fn mesh(service: &Service) -> Result<Response<Body>, Problem> {
    let newest = service.fresh()?;
    let snapshot = &newest.snapshot;
    let mut document = mesh_parts(&ttmon_model::mesh::of(snapshot, service.cluster.as_ref()));
    document["schema"] = json!(SCHEMA);
    document["version"] = json!(service.options.version);
    document["host"] = json!(snapshot.host);
    document["time"] = json!(snapshot.time.rfc3339());
    document["origin"] = json!(snapshot.origin.name());
    Ok(aged(format!("{document}\n"), newest.age().as_secs()))
}

/// Returns the members of a mesh, without the document header.
pub(crate) fn mesh_parts(mesh: &Mesh) -> Value {
    let tile = |tile: &Tile| json!({"device": tile.device.0, "row": tile.row, "column": tile.column, "tray": tile.tray});
    let link = |link: &Link| json!({"devices": [link.ends.0.0, link.ends.1.0], "count": link.count});
    json!({
        "layout": mesh.origin,
        "rows": mesh.rows,
        "columns": mesh.columns,
        "tiles": mesh.tiles.iter().map(tile).collect::<Vec<_>>(),
        // Links that are only known from the board are already in `via`.
        "links": mesh.links.iter().filter(|link| link.count.is_some()).map(link).collect::<Vec<_>>(),
    })
}

/// Returns the JSON text of a form, with a newline.
pub(super) fn text(newest: &Published, form: Form, visibility: Visibility, version: &str) -> hyper::body::Bytes {
    newest.text(form, visibility, |snapshot| {
        let seen = visibility.of(snapshot);
        let snapshot = SnapshotJson { snapshot: &seen, version };
        match form {
            Form::Devices => line(&PartJson { snapshot, part: Part::Devices }),
            Form::Processes => line(&PartJson { snapshot, part: Part::Processes }),
            _ => line(&MemoryJson { snapshot, parts: MemoryParts::default() }),
        }
    })
}

/// Returns the buffers, which are read from the ledgers on request, because the sampler reads only totals.
pub(super) async fn buffers(service: &Arc<Service>, visibility: Visibility, parameters: &Parameters) -> Result<Response<Body>, Problem> {
    let (pid, limit) = (parameters.pid()?, parameters.limit(BUFFERS_DEFAULT, BUFFERS_MAX)?);
    let newest = service.fresh()?;
    let age = newest.age().as_secs();
    let version = service.options.version;
    let text = service.responses.make(visibility, move || {
        let order = BufferOrder::Size;
        let mut snapshot = with_buffers(&newest, visibility, pid, LedgerDetail::First(order, limit));
        let mut buffers = mem::take(&mut snapshot.buffers);
        let left_out: u64 = snapshot.allocators.iter().map(|allocator| allocator.buffers_left_out).sum();
        let count = buffers.len().saturating_add(usize::try_from(left_out).unwrap_or(usize::MAX));
        order.keep_first(&mut buffers, limit);
        let snapshot = SnapshotJson { snapshot: &snapshot, version };
        Ok(line(&PartJson { snapshot, part: Part::Buffers(&buffers, count) }))
    });
    Ok(aged(text.await?, age))
}

/// Returns the document of `ttmon mem`: the whole snapshot or one process, with the requested parts.
pub(super) async fn memory(service: &Arc<Service>, visibility: Visibility, parameters: &Parameters) -> Result<Response<Body>, Problem> {
    let is_given = |name| parameters.truth(name, false);
    let (buffers, banks, blocks) = (is_given("buffers")?, is_given("banks")?, is_given("blocks")?);
    let parts = MemoryParts { buffers, banks, blocks, ..MemoryParts::default() };
    let pid = parameters.pid()?;
    let has_parts = parts != MemoryParts::default();
    if has_parts && visibility == Visibility::Public {
        return Err(Problem::NoToken);
    }
    if !has_parts && pid.is_none() {
        return part(service, Form::Snapshot, visibility).await;
    }
    let detail = match parts {
        MemoryParts { banks: true, .. } | MemoryParts { blocks: true, .. } => LedgerDetail::Blocks,
        _ if has_parts => LedgerDetail::Buffers,
        _ => LedgerDetail::Totals,
    };
    let newest = service.fresh()?;
    let age = newest.age().as_secs();
    let making = Arc::clone(service);
    let text = service.responses.make(visibility, move || {
        let service = making;
        let is_here = |pid: &u32| newest.snapshot.processes.iter().any(|process| process.key.pid == *pid);
        let ended = pid.filter(|pid| !is_here(pid)).and_then(|pid| service.ended_with(pid, visibility).last());
        let mut snapshot = match ended {
            Some((found, _)) => ended_processes::snapshot(&found, &newest, detail),
            None if has_parts => {
                let mut snapshot = with_buffers(&newest, visibility, pid, detail);
                visibility.hide(&mut snapshot);
                snapshot
            }
            None => visibility.of(&newest.snapshot).into_owned(),
        };
        if let Some(pid) = pid {
            snapshot.processes.retain(|process| process.key.pid == pid);
            snapshot.allocators.retain(|allocator| allocator.process.pid == pid);
        }
        let count = snapshot.buffers.len();
        if count > MEMORY_BUFFERS_MAX {
            return Err(Problem::TooMuch(format!("{count} buffers; ask for one process, or /api/v1/buffers for the largest")));
        }
        let document = MemoryJson { snapshot: SnapshotJson { snapshot: &snapshot, version: service.options.version }, parts };
        Ok(line(&document))
    });
    Ok(aged(text.await?, age))
}

/// Returns the snapshot with the live buffers that this client may see.
fn with_buffers(newest: &Published, visibility: Visibility, pid: Option<u32>, detail: LedgerDetail) -> Snapshot {
    let is_wanted = |process: &&Process| visibility.has(process) && pid.is_none_or(|pid| pid == process.key.pid);
    let wanted: HashSet<ProcessKey> = newest.snapshot.processes.iter().filter(is_wanted).map(|process| process.key).collect();
    let read = newest.ledgers.iter().filter(|found| wanted.contains(&found.owner));
    let mut budget = Budget::of_answer();
    let content = |found: &Arc<OpenLedger>, budget: &mut Budget| ledgers::read(found, detail, budget);
    let read: Vec<LedgerSample> = read.map(|found| LedgerSample { owner: found.owner, content: content(found, &mut budget) }).collect();
    let mut snapshot = renewed(newest, read);
    snapshot.problems.extend(budget.problems(|_| None));
    snapshot.buffers.retain(|buffer| wanted.contains(&buffer.process()));
    snapshot
}

/// Returns the snapshot with the current content of some ledgers.
fn renewed(newest: &Published, read: Vec<LedgerSample>) -> Snapshot {
    let mut sample = newest.sample.clone();
    renew(&mut sample.ledgers, read);
    let mut snapshot = Snapshot::derive(&sample, None);
    // Rates and peaks of devices need more than one sample.
    for (device, known) in snapshot.devices.iter_mut().zip(&newest.snapshot.devices) {
        let mut memory = device.memory.clone();
        for (kind, known) in known.memory.kinds.iter() {
            let figure = &mut memory.kinds[kind].figure;
            (figure.peak, figure.peak_time) = match (known.figure.peak, figure.used) {
                (Ok(peak), Ok(used)) if used > peak => (Ok(used), Ok(snapshot.time)),
                (peak, _) => (peak, known.figure.peak_time),
            };
        }
        *device = Device { memory, ..known.clone() };
    }
    for process in &mut snapshot.processes {
        let known = newest.snapshot.processes.binary_search_by_key(&process.key, |known| known.key);
        if let Some(known) = known.ok().and_then(|index| newest.snapshot.processes.get(index)) {
            (process.cpu, process.launches_per_s) = (known.cpu, known.launches_per_s);
        }
    }
    snapshot
}

/// Replaces the ledgers of the processes that were read again. A process may have two ledgers: its own, and the service's.
fn renew(ledgers: &mut Vec<LedgerSample>, read: Vec<LedgerSample>) {
    let owners: HashSet<ProcessKey> = read.iter().map(|ledger| ledger.owner).collect();
    ledgers.retain(|ledger| !owners.contains(&ledger.owner));
    ledgers.extend(read);
}

/// Returns the history on an even grid.
pub(super) async fn history(service: &Arc<Service>, visibility: Visibility, query: Query) -> Result<Response<Body>, Problem> {
    let making = Arc::clone(service);
    let text = service.responses.make(visibility, move || {
        let service = making;
        let response = service.history(|history| history.read(&query));
        let names: Vec<String> = query.fields.iter().map(DeviceField::name).collect();
        let devices: Vec<Value> = response
            .series
            .iter()
            .map(|series| {
                let columns = query.fields.iter().zip(&series.columns).map(|(field, column)| {
                    let column: Vec<Option<f64>> = column.iter().map(|value| value.map(|value| rounded(value, field.unit))).collect();
                    (field.name(), json!(column))
                });
                json!({"id": series.device.0, "fields": columns.collect::<serde_json::Map<_, _>>()})
            })
            .collect();
        let marks: Vec<Value> = service.events_since(response.start).iter().map(crate::service_events::ServiceEvent::json).collect();
        let document = json!({
            "schema": SCHEMA,
            "version": service.options.version,
            "time": service.wall_time(boot_time()).rfc3339(),
            "start": service.wall_time(response.start).rfc3339(),
            "step_s": response.step.as_secs_f64(),
            "points": response.points,
            "fields": names,
            "devices": devices,
            "marks": marks,
        });
        Ok(line(&document))
    });
    Ok(aged(text.await?, 0))
}

/// Returns all hosts of a fleet, worst first. The page gets data of the store and its address, never its password.
pub(super) async fn fleet(service: &Arc<Service>, visibility: Visibility) -> Result<Response<Body>, Problem> {
    let making = Arc::clone(service);
    let text = service.store_responses.make(visibility, move || {
        let store = making.options.fleet.as_ref().ok_or(Problem::NotFound)?;
        let document = store.overview().document(making.options.version, &now().rfc3339(), HOSTS_SHOWN);
        Ok(line(&document))
    });
    Ok(aged(text.await?, 0))
}

/// Returns hosts with idle chips.
pub(super) async fn fleet_find(service: &Arc<Service>, visibility: Visibility, request: FindRequest) -> Result<Response<Body>, Problem> {
    let making = Arc::clone(service);
    let text = service.store_responses.make(visibility, move || {
        let store = making.options.fleet.as_ref().ok_or(Problem::NotFound)?;
        let found = store.find(&request).map_err(|error| Problem::Stale(format!("the store {error}")))?;
        Ok(line(&request.document(Some(store.url()), &found)))
    });
    Ok(aged(text.await?, 0))
}

/// Returns the field tables, so that the page needs no names, units or help texts of its own.
pub(super) fn fields(version: &str, has_fleet: bool) -> String {
    let mut charts: Vec<_> = DeviceField::all().filter_map(|field| Some((field, field.chart()?))).collect();
    charts.sort_by_key(|(_, (chart, _))| chart.order);
    let charts: Vec<Value> = charts
        .iter()
        .map(|(field, (chart, title))| {
            json!({
                "name": chart.name, "field": field.name(), "title": title, "unit": field.unit.symbol(),
                "limit": chart.limit, "critical": chart.critical, "unless": chart.unless,
            })
        })
        .collect();
    let document = json!({
        "schema": SCHEMA,
        "version": version,
        "device": field_table(DEVICE),
        "device_kind": field_table(DEVICE_KIND),
        "process": field_table(PROCESS),
        "process_kind": field_table(PROCESS_KIND),
        "charts": charts,
        "fleet": has_fleet,
    });
    line(&document)
}

fn field_table<T>(fields: &[Field<T>]) -> Vec<Value> {
    fields.iter().map(|field| field_row(field)).collect()
}

fn field_row(field: &FieldInfo) -> Value {
    json!({
        "name": field.name,
        "title": field.title,
        "section": field.section.name(),
        "unit": field.unit.symbol(),
        "metric": field.metric.map(|metric| metric.name),
        "kept": field.is_kept,
        "help": field.help,
    })
}

#[cfg(test)]
mod tests {
    use ttmon_model::Missing;

    use super::*;

    #[test]
    fn both_ledgers_of_a_process_are_read_anew() {
        let ledger = |pid: u32, reason: Missing| LedgerSample { owner: ProcessKey { pid, start_ticks: 1 }, content: Err(reason) };
        let mut ledgers = vec![ledger(1, Missing::Gone), ledger(2, Missing::Gone), ledger(1, Missing::Gone)];
        renew(&mut ledgers, vec![ledger(1, Missing::Timeout), ledger(1, Missing::IoError)]);
        assert_eq!(ledgers, [ledger(2, Missing::Gone), ledger(1, Missing::Timeout), ledger(1, Missing::IoError)]);
    }
}
