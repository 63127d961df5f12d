//! The settings file, read and written back.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ttmon_top::Settings;

fuzz_target!(|text: &str| {
    let mut settings = Settings::default();
    settings.read(text);
    if let Ok(written) = settings.write(text) {
        let mut again = Settings::default();
        again.read(&written);
        assert_eq!(again, settings, "what is written is what is read");
    }
});
