//! Draws one chart over time in braille dots: one device as a filled area, or several as lines. The axis fits the values, the wall clock is
//! below, events have marks, and missing samples are gaps.

mod dots;

use std::collections::VecDeque;

use ratatui_core::layout::Rect;
use ratatui_core::style::{Modifier, Style};
use ttmon_model::snapshot::Severity;
use ttmon_model::units::{Unit, UnixTime};
use ttmon_print::quantity;

use self::dots::Dots;
use crate::canvas::{Canvas, Field, width};
use crate::clock::Clock;
use crate::history::is_joined;
use crate::marks::Mark;
use crate::theme::{Colors, Role};

const SECOND: u64 = 1_000_000_000;
/// The axis includes the limit if the highest value reaches this share of the limit.
const LIMIT_SHARE_MIN: f64 = 0.8;
/// The axis begins at 0 if the lowest value is below this share of the highest.
const FITTED_SHARE_MIN: f64 = 0.5;
/// The axis spans at least this share of the highest value, so that noise is drawn flat.
const SPAN_MIN: f64 = 0.1;
/// Columns between two names of the same line, if there is room.
const NAME_DISTANCE: u16 = 20;
/// More lines than this are drawn as a band between the lowest and the highest.
const LINES_MAX: usize = 8;

pub(super) struct ChartLine<'a> {
    pub(super) name: String,
    /// One value for each time; NaN is a gap.
    pub(super) values: &'a VecDeque<f32>,
}

pub(super) struct Chart<'a> {
    pub(super) title: String,
    pub(super) detail: String,
    pub(super) role: Role,
    pub(super) unit: Unit,
    pub(super) times: &'a VecDeque<UnixTime>,
    pub(super) lines: Vec<ChartLine<'a>>,
    pub(super) limit: Option<f64>,
    pub(super) until: UnixTime,
    pub(super) seconds: u64,
    /// The clock of the time axis. Without a clock, the axis counts back from the newest sample.
    pub(super) clock: Option<&'a Clock>,
    /// The selected time, if the screen is frozen.
    pub(super) cursor: Option<UnixTime>,
    pub(super) marks: Vec<&'a Mark>,
    /// The current refresh interval in nanoseconds.
    pub(super) refresh: u64,
}

impl Chart<'_> {
    pub(super) fn draw(&self, canvas: &mut Canvas<'_>, area: Rect) {
        if area.width < 16 || area.height < 3 {
            return;
        }
        let title = canvas.clean(&self.title);
        canvas.field(area, Field::start(0, area.width), 0, &title, canvas.style(self.role));
        let at = self.legend(canvas, area, width(&title) + 2);
        let detail = canvas.clean(&self.detail);
        if at + width(&detail) <= area.width {
            canvas.text(area, at, 0, &detail, Role::Dim);
        }
        let has_clock = area.height >= 5;
        let plot_rows = area.height - 1 - u16::from(has_clock);
        let axis = self.axis(plot_rows);
        let labels: Vec<String> = axis.ticks.iter().map(|tick| canvas.clean(&quantity::short(*tick, self.unit))).collect();
        let gutter = labels.iter().map(|label| width(label)).max().unwrap_or(0).min(area.width / 3);
        let plot = Rect { x: area.x + gutter + 1, y: area.y + 1, width: area.width - gutter - 2, height: plot_rows };
        let mut dots = Dots::new(plot, canvas.theme.ascii);
        for (tick, label) in axis.ticks.iter().zip(&labels) {
            let row = dots.row(axis.share(*tick));
            canvas.field(Rect { y: plot.y, height: plot.height, ..area }, Field::right(0, gutter), row, label, canvas.style(Role::Dim));
        }
        if let Some(limit) = self.limit.filter(|limit| *limit <= axis.high) {
            let line = canvas.glyphs().dashed.repeat(usize::from(plot.width));
            canvas.put(plot, 0, dots.row(axis.share(limit)), &line, canvas.theme.load(1.0));
        }
        let window = self.window(plot.width);
        let all = self.sampled(window, dots.columns());
        match all.as_slice() {
            [values] => self.area(canvas, plot, &mut dots, &axis, values),
            lines if lines.len() > LINES_MAX => self.band(canvas, plot, &mut dots, &axis, &all),
            _ => self.several(canvas, plot, &mut dots, &axis, &all),
        }
        self.marks(canvas, plot, window);
        if let Some(column) = self.cursor.and_then(|cursor| window.column(cursor, plot.width)) {
            for row in 0..plot.height {
                canvas.text(plot, column, row, canvas.glyphs().vertical, Role::Strong);
            }
        }
        if has_clock {
            self.clock(canvas, Rect { y: area.bottom() - 1, height: 1, ..plot });
        }
    }

    fn legend(&self, canvas: &mut Canvas<'_>, area: Rect, from: u16) -> u16 {
        if !(2..=LINES_MAX).contains(&self.lines.len()) {
            return from;
        }
        let mut at = from;
        for (index, line) in self.lines.iter().enumerate() {
            // Without colours, the numbers on the lines are the legend.
            let sample = if canvas.theme.colors == Colors::None { "" } else { canvas.glyphs().full() };
            let text = format!("{sample}{}", line.name);
            if at + width(&text) > area.width {
                return area.width;
            }
            let style = canvas.theme.hue(index);
            at = canvas.put(area, at, 0, &text, style) + 1;
        }
        at + 1
    }

    /// The time range of the chart. Its right edge is rounded to a column, so that the chart moves by whole columns.
    fn window(&self, columns: u16) -> TimeWindow {
        let column = (self.seconds * SECOND / u64::from(columns.max(1))).max(1);
        let until = self.until.0.div_ceil(column) * column;
        TimeWindow { from: until.saturating_sub(self.seconds * SECOND), until }
    }

    fn seen(&self) -> std::ops::Range<usize> {
        let from = self.until.0.saturating_sub(self.seconds * SECOND);
        let first = self.times.partition_point(|time| time.0 < from);
        // Include one more sample at the left, so that the line begins at the edge.
        first.saturating_sub(1)..self.times.partition_point(|time| *time <= self.until)
    }

    fn axis(&self, rows: u16) -> Axis {
        let seen = self.seen();
        let values = self.lines.iter().flat_map(|line| {
            let end = seen.end.min(line.values.len());
            line.values.range(seen.start.min(end)..end)
        });
        let mut range: Option<(f64, f64)> = None;
        for value in values.filter(|value| !value.is_nan()).map(|value| f64::from(*value)) {
            range = Some(range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))));
        }
        let (lowest, highest) = range.unwrap_or((0.0, 0.0));
        let high = match self.limit {
            Some(limit) if highest >= limit * LIMIT_SHARE_MIN => highest.max(limit),
            _ => highest,
        };
        let is_fitted = lowest > highest * FITTED_SHARE_MIN && self.unit != Unit::Ratio;
        let spread = (SPAN_MIN * high - (high - lowest)).max(0.0) / 2.0;
        let (low, high) = if is_fitted { (lowest - spread, high + spread) } else { (0.0, high) };
        Axis::nice(low.max(0.0), high, usize::from(rows / 3).clamp(1, 5), self.unit.is_binary())
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "columns of a screen, clamped")]
    fn sampled(&self, window: TimeWindow, columns: usize) -> Vec<Vec<f32>> {
        let mut all = vec![vec![f32::NAN; columns]; self.lines.len()];
        let mut previous: Option<(usize, f64)> = None;
        for (index, time) in self.seen().filter_map(|index| Some((index, self.times.get(index)?))) {
            let place = window.share(*time) * columns as f64;
            let column = (place.max(0.0) as usize).min(columns.saturating_sub(1));
            let before = previous.filter(|(before, _)| is_joined(self.times, *before, self.refresh));
            for (line, sampled) in self.lines.iter().zip(&mut all) {
                let Some(value) = line.values.get(index).copied().filter(|value| !value.is_nan()) else { continue };
                if let Some((before, from)) = before
                    && let Some(start) = line.values.get(before).copied().filter(|start| !start.is_nan())
                {
                    let (first, last) = (from.ceil().max(0.0) as usize, place.floor().min(columns as f64 - 1.0));
                    for (column, sample) in sampled.iter_mut().enumerate().skip(first).take_while(|(column, _)| *column as f64 <= last) {
                        let share = ((column as f64 - from) / (place - from).max(1e-9)).clamp(0.0, 1.0) as f32;
                        *sample = start + (value - start) * share;
                    }
                }
                if let Some(sample) = sampled.get_mut(column).filter(|_| place >= 0.0) {
                    *sample = value;
                }
            }
            previous = Some((index, place));
        }
        all
    }

    /// Draws one device as a filled area. Each row has the colour of its load.
    fn area(&self, canvas: &mut Canvas<'_>, plot: Rect, dots: &mut Dots, axis: &Axis, values: &[f32]) {
        for (column, value) in values.iter().enumerate() {
            if !value.is_nan() {
                dots.fill(column, 0, dots.level(axis.share(f64::from(*value))), 0);
            }
        }
        let styles = self.row_styles(canvas, plot, axis);
        dots.draw(canvas, plot, |row, _| styles[usize::from(row)]);
    }

    fn row_styles(&self, canvas: &Canvas<'_>, plot: Rect, axis: &Axis) -> Vec<Style> {
        let style = |row: u16| match self.limit {
            Some(limit) => canvas.theme.load(axis.value_at(row, plot.height) / limit),
            None => canvas.theme.hue(0),
        };
        (0..plot.height).map(style).collect()
    }

    fn several(&self, canvas: &mut Canvas<'_>, plot: Rect, dots: &mut Dots, axis: &Axis, all: &[Vec<f32>]) {
        for (hue, values) in (0..).zip(all) {
            trace(dots, axis, values, hue);
        }
        let theme = canvas.theme;
        dots.draw(canvas, plot, |_, hue| theme.hue(usize::from(hue)));
        self.names(canvas, plot, dots, axis, all);
    }

    /// Writes the name of each line on the line, because colours alone may not distinguish them. Each name has its own columns, so
    /// that the names of overlapping lines are side by side.
    fn names(&self, canvas: &mut Canvas<'_>, plot: Rect, dots: &Dots, axis: &Axis, all: &[Vec<f32>]) {
        let columns = self.lines.iter().map(|line| width(&line.name)).max().unwrap_or(0) + 1;
        let count = u16::try_from(self.lines.len()).unwrap_or(u16::MAX).max(1);
        let step = columns.max(NAME_DISTANCE / count);
        for (index, (line, values)) in (0..count).zip(self.lines.iter().zip(all)) {
            let style = canvas.theme.hue(usize::from(index)).add_modifier(Modifier::BOLD);
            let across = values.len() / usize::from(plot.width.max(1));
            let places = (0..).map(|turn: u16| (turn * count + index + 1) * step).take_while(|back| *back <= plot.width);
            for column in places.map(|back| plot.width - back) {
                let value = values.get(usize::from(column) * across).copied().unwrap_or(f32::NAN);
                if !value.is_nan() {
                    canvas.put(plot, column, dots.row(axis.share(f64::from(value))), &line.name, style);
                }
            }
        }
    }

    /// Draws many devices as a band between the lowest and the highest value, with the median as a line.
    fn band(&self, canvas: &mut Canvas<'_>, plot: Rect, dots: &mut Dots, axis: &Axis, all: &[Vec<f32>]) {
        let mut medians = vec![f32::NAN; dots.columns()];
        for (column, median) in medians.iter_mut().enumerate() {
            let mut values: Vec<f32> = all.iter().map(|line| line[column]).filter(|value| !value.is_nan()).collect();
            values.sort_by(f32::total_cmp);
            let (Some(lowest), Some(highest)) = (values.first(), values.last()) else { continue };
            *median = values[values.len() / 2];
            let level = |value: &f32| dots.level(axis.share(f64::from(*value)));
            let (from, to) = (level(lowest), level(highest));
            dots.fill(column, from.saturating_sub(1), to, 1);
        }
        trace(dots, axis, &medians, 0);
        let (styles, middle) = (self.row_styles(canvas, plot, axis), canvas.style(Role::Strong));
        // Without colours, the band is faint so that the median stands out.
        let faint = (canvas.theme.colors == Colors::None).then(|| canvas.style(Role::Frame));
        dots.draw(canvas, plot, |row, hue| if hue == 0 { middle } else { faint.unwrap_or(styles[usize::from(row)]) });
    }

    /// Draws the marks of events at the top of the plot, above their times.
    fn marks(&self, canvas: &mut Canvas<'_>, plot: Rect, window: TimeWindow) {
        for mark in &self.marks {
            let Some(column) = window.column(mark.time, plot.width).filter(|_| mark.time <= self.until) else { continue };
            let role = match mark.kind.severity() {
                Severity::Fine => Role::Strong,
                severity => severity.into(),
            };
            canvas.text(plot, column, 0, canvas.glyphs().marks[mark.kind as usize], role);
        }
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
        canvas.text(area, 0, 0, &left, Role::Dim);
        if area.width >= 40 {
            canvas.text(area, (area.width - width(&middle)) / 2, 0, &middle, Role::Dim);
        }
        canvas.text(area, area.width.saturating_sub(width(&right)), 0, &right, Role::Dim);
    }
}

fn trace(dots: &mut Dots, axis: &Axis, values: &[f32], hue: u8) {
    let mut previous = None;
    for (column, value) in values.iter().enumerate() {
        let level = (!value.is_nan()).then(|| dots.level(axis.share(f64::from(*value))).max(1));
        if let Some(level) = level {
            let from: u32 = previous.unwrap_or(level);
            // A step is drawn in its second column, without the dot that is already in the first one.
            let (low, high) = match from.cmp(&level) {
                std::cmp::Ordering::Less => (from, level),
                std::cmp::Ordering::Equal => (level - 1, level),
                std::cmp::Ordering::Greater => (level - 1, from - 1),
            };
            dots.fill(column, low, high, hue);
        }
        previous = level;
    }
}

#[derive(Clone, Copy)]
struct TimeWindow {
    from: u64,
    until: u64,
}

impl TimeWindow {
    /// Position of a time: 0 is the left edge, 1 the right edge. Below 0 it is left of the chart.
    fn share(self, time: UnixTime) -> f64 {
        (time.0 as f64 - self.from as f64) / (self.until - self.from).max(1) as f64
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a column of a screen")]
    fn column(self, time: UnixTime, columns: u16) -> Option<u16> {
        let share = self.share(time);
        (0.0..=1.0).contains(&share).then(|| ((share * f64::from(columns)) as u16).min(columns.saturating_sub(1)))
    }
}

/// A value axis that begins and ends at round numbers.
struct Axis {
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl Axis {
    /// Creates an axis with about this many steps, each a round number.
    fn nice(lowest: f64, highest: f64, steps: usize, is_binary: bool) -> Self {
        if highest <= 0.0 {
            return Self { low: 0.0, high: 1.0, ticks: vec![0.0] };
        }
        let step = round_step((highest - lowest) / steps as f64, highest, is_binary);
        let low = (lowest / step + 1e-9).floor() * step;
        let count = ((highest - low) / step - 1e-9).ceil().max(1.0);
        let ticks = (0..=steps + 2).map(|tick| tick as f64).take_while(|tick| *tick <= count).map(|tick| low + tick * step);
        Self { low, high: low + step * count, ticks: ticks.collect() }
    }

    fn share(&self, value: f64) -> f64 {
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    fn value_at(&self, row: u16, rows: u16) -> f64 {
        self.high - (self.high - self.low) * f64::from(row) / f64::from(rows.max(1))
    }
}

/// The smallest round number that is not smaller: 1, 2 or 5 times a power of ten, or a power of two for bytes. Labels of bytes have one
/// decimal, so that steps below half of the unit of `highest` are tenths of that unit.
fn round_step(least: f64, highest: f64, is_binary: bool) -> f64 {
    if is_binary {
        let (step, unit) = (2f64.powf(least.log2().ceil()), 1024f64.powf(highest.log(1024.0).floor().max(0.0)));
        let tenths = || round_step((least / unit).max(0.1), 0.0, false) * unit;
        return if step >= unit / 2.0 || unit <= 1.0 { step } else { tenths() };
    }
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_steps() {
        let ticks = |lowest, highest, steps, is_binary| Axis::nice(lowest, highest, steps, is_binary).ticks;
        assert_eq!(ticks(0.0, 75.0, 4, false), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(ticks(0.0, 1000.0, 2, false), [0.0, 500.0, 1000.0]);
        assert_eq!(ticks(0.0, 12.0 * 1024.0, 3, true), [0.0, 4096.0, 8192.0, 12288.0]);
        assert_eq!(ticks(0.0, 0.0, 3, false), [0.0]);
        let kilobytes = |ticks: Vec<f64>| ticks.iter().map(|tick| format!("{:.2}", tick / 1024.0)).collect::<Vec<_>>();
        assert_eq!(kilobytes(ticks(2.25 * 1024.0, 2.55 * 1024.0, 3, true)), ["2.20", "2.30", "2.40", "2.50", "2.60"]);
        assert_eq!(kilobytes(ticks(2.41 * 1024.0, 2.42 * 1024.0, 3, true)), ["2.40", "2.50"]);
        assert_eq!(ticks(51.0, 58.0, 4, false), [50.0, 52.0, 54.0, 56.0, 58.0]);
    }

    fn chart<'a>(times: &'a VecDeque<UnixTime>, values: &'a VecDeque<f32>, limit: Option<f64>, refresh: u64) -> Chart<'a> {
        Chart {
            title: String::new(),
            detail: String::new(),
            role: Role::Plain,
            unit: Unit::Celsius,
            times,
            lines: vec![ChartLine { name: "0".to_owned(), values }],
            limit,
            until: *times.back().unwrap(),
            seconds: 60,
            clock: None,
            cursor: None,
            marks: Vec::new(),
            refresh,
        }
    }

    /// A constant value is in the middle of a narrow range. A limit is included only if the values are close to it.
    #[test]
    fn the_axis_fits_the_values() {
        let times: VecDeque<UnixTime> = (0..3).map(|second| UnixTime(second * SECOND)).collect();
        let range = |values: [f32; 3], limit| {
            let values = VecDeque::from(values);
            let axis = chart(&times, &values, limit, SECOND).axis(12);
            (axis.low, axis.high)
        };
        assert_eq!(range([52.0, 53.0, 54.0], Some(75.0)), (50.0, 56.0));
        assert_eq!(range([5.0, 40.0, 54.0], Some(75.0)), (0.0, 60.0));
        assert_eq!(range([60.0, 68.0, 70.0], Some(75.0)), (60.0, 75.0));
        assert_eq!(range([f32::NAN; 3], None), (0.0, 1.0));
    }

    /// Seconds without samples are a gap. A longer interval is not.
    #[test]
    fn gaps_stay_gaps_if_the_interval_changes() {
        let columns = |seconds: &[u64], refresh: u64| {
            let times: VecDeque<UnixTime> = seconds.iter().map(|second| UnixTime(second * SECOND)).collect();
            let values: VecDeque<f32> = seconds.iter().map(|_| 5.0).collect();
            let chart = chart(&times, &values, None, refresh * SECOND);
            let sampled = chart.sampled(TimeWindow { from: 0, until: 60 * SECOND }, 60);
            sampled[0].iter().map(|value| if value.is_nan() { ' ' } else { '#' }).collect::<String>().trim_end().to_owned()
        };
        assert_eq!(columns(&[0, 1, 2, 3, 9, 10, 11], 1), "####     ###");
        assert_eq!(columns(&[0, 1, 2, 3, 9, 15, 21], 6), "#".repeat(22));
        assert_eq!(columns(&[0, 6, 12, 13, 14, 15], 1), "#".repeat(16));
        assert_eq!(columns(&[0, 1, 2, 12], 10), "#".repeat(13), "the newest is not late at the current interval");
    }
}
