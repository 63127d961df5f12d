//! Formats the newest snapshot as metrics: OpenMetrics 1.0, or the older text format 0.0.4 on request.
//!
//! Names and units come from the field table. Unknown values have no series. Series of devices have the five labels that identify a chip,
//! and at most one more. Containers, pods and jobs have separate series for joins, so that the series of a device continue when a job ends.

mod gzip;
#[cfg(test)]
mod page;
mod service;
mod writer;

use std::collections::BTreeSet;

use ttmon_model::fields::{DEVICE, DEVICE_KIND, Field, MetricKind, PROCESS, PROCESS_KIND, Value};
use ttmon_model::snapshot::{Health, State};
use ttmon_model::units::Unit;
use ttmon_model::{Device, Kind, Reading, Snapshot};

pub(crate) use gzip::{deflated, gzip_of};
pub(crate) use service::{AlertFigures, Count, Counters, MessageFigures, PageAddress, ServiceFigures};
pub(crate) use writer::Dialect;
use writer::{Family, Writer};

use crate::chips::Chips;
use crate::limits::{PROCESS_SERIES_MAX, WORKLOADS_MAX};

/// Series that are not in the field table. docs/metrics.md lists them too.
pub(crate) mod families {
    use super::Family;

    /// Labels of the series of a device.
    pub(crate) const CHIP: &str = "device, bdf, board, arch, asic_id";
    /// Labels of a workload, without those of its device.
    pub(crate) const WORKLOAD: &str = "namespace, pod, container, pod_uid, container_id, slurm_job";

    pub(crate) const DEVICE_INFO: Family = Family::info("ttmon_device_info", "A device: its ids, serial, chip and location.")
        .labels("device, asic_id, asic_id_decimal, unique_id, serial, chip, location");
    pub(crate) const FIRMWARE_INFO: Family = Family::info("ttmon_device_firmware_info", "Versions of a device's firmware.")
        .labels("device, asic_id, firmware, m3_fw, arc_fw, eth_fw");
    pub(crate) const STATE: Family = Family::gauge(
        "ttmon_device_state",
        "1 for the state a device is in, 0 for the others (lean: no series): ok, resetting, gone, unreadable, unknown, starting.",
    )
    .labels("device, bdf, board, arch, asic_id, state");
    pub(crate) const HEALTH: Family = Family::gauge(
        "ttmon_device_health",
        "1 for the health of a device, 0 for the others (lean: no series): ok, warning, critical, unknown.",
    )
    .labels("device, bdf, board, arch, asic_id, health");
    pub(crate) const PROCESSES: Family =
        Family::gauge("ttmon_device_processes", "Processes on the device whose names are known.").labels(CHIP);
    pub(crate) const WORKLOAD_INFO: Family =
        Family::info("ttmon_workload_info", "A container, pod or Slurm job on a device, by name and by id: join on device and asic_id.")
            .labels("device, asic_id, namespace, pod, container, pod_uid, container_id, slurm_job");
    pub(crate) const HELD: Family =
        Family::counter("ttmon_device_held_seconds_total", "Time in which a process had the device open, since the service started.")
            .unit("seconds")
            .labels(CHIP);
    pub(crate) const ACQUISITIONS: Family =
        Family::counter("ttmon_device_acquisitions_total", "How often a process opened the device, since the service started.")
            .labels(CHIP);
    pub(crate) const PROCESS_MEMORY: Family =
        Family::gauge("ttmon_process_memory_used_bytes", "Memory of a process on a device; only with --process-metrics.")
            .unit("bytes")
            .labels("device, pid, name, kind");
    pub(crate) const PROCESS_INFO: Family =
        Family::info("ttmon_process_info", "A process: owner, container, pod and job; only with --process-metrics.")
            .labels("pid, user, namespace, pod, container, pod_uid, container_id, slurm_job");

    /// Families of devices and processes, in the order of the scrape.
    #[cfg(test)]
    pub(crate) const ALL: [Family; 10] =
        [DEVICE_INFO, FIRMWARE_INFO, STATE, HEALTH, PROCESSES, HELD, ACQUISITIONS, WORKLOAD_INFO, PROCESS_MEMORY, PROCESS_INFO];
}

/// How many series there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Detail {
    /// All known values.
    #[default]
    Full,
    /// The series that alerts and dashboards of many hosts need: at most 1,500 series for 32 chips without `--deep`.
    Lean,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    pub(crate) detail: Detail,
    /// Whether each process has its own series. These series change often, so they must be enabled.
    pub(crate) has_processes: bool,
}

impl Scope {
    fn has<T>(self, field: &Field<T>) -> bool {
        self.detail == Detail::Full || field.metric.is_some_and(|metric| metric.is_lean)
    }
}

/// Formats all series of the machine, without the end mark.
pub(crate) fn machine(snapshot: &Snapshot, chips: &Chips, dialect: Dialect, scope: Scope) -> String {
    let mut out = Writer::new(dialect);
    // A series keeps its labels while its chip does not report its identity.
    let known: Vec<Device> = snapshot.devices.iter().map(|device| chips.identified(device)).collect();
    let devices: Vec<(Labels, &Device)> = known.iter().map(|device| (labels(DEVICE, device, families::CHIP), device)).collect();
    identities(&mut out, &devices, snapshot, scope.detail);
    usage(&mut out, &devices, chips);
    for field in DEVICE.iter().filter(|field| scope.has(field)) {
        family_of(&mut out, field, "", |out| {
            for (labels, device) in &devices {
                out.reading(labels, &[], number(&(field.get)(device), field.unit));
            }
        });
    }
    for field in DEVICE_KIND.iter().filter(|field| scope.has(field)) {
        family_of(&mut out, field, " By kind of memory.", |out| {
            for (labels, device) in &devices {
                for (kind, item) in device.memory.kinds.iter() {
                    out.reading(labels, &[("kind", kind.name())], number(&(field.get)(item), field.unit));
                }
            }
        });
    }
    workloads(&mut out, &devices, snapshot);
    if scope.has_processes {
        each_process(&mut out, snapshot);
    }
    out.into_text()
}

type Labels = Vec<(&'static str, String)>;

/// Returns labels from rows of a table. Some have another name here: `id` alone is unclear, `job` is reserved by Prometheus, and `pod` and
/// `container` are names in all other exporters.
fn labels<T>(table: &[Field<T>], item: &T, names: &'static str) -> Labels {
    let value = |name| {
        let name = match name {
            "device" => "id",
            "slurm_job" => "job",
            "pod" => "pod_name",
            "container" => "container_name",
            "pod_uid" => "pod",
            "container_id" => "container",
            name => name,
        };
        match table.iter().find(|field| field.name == name).map(|field| (field.get)(item)) {
            Some(Ok(Value::Text(text))) => text,
            Some(Ok(Value::Integer(number))) => number.to_string(),
            _ => String::new(),
        }
    };
    names.split(", ").map(|name| (name, value(name))).collect()
}

fn family_of<T>(out: &mut Writer, field: &Field<T>, more: &str, series: impl FnOnce(&mut Writer)) {
    let Some(metric) = field.metric else { return };
    let help = format!("{}{more}", field.help);
    let family = match metric.kind {
        MetricKind::Gauge => Family::gauge(metric.name, &help),
        MetricKind::Counter => Family::counter(metric.name, &help),
    };
    out.family(&family.unit(field.unit.base().name));
    series(out);
}

fn identities(out: &mut Writer, devices: &[(Labels, &Device)], snapshot: &Snapshot, detail: Detail) {
    // In lean mode, only the current state of a device has a series.
    let one_of = |out: &mut Writer, labels: &Labels, name: &'static str, value: &str, is_so: bool| {
        if is_so || detail == Detail::Full {
            out.value(labels, &[(name, value)], f64::from(u8::from(is_so)));
        }
    };
    out.family(&families::DEVICE_INFO);
    for (_, device) in devices {
        out.value(&labels(DEVICE, device, families::DEVICE_INFO.labels), &[], 1.0);
    }
    out.family(&families::FIRMWARE_INFO);
    for (_, device) in devices.iter().filter(|(_, device)| device.firmware.is_ok()) {
        out.value(&labels(DEVICE, device, families::FIRMWARE_INFO.labels), &[], 1.0);
    }
    out.family(&families::STATE);
    for (labels, device) in devices {
        for state in State::ALL {
            one_of(out, labels, "state", state.name(), device.state == state);
        }
    }
    out.family(&families::HEALTH);
    for (labels, device) in devices {
        for health in [Health::Ok, Health::Warning, Health::Critical, Health::Unknown] {
            one_of(out, labels, "health", health.name(), device.health == health);
        }
    }
    out.family(&families::PROCESSES);
    for (labels, device) in devices {
        out.value(labels, &[], snapshot.processes_on(device.id).count() as f64);
    }
}

/// Writes how long and how often each device was held.
fn usage(out: &mut Writer, devices: &[(Labels, &Device)], chips: &Chips) {
    out.family(&families::HELD);
    for (labels, device) in devices {
        out.reading(labels, &[], chips.usage(device.id).map(|usage| usage.held.as_secs_f64()));
    }
    out.family(&families::ACQUISITIONS);
    for (labels, device) in devices {
        out.reading(labels, &[], chips.usage(device.id).map(|usage| usage.acquisitions as f64));
    }
}

/// Writes each workload once per device, for any number of processes.
fn workloads(out: &mut Writer, devices: &[(Labels, &Device)], snapshot: &Snapshot) {
    out.family(&families::WORKLOAD_INFO);
    let mut seen = BTreeSet::new();
    for (labels_of, device) in devices {
        for (process, _) in snapshot.processes_on(device.id) {
            let workload = labels(PROCESS, process, families::WORKLOAD);
            let is_new = workload.iter().any(|(_, id)| !id.is_empty()) && seen.insert((device.id, workload.clone()));
            if is_new && seen.len() <= WORKLOADS_MAX {
                let chip = [labels_of[0].clone(), labels_of[4].clone()];
                out.value(&[&chip[..], &workload].concat(), &[], 1.0);
            }
        }
    }
}

fn each_process(out: &mut Writer, snapshot: &Snapshot) {
    let shown = || snapshot.processes.iter().take(PROCESS_SERIES_MAX);
    let used = PROCESS_KIND.iter().find(|field| field.name == "used");
    out.family(&families::PROCESS_MEMORY);
    for process in shown() {
        // In Prometheus an empty label means none.
        let name = process.name.clone().unwrap_or_default();
        for (use_of, kind) in process.devices.iter().flat_map(|use_of| Kind::ALL.into_iter().map(move |kind| (use_of, kind))) {
            let value = used.map(|field| (field.get)(&use_of.kinds[kind]));
            let labels = [("device", use_of.device.to_string()), ("pid", process.key.pid.to_string())];
            let value = value.and_then(|value| number(&value, Unit::Bytes));
            out.reading(&labels, &[("name", &name), ("kind", kind.name())], value);
        }
    }
    out.family(&families::PROCESS_INFO);
    for process in shown() {
        out.value(&labels(PROCESS, process, families::PROCESS_INFO.labels), &[], 1.0);
    }
}

/// Returns the value of a series. A reading without a value has no series.
fn number(reading: &Reading<Value>, unit: Unit) -> Option<f64> {
    reading.as_ref().ok()?.number().map(|number| number * unit.base().factor)
}

#[cfg(test)]
mod tests;
