//! The colours of each theme, by role. Colours are defined only here.

use ratatui_core::style::Color;

/// Red, green, blue.
pub(crate) type Rgb = (u8, u8, u8);

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
    /// Less important, or missing.
    pub(crate) dim: Ink,
    /// Rules, frames, the empty part of a bar.
    pub(crate) frame: Ink,
    /// Titles of sections and views.
    pub(crate) accent: Ink,
    pub(crate) warning: Ink,
    pub(crate) critical: Ink,
    /// Colours of load: up to 60 % of a limit, at 85 %, at the limit.
    pub(crate) load: [Ink; 3],
    /// Colours of devices in a chart.
    pub(crate) hues: [Ink; 8],
    /// Backgrounds of cells and tiles, dark to bright. The last one is for values at their limit.
    pub(crate) heat: [Rgb; 8],
}

pub(crate) const DARK: Palette = Palette {
    dim: ink((0xa3, 0xab, 0xb8), Color::Reset),
    frame: ink((0x80, 0x89, 0x97), Color::Reset),
    accent: ink((0x7c, 0xc7, 0xff), Color::Cyan),
    warning: ink((0xf5, 0xc5, 0x42), Color::Yellow),
    critical: ink((0xff, 0x8a, 0x80), Color::LightRed),
    load: [ink((0x5f, 0xd1, 0x7a), Color::Green), ink((0xf2, 0xc8, 0x4b), Color::Yellow), ink((0xff, 0x7f, 0x73), Color::LightRed)],
    hues: [
        ink((0x62, 0xba, 0xff), Color::LightBlue),
        ink((0xff, 0xb0, 0x5c), Color::Yellow),
        ink((0x5a, 0xdd, 0xc6), Color::Cyan),
        ink((0xd6, 0x9c, 0xff), Color::LightMagenta),
        ink((0xb9, 0xd9, 0x5c), Color::Green),
        ink((0xff, 0x9d, 0xc0), Color::Magenta),
        ink((0xaa, 0xbc, 0xff), Color::Blue),
        ink((0xe6, 0xca, 0x90), Color::White),
    ],
    heat: [
        (0x1b, 0x26, 0x33),
        (0x1c, 0x37, 0x4a),
        (0x1d, 0x4a, 0x60),
        (0x1e, 0x5f, 0x74),
        (0x24, 0x74, 0x7c),
        (0x2f, 0xc0, 0x9a),
        (0xf2, 0xc8, 0x4b),
        (0xb3, 0x26, 0x1e),
    ],
};

pub(crate) const LIGHT: Palette = Palette {
    dim: ink((0x5b, 0x63, 0x6e), Color::Reset),
    frame: ink((0x80, 0x88, 0x93), Color::Reset),
    accent: ink((0x0a, 0x58, 0xb8), Color::Blue),
    warning: ink((0x85, 0x57, 0x00), Color::Magenta),
    critical: ink((0xb3, 0x1d, 0x16), Color::Red),
    load: [ink((0x19, 0x73, 0x35), Color::Green), ink((0x8f, 0x5d, 0x00), Color::Magenta), ink((0xbd, 0x1f, 0x2a), Color::Red)],
    hues: [
        ink((0x0b, 0x62, 0xc4), Color::Blue),
        ink((0xa8, 0x4a, 0x00), Color::Red),
        ink((0x00, 0x72, 0x6b), Color::Cyan),
        ink((0x7b, 0x3f, 0xc0), Color::Magenta),
        ink((0x4b, 0x6f, 0x00), Color::Green),
        ink((0xb0, 0x2a, 0x6b), Color::LightMagenta),
        ink((0x3f, 0x51, 0xb5), Color::LightBlue),
        ink((0x76, 0x5a, 0x1c), Color::Black),
    ],
    heat: [
        (0xee, 0xf3, 0xf8),
        (0xdc, 0xe9, 0xf3),
        (0xc6, 0xde, 0xee),
        (0xac, 0xd2, 0xe6),
        (0x8c, 0xc5, 0xd9),
        (0x69, 0xb5, 0xc0),
        (0xf0, 0xb9, 0x3c),
        (0xb3, 0x1d, 0x16),
    ],
};

/// Blue for normal values and orange near a limit: distinguishable without red and green.
pub(crate) const COLOR_BLIND_DARK: Palette = Palette {
    warning: ink((0xff, 0xc0, 0x70), Color::Yellow),
    critical: ink((0xff, 0x9f, 0x43), Color::LightYellow),
    load: [ink((0x6c, 0xb4, 0xff), Color::LightBlue), ink((0xd8, 0xcf, 0xb8), Color::White), ink((0xff, 0x9f, 0x43), Color::Yellow)],
    hues: [
        ink((0x56, 0xb4, 0xe9), Color::LightBlue),
        ink((0xe6, 0x9f, 0x00), Color::Yellow),
        ink((0x2c, 0xc4, 0x9a), Color::Cyan),
        ink((0xf0, 0xe4, 0x42), Color::LightYellow),
        ink((0xe0, 0x93, 0xbd), Color::LightMagenta),
        ink((0xff, 0x92, 0x55), Color::Magenta),
        ink((0x8f, 0xb8, 0xff), Color::Blue),
        ink((0xcf, 0xcf, 0xcf), Color::White),
    ],
    heat: [
        (0x1b, 0x26, 0x33),
        (0x1b, 0x34, 0x55),
        (0x1c, 0x44, 0x77),
        (0x1f, 0x56, 0x99),
        (0x27, 0x69, 0xb3),
        (0x8f, 0xc1, 0xff),
        (0xff, 0xc0, 0x70),
        (0xff, 0x8c, 0x1a),
    ],
    ..DARK
};

pub(crate) const COLOR_BLIND_LIGHT: Palette = Palette {
    warning: ink((0x8a, 0x55, 0x00), Color::Magenta),
    critical: ink((0x99, 0x44, 0x00), Color::Red),
    load: [ink((0x0b, 0x5c, 0xc4), Color::Blue), ink((0x66, 0x60, 0x55), Color::Black), ink((0x9e, 0x47, 0x00), Color::Red)],
    hues: [
        ink((0x00, 0x66, 0xa6), Color::Blue),
        ink((0x94, 0x5e, 0x00), Color::Red),
        ink((0x00, 0x72, 0x55), Color::Cyan),
        ink((0x6d, 0x65, 0x00), Color::Green),
        ink((0x97, 0x45, 0x78), Color::Magenta),
        ink((0xa3, 0x47, 0x00), Color::LightRed),
        ink((0x38, 0x52, 0xa8), Color::LightBlue),
        ink((0x4d, 0x4d, 0x4d), Color::Black),
    ],
    heat: [
        (0xee, 0xf3, 0xf8),
        (0xd8, 0xe6, 0xf7),
        (0xc0, 0xd8, 0xf5),
        (0xa4, 0xc8, 0xf2),
        (0x86, 0xb6, 0xee),
        (0x66, 0xa3, 0xe8),
        (0xff, 0xc0, 0x70),
        (0xff, 0x8c, 0x1a),
    ],
    ..LIGHT
};

/// Every text has a contrast of at least 7:1.
pub(crate) const HIGH_CONTRAST_DARK: Palette = Palette {
    dim: ink((0xd6, 0xd6, 0xd6), Color::Reset),
    frame: ink((0xb8, 0xb8, 0xb8), Color::Reset),
    accent: ink((0xa8, 0xe0, 0xff), Color::LightCyan),
    warning: ink((0xff, 0xe6, 0x3a), Color::LightYellow),
    critical: ink((0xff, 0xc4, 0xbf), Color::LightRed),
    load: [
        ink((0x7d, 0xff, 0xa0), Color::LightGreen),
        ink((0xff, 0xe6, 0x3a), Color::LightYellow),
        ink((0xff, 0xb8, 0xb0), Color::LightRed),
    ],
    ..DARK
};

pub(crate) const HIGH_CONTRAST_LIGHT: Palette = Palette {
    dim: ink((0x35, 0x38, 0x3d), Color::Reset),
    frame: ink((0x55, 0x59, 0x60), Color::Reset),
    accent: ink((0x00, 0x36, 0x7a), Color::Blue),
    warning: ink((0x5a, 0x38, 0x00), Color::Magenta),
    critical: ink((0x86, 0x0a, 0x06), Color::Red),
    load: [ink((0x00, 0x4d, 0x1a), Color::Green), ink((0x5a, 0x38, 0x00), Color::Magenta), ink((0x86, 0x0a, 0x06), Color::Red)],
    ..LIGHT
};

/// Returns the nearest colour of the 256-colour palette: from its colour cube or its greys.
pub(crate) fn indexed((red, green, blue): Rgb) -> Color {
    const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let nearest = |value: u8| (0u8..6).min_by_key(|step| LEVELS[usize::from(*step)].abs_diff(value)).unwrap_or(0);
    let steps = [red, green, blue].map(nearest);
    let distance =
        |rgb: [u8; 3]| -> u32 { [red, green, blue].iter().zip(rgb).map(|(one, other)| u32::from(one.abs_diff(other)).pow(2)).sum() };
    let cube = distance(steps.map(|step| LEVELS[usize::from(step)]));
    let grey = (0u8..24).min_by_key(|step| distance([8 + 10 * step; 3])).unwrap_or(0);
    if distance([8 + 10 * grey; 3]) < cube {
        Color::Indexed(232 + grey)
    } else {
        Color::Indexed(16 + 36 * steps[0] + 6 * steps[1] + steps[2])
    }
}

/// Returns black or white, the more readable one.
pub(crate) fn letters_on((red, green, blue): Rgb) -> Rgb {
    let light = u32::from(red) * 299 + u32::from(green) * 587 + u32::from(blue) * 114;
    if light > 128_000 { (0, 0, 0) } else { (255, 255, 255) }
}

/// Returns the colour of a sparkline on a background of `heat`: the faintest tone of the same hue with a contrast of 3:1.
pub(crate) fn spark_on(background: Rgb) -> Rgb {
    let (red, green, blue) = background;
    let letters = letters_on(background);
    let most = red.max(green).max(blue);
    // Light backgrounds are pale: without their grey part, the hue remains.
    let (least, share) = if letters == (0, 0, 0) { (red.min(green).min(blue), 0.75) } else { (0, 0.5) };
    let pure = |part: u8| between((0, 0, 0), (255, 0, 0), f64::from(part - least) / f64::from((most - least).max(1))).0;
    let target = between((pure(red), pure(green), pure(blue)), letters, share);
    let mut tones = (0..=20).map(|step| between(background, target, f64::from(step) / 20.0));
    tones.find(|tone| contrast(*tone, background) >= 3.0).unwrap_or(letters)
}

/// Computes the contrast as in WCAG 2.
fn contrast(one: Rgb, other: Rgb) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

fn luminance((red, green, blue): Rgb) -> f64 {
    let linear = |value: u8| {
        let value = f64::from(value) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
}

/// Returns a colour between two colours.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two bytes")]
pub(crate) fn between(one: Rgb, other: Rgb, share: f64) -> Rgb {
    let mix = |from: u8, to: u8| (f64::from(from) + (f64::from(to) - f64::from(from)) * share).round() as u8;
    (mix(one.0, other.0), mix(one.1, other.1), mix(one.2, other.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DARKS: [Rgb; 4] = [(0, 0, 0), (0x14, 0x17, 0x1c), (0x1e, 0x1e, 0x1e), (0x28, 0x2c, 0x34)];
    const LIGHTS: [Rgb; 3] = [(255, 255, 255), (0xfa, 0xfa, 0xfa), (0xfd, 0xf6, 0xe3)];

    #[test]
    fn contrast_is_as_wcag_defines_it() {
        assert!((contrast((0, 0, 0), (255, 255, 255)) - 21.0).abs() < 1e-9);
        assert!((contrast((0x77, 0x77, 0x77), (255, 255, 255)) - 4.48).abs() < 0.01);
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
                    assert!(is >= least, "{name}: {what} {rgb:02x?} on {background:02x?} has {is:.2}, less than {least}");
                };
                for (what, ink) in
                    [("dim", palette.dim), ("accent", palette.accent), ("warning", palette.warning), ("critical", palette.critical)]
                {
                    is_at_least(what, ink.rgb, text);
                }
                is_at_least("frame", palette.frame.rgb, 3.0);
                palette.hues.iter().for_each(|hue| is_at_least("hue", hue.rgb, 4.5));
                for step in 0..=20 {
                    let rgb = super::super::load_rgb(palette, f64::from(step) / 20.0);
                    is_at_least("load", rgb, 4.5);
                }
            }
            for rgb in palette.heat {
                let is = contrast(rgb, letters_on(rgb));
                assert!(is >= 4.5, "{name}: letters on {rgb:02x?} have {is:.2}");
                let is = contrast(rgb, spark_on(rgb));
                assert!((3.0..4.5).contains(&is), "{name}: a sparkline on {rgb:02x?} has {is:.2}");
            }
        }
    }

    /// Each step of the scale is brighter (darker on a light background) than the one before, up to the colour of the limit.
    #[test]
    fn the_scale_goes_one_way() {
        for (palette, is_dark) in [(&DARK, true), (&LIGHT, false), (&COLOR_BLIND_DARK, true), (&COLOR_BLIND_LIGHT, false)] {
            let calm: Vec<f64> = palette.heat[..6].iter().map(|rgb| luminance(*rgb)).collect();
            assert!(calm.windows(2).all(|pair| (pair[0] < pair[1]) == is_dark), "{calm:?}");
        }
    }

    #[test]
    fn the_nearest_of_the_palette() {
        assert_eq!(indexed((0, 0, 0)), Color::Indexed(16));
        assert_eq!(indexed((255, 255, 255)), Color::Indexed(231));
        assert_eq!(indexed((0x5f, 0xd7, 0x87)), Color::Indexed(78));
        assert_eq!(indexed((0x80, 0x80, 0x80)), Color::Indexed(244));
    }
}
