//! One chart: lines over time in braille dots, an axis with units, the wall clock below, gaps where nothing was measured.

use std::collections::VecDeque;

use ratatui_core::layout::Rect;
use ttmon_model::units::{Unit, UnixTime};
use ttmon_print::quantity;

use crate::canvas::{Canvas, Field, width};
use crate::clock::Clock;
use crate::theme::Role;

/// Dots of a braille cell: two across, four down.
const ACROSS: u16 = 2;
const DOWN: u16 = 4;
const SECOND: u64 = 1_000_000_000;
/// Two points further apart than this many usual distances are not joined: nobody looked in between.
const JOINED_MAX: u64 = 3;
/// A limit far above everything measured would press the line to the ground.
const LIMIT_SHARE_MIN: f64 = 0.25;

/// What is drawn.
pub(super) struct Chart<'a> {
    pub(super) title: String,
    pub(super) role: Role,
    pub(super) unit: Unit,
    pub(super) times: &'a VecDeque<UnixTime>,
    /// One value for each time; NaN is a gap.
    pub(super) lines: Vec<&'a VecDeque<f32>>,
    pub(super) limit: Option<f64>,
    /// The right edge.
    pub(super) until: UnixTime,
    pub(super) seconds: u64,
    /// For the axis; without one it counts back from the newest, and a machine that stands still looks the same.
    pub(super) clock: Option<&'a Clock>,
}

impl Chart<'_> {
    pub(super) fn draw(&self, canvas: &mut Canvas<'_>, area: Rect) {
        if area.width < 16 || area.height < 3 {
            return;
        }
        let title = canvas.clean(&self.title);
        canvas.field(area, Field { cut: ttmon_print::text::Cut::End, ..Field::left(0, area.width) }, 0, &title, canvas.style(self.role));
        let has_clock = area.height >= 5;
        let plot_rows = area.height - 1 - u16::from(has_clock);
        let axis = self.axis(plot_rows);
        let labels: Vec<String> = axis.ticks.iter().map(|tick| canvas.clean(&quantity::short(*tick, self.unit))).collect();
        let gutter = labels.iter().map(|label| width(label)).max().unwrap_or(0).min(area.width / 3);
        let plot = Rect { x: area.x + gutter + 1, y: area.y + 1, width: area.width - gutter - 2, height: plot_rows };
        for (tick, label) in axis.ticks.iter().zip(&labels) {
            let row = row_of(axis.share(*tick), plot.height);
            canvas.field(Rect { y: plot.y, height: plot.height, ..area }, Field::right(0, gutter), row, label, canvas.style(Role::Dim));
        }
        if let Some(limit) = self.limit.filter(|limit| *limit <= axis.high) {
            let row = row_of(axis.share(limit), plot.height);
            let line = canvas.glyphs().dashed.repeat(usize::from(plot.width));
            canvas.say(plot, 0, row, &line, Role::Dim);
        }
        self.lines(canvas, plot, &axis);
        if has_clock {
            self.clock(canvas, Rect { y: area.bottom() - 1, height: 1, ..plot });
        }
    }

    fn from(&self) -> u64 {
        self.until.0.saturating_sub(self.seconds * SECOND)
    }

    /// The times that are on the chart, by index.
    fn seen(&self) -> std::ops::Range<usize> {
        let first = self.times.partition_point(|time| time.0 < self.from());
        // One more at the left, so that the line comes from somewhere.
        first.saturating_sub(1)..self.times.partition_point(|time| *time <= self.until)
    }

    fn axis(&self, rows: u16) -> Axis {
        let seen = self.seen();
        let values = self.lines.iter().flat_map(|line| line.range(seen.start.min(line.len())..seen.end.min(line.len())));
        let highest = values.filter(|value| !value.is_nan()).fold(0.0f64, |high, value| high.max(f64::from(*value)));
        let high = match self.limit {
            Some(limit) if highest >= limit * LIMIT_SHARE_MIN => highest.max(limit),
            _ => highest,
        };
        Axis::nice(high, usize::from(rows / 3).clamp(1, 5), self.unit.is_binary())
    }

    fn lines(&self, canvas: &mut Canvas<'_>, plot: Rect, axis: &Axis) {
        let mut dots = Dots::new(plot, canvas.theme.ascii);
        let seen = self.seen();
        let apart = self.usual_distance(seen.clone());
        for line in &self.lines {
            let mut previous: Option<(u64, (i32, i32))> = None;
            for index in seen.clone() {
                let (Some(time), Some(value)) = (self.times.get(index), line.get(index)) else { continue };
                if value.is_nan() {
                    previous = None;
                    continue;
                }
                let point = (dots.x(self.share_of(*time)), dots.y(axis.share(f64::from(*value))));
                match previous {
                    Some((before, from)) if time.0 - before <= apart * JOINED_MAX => dots.line(from, point),
                    _ => dots.set(point),
                }
                previous = Some((time.0, point));
            }
        }
        dots.draw(canvas, plot, self.role);
    }

    /// Where a moment lies between the left and the right edge; below 0 it is further left.
    fn share_of(&self, time: UnixTime) -> f64 {
        (time.0 as f64 - self.from() as f64) / (self.seconds * SECOND) as f64
    }

    /// The middle one of the distances between looks.
    fn usual_distance(&self, seen: std::ops::Range<usize>) -> u64 {
        let times = self.times.range(seen.start.min(self.times.len())..seen.end.min(self.times.len()));
        let mut distances: Vec<u64> = times.clone().zip(times.skip(1)).map(|(one, next)| next.0 - one.0).collect();
        let middle = distances.len() / 2;
        let usual = if distances.is_empty() { SECOND } else { *distances.select_nth_unstable(middle).1 };
        usual.max(SECOND / 20)
    }

    fn clock(&self, canvas: &mut Canvas<'_>, area: Rect) {
        let show = |back: u64| {
            let time = UnixTime(self.until.0.saturating_sub(back * SECOND));
            match self.clock {
                Some(clock) if self.seconds <= 300 => clock.second(time),
                Some(clock) => clock.minute(time),
                None if back == 0 => "now".to_owned(),
                None if back < 120 => format!("-{back}s"),
                None => format!("-{}m", back / 60),
            }
        };
        let (left, middle, right) = (show(self.seconds), show(self.seconds / 2), show(0));
        canvas.say(area, 0, 0, &left, Role::Dim);
        if area.width >= 40 {
            canvas.say(area, (area.width - width(&middle)) / 2, 0, &middle, Role::Dim);
        }
        canvas.say(area, area.width.saturating_sub(width(&right)), 0, &right, Role::Dim);
    }
}

/// From nothing to a round number.
struct Axis {
    high: f64,
    ticks: Vec<f64>,
}

impl Axis {
    /// So many steps, or about, each a round number.
    fn nice(highest: f64, steps: usize, is_binary: bool) -> Self {
        if highest <= 0.0 {
            return Self { high: 1.0, ticks: vec![0.0] };
        }
        let step = round_step(highest / steps as f64, is_binary);
        let count = (highest / step).ceil().max(1.0);
        let ticks = (0..=steps + 1).map(|tick| tick as f64).take_while(|tick| *tick <= count).map(|tick| tick * step);
        Self { high: step * count, ticks: ticks.collect() }
    }

    fn share(&self, value: f64) -> f64 {
        (value / self.high).clamp(0.0, 1.0)
    }
}

/// The smallest round number that is not smaller: 1, 2 or 5 times a power of ten, or a power of two for bytes.
fn round_step(least: f64, is_binary: bool) -> f64 {
    if is_binary {
        return 2f64.powf(least.log2().ceil());
    }
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(10.0 * power)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a screen's height")]
fn row_of(share: f64, rows: u16) -> u16 {
    let last = rows.saturating_sub(1);
    last - ((share * f64::from(rows)).floor() as u16).min(last)
}

/// Dots, two across and four down in each cell; in ASCII one a cell.
struct Dots {
    width: u16,
    height: u16,
    across: u16,
    down: u16,
    cells: Vec<u8>,
}

impl Dots {
    fn new(area: Rect, is_ascii: bool) -> Self {
        let (across, down) = if is_ascii { (1, 1) } else { (ACROSS, DOWN) };
        Self { width: area.width, height: area.height, across, down, cells: vec![0; usize::from(area.width) * usize::from(area.height)] }
    }

    #[allow(clippy::cast_possible_truncation, reason = "a place on a screen, or a little outside")]
    fn x(&self, share: f64) -> i32 {
        let last = f64::from(self.width * self.across) - 1.0;
        (share.clamp(-1.0, 2.0) * last).round() as i32
    }

    #[allow(clippy::cast_possible_truncation, reason = "a place on a screen")]
    fn y(&self, share: f64) -> i32 {
        let last = f64::from(self.height * self.down) - 1.0;
        ((1.0 - share) * last).round() as i32
    }

    fn line(&mut self, from: (i32, i32), to: (i32, i32)) {
        let (across, down) = (to.0 - from.0, to.1 - from.1);
        let steps = across.abs().max(down.abs()).max(1);
        for step in 0..=steps {
            self.set((from.0 + across * step / steps, from.1 + down * step / steps));
        }
    }

    fn set(&mut self, (x, y): (i32, i32)) {
        let (Ok(x), Ok(y)) = (u16::try_from(x), u16::try_from(y)) else { return };
        let (column, row) = (x / self.across, y / self.down);
        if column >= self.width || row >= self.height {
            return;
        }
        // The braille block numbers its dots down the left column, down the right one, and then the lowest two.
        const BITS: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
        let bit = BITS[usize::from(x % self.across)][usize::from(y % self.down)];
        self.cells[usize::from(row) * usize::from(self.width) + usize::from(column)] |= bit;
    }

    fn draw(&self, canvas: &mut Canvas<'_>, area: Rect, role: Role) {
        let style = canvas.style(if role == Role::Strong { Role::Plain } else { role });
        for (row, cells) in (0..).zip(self.cells.chunks(usize::from(self.width.max(1)))) {
            for (column, bits) in (0..).zip(cells).filter(|(_, bits)| **bits != 0) {
                let sign = if self.across == 1 { '*' } else { char::from_u32(0x2800 + u32::from(*bits)).unwrap_or('*') };
                canvas.put(area, column, row, sign.encode_utf8(&mut [0; 4]), style);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_steps() {
        let ticks = |highest, steps, is_binary| Axis::nice(highest, steps, is_binary).ticks;
        assert_eq!(ticks(75.0, 4, false), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(ticks(1000.0, 2, false), [0.0, 500.0, 1000.0]);
        assert_eq!(ticks(12.0 * 1024.0, 3, true), [0.0, 4096.0, 8192.0, 12288.0]);
        assert_eq!(ticks(0.0, 3, false), [0.0]);
    }

    #[test]
    fn nothing_is_drawn_outside() {
        let area = Rect { x: 0, y: 0, width: 4, height: 2 };
        let mut dots = Dots::new(area, false);
        dots.line((-5, -9), (40, 40));
        dots.set((i32::MAX, i32::MIN));
        assert_eq!(dots.cells.len(), 8);
        assert!(dots.cells.iter().any(|bits| *bits != 0));
    }

    /// A wall of screens has more cells than a row or a column has numbers.
    #[test]
    fn every_dot_of_the_largest_screen_is_where_it_belongs() {
        let area = Rect { x: 0, y: 0, width: 1000, height: 200 };
        let mut dots = Dots::new(area, true);
        dots.set((7, 199));
        let mut buffer = ratatui_core::buffer::Buffer::empty(area);
        dots.draw(&mut Canvas { buffer: &mut buffer, theme: crate::theme::Theme::default() }, area, Role::Plain);
        assert_eq!(buffer[(7, 199)].symbol(), "*");
        assert_eq!(buffer.content.iter().filter(|cell| cell.symbol() == "*").count(), 1);
    }

    #[test]
    fn rows_of_shares() {
        assert_eq!([0.0, 0.49, 0.5, 1.0].map(|share| row_of(share, 4)), [3, 2, 1, 0]);
        assert_eq!(row_of(0.5, 0), 0);
    }
}
