//! What the program remembers: choices, the newest snapshot, what was. Selections are by identity, never by row; sorted
//! and filtered lists are computed from them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ttmon_model::units::UnixTime;
use ttmon_model::{Device, DeviceId, Process, ProcessKey, Snapshot};
use ttmon_print::{Severity, health_word};
use ttmon_source::happenings::Happening;

use crate::alerts::Alerts;
use crate::clock::Clock;
use crate::columns::{COLUMNS, compare};
use crate::feed::Position;
use crate::filter::Filter;
use crate::history::History;
use crate::settings::Settings;
use crate::theme::{Theme, Themes};

/// One of the screens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// Devices and processes.
    #[default]
    Main,
    /// Metrics over time.
    Charts,
    /// One device, everything.
    Detail,
    /// Memory, buffer by buffer.
    Memory,
    /// Chips as they are wired.
    Mesh,
}

impl View {
    /// Every view, in the order of its keys.
    pub const ALL: [Self; 5] = [Self::Main, Self::Charts, Self::Detail, Self::Memory, Self::Mesh];

    /// Its word in the title and the configuration file.
    pub fn title(self) -> &'static str {
        match self {
            Self::Main => "Main",
            Self::Charts => "Charts",
            Self::Detail => "Detail",
            Self::Memory => "Memory",
            Self::Mesh => "Mesh",
        }
    }

    /// Its number, as on its key.
    pub fn number(self) -> usize {
        Self::ALL.iter().position(|view| *view == self).unwrap_or(0) + 1
    }
}

/// Which list the arrow keys move in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Focus {
    Devices,
    #[default]
    Processes,
}

/// What lies over the view.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Dialog {
    Help {
        scroll: usize,
    },
    /// A filter being typed; what it was before comes back with Esc.
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
    Process {
        key: ProcessKey,
        scroll: usize,
    },
}

/// Whom a signal is for, as it was when the dialog opened: a pid alone may be somebody else's a moment later.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SignalDialog {
    pub(crate) key: ProcessKey,
    pub(crate) command: String,
    pub(crate) user: String,
    /// Which signal the cursor is on.
    pub(crate) at: usize,
    /// The last question before a signal that cannot be caught.
    pub(crate) is_asked: bool,
}

/// A picture that stands still.
#[derive(Clone, Debug)]
pub(crate) struct Frozen {
    /// How many moments ago it was.
    pub(crate) back: usize,
    pub(crate) snapshot: Arc<Snapshot>,
}

/// A line for the user, shown until it is old.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Message {
    pub(crate) text: String,
    /// Not set before the first snapshot: nobody has seen it yet.
    pub(crate) until: Option<UnixTime>,
}

/// Variables of a process, once its feed has told them.
pub(crate) type Environment = (ProcessKey, Result<Vec<String>, String>);

/// Everything.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) size: (u16, u16),
    pub(crate) view: View,
    pub(crate) focus: Focus,
    pub(crate) dialog: Option<Dialog>,
    pub(crate) theme: Theme,
    pub(crate) themes: Themes,
    pub(crate) clock: Clock,

    pub(crate) settings: Settings,
    pub(crate) is_read_only: bool,
    pub(crate) live: Option<Arc<Snapshot>>,
    pub(crate) frozen: Option<Frozen>,
    pub(crate) history: History,
    pub(crate) alerts: Alerts,
    pub(crate) filter: Filter,
    pub(crate) filter_text: String,
    /// The chosen device; the first one until somebody chooses.
    pub(crate) device: Option<DeviceId>,
    pub(crate) process: Option<ProcessKey>,
    /// First row shown of the list that scrolls in this view.
    pub(crate) scroll: usize,
    pub(crate) device_scroll: usize,
    pub(crate) is_overlaid: bool,
    /// In the charts: every metric of one device, or one metric of every device.
    pub(crate) is_by_device: bool,
    pub(crate) message: Option<Message>,
    pub(crate) environment: Option<Environment>,
    /// What happened to buffers, newest last.
    pub(crate) happenings: VecDeque<Happening>,
    /// Why nothing new comes, and for how long nothing has.
    pub(crate) lost: Option<String>,
    /// Where a recording is, if this is one.
    pub(crate) replay: Option<Position>,
    pub(crate) silent_for: Duration,
}

impl State {
    /// At the start, before anything is known.
    pub(crate) fn new(size: (u16, u16), settings: Settings, themes: Themes, clock: Clock) -> Self {
        Self {
            size,
            view: settings.view,
            focus: Focus::default(),
            dialog: None,
            theme: themes.theme(settings.theme),
            themes,
            clock,

            settings,
            is_read_only: false,
            live: None,
            frozen: None,
            history: History::default(),
            alerts: Alerts::default(),
            filter: Filter::default(),
            filter_text: String::new(),
            device: None,
            process: None,
            scroll: 0,
            device_scroll: 0,
            is_overlaid: false,
            is_by_device: true,
            message: None,
            environment: None,
            happenings: VecDeque::new(),
            lost: None,
            replay: None,
            silent_for: Duration::ZERO,
        }
    }

    /// The snapshot on the screen.
    pub(crate) fn shown(&self) -> Option<&Arc<Snapshot>> {
        self.frozen.as_ref().map(|frozen| &frozen.snapshot).or(self.live.as_ref())
    }

    /// How many moments ago that was.
    pub(crate) fn back(&self) -> usize {
        self.frozen.as_ref().map_or(0, |frozen| frozen.back)
    }

    /// The moment of the newest snapshot.
    pub(crate) fn now(&self) -> UnixTime {
        self.live.as_ref().map_or(UnixTime(0), |snapshot| snapshot.time)
    }

    /// Devices in the order they are shown in.
    pub(crate) fn devices<'a>(&self, snapshot: &'a Snapshot) -> Vec<&'a Device> {
        let mut devices: Vec<&Device> = snapshot.devices.iter().collect();
        if self.settings.worst_first {
            // What is unknown is no worse than what is well.
            let badness = |device: &Device| match health_word(device).1 {
                Severity::Fine | Severity::Unknown => 0,
                Severity::Warning => 1,
                Severity::Critical => 2,
            };
            devices.sort_by_key(|device| (std::cmp::Reverse(badness(device)), device.id));
        }
        devices
    }

    /// The chosen device, or the first.
    pub(crate) fn chosen_device<'a>(&self, snapshot: &'a Snapshot) -> Option<&'a Device> {
        self.device.and_then(|id| snapshot.device(id)).or(snapshot.devices.first())
    }

    /// Processes that pass the filter, sorted, each with how deep it is in the tree.
    pub(crate) fn processes<'a>(&self, snapshot: &'a Snapshot) -> Vec<(&'a Process, Depth)> {
        let mut processes: Vec<&Process> = snapshot.processes.iter().filter(|process| self.filter.matches(process)).collect();
        let column = &COLUMNS[self.settings.sort];
        processes.sort_by(|one, other| compare(column, self.settings.descending, one, other));
        if self.settings.tree { tree(&processes) } else { processes.into_iter().map(|process| (process, Depth::default())).collect() }
    }

    /// The row of the chosen process among those shown; the first until somebody chooses.
    pub(crate) fn process_row(&self, processes: &[(&Process, Depth)]) -> usize {
        self.process.and_then(|key| processes.iter().position(|(process, _)| process.key == key)).unwrap_or(0)
    }
}

/// Where a process stands in the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Depth {
    pub(crate) level: u16,
    pub(crate) is_last: bool,
}

/// Children below their parents, in the order given; a child whose parent is not shown is a root.
fn tree<'a>(processes: &[&'a Process]) -> Vec<(&'a Process, Depth)> {
    let parent = |process: &Process| {
        let pid = process.parent.ok()?;
        processes.iter().position(|other| u64::from(other.key.pid) == pid && other.key != process.key)
    };
    let parents: Vec<Option<usize>> = processes.iter().map(|process| parent(process)).collect();
    let mut list = Vec::with_capacity(processes.len());
    let mut is_listed = vec![false; processes.len()];
    for root in 0..processes.len() {
        if parents[root].is_none() {
            add(processes, &parents, root, Depth::default(), &mut list, &mut is_listed);
        }
    }
    // Two that name each other as parents cannot be; they would be missing otherwise.
    let stray = (0..processes.len()).filter(|index| !is_listed[*index]).map(|index| (processes[index], Depth::default()));
    let stray: Vec<_> = stray.collect();
    list.extend(stray);
    list
}

fn add<'a>(
    processes: &[&'a Process],
    parents: &[Option<usize>],
    index: usize,
    depth: Depth,
    list: &mut Vec<(&'a Process, Depth)>,
    is_listed: &mut [bool],
) {
    if std::mem::replace(&mut is_listed[index], true) {
        return;
    }
    list.push((processes[index], depth));
    let children: Vec<usize> = (0..processes.len()).filter(|child| parents[*child] == Some(index)).collect();
    for (place, child) in children.iter().enumerate() {
        let depth = Depth { level: depth.level + 1, is_last: place + 1 == children.len() };
        add(processes, parents, *child, depth, list, is_listed);
    }
}
