//! How things look: roles instead of colours, and the characters a screen is drawn with.
//!
//! Colour means health and nothing else (the mesh's heat scale apart), and a word or sign always stands beside it. The 16
//! ANSI colours follow the user's own theme, so the background is never touched; structure is bold, dim and reverse.

use ratatui_core::style::{Color, Modifier, Style};

use crate::settings::ThemeChoice;

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

/// How a screen looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Theme {
    /// How many colours.
    pub colors: Colors,
    /// On which background.
    pub background: Background,
    /// Whether nothing outside ASCII may be drawn.
    pub ascii: bool,
}

impl Theme {
    pub(crate) fn style(self, role: Role) -> Style {
        let style = Style::new();
        match role {
            Role::Plain => style,
            Role::Dim => style.add_modifier(Modifier::DIM),
            Role::Strong => style.add_modifier(Modifier::BOLD),
            Role::Heading => style.add_modifier(Modifier::DIM | Modifier::UNDERLINED),
            Role::Selected => style.add_modifier(Modifier::REVERSED),
            Role::Warning | Role::Critical if self.colors == Colors::None => style.add_modifier(Modifier::BOLD),
            Role::Warning => style.fg(self.warning()),
            Role::Critical => style.fg(Color::Red).add_modifier(Modifier::BOLD),
        }
    }

    /// Yellow cannot be read on white.
    fn warning(self) -> Color {
        match (self.background, self.colors) {
            (Background::Dark, _) => Color::Yellow,
            (Background::Light, Colors::Palette | Colors::True) => Color::Indexed(130),
            (Background::Light, _) => Color::Magenta,
        }
    }

    /// The colour of a share of a range, from cold to hot, for tiles; none where there are too few colours.
    pub(crate) fn heat(self, share: f64) -> Style {
        let share = share.clamp(0.0, 1.0);
        let level = |from: f64, to: f64| byte(from + (to - from) * share);
        let style = Style::new();
        match (self.colors, self.background) {
            (Colors::None | Colors::Sixteen, _) => style,
            // Six steps of the palette's cube, from blue over green and yellow to red.
            (Colors::Palette, _) => {
                const STEPS: [u8; 6] = [24, 30, 64, 136, 166, 160];
                style.bg(Color::Indexed(STEPS[usize::from(byte(share * 5.0))])).fg(Color::Indexed(231))
            }
            (Colors::True, Background::Dark) => {
                style.bg(Color::Rgb(level(20.0, 190.0), level(70.0, 40.0), level(120.0, 20.0))).fg(Color::Rgb(255, 255, 255))
            }
            (Colors::True, Background::Light) => {
                style.bg(Color::Rgb(level(200.0, 255.0), level(225.0, 140.0), level(245.0, 110.0))).fg(Color::Rgb(0, 0, 0))
            }
        }
    }

    pub(crate) fn glyphs(self) -> &'static Glyphs {
        if self.ascii { &ASCII } else { &UNICODE }
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
        }
    }
}

/// The number is within a byte wherever this is called.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped, and `as` saturates")]
fn byte(value: f64) -> u8 {
    value.round().clamp(0.0, 255.0) as u8
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
    /// A wire between two chips: across, down.
    pub(crate) links: [&'static str; 2],
    /// Before the heading of a group.
    pub(crate) folded: &'static str,
    pub(crate) unfolded: &'static str,
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
    fill: &["░", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"],
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
    folded: "▸",
    unfolded: "▾",
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
    descending: "v",
    ascending: "^",
    down: "v",
    up: "^",
    age: "age ",
    branch: "|-",
    last_branch: "`-",
    dashed: ".",
    links: ["=", "|"],
    folded: ">",
    unfolded: "v",
    map: [".", "-", "+", "#"],
};
