//! A process of the document.

use ttmon_model::sample::Workload;
use ttmon_model::snapshot::{DeviceUse, Status, Unmapped};
use ttmon_model::{Missing, PerKind, Process, ProcessKey, memory::Figure};

use super::device::{figure, id};
use super::item::Item;

pub(super) fn read(item: &Item<'_>) -> Option<Process> {
    let start_time = item.moment("start_time");
    // The same process in the next document is told by when it started; the ticks themselves are not in it.
    let start_ticks = start_time.map_or(0, |time| time.0 / 1_000_000);
    let uses = item.list("devices")?;
    let unmapped = item.list("unmapped").unwrap_or_default();
    Some(Process {
        key: ProcessKey { pid: u32::try_from(item.whole("pid").ok()?).ok()?, start_ticks },
        name: item.text("name"),
        user: item.text("user"),
        uid: item.whole("uid"),
        command: item.text("command"),
        parent: item.whole("parent"),
        start_time,
        cpu: item.float("cpu"),
        rss: item.whole("rss"),
        workload: Workload { container: item.text("container").ok(), pod: item.text("pod").ok(), job: item.text("job").ok() },
        overlap_bytes: item.whole("overlap_bytes"),
        launches: item.whole("launches"),
        launches_per_s: item.float("launches_per_s"),
        last_launch: item.moment("last_launch"),
        status: item.meaning("status", Status::from_name).unwrap_or(Status::Open),
        devices: uses.iter().map(device_use).collect::<Option<_>>()?,
        unmapped: unmapped.iter().map(unmapped_chip).collect::<Option<_>>()?,
    })
}

fn kinds(item: &Item<'_>) -> PerKind<Figure> {
    let kinds = item.part("kinds");
    PerKind::from_fn(|kind| figure(kinds.as_ref().and_then(|kinds| kinds.part(kind.name())).as_ref()))
}

fn device_use(item: &Item<'_>) -> Option<DeviceUse> {
    Some(DeviceUse { device: id(item.whole("id").ok()?)?, metal_ids: item.wholes("metal_ids"), kinds: kinds(item) })
}

fn unmapped_chip(item: &Item<'_>) -> Option<Unmapped> {
    let id = item.meaning("id", |text| text.parse().ok()).or(Err(Missing::Unparsable));
    Some(Unmapped { id: id.ok()?, unique_id: item.meaning("unique_id", |text| text.parse().ok()), kinds: kinds(item) })
}
