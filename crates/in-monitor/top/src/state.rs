//! The state of the program: selections, the newest snapshot, history. Selections are by identity, never by row; sorted
//! and filtered lists are computed from them.

use std::collections::HashMap;
use std::io;
use std::ops::Deref;
use std::sync::Arc;

use ttmon_model::cluster::Cluster;
use ttmon_model::units::UnixTime;
use ttmon_model::{Device, DeviceId, Process, ProcessKey, Snapshot};

use crate::alerts::Alert;
use crate::clock::Clock;
use crate::columns::{self, COLUMNS};
use crate::feed::ReplayPosition;
use crate::filter::{BadWord, Filter};
use crate::host::Host;
use crate::settings::Settings;
use crate::theme::Theme;
use crate::update::Effect;

ttmon_model::named! {
    /// One of the screens, in the order of their keys.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum View {
        /// Devices and processes.
        #[default]
        Main = "Main",
        /// Metrics over time.
        Charts = "Charts",
        /// All values of one device.
        Detail = "Detail",
        /// Memory, buffer by buffer.
        Memory = "Memory",
        /// The wiring of the chips.
        Mesh = "Mesh",
    }
}

impl View {
    /// The number of its key.
    pub fn number(self) -> usize {
        Self::ALL.iter().position(|view| *view == self).unwrap_or(0) + 1
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Focus {
    Devices,
    #[default]
    Processes,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Dialog {
    Page {
        page: Page,
        scroll: usize,
    },
    /// A filter being typed. Esc restores `before`.
    Filter {
        text: String,
        before: String,
    },
    Sort {
        at: usize,
    },
    Signal(SignalDialog),
    Setup {
        at: usize,
    },
}

impl Dialog {
    pub(crate) fn page(page: Page) -> Self {
        Self::Page { page, scroll: 0 }
    }

    /// Edits a filter.
    pub(crate) fn filter(text: &str) -> Self {
        Self::Filter { text: text.to_owned(), before: text.to_owned() }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Page {
    Help,
    Alerts,
    Process(Owner),
    /// Details of a buffer at the time the dialog was opened.
    Buffer(Vec<String>),
}

/// A process of a machine: the index of the machine, and the key of the process.
pub(crate) type Owner = (usize, ProcessKey);

/// The target of a signal when the dialog opened. The pid alone is not enough, because another process may get it later.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SignalDialog {
    /// A process of this machine. Processes of other machines get no signals.
    pub(crate) key: ProcessKey,
    pub(crate) command: String,
    pub(crate) user: String,
    pub(crate) at: usize,
    pub(crate) is_confirming: bool,
}

ttmon_model::named! {
    /// What the list of buffers is grouped by.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum ListBy {
        /// Each buffer is a row.
        #[default]
        Buffer = "buffer",
        /// The line that allocated.
        Line = "line",
        /// The tag.
        Tag = "tag",
        /// The operation.
        Op = "operation",
        /// The size.
        Size = "size",
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListSort {
    #[default]
    Bytes,
    /// The number of buffers for groups, and the age for buffers.
    Second,
    Name,
}

impl ListSort {
    pub(crate) const ALL: [Self; 3] = [Self::Bytes, Self::Second, Self::Name];
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryList {
    pub(crate) by: ListBy,
    pub(crate) sort: ListSort,
    pub(crate) is_reversed: bool,
    /// Shows only rows that contain this text, in lower case.
    pub(crate) filter: String,
    pub(crate) at: usize,
    /// The group whose buffers are listed, by its name.
    pub(crate) open: Option<String>,
    /// Growth is counted from this time on.
    pub(crate) mark: Option<UnixTime>,
    /// The cursor of the address map; `None` while the list has the focus.
    pub(crate) cursor: Option<MapCursor>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MapCursor {
    pub(crate) row: usize,
    /// Position in the address space of that row, from 0 to `WHOLE`.
    pub(crate) share: u32,
    /// Zoom level; each level halves the visible range.
    pub(crate) zoom: u8,
}

impl MapCursor {
    /// The size of the address space in units of `share`.
    pub(crate) const WHOLE: u32 = 1 << 20;
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message {
    pub(crate) text: String,
    /// When to remove it. Not set before the first snapshot, because the message was not visible yet.
    pub(crate) until: Option<UnixTime>,
}

pub(crate) type Environment = (Owner, io::Result<Vec<String>>);

#[derive(Debug, Default)]
pub(crate) struct TopState {
    pub(crate) size: (u16, u16),
    pub(crate) view: View,
    /// The view in which Enter was pressed. Esc returns to it.
    pub(crate) previous_view: View,
    pub(crate) focus: Focus,
    pub(crate) dialog: Option<Dialog>,
    pub(crate) theme: Theme,
    /// The theme for the detected terminal.
    pub(crate) detected: Theme,
    pub(crate) clock: Clock,

    pub(crate) settings: Settings,
    pub(crate) is_read_only: bool,
    pub(crate) wants_deep: bool,
    /// The monitored machines: this machine, or services of other machines. There is always at least one.
    pub(crate) hosts: Vec<Host>,
    pub(crate) host_index: usize,
    pub(crate) filter: Filter,
    pub(crate) filter_text: String,
    pub(crate) process: Option<Owner>,
    /// The last row of the selected process, after it disappeared from the list.
    pub(crate) last_process_row: usize,
    /// Whether F2 changed something that is not saved yet.
    pub(crate) is_setup_changed: bool,
    pub(crate) memory: MemoryList,
    /// The first visible row of the list that scrolls in this view.
    pub(crate) scroll: usize,
    pub(crate) message: Option<Message>,
    /// A hint for new users, shown until the first key.
    pub(crate) hint: Option<&'static str>,
    pub(crate) environment: Option<Environment>,
    /// Index of the machine whose live buffers are read.
    pub(crate) buffers_of: Option<usize>,
    pub(crate) cluster: Option<Cluster>,
    pub(crate) replay: Option<ReplayPosition>,
    /// What the caller of `update` has to do when the event is applied.
    pub(crate) effects: Vec<Effect>,
}

impl TopState {
    pub(crate) fn new(size: (u16, u16), settings: Settings, detected: Theme, clock: Clock) -> Self {
        Self {
            size,
            view: settings.view,
            theme: detected.chosen(settings.theme),
            detected,
            clock,
            settings,
            hosts: vec![Host::default()],
            ..Self::default()
        }
    }

    pub(crate) fn host(&self) -> &Host {
        &self.hosts[self.host_index]
    }

    pub(crate) fn host_mut(&mut self) -> &mut Host {
        &mut self.hosts[self.host_index]
    }

    /// Turns `--deep` on or off. Charts then prefer utilization or not, unless the user chose a metric.
    pub(crate) fn set_deep(&mut self, wants_deep: bool) {
        self.wants_deep = wants_deep;
        self.settings.prefer_utilization(wants_deep);
    }

    pub(crate) fn is_deep(&self) -> bool {
        self.hosts.iter().filter_map(|host| host.shown()).any(|snapshot| snapshot.is_deep())
    }

    pub(crate) fn has_groups(&self) -> bool {
        self.hosts.len() > 1
    }

    /// Whether the view shows all machines, not only the selected one.
    pub(crate) fn is_overview(&self) -> bool {
        self.has_groups() && self.view == View::Main
    }

    /// Whether signals can be sent to processes of a machine: only to those of this machine, and not in a replay.
    pub(crate) fn can_signal(&self, host: usize) -> bool {
        !self.is_read_only && self.replay.is_none() && self.hosts[host].address.is_none()
    }

    pub(crate) fn shown(&self) -> Option<&Arc<Snapshot>> {
        self.host().shown()
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.hosts.iter().any(|host| host.frozen.is_some())
    }

    /// The alerts of all machines, newest first. If there are several machines, each alert has its machine's name.
    pub(crate) fn alerts(&self) -> Vec<(Option<&str>, &Alert)> {
        let mut alerts: Vec<(Option<&str>, &Alert)> = Vec::new();
        for host in &self.hosts {
            let name = self.has_groups().then(|| host.name());
            alerts.extend(host.alerts.list().iter().rev().map(|alert| (name, alert)));
        }
        alerts.sort_by_key(|(_, alert)| std::cmp::Reverse(alert.time));
        alerts
    }

    pub(crate) fn devices<'a>(&self, snapshot: &'a Snapshot) -> Vec<&'a Device> {
        let mut devices: Vec<&Device> = snapshot.devices.iter().collect();
        if self.settings.worst_first {
            devices.sort_by_key(|device| (std::cmp::Reverse(device.severity()), device.id));
        }
        devices
    }

    pub(crate) fn device_row(&self, snapshot: &Snapshot, devices: &[&Device]) -> usize {
        let chosen = self.chosen_device(snapshot).map(|device| device.id);
        devices.iter().position(|device| Some(device.id) == chosen).unwrap_or(0)
    }

    pub(crate) fn chosen_device<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a Device> {
        self.host().chosen(snapshot)
    }

    pub(crate) fn shown_device(&self) -> Option<(&Snapshot, &Device)> {
        let snapshot = self.shown()?;
        Some((snapshot, self.chosen_device(snapshot)?))
    }

    /// Lines of the device list with several machines: each machine has a heading, and its devices unless it is folded.
    pub(crate) fn lines(&self) -> Vec<DeviceLine> {
        let mut lines = Vec::new();
        for (index, host) in self.hosts.iter().enumerate() {
            lines.push(DeviceLine { host: index, device: None });
            if let Some(snapshot) = host.shown().filter(|_| !host.is_folded) {
                lines.extend(self.devices(snapshot).iter().map(|device| DeviceLine { host: index, device: Some(device.id) }));
            }
        }
        lines
    }

    /// The selected line: a device, or the heading of a machine that shows no devices.
    pub(crate) fn chosen_line(&self) -> DeviceLine {
        let device = self.shown().filter(|_| !self.host().is_folded).and_then(|snapshot| self.chosen_device(snapshot));
        DeviceLine { host: self.host_index, device: device.map(|device| device.id) }
    }

    /// Lines that can be selected: all but the headings of machines that show devices.
    pub(crate) fn choices(&self) -> Vec<DeviceLine> {
        let lines = self.lines();
        let has_devices = |host: usize| lines.iter().any(|line| line.host == host && line.device.is_some());
        lines.iter().copied().filter(|line| line.device.is_some() || !has_devices(line.host)).collect()
    }

    pub(crate) fn processes(&self) -> Vec<ProcessRow<'_>> {
        let all = self.hosts.iter().enumerate().flat_map(|(index, host)| rows(index, host));
        let rows = columns::sorted(&COLUMNS[self.settings.sort], self.settings.descending, all.filter(|row| self.filter.matches(row)));
        if self.settings.tree { tree(&rows) } else { rows }
    }

    /// Filters processes by a text. An invalid text changes nothing.
    pub(crate) fn set_filter(&mut self, text: &str) -> Result<(), BadWord> {
        self.filter = Filter::parse(text)?;
        text.clone_into(&mut self.filter_text);
        Ok(())
    }

    /// Returns the columns of the process list: those that the user chose, after the host column if there are several machines.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let host = columns::by_name(columns::HOST).filter(|_| self.has_groups());
        host.into_iter().chain(self.settings.columns.iter().copied()).collect()
    }

    /// Returns the number of processes, including those that the filter hides.
    pub(crate) fn process_count(&self) -> usize {
        self.hosts.iter().filter_map(Host::shown).map(|snapshot| snapshot.processes.len()).sum()
    }

    /// Returns the selected process among the visible ones. It is the first by default, and `None` if the selected process has ended or is
    /// hidden.
    pub(crate) fn chosen_process<'a, 'b>(&self, rows: &'a [ProcessRow<'b>]) -> Option<&'a ProcessRow<'b>> {
        match self.process {
            None => rows.first(),
            Some(owner) => rows.iter().find(|row| row.owner() == owner),
        }
    }

    /// Returns the row from which the cursor moves: the row of the selected process, or its last row; the first row by default.
    pub(crate) fn process_row(&self, rows: &[ProcessRow<'_>]) -> usize {
        let Some(owner) = self.process else { return 0 };
        let row = rows.iter().position(|row| row.owner() == owner);
        row.unwrap_or(self.last_process_row.min(rows.len().saturating_sub(1)))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceLine {
    pub(crate) host: usize,
    /// `None` for the heading of the machine.
    pub(crate) device: Option<DeviceId>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessRow<'a> {
    pub(crate) host: usize,
    pub(crate) host_name: &'a str,
    pub(crate) process: &'a Process,
    pub(crate) depth: Depth,
}

impl ProcessRow<'_> {
    pub(crate) fn owner(&self) -> Owner {
        (self.host, self.process.key)
    }
}

impl Deref for ProcessRow<'_> {
    type Target = Process;

    fn deref(&self) -> &Process {
        self.process
    }
}

pub(crate) fn rows(index: usize, host: &Host) -> impl Iterator<Item = ProcessRow<'_>> {
    let processes = host.shown().into_iter().flat_map(|snapshot| &snapshot.processes);
    processes.map(move |process| ProcessRow { host: index, host_name: host.name(), process, depth: Depth::default() })
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Depth {
    pub(crate) level: u16,
    pub(crate) is_last: bool,
}

/// Orders children below their parents. Siblings keep their order, and a child is a root if its parent is not shown. Each row is read only
/// a few times, independent of the number and depth of rows.
fn tree<'a>(rows: &[ProcessRow<'a>]) -> Vec<ProcessRow<'a>> {
    let by_pid: HashMap<(usize, u64), usize> =
        rows.iter().enumerate().rev().map(|(index, row)| ((row.host, u64::from(row.key.pid)), index)).collect();
    let mut roots = Vec::new();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); rows.len()];
    for (index, row) in rows.iter().enumerate() {
        let parent = row.parent.ok().and_then(|pid| by_pid.get(&(row.host, pid)).copied());
        match parent.filter(|parent| *parent != index) {
            Some(parent) => children[parent].push(index),
            None => roots.push(index),
        }
    }
    let mut list = Vec::with_capacity(rows.len());
    let mut is_listed = vec![false; rows.len()];
    let mut waiting: Vec<(usize, Depth)> = roots.into_iter().rev().map(|root| (root, Depth::default())).collect();
    while let Some((index, depth)) = waiting.pop() {
        is_listed[index] = true;
        list.push(ProcessRow { depth, ..rows[index] });
        let level = depth.level.saturating_add(1);
        let below = children[index].iter().enumerate().rev();
        waiting.extend(below.map(|(place, child)| (*child, Depth { level, is_last: place + 1 == children[index].len() })));
    }
    // Processes that name each other as parents have no root. Without this they would be missing.
    list.extend((0..rows.len()).filter(|index| !is_listed[*index]).map(|index| rows[index]));
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_of_any_depth_has_every_process_once() {
        let mut snapshot = crate::tests::machine::mixed();
        let first = snapshot.processes[0].clone();
        // A long chain, a child of its first process, and two processes that name each other.
        let parents = (1..=100_000u32).map(|pid| (pid, pid - 1)).chain([(200_001, 1), (200_002, 200_003), (200_003, 200_002)]);
        let process = |(pid, parent): (u32, u32)| {
            let mut process = first.clone();
            (process.key.pid, process.parent) = (pid, Ok(u64::from(parent)));
            process
        };
        snapshot.processes = parents.map(process).collect();
        let row = |process| ProcessRow { host: 0, host_name: "", process, depth: Depth::default() };
        let rows: Vec<ProcessRow<'_>> = snapshot.processes.iter().map(row).collect();
        let tree = tree(&rows);
        assert_eq!(tree.len(), rows.len());
        let place = |pid: u32| tree.iter().position(|row| row.key.pid == pid).unwrap();
        assert_eq!((place(1), place(2), place(200_001)), (0, 1, 100_000));
        assert_eq!(tree[1].depth, Depth { level: 1, is_last: false });
        assert_eq!(tree[100_000].depth, Depth { level: 1, is_last: true });
        assert_eq!(tree[99_999].depth.level, u16::MAX);
        assert!(place(200_002) > 100_000 && place(200_003) > 100_000);
    }
}
