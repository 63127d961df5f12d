//! Writes the two text formats of metrics.
//!
//! OpenMetrics names counters and infos without their suffixes in `# TYPE`, has `# UNIT`, and ends with `# EOF`. The names of the series
//! are the same in both formats, so that a store that changes the format still sees the same series.

use std::fmt::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Dialect {
    /// The text format 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    Open,
}

impl Dialect {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::Open => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Returns the last line.
    pub(crate) fn end(self) -> &'static str {
        match self {
            Self::Text => "",
            Self::Open => "# EOF\n",
        }
    }

    /// Chooses the format of an `Accept` header: the one with the higher weight, or OpenMetrics if the weights are equal. A request without
    /// the header comes from a browser or an old scraper.
    pub(crate) fn negotiate(accept: &str) -> Self {
        let mut weights = (0.0, 0.0);
        for part in accept.split(',') {
            let mut words = part.split(';').map(str::trim);
            let media = words.next().map(str::to_ascii_lowercase);
            let words: Vec<&str> = words.collect();
            // A weight that is no number counts as none.
            let weight = words.iter().find_map(|word| word.strip_prefix("q=")?.parse::<f64>().ok()).unwrap_or(1.0);
            // An unsupported version of OpenMetrics does not count.
            let is_known =
                words.iter().filter_map(|word| word.strip_prefix("version=")).all(|version| matches!(version, "1.0.0" | "0.0.1"));
            match media.as_deref() {
                Some("application/openmetrics-text") if is_known => weights.0 = f64::max(weights.0, weight),
                Some("text/plain" | "text/*" | "*/*") => weights.1 = f64::max(weights.1, weight),
                _ => {}
            }
        }
        if weights.0 > 0.0 && weights.0 >= weights.1 { Self::Open } else { Self::Text }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeriesType {
    Gauge,
    Counter,
    Info,
}

impl SeriesType {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Info => "info",
        }
    }

    fn ending(self) -> &'static str {
        match self {
            Self::Gauge => "",
            Self::Counter => "_total",
            Self::Info => "_info",
        }
    }
}

/// Series with the same name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family<'a> {
    pub(crate) name: &'a str,
    pub(crate) sort: SeriesType,
    /// The base unit, which is the suffix of the name.
    pub(crate) unit: &'a str,
    /// The labels of the series.
    pub(crate) labels: &'a str,
    pub(crate) help: &'a str,
}

impl<'a> Family<'a> {
    pub(crate) const fn gauge(name: &'a str, help: &'a str) -> Self {
        Self { name, sort: SeriesType::Gauge, unit: "", labels: "", help }
    }

    pub(crate) const fn counter(name: &'a str, help: &'a str) -> Self {
        Self { sort: SeriesType::Counter, ..Self::gauge(name, help) }
    }

    pub(crate) const fn info(name: &'a str, help: &'a str) -> Self {
        Self { sort: SeriesType::Info, ..Self::gauge(name, help) }
    }

    pub(crate) const fn unit(self, unit: &'a str) -> Self {
        Self { unit, ..self }
    }

    pub(crate) const fn labels(self, labels: &'a str) -> Self {
        Self { labels, ..self }
    }
}

pub(crate) struct Writer {
    dialect: Dialect,
    text: String,
    name: String,
    /// The header of the family. It is written before the first series, so that a family without series is left out.
    header: String,
}

impl Writer {
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self { dialect, text: String::new(), name: String::new(), header: String::new() }
    }

    pub(crate) fn family(&mut self, family: &Family<'_>) {
        family.name.clone_into(&mut self.name);
        self.header.clear();
        let (mut named, mut sort) = (family.name, family.sort.name());
        match self.dialect {
            Dialect::Open => named = named.strip_suffix(family.sort.ending()).unwrap_or(named),
            Dialect::Text if family.sort == SeriesType::Info => sort = "gauge",
            Dialect::Text => {}
        }
        let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.header, "# HELP {named} {help}\n# TYPE {named} {sort}");
        if self.dialect == Dialect::Open && !family.unit.is_empty() {
            let _ = writeln!(self.header, "# UNIT {named} {}", family.unit);
        }
    }

    /// Writes the only series of a family, without labels, if there is a value.
    pub(crate) fn one(&mut self, value: impl Into<Option<f64>>) {
        self.reading(&[], &[], value.into());
    }

    /// Writes one series of the family if there is a value.
    pub(crate) fn reading(&mut self, labels: &[(&'static str, String)], more: &[(&str, &str)], value: Option<f64>) {
        if let Some(value) = value {
            self.value(labels, more, value);
        }
    }

    pub(crate) fn value(&mut self, labels: &[(&'static str, String)], more: &[(&str, &str)], value: f64) {
        self.text.push_str(&self.header);
        self.header.clear();
        self.text.push_str(&self.name);
        let all = labels.iter().map(|(name, value)| (*name, value.as_str())).chain(more.iter().copied());
        let mut opening = '{';
        for (name, value) in all {
            self.text.push(opening);
            self.text.push_str(name);
            self.text.push_str("=\"");
            self.escaped(value);
            self.text.push('"');
            opening = ',';
        }
        if opening == ',' {
            self.text.push('}');
        }
        // Rust prints the shortest text that parses to the same number, and integers without a decimal point.
        let _ = writeln!(self.text, " {value}");
    }

    fn escaped(&mut self, value: &str) {
        for character in value.chars() {
            match character {
                '\\' => self.text.push_str("\\\\"),
                '"' => self.text.push_str("\\\""),
                '\n' => self.text.push_str("\\n"),
                other => self.text.push(other),
            }
        }
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_negotiated() {
        for (accept, dialect) in [
            ("", Dialect::Text),
            ("*/*", Dialect::Text),
            ("text/plain", Dialect::Text),
            ("application/openmetrics-text; version=1.0.0", Dialect::Open),
            (
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                 text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                Dialect::Open,
            ),
            (
                "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,\
                 application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;version=0.0.1;q=0.75,\
                 text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                Dialect::Open,
            ),
            ("application/openmetrics-text; version=2.0.0, text/plain;q=0.5", Dialect::Text),
            ("application/openmetrics-text;q=0, */*", Dialect::Text),
            ("text/plain;q=0.9, application/openmetrics-text;q=0.1", Dialect::Text),
            ("application/openmetrics-text;q=nonsense", Dialect::Open),
        ] {
            assert_eq!(Dialect::negotiate(accept), dialect, "{accept}");
        }
    }

    #[test]
    fn hostile_labels_are_escaped() {
        let mut out = Writer::new(Dialect::Open);
        out.family(&Family::info("ttmon_x_info", "A\nB\\."));
        out.value(&[("name", "a\"b\\c\nd".to_owned())], &[], 1.0);
        out.family(&Family::counter("ttmon_y_total", "Y."));
        out.reading(&[], &[], Some(2.5));
        out.family(&Family::gauge("ttmon_none", "N."));
        out.reading(&[], &[], None);
        assert_eq!(
            out.into_text(),
            "# HELP ttmon_x A\\nB\\\\.\n# TYPE ttmon_x info\nttmon_x_info{name=\"a\\\"b\\\\c\\nd\"} 1\n\
             # HELP ttmon_y Y.\n# TYPE ttmon_y counter\nttmon_y_total 2.5\n"
        );
    }
}
