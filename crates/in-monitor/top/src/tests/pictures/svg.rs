//! Converts a screen to SVG: runs of cells with the same style, each placed exactly at its columns.

use std::fmt::Write;

use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::style::{Color, Modifier};

/// Size of a cell, in the picture's units.
const CELL: (f64, f64) = (8.0, 17.0);
const MARGIN: f64 = 10.0;

/// The colours of text and background where a cell has none.
const LETTERS: &str = "#d4d7dc";
const BACKGROUND: &str = "#14171c";

#[derive(Clone, PartialEq)]
struct CellStyle {
    letters: String,
    background: Option<String>,
    is_bold: bool,
    is_dim: bool,
    is_underlined: bool,
}

pub(super) fn of(screen: &Buffer) -> String {
    let mut svg = head(screen);
    (0..screen.area.height).for_each(|number| svg += &row(screen, number));
    svg + "</svg>\n"
}

/// Shows several screens in turn, each for this many seconds, repeated. A row that does not change is drawn once.
pub(super) fn animated(screens: &[Buffer], seconds: f64) -> String {
    let mut svg = head(&screens[0]);
    let mut spans: Vec<(usize, usize)> = Vec::new();
    let mut rows = String::new();
    for number in 0..screens[0].area.height {
        let drawn: Vec<String> = screens.iter().map(|screen| row(screen, number)).collect();
        let mut from = 0;
        while from < drawn.len() {
            let to = (from..drawn.len()).find(|frame| drawn[*frame] != drawn[from]).unwrap_or(drawn.len());
            if (from, to) == (0, drawn.len()) {
                rows += &drawn[from];
            } else if !drawn[from].is_empty() {
                if !spans.contains(&(from, to)) {
                    spans.push((from, to));
                }
                let _ = write!(rows, "<g class=\"f{from}_{to}\">\n{}</g>\n", drawn[from]);
            }
            from = to;
        }
    }
    let (count, mut style) = (screens.len(), String::new());
    for (from, to) in spans {
        let share = |frame: usize| frame as f64 * 100.0 / count as f64;
        let (begin, end, whole) = (share(from), share(to), count as f64 * seconds);
        let hidden = if from > 0 { "0%{visibility:hidden}" } else { "" };
        let after = if to < count { format!("{end:.2}%{{visibility:hidden}}") } else { String::new() };
        let _ = writeln!(
            style,
            "@keyframes k{from}_{to}{{{hidden}{begin:.2}%{{visibility:visible}}{after}}}\
             .f{from}_{to}{{animation:k{from}_{to} {whole}s step-end infinite}}"
        );
    }
    let _ = write!(svg, "<style>\n{style}</style>\n{rows}</svg>\n");
    svg
}

fn head(screen: &Buffer) -> String {
    let (width, height) = (f64::from(screen.area.width) * CELL.0 + 2.0 * MARGIN, f64::from(screen.area.height) * CELL.1 + 2.0 * MARGIN);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         xml:space=\"preserve\" font-family=\"'DejaVu Sans Mono','Menlo','Consolas',monospace\" font-size=\"13.3\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{BACKGROUND}\"/>\n"
    )
}

fn row(screen: &Buffer, row: u16) -> String {
    let mut svg = String::new();
    let mut column = 0;
    while let Some(cell) = screen.cell((column, row)) {
        let style = style(cell);
        let begin = column;
        let mut text = String::new();
        let is_shape = shape(cell).is_some();
        let is_alike = |cell: &&Cell| self::style(cell) == style && shape(cell).is_some() == is_shape;
        while let Some(cell) = screen.cell((column, row)).filter(is_alike) {
            text.push_str(cell.symbol());
            column += crate::canvas::width(cell.symbol()).max(1);
            // Fonts differ in the width of spaces, so a run never has two spaces in a row.
            if text.ends_with("  ") {
                break;
            }
        }
        if is_shape {
            shapes(&mut svg, (begin, row), &text, &style);
        } else {
            run(&mut svg, (begin, row, column - begin), &text, &style);
        }
    }
    svg
}

fn style(cell: &Cell) -> CellStyle {
    let has = |modifier| cell.modifier.contains(modifier);
    let letters = color(cell.fg).unwrap_or_else(|| LETTERS.to_owned());
    let background = color(cell.bg);
    let (letters, background) =
        if has(Modifier::REVERSED) { (background.unwrap_or_else(|| BACKGROUND.to_owned()), Some(letters)) } else { (letters, background) };
    CellStyle { letters, background, is_bold: has(Modifier::BOLD), is_dim: has(Modifier::DIM), is_underlined: has(Modifier::UNDERLINED) }
}

fn color(color: Color) -> Option<String> {
    match color {
        Color::Reset => None,
        Color::Rgb(red, green, blue) => Some(format!("#{red:02x}{green:02x}{blue:02x}")),
        other => panic!("{other} is no true colour"),
    }
}

/// Returns a character that is drawn as rectangles, because fonts differ in its size: braille, blocks, lines.
fn shape(cell: &Cell) -> Option<char> {
    let character = cell.symbol().chars().next()?;
    matches!(character, '\u{2800}'..='\u{28ff}' | '\u{2581}'..='\u{258f}' | '░' | '▒' | '─' | '━' | '╌' | '│' | '╾' | '┃')
        .then_some(character)
}

fn shapes(svg: &mut String, (column, row): (u16, u16), text: &str, style: &CellStyle) {
    let (mut x, y) = (MARGIN + f64::from(column) * CELL.0, MARGIN + f64::from(row) * CELL.1);
    if let Some(background) = &style.background {
        let width = text.chars().count() as f64 * CELL.0;
        let _ = writeln!(svg, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{}\" fill=\"{background}\"/>", CELL.1);
    }
    let dim = if style.is_dim { " opacity=\"0.6\"" } else { "" };
    let dots = dots_of(text, (x, y));
    if !dots.is_empty() {
        let (dash, gap) = (DOT, CELL.0 / 2.0 - DOT);
        let _ = writeln!(
            svg,
            "<path stroke=\"{}\" stroke-width=\"{DOT}\" stroke-dasharray=\"{dash} {gap}\"{dim} d=\"{dots}\"/>",
            style.letters
        );
    }
    let mut boxes: Vec<[f64; 4]> = Vec::new();
    let mut shades = Vec::new();
    for character in text.chars() {
        let code = u32::from(character);
        // A box that continues the previous one extends it.
        let mut add = |left: f64, top: f64, width: f64, height: f64| match boxes.last_mut() {
            Some([from, above, wide, high]) if [*from + *wide, *above, *high] == [x + left, y + top, height] => *wide += width,
            _ => boxes.push([x + left, y + top, width, height]),
        };
        match character {
            '\u{2800}'..='\u{28ff}' => {}
            // From one eighth at the bottom to the full cell.
            '\u{2581}'..='\u{2588}' => {
                let height = CELL.1 * f64::from(code - 0x2580) / 8.0;
                add(0.0, CELL.1 - height, CELL.0, height);
            }
            // From seven eighths at the left to one eighth.
            '\u{2589}'..='\u{258f}' => {
                let width = CELL.0 * f64::from(0x2590 - code) / 8.0;
                add(0.0, 0.0, width, CELL.1);
            }
            '░' => shades.push((x, CELL.0, 0.18)),
            '▒' => shades.push((x, CELL.0, 0.5)),
            '│' => add(CELL.0 / 2.0, 0.0, 1.0, CELL.1),
            '╌' => add(1.0, CELL.1 / 2.0, 4.0, 1.0),
            '━' => add(0.0, CELL.1 / 2.0 - 2.0, CELL.0, 4.0),
            '╾' => {
                add(0.0, CELL.1 / 2.0 - 2.0, CELL.0 / 2.0, 4.0);
                add(CELL.0 / 2.0, CELL.1 / 2.0, CELL.0 / 2.0, 1.0);
            }
            '┃' => add(CELL.0 / 2.0 - 1.0, 0.0, 2.0, CELL.1),
            _ => add(0.0, CELL.1 / 2.0, CELL.0, 1.0),
        }
        x += CELL.0;
    }
    if !boxes.is_empty() {
        let boxes: String =
            boxes.iter().map(|[x, y, width, height]| format!("M{x:.1} {y:.1}h{width:.1}v{height:.1}h-{width:.1}z")).collect();
        let _ = writeln!(svg, "<path fill=\"{}\"{dim} d=\"{}\"/>", style.letters, boxes.replace(".0", ""));
    }
    for (x, width, opacity) in shades {
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{}\" fill=\"{}\" opacity=\"{opacity}\"/>",
            CELL.1, style.letters
        );
    }
}

const DOT: f64 = 1.7;

/// Draws the braille dots of a text as lines, one for each row of neighbouring dots. A dash pattern makes the dots.
fn dots_of(text: &str, (x, y): (f64, f64)) -> String {
    /// Bits of the left and right dot in each of four rows.
    const BITS: [[u32; 2]; 4] = [[0, 3], [1, 4], [2, 5], [6, 7]];
    let is_dot = |character: char, bit: u32| matches!(character, '\u{2800}'..='\u{28ff}') && u32::from(character) >> bit & 1 == 1;
    let mut lines = String::new();
    for (row, bits) in (0u8..).zip(BITS) {
        let top = y + 2.0 + f64::from(row) * CELL.1 / 4.0;
        let filled: Vec<bool> = text.chars().flat_map(|character| bits.map(|bit| is_dot(character, bit))).collect();
        let mut from = 0;
        while from < filled.len() {
            let count = filled[from..].iter().take_while(|is_filled| **is_filled).count();
            if count > 0 {
                let left = x + 1.2 + from as f64 * CELL.0 / 2.0;
                let length = (count - 1) as f64 * CELL.0 / 2.0 + DOT;
                let _ = write!(lines, "M{left:.1} {top:.1}h{length:.1}");
            }
            from += count.max(1);
        }
    }
    lines
}

/// Draws cells from a column on: their background, and their text with a fixed length, so that any font fits.
fn run(svg: &mut String, (column, row, cells): (u16, u16, u16), text: &str, style: &CellStyle) {
    let (x, y) = (MARGIN + f64::from(column) * CELL.0, MARGIN + f64::from(row) * CELL.1);
    let width = f64::from(cells) * CELL.0;
    if let Some(background) = &style.background {
        let _ = writeln!(svg, "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{}\" fill=\"{background}\"/>", CELL.1);
    }
    let shown = if style.is_underlined { text } else { text.trim_end() };
    if shown.is_empty() {
        return;
    }
    let width = width - (text.len() - shown.len()) as f64 * CELL.0;
    let escaped = shown.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let bold = if style.is_bold { " font-weight=\"bold\"" } else { "" };
    let dim = if style.is_dim { " opacity=\"0.6\"" } else { "" };
    let line = if style.is_underlined { " text-decoration=\"underline\"" } else { "" };
    let _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{}\" textLength=\"{width}\" lengthAdjust=\"spacingAndGlyphs\" fill=\"{}\"{bold}{dim}{line}>{escaped}</text>",
        y + CELL.1 - 4.0,
        style.letters,
    );
}
