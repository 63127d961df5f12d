//! Devices of several machines: a heading for each machine, and its devices below it unless it is folded. If a machine does not answer, the
//! heading shows since when and why, and its last values are dim.

use ratatui_core::layout::Rect;
use ttmon_model::Device;
use ttmon_model::sample::Origin;
use ttmon_print::text::{self, Cut};

use super::devices;
use crate::canvas::{Canvas, Field};
use crate::host::Host;
use crate::layout::Main;
use crate::state::{DeviceLine, Focus, TopState};
use crate::theme::Role;

pub(super) fn draw(state: &TopState, canvas: &mut Canvas<'_>, layout: &Main) {
    let area = layout.devices;
    let common = devices::CommonValues::mixed(state.is_deep());
    devices::head(&common, canvas, Rect { height: 1, ..area });
    let lines = state.lines();
    let rows = usize::from(area.height.saturating_sub(1));
    let first = crate::layout::first_line(state, &lines, rows);
    let chosen = state.chosen_line();
    for (row, line) in (1..area.height).zip(lines.iter().skip(first)) {
        let place = Rect { y: area.y + row, height: 1, ..area };
        let host = &state.hosts[line.host];
        match line.device.and_then(|id| host.shown()?.device(id)) {
            Some(device) => {
                let focus = (*line == chosen).then_some(state.focus);
                devices::device_row(host, &common, device, canvas, place, focus);
                if host.is_stale() {
                    canvas.fade(place);
                }
            }
            None => heading(state, line, canvas, place, *line == chosen),
        }
    }
    let hidden = super::more(canvas, first, lines.len().saturating_sub(first + rows));
    super::at_the_end(canvas, area, &hidden);
    if let Some(area) = layout.charts {
        canvas.rule(area, 0, state.host().name(), Role::Title);
        let area = Rect { y: area.y + 1, height: area.height - 1, ..area };
        if !state.shown().is_some_and(|snapshot| super::charts::on_main(state, snapshot, canvas, area)) {
            canvas.text(area, 1, 0, "no data so far", Role::Dim);
        }
        if state.host().is_stale() {
            canvas.fade(area);
        }
    }
}

fn heading(state: &TopState, line: &DeviceLine, canvas: &mut Canvas<'_>, area: Rect, is_chosen: bool) {
    let host = &state.hosts[line.host];
    let sign = canvas.glyphs().folds[usize::from(!host.is_folded)];
    let (text, role) = summary(state, host, canvas);
    // Limit the name to a third of the line, so that the summary is visible.
    let name = text::cut(&canvas.clean(host.name()), usize::from(area.width / 3), Cut::End, canvas.glyphs().ellipsis);
    let at = canvas.text(area, 0, 0, &format!("{sign} {name} "), Role::Strong) + 1;
    let field = Field::start(at, area.width.saturating_sub(at));
    canvas.field(area, field, 0, &text, canvas.style(role));
    if is_chosen {
        let row = if state.focus == Focus::Devices { area } else { Rect { width: 1, ..area } };
        canvas.buffer.set_style(row, canvas.theme.style(Role::Selected));
    }
}

fn summary(state: &TopState, host: &Host, canvas: &Canvas<'_>) -> (String, Role) {
    if let Some(error) = &host.error {
        return (format!("NO ANSWER since {}: {}", state.clock.second(error.since), error.message), Role::Critical);
    }
    let Some(snapshot) = host.shown() else {
        return ("asking".to_owned(), Role::Dim);
    };
    let devices: Vec<&Device> = snapshot.devices.iter().collect();
    let (sums, unhealthy) = devices::sums(&devices, canvas);
    // The most important parts come first, because the end may be cut.
    let simulated = (snapshot.origin == Origin::Sim).then(|| "[SIMULATED]".to_owned());
    let mut parts: Vec<String> = simulated.into_iter().chain(super::silence(host, canvas)).chain(sums).collect();
    if let (Ok(driver), false) = (&snapshot.driver, host.is_folded) {
        parts.push(format!("driver {driver}"));
    }
    (parts.join("  "), if unhealthy > 0 || host.is_stale() { Role::Warning } else { Role::Plain })
}
