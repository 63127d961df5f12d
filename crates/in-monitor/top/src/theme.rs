//! The styles of the screen: roles instead of colours, and the characters for drawing.
//!
//! Colour shows load (a gradient by the value's own limit) and health. A word, a number or a symbol always has the same information. The
//! background is never painted. `palette` has the colours in three forms: true colour, the 256-colour palette, and the 16 colours of the
//! terminal.

mod palette;

use ratatui_core::style::{Color, Modifier, Style};
use ttmon_model::snapshot::Severity;

use crate::settings::ThemeChoice;
use palette::{Ink, Palette, Rgb};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Plain,
    Dim,
    Strong,
    Heading,
    Title,
    /// Rules, frames, the empty part of a bar.
    Frame,
    Selected,
    Warning,
    Critical,
}

impl From<Severity> for Role {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Fine => Self::Plain,
            Severity::Unknown => Self::Dim,
            Severity::Warning => Self::Warning,
            Severity::Critical => Self::Critical,
        }
    }
}

/// The supported colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Colors {
    /// No colours; only bold, dim and reverse.
    None,
    /// The 16 colours of the terminal.
    #[default]
    Sixteen,
    /// The 256-colour palette.
    Palette,
    /// True colour.
    True,
}

/// The background of the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Background {
    /// Light text on a dark background.
    #[default]
    Dark,
    /// Dark text on a light background.
    Light,
}

/// The set of colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tones {
    /// Green, yellow, red.
    #[default]
    Standard,
    /// Green, yellow, red with more contrast to the background.
    HighContrast,
    /// Blue and orange.
    ColorBlind,
}

/// A theme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Theme {
    /// The supported colours.
    pub colors: Colors,
    /// The background of the terminal.
    pub background: Background,
    /// The set of colours.
    pub tones: Tones,
    /// Whether to draw only ASCII characters.
    pub ascii: bool,
}

/// Shares of a limit at which the gradient has its first, second and last colour.
const LOAD_STEPS: [f64; 3] = [0.60, 0.85, 1.0];
/// Number of colours of the gradient. They are few, so that a small change of a value does not redraw the cell.
const LOAD_COLORS: f64 = 20.0;

impl Theme {
    /// Returns the theme of a setting. `self` is the theme for the detected terminal.
    pub(crate) fn chosen(self, choice: ThemeChoice) -> Self {
        match choice {
            ThemeChoice::Auto => self,
            ThemeChoice::Dark => Self { background: Background::Dark, ..self },
            ThemeChoice::Light => Self { background: Background::Light, ..self },
            ThemeChoice::Mono => Self { colors: Colors::None, ..self },
            ThemeChoice::HighContrast => Self { tones: Tones::HighContrast, ..self },
            ThemeChoice::ColorBlind => Self { tones: Tones::ColorBlind, ..self },
        }
    }

    pub(crate) fn style(self, role: Role) -> Style {
        let style = Style::new();
        let palette = self.palette();
        match role {
            Role::Plain => style,
            Role::Dim => self.faint(palette.dim),
            Role::Frame => self.faint(palette.frame),
            Role::Strong => style.add_modifier(Modifier::BOLD),
            Role::Heading => self.faint(palette.dim).add_modifier(Modifier::UNDERLINED),
            Role::Title => self.colored(palette.accent).add_modifier(Modifier::BOLD),
            // The selected line has no other colours, which would be uneven when reversed.
            Role::Selected => style.fg(Color::Reset).bg(Color::Reset).add_modifier(Modifier::REVERSED),
            Role::Warning => self.colored(palette.warning).add_modifier(Modifier::BOLD),
            Role::Critical => self.colored(palette.critical).add_modifier(Modifier::BOLD | Modifier::REVERSED),
        }
    }

    fn colored(self, ink: Ink) -> Style {
        if self.colors == Colors::None { Style::new() } else { Style::new().fg(self.color(ink)) }
    }

    /// Returns a style fainter than plain text: the theme's own colour, which is readable, or the terminal's dim attribute.
    fn faint(self, ink: Ink) -> Style {
        match self.colors {
            Colors::None | Colors::Sixteen => Style::new().add_modifier(Modifier::DIM),
            Colors::Palette | Colors::True => Style::new().fg(self.color(ink)),
        }
    }

    fn palette(self) -> &'static Palette {
        match (self.tones, self.background) {
            (Tones::Standard, Background::Dark) => &palette::DARK,
            (Tones::Standard, Background::Light) => &palette::LIGHT,
            (Tones::HighContrast, Background::Dark) => &palette::HIGH_CONTRAST_DARK,
            (Tones::HighContrast, Background::Light) => &palette::HIGH_CONTRAST_LIGHT,
            (Tones::ColorBlind, Background::Dark) => &palette::COLOR_BLIND_DARK,
            (Tones::ColorBlind, Background::Light) => &palette::COLOR_BLIND_LIGHT,
        }
    }

    fn color(self, ink: Ink) -> Color {
        match self.colors {
            Colors::None | Colors::Sixteen => ink.ansi,
            Colors::Palette | Colors::True => self.rgb(ink.rgb),
        }
    }

    fn rgb(self, rgb: Rgb) -> Color {
        if self.colors == Colors::True { Color::from_u32(rgb) } else { palette::indexed(rgb) }
    }

    pub(crate) fn load(self, share: f64) -> Style {
        let [low, middle, high] = self.palette().load;
        let color = match self.colors {
            Colors::None => return Style::new(),
            Colors::Sixteen if share < f64::midpoint(LOAD_STEPS[0], LOAD_STEPS[1]) => low.ansi,
            Colors::Sixteen if share < f64::midpoint(LOAD_STEPS[1], LOAD_STEPS[2]) => middle.ansi,
            Colors::Sixteen => high.ansi,
            Colors::Palette | Colors::True => self.rgb(load_rgb(self.palette(), share)),
        };
        Style::new().fg(color)
    }

    pub(crate) fn hue(self, index: usize) -> Style {
        let Palette { hues, hues_ansi, .. } = self.palette();
        let index = index % hues.len();
        self.colored(Ink { rgb: hues[index], ansi: hues_ansi[index] })
    }

    /// Returns the background for a share of a limit, dark to bright, or no background if there are too few colours.
    pub(crate) fn heat(self, share: f64) -> Style {
        let background = self.palette().heat[heat_step(share)];
        match self.colors {
            Colors::None => Style::new(),
            Colors::Sixteen => self.load(share),
            Colors::Palette | Colors::True => Style::new().bg(self.rgb(background)).fg(self.rgb(palette::letters_on(background))),
        }
    }

    /// Returns the style of a sparkline on the background for a share of a limit: fainter than text.
    pub(crate) fn heat_spark(self, share: f64) -> Style {
        match self.colors {
            Colors::None | Colors::Sixteen => self.heat(share).add_modifier(Modifier::DIM),
            Colors::Palette | Colors::True => self.heat(share).fg(self.rgb(self.palette().heat_sparks[heat_step(share)])),
        }
    }

    pub(crate) fn glyphs(self) -> &'static Glyphs {
        if self.ascii { &ASCII } else { &UNICODE }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index, clamped")]
fn heat_step(share: f64) -> usize {
    match share {
        _ if share >= LOAD_STEPS[2] => 7,
        _ if share >= LOAD_STEPS[1] => 6,
        _ => ((share.max(0.0) / LOAD_STEPS[1] * 6.0) as usize).min(5),
    }
}

fn load_rgb(palette: &Palette, share: f64) -> Rgb {
    let share = (share.clamp(0.0, 1.0) * LOAD_COLORS).round() / LOAD_COLORS;
    let [low, middle, high] = palette.load;
    match share {
        _ if share <= LOAD_STEPS[0] => low.rgb,
        _ if share <= LOAD_STEPS[1] => palette::between(low.rgb, middle.rgb, (share - LOAD_STEPS[0]) / (LOAD_STEPS[1] - LOAD_STEPS[0])),
        _ => palette::between(middle.rgb, high.rgb, (share - LOAD_STEPS[1]) / (LOAD_STEPS[2] - LOAD_STEPS[1])),
    }
}

#[derive(Debug)]
pub(crate) struct Glyphs {
    pub(crate) ellipsis: &'static str,
    pub(crate) celsius: &'static str,
    pub(crate) degree: &'static str,
    pub(crate) between: &'static str,
    pub(crate) horizontal: &'static str,
    pub(crate) vertical: &'static str,
    /// Corners: top left, top right, bottom left, bottom right.
    pub(crate) corners: [&'static str; 4],
    /// Cells of a bar, from empty to full.
    pub(crate) fill: &'static [&'static str],
    /// Cells of a sparkline, from low to high.
    pub(crate) spark: &'static [&'static str],
    /// Signs of a sorted column: descending, ascending.
    sorted: [&'static str; 2],
    /// Rows that are not visible: above, below.
    pub(crate) arrows: [&'static str; 2],
    pub(crate) age: &'static str,
    /// Signs before a child in a tree: of a middle one, of the last one.
    pub(crate) branches: [&'static str; 2],
    pub(crate) dashed: &'static str,
    /// A link between two chips of a board: horizontal, vertical.
    pub(crate) links: [&'static str; 2],
    /// A cable between two boards: horizontal, vertical.
    pub(crate) cables: [&'static str; 2],
    /// Symbols before the heading of a group: folded, unfolded.
    pub(crate) folds: [&'static str; 2],
    /// Symbols before the word of a health: warning, critical.
    signs: [&'static str; 2],
    /// Marks on the time axis: a process started, a process ended, a device was reset, an allocation was refused.
    pub(crate) marks: [&'static str; 4],
    /// The visible part of a list, on the edge of its window.
    pub(crate) thumb: &'static str,
    /// Cells of an address map: free, largest free block, partly used, used.
    pub(crate) map: [&'static str; 4],
}

impl Glyphs {
    /// A full cell of a bar.
    pub(crate) fn full(&self) -> &'static str {
        self.fill[self.fill.len() - 1]
    }

    /// The symbol of an unhealthy device; empty for other severities.
    pub(crate) fn sign(&self, severity: Severity) -> &'static str {
        match severity {
            Severity::Fine | Severity::Unknown => "",
            Severity::Warning => self.signs[0],
            Severity::Critical => self.signs[1],
        }
    }

    /// The sign of a column by which a list is sorted.
    pub(crate) fn sorted(&self, is_descending: bool) -> &'static str {
        self.sorted[usize::from(!is_descending)]
    }
}

const UNICODE: Glyphs = Glyphs {
    ellipsis: "…",
    celsius: "°C",
    degree: "°",
    between: "·",
    horizontal: "─",
    vertical: "│",
    corners: ["┌", "┐", "└", "┘"],
    fill: &["─", "╾", "━"],
    spark: &["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"],
    sorted: ["▼", "▲"],
    arrows: ["↑", "↓"],
    age: "◷",
    branches: ["├─", "└─"],
    dashed: "╌",
    links: ["═", "║"],
    cables: ["━", "┃"],
    folds: ["▸", "▾"],
    signs: ["▲", "■"],
    marks: ["▲", "▽", "R", "!"],
    thumb: "┃",
    map: ["·", "░", "▒", "█"],
};

const ASCII: Glyphs = Glyphs {
    ellipsis: "..",
    celsius: "C",
    degree: "C",
    between: "-",
    horizontal: "-",
    vertical: "|",
    corners: ["+", "+", "+", "+"],
    fill: &["-", "#"],
    spark: &["_", ".", "-", "=", "*", "#"],
    sorted: ["v", "^"],
    arrows: ["^", "v"],
    age: "age ",
    branches: ["|-", "`-"],
    dashed: ".",
    links: ["=", "|"],
    cables: ["-", ":"],
    folds: [">", "v"],
    signs: ["!", "!!"],
    marks: ["S", "E", "R", "!"],
    thumb: "#",
    map: [".", "-", "+", "#"],
};
