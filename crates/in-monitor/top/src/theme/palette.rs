//! The colours of each theme, by role. Colours are defined only here.

use ratatui_core::style::Color::{
    self, Black, Blue, Cyan, Green, LightBlue, LightCyan, LightGreen, LightMagenta, LightRed, LightYellow, Magenta, Red, Reset, White,
    Yellow,
};

/// `0xRRGGBB`
pub(crate) type Rgb = u32;

const BLACK: Rgb = 0;
const WHITE: Rgb = 0xffffff;

/// A colour in two forms: true colour, and one of the terminal's 16 colours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ink {
    pub(crate) rgb: Rgb,
    pub(crate) ansi: Color,
}

const fn ink(rgb: Rgb, ansi: Color) -> Ink {
    Ink { rgb, ansi }
}

/// The colours of a theme. The background is never painted, so they must be readable on every common background.
#[derive(Debug)]
pub(crate) struct Palette {
    pub(crate) dim: Ink,
    pub(crate) frame: Ink,
    pub(crate) accent: Ink,
    pub(crate) warning: Ink,
    pub(crate) critical: Ink,
    /// Colours of load: up to 60 % of a limit, at 85 %, at the limit.
    pub(crate) load: [Ink; 3],
    pub(crate) hues: [Rgb; 8],
    /// The same hues in the terminal's 16 colours.
    pub(crate) hues_ansi: [Color; 8],
    /// Backgrounds of cells and tiles, dark to bright. The last one is for values at their limit.
    pub(crate) heat: [Rgb; 8],
    /// Colours of sparklines on these backgrounds: fainter than text, with a contrast of at least 3:1.
    pub(crate) heat_sparks: [Rgb; 8],
}

pub(crate) const DARK: Palette = Palette {
    dim: ink(0xa3abb8, Reset),
    frame: ink(0x808997, Reset),
    accent: ink(0x7cc7ff, Cyan),
    warning: ink(0xf5c542, Yellow),
    critical: ink(0xff8a80, LightRed),
    load: [ink(0x5fd17a, Green), ink(0xf2c84b, Yellow), ink(0xff7f73, LightRed)],
    hues: [0x62baff, 0xffb05c, 0x5addc6, 0xd69cff, 0xb9d95c, 0xff9dc0, 0xaabcff, 0xe6ca90],
    hues_ansi: [LightBlue, Yellow, Cyan, LightMagenta, Green, Magenta, Blue, White],
    heat: [0x1b2633, 0x1c374a, 0x1d4a60, 0x1e5f74, 0x24747c, 0x2fc09a, 0xf2c84b, 0xb3261e],
    heat_sparks: [0x5e7085, 0x5f839b, 0x689eb7, 0x73b8ce, 0x7ed0d8, 0x0e664f, 0x876d1e, 0xfb958f],
};

pub(crate) const LIGHT: Palette = Palette {
    dim: ink(0x5b636e, Reset),
    frame: ink(0x808893, Reset),
    accent: ink(0x0a58b8, Blue),
    warning: ink(0x855700, Magenta),
    critical: ink(0xb31d16, Red),
    load: [ink(0x197335, Green), ink(0x8f5d00, Magenta), ink(0xbd1f2a, Red)],
    hues: [0x0b62c4, 0xa84a00, 0x00726b, 0x7b3fc0, 0x4b6f00, 0xb02a6b, 0x3f51b5, 0x765a1c],
    hues_ansi: [Blue, Red, Cyan, Magenta, Green, LightMagenta, LightBlue, Black],
    heat: [0xeef3f8, 0xdce9f3, 0xc6deee, 0xacd2e6, 0x8cc5d9, 0x69b5c0, 0xf0b93c, 0xb31d16],
    heat_sparks: [0x778a9c, 0x6e879a, 0x59798e, 0x4d768b, 0x386b7d, 0x205e66, 0x866418, 0xfb8e89],
};

/// Blue for normal values and orange near a limit: distinguishable without red and green.
pub(crate) const COLOR_BLIND_DARK: Palette = Palette {
    warning: ink(0xffc070, Yellow),
    critical: ink(0xff9f43, LightYellow),
    load: [ink(0x6cb4ff, LightBlue), ink(0xd8cfb8, White), ink(0xff9f43, Yellow)],
    hues: [0x56b4e9, 0xe69f00, 0x2cc49a, 0xf0e442, 0xe093bd, 0xff9255, 0x8fb8ff, 0xcfcfcf],
    hues_ansi: [LightBlue, Yellow, Cyan, LightYellow, LightMagenta, Magenta, Blue, White],
    heat: [0x1b2633, 0x1b3455, 0x1c4477, 0x1f5699, 0x2769b3, 0x8fc1ff, 0xffc070, 0xff8c1a],
    heat_sparks: [0x5e7085, 0x6281aa, 0x6a94c9, 0x7babe6, 0x96c6fb, 0x406796, 0x8c622d, 0x834609],
    ..DARK
};

pub(crate) const COLOR_BLIND_LIGHT: Palette = Palette {
    warning: ink(0x8a5500, Magenta),
    critical: ink(0x994400, Red),
    load: [ink(0x0b5cc4, Blue), ink(0x666055, Black), ink(0x9e4700, Red)],
    hues: [0x0066a6, 0x945e00, 0x007255, 0x6d6500, 0x974578, 0xa34700, 0x3852a8, 0x4d4d4d],
    hues_ansi: [Blue, Red, Cyan, Green, Magenta, LightRed, LightBlue, Black],
    heat: [0xeef3f8, 0xd8e6f7, 0xc0d8f5, 0xa4c8f2, 0x86b6ee, 0x66a3e8, 0xffc070, 0xff8c1a],
    heat_sparks: [0x778a9c, 0x6c829c, 0x567191, 0x4a6a90, 0x365b86, 0x244d7b, 0x8c622d, 0x834609],
    ..LIGHT
};

/// Every text has a contrast of at least 7:1.
pub(crate) const HIGH_CONTRAST_DARK: Palette = Palette {
    dim: ink(0xd6d6d6, Reset),
    frame: ink(0xb8b8b8, Reset),
    accent: ink(0xa8e0ff, LightCyan),
    warning: ink(0xffe63a, LightYellow),
    critical: ink(0xffc4bf, LightRed),
    load: [ink(0x7dffa0, LightGreen), ink(0xffe63a, LightYellow), ink(0xffb8b0, LightRed)],
    ..DARK
};

pub(crate) const HIGH_CONTRAST_LIGHT: Palette = Palette {
    dim: ink(0x35383d, Reset),
    frame: ink(0x555960, Reset),
    accent: ink(0x00367a, Blue),
    warning: ink(0x5a3800, Magenta),
    critical: ink(0x860a06, Red),
    load: [ink(0x004d1a, Green), ink(0x5a3800, Magenta), ink(0x860a06, Red)],
    ..LIGHT
};

/// Returns the nearest colour of the 256-colour palette: from its colour cube or its greys.
pub(crate) fn indexed(rgb: Rgb) -> Color {
    const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let nearest = |value: u8| (0u8..6).min_by_key(|step| LEVELS[usize::from(*step)].abs_diff(value)).unwrap_or(0);
    let parts = parts(rgb);
    let steps = parts.map(nearest);
    let distance = |other: [u8; 3]| -> u32 { parts.iter().zip(other).map(|(one, other)| u32::from(one.abs_diff(other)).pow(2)).sum() };
    let cube = distance(steps.map(|step| LEVELS[usize::from(step)]));
    let grey = (0u8..24).min_by_key(|step| distance([8 + 10 * step; 3])).unwrap_or(0);
    if distance([8 + 10 * grey; 3]) < cube {
        Color::Indexed(232 + grey)
    } else {
        Color::Indexed(16 + 36 * steps[0] + 6 * steps[1] + steps[2])
    }
}

fn parts(rgb: Rgb) -> [u8; 3] {
    let [_, red, green, blue] = rgb.to_be_bytes();
    [red, green, blue]
}

/// Returns black or white, the more readable one.
pub(crate) fn letters_on(rgb: Rgb) -> Rgb {
    let [red, green, blue] = parts(rgb).map(u32::from);
    if red * 299 + green * 587 + blue * 114 > 128_000 { BLACK } else { WHITE }
}

pub(crate) fn between(one: Rgb, other: Rgb, share: f64) -> Rgb {
    let (from, to) = (parts(one), parts(other));
    let [red, green, blue] = [0, 1, 2].map(|part| mix(from[part], to[part], share));
    u32::from_be_bytes([0, red, green, blue])
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two bytes")]
fn mix(from: u8, to: u8, share: f64) -> u8 {
    (f64::from(from) + (f64::from(to) - f64::from(from)) * share).round() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    const DARKS: [Rgb; 4] = [BLACK, 0x14171c, 0x1e1e1e, 0x282c34];
    const LIGHTS: [Rgb; 3] = [WHITE, 0xfafafa, 0xfdf6e3];

    fn contrast(one: Rgb, other: Rgb) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    fn luminance(rgb: Rgb) -> f64 {
        let linear = |value: u8| {
            let value = f64::from(value) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        let [red, green, blue] = parts(rgb).map(linear);
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    #[test]
    fn contrast_is_as_wcag_defines_it() {
        assert!((contrast(BLACK, WHITE) - 21.0).abs() < 1e-9);
        assert!((contrast(0x777777, WHITE) - 4.48).abs() < 0.01);
    }

    /// Every colour is readable on every background that the theme is made for, including each step of the gradient.
    #[test]
    fn every_theme_is_readable() {
        let themes: [(&str, &Palette, &[Rgb], f64); 6] = [
            ("dark", &DARK, &DARKS, 4.5),
            ("light", &LIGHT, &LIGHTS, 4.5),
            ("colour-blind dark", &COLOR_BLIND_DARK, &DARKS, 4.5),
            ("colour-blind light", &COLOR_BLIND_LIGHT, &LIGHTS, 4.5),
            ("high-contrast dark", &HIGH_CONTRAST_DARK, &DARKS, 7.0),
            ("high-contrast light", &HIGH_CONTRAST_LIGHT, &LIGHTS, 7.0),
        ];
        for (name, palette, backgrounds, text) in themes {
            for background in backgrounds {
                let is_at_least = |what: &str, rgb: Rgb, least: f64| {
                    let is = contrast(rgb, *background);
                    assert!(is >= least, "{name}: {what} {rgb:06x} on {background:06x} has {is:.2}, less than {least}");
                };
                for (what, ink) in
                    [("dim", palette.dim), ("accent", palette.accent), ("warning", palette.warning), ("critical", palette.critical)]
                {
                    is_at_least(what, ink.rgb, text);
                }
                is_at_least("frame", palette.frame.rgb, 3.0);
                palette.hues.iter().for_each(|hue| is_at_least("hue", *hue, 4.5));
                for step in 0..=20 {
                    let rgb = super::super::load_rgb(palette, f64::from(step) / 20.0);
                    is_at_least("load", rgb, 4.5);
                }
            }
            for (rgb, spark) in palette.heat.into_iter().zip(palette.heat_sparks) {
                let is = contrast(rgb, letters_on(rgb));
                assert!(is >= 4.5, "{name}: letters on {rgb:06x} have {is:.2}");
                let is = contrast(rgb, spark);
                assert!((3.0..4.5).contains(&is), "{name}: a sparkline on {rgb:06x} has {is:.2}");
            }
        }
    }

    /// Each step of the scale is brighter (darker on a light background) than the one before, up to the colour of the limit.
    #[test]
    fn heat_gets_steadily_brighter_or_darker() {
        for (palette, is_dark) in [(&DARK, true), (&LIGHT, false), (&COLOR_BLIND_DARK, true), (&COLOR_BLIND_LIGHT, false)] {
            let calm: Vec<f64> = palette.heat[..6].iter().map(|rgb| luminance(*rgb)).collect();
            assert!(calm.windows(2).all(|pair| (pair[0] < pair[1]) == is_dark), "{calm:?}");
        }
    }

    #[test]
    fn a_colour_maps_to_the_nearest_of_the_palette() {
        assert_eq!(indexed(BLACK), Color::Indexed(16));
        assert_eq!(indexed(WHITE), Color::Indexed(231));
        assert_eq!(indexed(0x5fd787), Color::Indexed(78));
        assert_eq!(indexed(0x808080), Color::Indexed(244));
    }
}
