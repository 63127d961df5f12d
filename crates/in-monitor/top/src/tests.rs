//! Tests of screens and keys, without a terminal.

mod golden;
mod hints;
mod keys;
mod mesh;
mod pictures;
mod properties;
mod sources;

use jiff::tz::TimeZone;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ttmon_model::snapshot::{Health, State as DeviceState};
use ttmon_model::units::{Celsius, UnixTime, Watts};
use ttmon_model::{Kind, Missing, Snapshot};
pub(crate) use ttmon_testing::machine;

use crate::clock::Clock;
use crate::feed::{FeedError, FeedMessage};
use crate::host::Host;
use crate::settings::Settings;
use crate::state::TopState;
use crate::theme::Theme;
use crate::update::{Event, update};
use crate::view::view;

const SECOND: u64 = 1_000_000_000;

/// Creates a state without a snapshot.
pub(crate) fn blank(size: (u16, u16), theme: Theme) -> TopState {
    TopState::new(size, Settings::default(), theme, Clock(TimeZone::UTC))
}

/// Creates a state after some samples of a machine. The values vary, and the last sample is the given snapshot.
pub(crate) fn watched(snapshot: &Snapshot, size: (u16, u16), theme: Theme, seconds: u64) -> TopState {
    let mut state = blank(size, theme);
    for second in (0..seconds).rev() {
        let mut then = snapshot.clone();
        then.time = UnixTime(snapshot.time.0 - second * SECOND);
        for (index, device) in then.devices.iter_mut().enumerate() {
            let wave = f64::from(u32::try_from((second * 7 + index as u64 * 13) % 40).unwrap()) / 40.0 - 0.5;
            device.temperature = device.temperature.map(|value| Celsius(value.0 + if second == 0 { 0.0 } else { 8.0 * wave }));
            device.power = device.power.map(|value| Watts(value.0 + if second == 0 { 0.0 } else { 20.0 * wave }));
        }
        update(&mut state, Event::Feed(0, FeedMessage::Snapshot(Box::new(then))));
    }
    state
}

/// Draws the screen.
pub(crate) fn drawn(state: &TopState) -> Buffer {
    let (width, height) = state.size;
    let mut buffer = Buffer::empty(Rect { x: 0, y: 0, width, height });
    view(state, &mut buffer);
    buffer
}

pub(crate) fn text(buffer: &Buffer) -> String {
    let row = |y: u16| {
        let mut line = String::new();
        let mut x = 0;
        while x < buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            x += crate::canvas::width(symbol).max(1);
        }
        line.trim_end().to_owned()
    };
    (0..buffer.area.height).map(row).collect::<Vec<_>>().join("\n")
}

/// One healthy device with one process.
pub(crate) fn one() -> Snapshot {
    let mut snapshot = machine::galaxy();
    keep(&mut snapshot, 1);
    snapshot
}

/// Eight devices. One is warm, one is at its limit, one is in reset, one is gone, and one has no known values.
pub(crate) fn eight() -> Snapshot {
    let mut snapshot = machine::galaxy();
    keep(&mut snapshot, 8);
    let ill = [
        (2, DeviceState::Ok, Health::Warning, "temperature 71 of 75 °C", Ok(71.0)),
        (3, DeviceState::Ok, Health::Critical, "temperature 76 of 75 °C", Ok(76.0)),
        (4, DeviceState::Resetting, Health::Unknown, "", Err(Missing::Resetting)),
        (5, DeviceState::Gone, Health::Unknown, "", Err(Missing::Gone)),
        (6, DeviceState::Unreadable, Health::Unknown, "cannot be read: this user may not read it", Err(Missing::NoPermission)),
    ];
    for (index, state, health, reason, temperature) in ill {
        let device = &mut snapshot.devices[index];
        (device.state, device.health, device.temperature) = (state, health, temperature.map(Celsius));
        device.health_reasons = (!reason.is_empty()).then(|| reason.to_owned()).into_iter().collect();
        if let Err(why) = temperature {
            (device.power, device.aiclk_mhz, device.memory.dram.used, device.memory.l1.used) = (Err(why), Err(why), Err(why), Err(why));
        }
    }
    snapshot
}

/// Three services: one has an unhealthy machine, one is silent, and one was never reached.
pub(crate) fn several(size: (u16, u16)) -> TopState {
    let mut state = watched(&eight(), size, Theme::default(), 70);
    state.hosts[0].address = Some("tt-a:9477".to_owned());
    for place in ["tt-b:9477", "tt-c:9477"] {
        state.hosts.push(Host { address: Some(place.to_owned()), ..Host::default() });
    }
    let mut pair = machine::n300();
    pair.host = "tt-b".to_owned();
    pair.time = state.host().now();
    update(&mut state, Event::Feed(1, FeedMessage::Snapshot(Box::new(pair))));
    for host in [1, 2] {
        let message = "cannot be reached (Connection refused)".to_owned();
        let error = FeedError { message, is_no_device: false, since: state.host().now() };
        update(&mut state, Event::Feed(host, FeedMessage::Error(error)));
    }
    state
}

/// A machine with this many processes, from pid 300 on, the largest first.
pub(crate) fn with_processes(count: u32) -> Snapshot {
    let mut snapshot = machine::n300();
    let first = snapshot.processes[0].clone();
    let process = |index: u32| {
        let mut process = first.clone();
        process.key.pid = 300 + index;
        for use_of in &mut process.devices {
            use_of.kinds[Kind::Dram].used = Ok(u64::from(count - index) << 20);
        }
        process
    };
    snapshot.processes = (0..count).map(process).collect();
    snapshot
}

fn keep(snapshot: &mut Snapshot, count: usize) {
    snapshot.devices.truncate(count);
    for process in &mut snapshot.processes {
        process.devices.truncate(count);
    }
}
