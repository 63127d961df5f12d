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

ttmon_model::named! {
    /// The user's choice of a theme.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum ThemeChoice {
        /// Follows the background of the terminal.
        #[default]
        Auto = "auto",
        /// For a dark background.
        Dark = "dark",
        /// For a light background.
        Light = "light",
        /// Without colours.
        Mono = "mono",
        /// With more contrast.
        HighContrast = "high-contrast",
        /// Blue and orange.
        ColorBlind = "colour-blind",
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
    #[cfg_attr(not(test), expect(dead_code, reason = "for docs/top.md"))]
    help: &'static str,
    kind: SettingKind,
}

enum SettingKind {
    /// True or false.
    Flag(fn(&mut Settings) -> &mut bool),
    /// A value with its own notation.
    Other { allowed: fn() -> String, read: fn(&mut Settings, &Value) -> Option<()>, write: fn(&Settings) -> Value },
}

const fn flag(key: &'static str, help: &'static str, member: fn(&mut Settings) -> &mut bool) -> Setting {
    Setting { key, help, kind: SettingKind::Flag(member) }
}

const fn setting(
    key: &'static str,
    help: &'static str,
    allowed: fn() -> String,
    read: fn(&mut Settings, &Value) -> Option<()>,
    write: fn(&Settings) -> Value,
) -> Setting {
    Setting { key, help, kind: SettingKind::Other { allowed, read, write } }
}

impl Setting {
    /// Returns the allowed values in words.
    fn allowed(&self) -> String {
        match self.kind {
            SettingKind::Flag(_) => "true or false".to_owned(),
            SettingKind::Other { allowed, .. } => allowed(),
        }
    }

    /// Returns `None` for a value that is not allowed.
    fn read(&self, settings: &mut Settings, value: &Value) -> Option<()> {
        match self.kind {
            SettingKind::Flag(member) => value.as_bool().map(|value| *member(settings) = value),
            SettingKind::Other { read, .. } => read(settings, value),
        }
    }

    fn write(&self, settings: &Settings) -> Value {
        match self.kind {
            SettingKind::Flag(member) => Value::Boolean(*member(&mut settings.clone())),
            SettingKind::Other { write, .. } => write(settings),
        }
    }
}

const SETTINGS: &[Setting] = &[
    setting(
        "view",
        "the first view",
        || one_of(View::ALL.map(View::name)),
        |settings, value| view(value).map(|view| settings.view = view),
        |settings| text(settings.view.name()),
    ),
    setting(
        "refresh_ms",
        "refresh interval",
        || format!("milliseconds, {} to {}", REFRESH_MIN.as_millis(), REFRESH_MAX.as_millis()),
        |settings, value| refresh(value).map(|refresh| settings.refresh = refresh),
        |settings| Value::Integer(i64::try_from(settings.refresh.as_millis()).unwrap_or(1000)),
    ),
    setting(
        "theme",
        "colours; `auto` follows the background of the terminal",
        || one_of(ThemeChoice::ALL.map(ThemeChoice::name)),
        |settings, value| theme(value).map(|theme| settings.theme = theme),
        |settings| text(settings.theme.name()),
    ),
    setting(
        "sort",
        "column to sort processes by",
        || "the name of a column".to_owned(),
        |settings, value| value.as_str().and_then(columns::by_name).map(|sort| settings.sort = sort),
        |settings| text(columns::COLUMNS[settings.sort].name),
    ),
    flag("descending", "sort in descending order", |settings| &mut settings.descending),
    flag("tree", "processes as a tree", |settings| &mut settings.tree),
    setting(
        "columns",
        "columns of the process list, as far as they fit",
        || "a list of names of columns".to_owned(),
        |settings, value| list(value).map(|columns| settings.columns = columns),
        |settings| Value::Array(settings.columns.iter().map(|index| text(columns::COLUMNS[*index].name)).collect()),
    ),
    setting(
        "metric",
        "metric of charts and mesh",
        || "the name of a metric".to_owned(),
        |settings, value| value.as_str().and_then(metric::by_name).map(|metric| settings.metric = metric),
        |settings| text(metric::METRICS[settings.metric].chart.name),
    ),
    setting(
        "window_s",
        "seconds that charts show",
        || one_of(ZOOMS),
        |settings, value| zoom(value).map(|zoom| settings.zoom = zoom),
        |settings| Value::Integer(i64::try_from(ZOOMS[settings.zoom]).unwrap_or(60)),
    ),
    flag("worst_first", "list the worst devices first", |settings| &mut settings.worst_first),
    flag("overlay", "charts of one metric: all devices in one chart", |settings| &mut settings.overlay),
    flag("charts_by_device", "charts: true for all metrics of one device, false for one metric of all devices", |settings| {
        &mut settings.by_device
    }),
    flag("bell", "ring the terminal bell for alerts", |settings| &mut settings.bell),
];

/// Formats `a, b or c`.
fn one_of<T: ToString, const N: usize>(words: [T; N]) -> String {
    let words = words.map(|word| word.to_string());
    words.split_last().map_or_else(String::new, |(last, others)| format!("{} or {last}", others.join(", ")))
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn view(value: &Value) -> Option<View> {
    View::ALL.into_iter().find(|view| value.as_str().is_some_and(|name| view.name().eq_ignore_ascii_case(name)))
}

fn theme(value: &Value) -> Option<ThemeChoice> {
    let name = match value.as_str()? {
        "default" => "auto",
        "color-blind" => "colour-blind",
        name => name,
    };
    ThemeChoice::from_name(name)
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
                Some(setting) if setting.read(self, value).is_none() => messages.push(format!("{key} takes {}", setting.allowed())),
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
            let value = setting.write(self);
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
            text +=
                &format!("| `{}` | {} | `{}` | {} |\n", setting.key, setting.allowed(), setting.write(&Settings::default()), setting.help);
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
