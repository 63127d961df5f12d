//! The configuration file: the user's settings, in TOML. Invalid settings are reported and skipped, never fatal.
//!
//! ```toml
//! view = "Main"
//! refresh_ms = 1000
//! sort = "dram"
//! columns = ["pid", "user", "name", "dev", "dram", "command"]
//! theme = "auto"
//! ```

use std::time::Duration;

use toml::{Table, Value};
use ttmon_model::limits::{REFRESH_MAX, REFRESH_MIN};

use crate::columns;
use crate::metric;
use crate::state::View;

/// Time spans of charts, in seconds.
pub(crate) const ZOOMS: [u64; 5] = [60, 300, 900, 1800, 3600];
pub(crate) const REFRESHES: [Duration; 8] = [ms(100), ms(250), ms(500), ms(1000), ms(2000), ms(5000), ms(10_000), ms(60_000)];

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ThemeChoice {
    /// Follows the background of the terminal.
    #[default]
    Auto,
    Dark,
    Light,
    Mono,
    HighContrast,
    ColorBlind,
}

impl ThemeChoice {
    pub(crate) const ALL: [Self; 6] = [Self::Auto, Self::Dark, Self::Light, Self::Mono, Self::HighContrast, Self::ColorBlind];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Dark => "dark",
            Self::Light => "light",
            Self::Mono => "mono",
            Self::HighContrast => "high-contrast",
            Self::ColorBlind => "colour-blind",
        }
    }
}

/// The user's settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// First view.
    pub view: View,
    /// Refresh interval.
    pub refresh: Duration,
    pub(crate) theme: ThemeChoice,
    pub(crate) sort: usize,
    pub(crate) descending: bool,
    pub(crate) tree: bool,
    pub(crate) columns: Vec<usize>,
    pub(crate) metric: usize,
    pub(crate) zoom: usize,
    pub(crate) worst_first: bool,
    pub(crate) overlay: bool,
    pub(crate) by_device: bool,
    pub(crate) bell: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            view: View::Main,
            refresh: Duration::from_secs(1),
            theme: ThemeChoice::Auto,
            sort: columns::by_name("dram").unwrap_or(0),
            descending: true,
            tree: false,
            columns: columns::DEFAULT.iter().filter_map(|name| columns::by_name(name)).collect(),
            metric: metric::by_name("dram").unwrap_or(0),
            zoom: 0,
            worst_first: false,
            overlay: false,
            by_device: true,
            bell: false,
        }
    }
}

struct Setting {
    key: &'static str,
    takes: fn() -> String,
    #[cfg_attr(not(test), expect(dead_code, reason = "for docs/top.md"))]
    help: &'static str,
    read: fn(&mut Settings, &Value) -> Option<()>,
    write: fn(&Settings) -> Value,
}

#[rustfmt::skip] // one setting per line
const SETTINGS: &[Setting] = &[
    Setting { key: "view", takes: || one_of(View::ALL.map(View::title)), help: "the first view", read: |s, v| view(v).map(|view| s.view = view), write: |s| text(s.view.title()) },
    Setting { key: "refresh_ms", takes: || format!("milliseconds, {} to {}", REFRESH_MIN.as_millis(), REFRESH_MAX.as_millis()), help: "refresh interval", read: |s, v| refresh(v).map(|refresh| s.refresh = refresh), write: |s| Value::Integer(i64::try_from(s.refresh.as_millis()).unwrap_or(1000)) },
    Setting { key: "theme", takes: || one_of(ThemeChoice::ALL.map(ThemeChoice::name)), help: "colours; `auto` follows the background of the terminal", read: |s, v| theme(v).map(|theme| s.theme = theme), write: |s| text(s.theme.name()) },
    Setting { key: "sort", takes: || "the name of a column".to_owned(), help: "column to sort processes by", read: |s, v| v.as_str().and_then(columns::by_name).map(|sort| s.sort = sort), write: |s| text(columns::COLUMNS[s.sort].name) },
    Setting { key: "descending", takes: boolean, help: "sort in descending order", read: |s, v| v.as_bool().map(|value| s.descending = value), write: |s| Value::Boolean(s.descending) },
    Setting { key: "tree", takes: boolean, help: "processes as a tree", read: |s, v| v.as_bool().map(|value| s.tree = value), write: |s| Value::Boolean(s.tree) },
    Setting { key: "columns", takes: || "a list of names of columns".to_owned(), help: "columns of the process list, as far as they fit", read: |s, v| list(v).map(|columns| s.columns = columns), write: |s| Value::Array(s.columns.iter().map(|index| text(columns::COLUMNS[*index].name)).collect()) },
    Setting { key: "metric", takes: || "the name of a metric".to_owned(), help: "metric of charts and mesh", read: |s, v| v.as_str().and_then(metric::by_name).map(|metric| s.metric = metric), write: |s| text(metric::METRICS[s.metric].chart.name) },
    Setting { key: "window_s", takes: || one_of(ZOOMS), help: "seconds that charts show", read: |s, v| zoom(v).map(|zoom| s.zoom = zoom), write: |s| Value::Integer(i64::try_from(ZOOMS[s.zoom]).unwrap_or(60)) },
    Setting { key: "worst_first", takes: boolean, help: "list the worst devices first", read: |s, v| v.as_bool().map(|value| s.worst_first = value), write: |s| Value::Boolean(s.worst_first) },
    Setting { key: "overlay", takes: boolean, help: "charts of one metric: all devices in one chart", read: |s, v| v.as_bool().map(|value| s.overlay = value), write: |s| Value::Boolean(s.overlay) },
    Setting { key: "charts_by_device", takes: boolean, help: "charts: true for all metrics of one device, false for one metric of all devices", read: |s, v| v.as_bool().map(|value| s.by_device = value), write: |s| Value::Boolean(s.by_device) },
    Setting { key: "bell", takes: boolean, help: "ring the terminal bell for alerts", read: |s, v| v.as_bool().map(|value| s.bell = value), write: |s| Value::Boolean(s.bell) },
];

fn boolean() -> String {
    "true or false".to_owned()
}

/// Formats `a, b or c`.
fn one_of<T: ToString, const N: usize>(words: [T; N]) -> String {
    let words = words.map(|word| word.to_string());
    words.split_last().map_or_else(String::new, |(last, others)| format!("{} or {last}", others.join(", ")))
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn view(value: &Value) -> Option<View> {
    View::ALL.into_iter().find(|view| value.as_str().is_some_and(|name| view.title().eq_ignore_ascii_case(name)))
}

fn theme(value: &Value) -> Option<ThemeChoice> {
    let name = match value.as_str()? {
        "default" => "auto",
        "color-blind" => "colour-blind",
        name => name,
    };
    ThemeChoice::ALL.into_iter().find(|theme| theme.name() == name)
}

fn refresh(value: &Value) -> Option<Duration> {
    let refresh = Duration::from_millis(u64::try_from(value.as_integer()?).ok()?);
    (REFRESH_MIN..=REFRESH_MAX).contains(&refresh).then_some(refresh)
}

fn zoom(value: &Value) -> Option<usize> {
    let seconds = u64::try_from(value.as_integer()?).ok()?;
    ZOOMS.iter().position(|zoom| *zoom == seconds)
}

fn list(value: &Value) -> Option<Vec<usize>> {
    let named: Vec<usize> = value.as_array()?.iter().map(|name| name.as_str().and_then(columns::by_name)).collect::<Option<_>>()?;
    let mut chosen: Vec<usize> = Vec::new();
    // Each column once. The host column is added automatically.
    for column in named {
        if columns::COLUMNS[column].name != columns::HOST && !chosen.contains(&column) {
            chosen.push(column);
        }
    }
    (!chosen.is_empty()).then_some(chosen)
}

impl Settings {
    /// Selects utilization as the metric of charts if `is_read`, unless the user chose another metric.
    pub(crate) fn prefer_utilization(&mut self, is_read: bool) {
        let Some(utilization) = metric::by_name("utilization") else { return };
        let usual = Self::default().metric;
        let (before, after) = if is_read { (usual, utilization) } else { (utilization, usual) };
        if self.metric == before {
            self.metric = after;
        }
    }

    /// Applies the text of a file to these settings. Returns a message for each invalid setting.
    pub fn read(&mut self, text: &str) -> Vec<String> {
        let table = match text.parse::<Table>() {
            Ok(table) => table,
            Err(error) => return vec![format!("not TOML: {}", error.message())],
        };
        let mut messages = Vec::new();
        for (key, value) in &table {
            match SETTINGS.iter().find(|setting| setting.key == key) {
                // The table of alert rules and receivers is read elsewhere.
                None if key == "alerts" => {}
                None => messages.push(format!("unknown key {key}")),
                Some(setting) if (setting.read)(self, value).is_none() => messages.push(format!("{key} takes {}", (setting.takes)())),
                Some(_) => {}
            }
        }
        messages
    }

    /// Returns the text of a file with these settings. Other keys and comments of the earlier file are kept. If the earlier file is not
    /// TOML, returns an error, because its content would be lost.
    pub fn write(&self, earlier: &str) -> Result<String, NotToml> {
        let mut wanted = earlier.parse::<Table>().map_err(|error| NotToml(error.message().to_owned()))?;
        let mut lines: Vec<String> = earlier.lines().map(str::to_owned).collect();
        for setting in SETTINGS {
            let value = (setting.write)(self);
            if wanted.insert(setting.key.to_owned(), value.clone()).as_ref() != Some(&value) {
                set(&mut lines, setting.key, &value);
            }
        }
        let text = lines.join("\n") + "\n";
        // If a key in an unusual form was missed, write the whole file again. Only its comments are lost.
        Ok(if text.parse::<Table>().is_ok_and(|table| table == wanted) { text } else { wanted.to_string() })
    }
}

/// The earlier file is not TOML.
#[derive(Debug, thiserror::Error)]
#[error("it is not TOML: {0}")]
pub struct NotToml(String);

/// Writes a value into the lines of a file: replaces the old value, or appends it to the top-level keys.
fn set(lines: &mut Vec<String>, key: &str, value: &Value) {
    // After the first table heading, keys belong to that table.
    let end = lines.iter().position(|line| line.trim_start().starts_with('[')).unwrap_or(lines.len());
    let names = |text: &str| text.parse::<Table>().is_ok_and(|table| table.len() == 1 && table.contains_key(key));
    for from in (0..end).filter(|line| lines[*line].trim_start().starts_with(key)) {
        // A list may span several lines.
        let Some(to) = (from + 1..=end).find(|to| names(&lines[from..*to].join("\n"))) else { continue };
        let last = lines[to - 1].clone();
        let is_comment = |at: &usize| names(&[&lines[from..to - 1].join("\n"), "\n", &last[..*at]].concat());
        let comment = last.match_indices('#').map(|(at, _)| at).find(is_comment).map_or("", |at| &last[at..]);
        let gap = if comment.is_empty() { "" } else { "  " };
        lines.splice(from..to, [format!("{key} = {value}{gap}{comment}")]);
        return;
    }
    lines.insert(end, format!("{key} = {value}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_tables_of_settings_are_up_to_date() {
        let header = "| key | takes | default | is |\n| --- | --- | --- | --- |\n";
        let mut text = String::new();
        for setting in SETTINGS {
            text += &format!(
                "| `{}` | {} | `{}` | {} |\n",
                setting.key,
                (setting.takes)(),
                (setting.write)(&Settings::default()),
                setting.help
            );
        }
        text += "\n| column | is |\n| --- | --- |\n";
        for column in columns::COLUMNS {
            text += &format!("| `{}` | {} |\n", column.name, column.help);
        }
        text += "\n| metric | is |\n| --- | --- |\n";
        for metric in metric::METRICS.iter() {
            text += &format!("| `{}` | {} |\n", metric.chart.name, metric.title);
        }
        ttmon_testing::generated_part("docs/top.md", [header, ""], &text);
    }

    #[test]
    fn settings_are_read_back_as_written() {
        let mut changed =
            Settings { view: View::Mesh, refresh: Duration::from_millis(250), theme: ThemeChoice::Light, ..Settings::default() };
        (changed.sort, changed.descending, changed.tree, changed.columns) = (0, false, true, vec![0, 4]);
        (changed.metric, changed.zoom, changed.worst_first, changed.bell) = (2, 3, true, true);
        (changed.overlay, changed.by_device) = (true, false);
        let mut read = Settings::default();
        assert_eq!(read.read(&changed.write("").unwrap()), [""; 0]);
        assert_eq!(read, changed);
    }

    #[test]
    fn allowed_words_are_listed_with_or() {
        assert_eq!(one_of(["a", "b", "c"]), "a, b or c");
        assert_eq!(one_of(ZOOMS), "60, 300, 900, 1800 or 3600");
    }

    #[test]
    fn invalid_settings_are_reported_and_skipped() {
        let mut settings = Settings::default();
        let messages = settings.read("refresh_ms = 1\nsort = \"nonsense\"\nfuture = 7\ntree = true\n");
        assert_eq!(messages, ["unknown key future", "refresh_ms takes milliseconds, 50 to 86400000", "sort takes the name of a column"]);
        assert_eq!(settings, Settings { tree: true, ..Settings::default() });
        assert_eq!(settings.read("= x").len(), 1);
    }

    #[test]
    fn foreign_keys_stay() {
        let written = Settings::default().write("future = 7\ntree = true\n").unwrap();
        assert!(written.contains("future = 7") && written.contains("tree = false"), "{written}");
    }

    #[test]
    fn comments_stay_and_an_unreadable_file_is_left_alone() {
        let earlier =
            "# mine\ntree = true  # as I like it\ncolumns = [\n  \"pid\", # first\n]\ntheme = \"auto\" # same\n\n[other]\ntree = 7\n";
        let written = Settings::default().write(earlier).unwrap();
        for line in ["# mine", "tree = false  # as I like it", "theme = \"auto\" # same", "[other]", "tree = 7"] {
            assert!(written.lines().any(|other| other == line), "{line}: {written}");
        }
        let mut read = Settings { tree: true, ..Settings::default() };
        assert_eq!(read.read(&written), ["unknown key other"]);
        assert_eq!(read, Settings::default());
        assert!(Settings::default().write("refresh_ms = 250\nmy precious = [\n").is_err());
        // The key is found in an unusual form too.
        assert!(Settings::default().write("\"tree\" = true\n").unwrap().contains("tree = false"));
    }

    #[test]
    fn columns_are_there_once_and_never_none() {
        let mut settings = Settings::default();
        assert_eq!(settings.read("columns = [\"pid\", \"host\", \"pid\", \"dram\"]"), [""; 0]);
        assert_eq!(settings.columns, [columns::by_name("pid").unwrap(), columns::by_name("dram").unwrap()]);
        assert_eq!(settings.read("columns = [\"host\"]"), ["columns takes a list of names of columns"]);
        assert_eq!(settings.columns.len(), 2, "what was before");
    }
}
