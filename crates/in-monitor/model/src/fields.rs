//! The field table, with one row for each value that is shown. Struct members, reading and checking the driver's files, tables, `-q`, JSON
//! (written and read), CSV, metrics, history, charts, help and docs are all loops over its rows.

mod device;
mod memory;
mod process;
mod value;

pub use device::{DEVICE, Device};
pub use memory::{ALLOCATOR_BANKS, ALLOCATOR_KIND, DEVICE_KIND, PROCESS_KIND};
pub use process::{PROCESS, Process};
pub(crate) use value::hex16;
pub use value::{Member, Typed, Value};

use std::ops::Deref;

use crate::attributes::{ATTRIBUTES, Attr, ReadInterval};
use crate::memory::{Kind, KindMemory};
use crate::missing::{Missing, Reading};
use crate::units::Unit;

crate::named! {
    /// The sections of nvidia-smi, as accepted by `-q -d`, in the order of `-q`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Section {
        /// Identity.
        Identity = "IDENTITY",
        /// State and health.
        Performance = "PERFORMANCE",
        /// Temperatures and fan.
        Temperature = "TEMPERATURE",
        /// Power, voltage, current.
        Power = "POWER",
        /// Clocks.
        Clock = "CLOCK",
        /// Computed values.
        Utilization = "UTILIZATION",
        /// Link and traffic.
        Pcie = "PCIE",
        /// Versions.
        Firmware = "FIRMWARE",
        /// Memory.
        Memory = "MEMORY",
        /// Processes.
        Pids = "PIDS",
    }
}

/// Number of samples that a value needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SamplesNeeded {
    /// One sample.
    One,
    /// Two samples, for a rate.
    Two,
    /// Two samples at least a second apart.
    TwoSlow,
}

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// The value can increase and decrease.
    Gauge,
    /// The value only increases, until it is reset.
    Counter,
}

/// The metric of a field, in the base unit of [`Unit::base`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The full name. Names never change, because dashboards and alerts use them.
    pub name: &'static str,
    /// The type.
    pub kind: MetricKind,
    /// Whether the metric is part of `--metrics lean`, for a store of many hosts.
    pub is_lean: bool,
}

/// The source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldSource {
    /// A file of the driver.
    File(Attr),
    /// Computed, from this file among others or from no file.
    Computed(Option<Attr>),
}

/// A chart of a field in `top`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chart {
    /// The position among the charts.
    pub order: u8,
    /// The name in the configuration file. Names never change.
    pub name: &'static str,
    /// The field with the limit. The limit is a line in the chart and the hot end of the mesh's scale.
    pub limit: Option<&'static str>,
    /// The share of the limit from which the value is critical.
    pub critical: Option<f64>,
    /// A field that replaces this one if it has a value.
    pub unless: Option<&'static str>,
    /// For a field of a kind of memory: the kind and the title of the chart.
    pub part: Option<(Kind, &'static str)>,
}

impl Chart {
    const fn new(order: u8, name: &'static str) -> Self {
        Self { order, name, limit: None, critical: None, unless: None, part: None }
    }

    const fn limit(mut self, limit: &'static str) -> Self {
        self.limit = Some(limit);
        self
    }

    const fn critical(mut self, share: f64) -> Self {
        self.critical = Some(share);
        self
    }

    const fn unless(mut self, field: &'static str) -> Self {
        self.unless = Some(field);
        self
    }

    const fn part(mut self, title: &'static str, kind: Kind) -> Self {
        self.part = Some((kind, title));
        self
    }
}

/// The row of a field, independent of the struct that has the field.
#[derive(Clone, Copy, Debug)]
pub struct FieldInfo {
    /// The name in JSON, CSV and docs. A dot separates an object from its member.
    pub name: &'static str,
    /// The title.
    pub title: &'static str,
    /// The section in `-q`.
    pub section: Section,
    /// The unit.
    pub unit: Unit,
    /// Number of samples that the value needs.
    pub samples: SamplesNeeded,
    /// The source of its value.
    pub source: FieldSource,
    /// The metric. Identities have none, nor do values that metrics show in another form.
    pub metric: Option<Metric>,
    /// Whether the service stores its history.
    pub is_kept: bool,
    /// The charts.
    pub charts: &'static [Chart],
    /// The short title for narrow columns.
    pub short: Option<&'static str>,
    /// Whether the value is constant while the device is present.
    pub is_fixed: bool,
    /// Whether the value is read directly from the chip, with `--deep`.
    pub is_deep: bool,
    /// The meaning in one sentence.
    pub help: &'static str,
}

impl FieldInfo {
    /// Returns the title for narrow columns: one word.
    pub fn heading(&self) -> &'static str {
        self.short.unwrap_or_else(|| self.name.rsplit('.').next().unwrap_or(self.name))
    }

    /// Returns the driver's file that the value comes from.
    pub fn attr(&self) -> Option<Attr> {
        match self.source {
            FieldSource::File(attr) => Some(attr),
            FieldSource::Computed(attr) => attr,
        }
    }
}

/// One row of the table: a field of `T`.
pub struct Field<T> {
    info: FieldInfo,
    /// Returns the value.
    pub get: fn(&T) -> Reading<Value>,
    /// Replaces the value. Does nothing for computed fields.
    pub set: fn(&mut T, Reading<Value>),
}

impl<T> Deref for Field<T> {
    type Target = FieldInfo;

    fn deref(&self) -> &FieldInfo {
        &self.info
    }
}

/// Begins the row of a member. The name of the row is that of the member, or the text after `=`.
macro_rules! field {
    ($item:ident.$first:ident$(.$rest:ident)*, $($shown:expr),+) => {
        field!($item.$first$(.$rest)* = concat!(stringify!($first) $(, ".", stringify!($rest))*), $($shown),+)
    };
    ($item:ident.$($path:ident).+ = $name:expr, $($shown:expr),+) => {
        Field::<$item>::new($name, $($shown),+, |item| Member::get(&item.$($path).+), |item, value| {
            Member::set(&mut item.$($path).+, value)
        })
    };
}
use field;

impl<T> Field<T> {
    const fn new(
        name: &'static str,
        title: &'static str,
        section: Section,
        unit: Unit,
        get: fn(&T) -> Reading<Value>,
        set: fn(&mut T, Reading<Value>),
    ) -> Self {
        let info = FieldInfo {
            name,
            title,
            section,
            unit,
            samples: SamplesNeeded::One,
            source: FieldSource::Computed(None),
            metric: None,
            is_kept: false,
            charts: &[],
            short: None,
            is_fixed: matches!(section, Section::Identity),
            is_deep: false,
            help: "",
        };
        Self { info, get, set }
    }

    /// Begins the row of a value that is computed from members, and never stored.
    const fn computed(name: &'static str, title: &'static str, section: Section, unit: Unit, get: fn(&T) -> Reading<Value>) -> Self {
        Self::new(name, title, section, unit, get, |_, _| {})
    }

    const fn help(mut self, help: &'static str) -> Self {
        self.info.help = help;
        self
    }

    const fn file(mut self, attr: Attr) -> Self {
        self.info.is_fixed = matches!(ATTRIBUTES[attr as usize].interval, ReadInterval::Static);
        self.info.source = FieldSource::File(attr);
        self
    }

    const fn from(mut self, attr: Attr) -> Self {
        self.info.source = FieldSource::Computed(Some(attr));
        self
    }

    const fn deep(mut self) -> Self {
        self.info.is_deep = true;
        self
    }

    const fn fixed(mut self) -> Self {
        self.info.is_fixed = true;
        self
    }

    const fn rate(mut self, samples: SamplesNeeded) -> Self {
        self.info.samples = samples;
        self
    }

    const fn metric(mut self, name: &'static str) -> Self {
        self.info.metric = Some(Metric { name, kind: MetricKind::Gauge, is_lean: true });
        self
    }

    const fn counter(mut self, name: &'static str) -> Self {
        self.info.metric = Some(Metric { name, kind: MetricKind::Counter, is_lean: true });
        self
    }

    /// A metric that `--metrics lean` leaves out.
    const fn full_metric(mut self, name: &'static str) -> Self {
        self.info.metric = Some(Metric { name, kind: MetricKind::Gauge, is_lean: false });
        self
    }

    /// The service stores its history, and dmon has a column of it under this short title. A chart needs it.
    const fn kept(mut self, short: &'static str) -> Self {
        self.info.is_kept = true;
        self.info.short = Some(short);
        self
    }

    const fn charts(mut self, charts: &'static [Chart]) -> Self {
        self.info.charts = charts;
        self
    }
}

/// A field of a device: a row of [`DEVICE`], or a row of a kind of memory.
#[derive(Clone, Copy)]
pub enum DeviceField {
    /// A row of the device table.
    Plain(&'static Field<Device>),
    /// A row of the kind table, for one kind.
    OfKind(Kind, &'static Field<KindMemory>),
}

impl Deref for DeviceField {
    type Target = FieldInfo;

    fn deref(&self) -> &FieldInfo {
        match self {
            Self::Plain(field) => field,
            Self::OfKind(_, field) => field,
        }
    }
}

impl std::fmt::Debug for DeviceField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

impl DeviceField {
    /// Finds a field by its JSON name.
    pub fn find(name: &str) -> Option<Self> {
        if let Some(field) = DEVICE.iter().find(|field| field.name == name) {
            return Some(Self::Plain(field));
        }
        let (kind, rest) = name.strip_prefix("memory.kinds.")?.split_once('.')?;
        let kind = Kind::from_name(kind)?;
        DEVICE_KIND.iter().find(|field| field.name == rest).map(|field| Self::OfKind(kind, field))
    }

    /// Returns all fields.
    pub fn all() -> impl Iterator<Item = Self> {
        let kinds = Kind::ALL.into_iter().flat_map(|kind| DEVICE_KIND.iter().map(move |field| Self::OfKind(kind, field)));
        DEVICE.iter().map(Self::Plain).chain(kinds)
    }

    /// Returns the JSON name.
    pub fn name(&self) -> String {
        match self {
            Self::Plain(field) => field.name.to_owned(),
            Self::OfKind(kind, field) => format!("memory.kinds.{}.{}", kind.name(), field.name),
        }
    }

    /// Returns the chart of the field and the title of the chart.
    pub fn chart(&self) -> Option<(&'static Chart, &'static str)> {
        let of = if let Self::OfKind(kind, _) = self { Some(*kind) } else { None };
        let chart = self.charts.iter().find(|chart| chart.part.map(|(kind, _)| kind) == of)?;
        Some((chart, chart.part.map_or(self.title, |(_, title)| title)))
    }

    /// Returns the value.
    pub fn get(&self, device: &Device) -> Reading<Value> {
        match self {
            Self::Plain(field) => (field.get)(device),
            Self::OfKind(kind, field) => (field.get)(&device.memory.kinds[*kind]),
        }
    }

    /// Returns the value as a number.
    pub fn number(&self, device: &Device) -> Reading<f64> {
        self.get(device)?.number().ok_or(Missing::Unparsable)
    }

    /// Replaces the value.
    pub fn set(&self, device: &mut Device, value: Reading<Value>) {
        match self {
            Self::Plain(field) => (field.set)(device, value),
            Self::OfKind(kind, field) => (field.set)(&mut device.memory.kinds[*kind], value),
        }
    }
}

impl Device {
    /// Sets the device to an earlier time. Constant fields keep their values, the given fields get these numbers, and all other fields are
    /// missing.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates, and no such number is negative")]
    pub fn restore(&mut self, numbers: impl IntoIterator<Item = (DeviceField, f64)>) {
        for field in DeviceField::all().filter(|field| !field.is_fixed) {
            // A value that needs `--deep`, or that a remote chip lacks, was missing at the earlier time too.
            let reason = field.get(self).err().filter(|reason| matches!(reason, Missing::NeedsDeep | Missing::RemoteChip));
            field.set(self, Err(reason.unwrap_or(Missing::NoSource)));
        }
        for kind in Kind::ALL {
            self.memory.kinds[kind].figure.kernel_types = None;
        }
        for (field, number) in numbers {
            // A whole number may have been averaged.
            field.set(self, Ok(if field.unit.is_whole() { Value::Integer(number as u64) } else { Value::Float(number) }));
        }
        // The chip was read then, even if it is not read now.
        if self.utilization.is_ok() {
            self.deep_age_s = Err(Missing::NoSource);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A struct prints each member on a line of its own.
    fn members(item: &impl std::fmt::Debug) -> Vec<String> {
        let text = format!("{item:#?}");
        let at_top = text.lines().filter_map(|line| line.strip_prefix("    ").filter(|line| line.starts_with(|first: char| first != ' ')));
        at_top.filter_map(|line| Some(line.split_once(": ")?.0.to_owned())).collect()
    }

    #[test]
    fn every_member_has_a_row() {
        let (device, process) = (members(&Device::absent()), members(&Process::absent()));
        assert!(device.len() > 60 && process.len() > 20, "{device:?} {process:?}");
        let without = |members: Vec<String>, names: Vec<&str>| -> Vec<String> {
            members.into_iter().filter(|member| !names.contains(&member.as_str())).collect()
        };
        assert_eq!(without(device, DEVICE.iter().map(|field| field.name).collect()), ["memory"]);
        assert_eq!(without(process, PROCESS.iter().map(|field| field.name).collect()), ["key", "devices", "unmapped"]);
    }

    fn check<T>(table: &[Field<T>]) {
        for (index, field) in table.iter().enumerate() {
            let is_plain = field.name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.".contains(&byte));
            assert!(is_plain && !field.name.is_empty(), "{}", field.name);
            assert!(field.help.ends_with('.') && !field.title.is_empty(), "{}", field.name);
            assert!(table[..index].iter().all(|other| other.name != field.name), "{} twice", field.name);
        }
    }

    #[test]
    fn tables_are_sound() {
        check(DEVICE);
        check(DEVICE_KIND);
        check(PROCESS_KIND);
        check(PROCESS);
        check(ALLOCATOR_KIND);
        check(ALLOCATOR_BANKS);
    }

    /// The name of a metric ends with the base unit, or with `_total` for a counter. Names are unique.
    #[test]
    fn metrics_are_named_by_the_rules() {
        let device = DEVICE.iter().filter_map(|field| Some((field.metric?, field.unit)));
        let kinds = DEVICE_KIND.iter().filter_map(|field| Some((field.metric?, field.unit)));
        let mut seen = Vec::new();
        for (metric, unit) in device.chain(kinds) {
            let name = metric.name;
            assert!(name.starts_with("ttmon_device_") || name.starts_with("ttmon_memory_"), "{name}");
            assert_eq!(name.ends_with("_total"), metric.kind == MetricKind::Counter, "{name}");
            let base = unit.base().name;
            assert!(base.is_empty() || name.ends_with(&format!("_{base}")), "{name} is in {base}");
            assert!(!seen.contains(&name), "{name} twice");
            seen.push(name);
        }
    }

    /// A service stores averages, so 812.5 MHz is a valid clock.
    #[test]
    fn whole_numbers_are_restored_from_means() {
        let field = |name| DeviceField::find(name).unwrap();
        let mut device = Device::absent();
        device.restore([(field("aiclk_mhz"), 812.5), (field("memory.used"), 1e9 + 0.25), (field("temperature"), 54.5)]);
        assert_eq!(device.aiclk_mhz.map(|clock| clock.0), Ok(812));
        assert_eq!(device.memory.dram.used, Ok(1_000_000_000));
        assert_eq!(device.temperature.map(|value| value.0), Ok(54.5));
        assert_eq!(device.memory.l1.used, Err(Missing::NoSource));
        // An absent device has the reasons of a remote chip. They do not change with time, so they stay.
        assert_eq!(device.power.err(), Some(Missing::RemoteChip));
    }

    #[test]
    fn every_field_is_found_by_its_name() {
        for field in DeviceField::all() {
            assert_eq!(DeviceField::find(&field.name()).map(|found| found.name()), Some(field.name()));
        }
        assert!(DeviceField::find("memory.kinds.dram.nonsense").is_none());
        assert!(DeviceField::find("memory.kinds.gddr.used").is_none());
    }
}
