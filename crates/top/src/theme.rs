//! How things look: roles instead of colours, and the characters a screen is drawn with.
//!
//! Colour shows load (a gradient by the value's own limit) and health; a word, a number or a sign always stands beside it. The
//! background is never painted. `palette` has the colours, in any of three forms: true colour, the palette of 256, the 16 of the
//! terminal.

mod palette;

use ratatui_core::style::{Color, Modifier, Style};

use crate::settings::ThemeChoice;
use palette::{Ink, Palette, Rgb};

/// What a text is, which decides how it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// As it comes.
    Plain,
    /// Less important, or absent.
    Dim,
    /// More important.
    Strong,
    /// Heads a column.
    Heading,
    /// Heads a section, or names a view.
    Title,
    /// Rules, frames, the empty part of a bar.
    Frame,
    /// The line where the cursor is.
    Selected,
    /// Close to a limit.
    Warning,
    /// At a limit, or gone.
    Critical,
}

/// How many colours may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Colors {
    /// None: bold, dim and reverse alone.
    None,
    /// The terminal's own sixteen.
    #[default]
    Sixteen,
    /// The palette of 256.
    Palette,
    /// Any.
    True,
}

/// What background the user has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Background {
    /// Light letters on dark.
    #[default]
    Dark,
    /// Dark letters on light.
    Light,
}

/// What the colours are made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tones {
    /// Green, yellow, red.
    #[default]
    Standard,
    /// The same, further from the background.
    HighContrast,
    /// Blue and orange.
    ColorBlind,
}

/// How a screen looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Theme {
    /// How many colours.
    pub colors: Colors,
    /// On which background.
    pub background: Background,
    /// Which colours.
    pub tones: Tones,
    /// Whether nothing outside ASCII may be drawn.
    pub ascii: bool,
}

/// Shares of a limit at which the gradient is at its first, second and last colour.
const LOAD_STEPS: [f64; 3] = [0.60, 0.85, 1.0];
/// Colours of the gradient: few, so that a value that changes a little is not written again.
const LOAD_COLORS: f64 = 20.0;

impl Theme {
    pub(crate) fn style(self, role: Role) -> Style {
        let style = Style::new();
        let has_colors = self.colors != Colors::None;
        let palette = self.palette();
        match role {
            Role::Plain => style,
            Role::Dim => self.faint(palette.dim),
            Role::Frame => self.faint(palette.frame),
            Role::Strong => style.add_modifier(Modifier::BOLD),
            Role::Heading => self.faint(palette.dim).add_modifier(Modifier::UNDERLINED),
            Role::Title if has_colors => style.fg(self.color(palette.accent)).add_modifier(Modifier::BOLD),
            Role::Title => style.add_modifier(Modifier::BOLD),
            // Over other colours it would be a patchwork.
            Role::Selected => style.fg(Color::Reset).bg(Color::Reset).add_modifier(Modifier::REVERSED),
            Role::Warning if has_colors => style.fg(self.color(palette.warning)).add_modifier(Modifier::BOLD),
            Role::Warning => style.add_modifier(Modifier::BOLD),
            Role::Critical if has_colors => style.fg(self.color(palette.critical)).add_modifier(Modifier::BOLD | Modifier::REVERSED),
            Role::Critical => style.add_modifier(Modifier::BOLD | Modifier::REVERSED),
        }
    }

    /// Fainter than plain text: by the theme's own colour, which is known to be readable, or as the terminal does it.
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
        if self.colors == Colors::True { Color::Rgb(rgb.0, rgb.1, rgb.2) } else { palette::indexed(rgb) }
    }

    /// The colour of a share of a limit.
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

    /// The colour of a device among others.
    pub(crate) fn hue(self, index: usize) -> Style {
        let hues = &self.palette().hues;
        if self.colors == Colors::None { Style::new() } else { Style::new().fg(self.color(hues[index % hues.len()])) }
    }

    /// The background for a share of a limit, dark to bright; none where there are too few colours.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index, clamped")]
    pub(crate) fn heat(self, share: f64) -> Style {
        let scale = &self.palette().heat;
        let place = match share {
            _ if share >= LOAD_STEPS[2] => 7,
            _ if share >= LOAD_STEPS[1] => 6,
            _ => ((share.max(0.0) / LOAD_STEPS[1] * 6.0) as usize).min(5),
        };
        match self.colors {
            Colors::None => Style::new(),
            Colors::Sixteen => self.load(share),
            Colors::Palette | Colors::True => Style::new().bg(self.rgb(scale[place])).fg(self.rgb(palette::letters_on(scale[place]))),
        }
    }

    pub(crate) fn glyphs(self) -> &'static Glyphs {
        if self.ascii { &ASCII } else { &UNICODE }
    }
}

/// A colour of the gradient.
fn load_rgb(palette: &Palette, share: f64) -> Rgb {
    let share = (share.clamp(0.0, 1.0) * LOAD_COLORS).round() / LOAD_COLORS;
    let [low, middle, high] = palette.load;
    match share {
        _ if share <= LOAD_STEPS[0] => low.rgb,
        _ if share <= LOAD_STEPS[1] => palette::between(low.rgb, middle.rgb, (share - LOAD_STEPS[0]) / (LOAD_STEPS[1] - LOAD_STEPS[0])),
        _ => palette::between(middle.rgb, high.rgb, (share - LOAD_STEPS[1]) / (LOAD_STEPS[2] - LOAD_STEPS[1])),
    }
}

/// What the terminal can do, and what was asked for on the command line: a theme for each choice of the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Themes {
    /// What it seems to be.
    pub auto: Theme,
}

impl Themes {
    /// The theme of a choice.
    pub fn theme(self, choice: ThemeChoice) -> Theme {
        match choice {
            ThemeChoice::Auto => self.auto,
            ThemeChoice::Dark => Theme { background: Background::Dark, ..self.auto },
            ThemeChoice::Light => Theme { background: Background::Light, ..self.auto },
            ThemeChoice::Mono => Theme { colors: Colors::None, ..self.auto },
            ThemeChoice::HighContrast => Theme { tones: Tones::HighContrast, ..self.auto },
            ThemeChoice::ColorBlind => Theme { tones: Tones::ColorBlind, ..self.auto },
        }
    }
}

/// The characters a screen is drawn with.
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
    /// Before the name of a part of a bar, in the colour of that part.
    pub(crate) part: &'static str,
    /// A bar's cell, from empty to full.
    pub(crate) fill: &'static [&'static str],
    /// A sparkline's cell, from low to high.
    pub(crate) spark: &'static [&'static str],
    pub(crate) descending: &'static str,
    pub(crate) ascending: &'static str,
    pub(crate) down: &'static str,
    pub(crate) up: &'static str,
    pub(crate) age: &'static str,
    pub(crate) branch: &'static str,
    pub(crate) last_branch: &'static str,
    pub(crate) dashed: &'static str,
    /// A link between two chips of a board: across, down.
    pub(crate) links: [&'static str; 2],
    /// A cable between two boards, likewise.
    pub(crate) cables: [&'static str; 2],
    /// Before the heading of a group.
    pub(crate) folded: &'static str,
    pub(crate) unfolded: &'static str,
    /// Before the word of a health: warning, critical.
    pub(crate) signs: [&'static str; 2],
    /// Marks on the axis of time: a process began, ended, a device was reset, memory was refused.
    pub(crate) marks: [&'static str; 4],
    /// The part of a list that is seen, on its edge.
    pub(crate) thumb: &'static str,
    /// The line through a chart at the selected time.
    pub(crate) crosshair: &'static str,
    /// Cells of an address map: free, of the largest free block, partly used, used.
    pub(crate) map: [&'static str; 4],
}

const UNICODE: Glyphs = Glyphs {
    ellipsis: "…",
    celsius: "°C",
    degree: "°",
    between: "·",
    horizontal: "─",
    vertical: "│",
    corners: ["┌", "┐", "└", "┘"],
    part: "━",
    fill: &["─", "╾", "━"],
    spark: &["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"],
    descending: "▼",
    ascending: "▲",
    down: "↓",
    up: "↑",
    age: "◷",
    branch: "├─",
    last_branch: "└─",
    dashed: "╌",
    links: ["═", "║"],
    cables: ["━", "┃"],
    folded: "▸",
    unfolded: "▾",
    signs: ["▲", "■"],
    marks: ["▲", "▽", "R", "!"],
    thumb: "┃",
    crosshair: "│",
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
    part: "#",
    fill: &["-", "#"],
    spark: &["_", ".", "-", "=", "*", "#"],
    descending: "v",
    ascending: "^",
    down: "v",
    up: "^",
    age: "age ",
    branch: "|-",
    last_branch: "`-",
    dashed: ".",
    links: ["=", "|"],
    cables: ["-", ":"],
    folded: ">",
    unfolded: "v",
    signs: ["!", "!!"],
    marks: ["S", "E", "R", "!"],
    thumb: "#",
    crosshair: "|",
    map: [".", "-", "+", "#"],
};
