//! Properties that must hold for any machine on any screen.

use proptest::prelude::*;

use super::{
    drawn,
    machine::{any_hooked, any_snapshot},
    text, watched,
};
use crate::state::View;
use crate::theme::{Background, Colors, Theme};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_harmful_is_drawn_and_nothing_breaks(
        snapshot in prop_oneof![any_snapshot(), any_hooked()],
        (width, height) in (0u16..220, 0u16..60),
        ascii: bool,
        light: bool,
        worst_first: bool,
        tree: bool,
    ) {
        let background = if light { Background::Light } else { Background::Dark };
        let theme = Theme { colors: Colors::True, background, ascii, ..Theme::default() };
        let mut state = watched(&snapshot, (width, height), theme, 2);
        (state.settings.worst_first, state.settings.tree) = (worst_first, tree);
        for view in View::ALL {
            state.view = view;
            let screen = text(&drawn(&state));
            prop_assert!(!screen.chars().any(|character| character.is_control() && character != '\n'), "{screen:?}");
            prop_assert!(!ascii || screen.is_ascii(), "{screen}");
        }
    }
}
