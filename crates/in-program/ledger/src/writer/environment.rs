//! The devices that a program sees, from its environment. Recorded in the header at the start, and again when a device opens.

use std::{ffi::CStr, sync::atomic::Ordering::Relaxed};

use crate::layout::{HEADER, Op, header};

use super::Session;
use super::event::EventBody;
use super::memory::{Region, high, pair};
use super::protocol::{self, Word};

/// TT_VISIBLE_DEVICES of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisibleDevicesVariable<'a> {
    /// The variable is not set.
    All,
    /// The value of the variable.
    Only(&'a [u8]),
    /// The variable cannot be read or is too long, so the devices are unknown.
    Unknown,
}

/// The chips that a program works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Environment<'a> {
    /// The devices that the program sees.
    pub seen: VisibleDevicesVariable<'a>,
    /// TT-Metal works on mock or simulated chips.
    pub is_mock: bool,
}

impl<'a> Environment<'a> {
    /// Evaluates these environment variables.
    pub fn of(variable: impl Fn(&CStr) -> Option<&'a [u8]>) -> Self {
        let is_set = |name: &&CStr| variable(name).is_some_and(|value| !value.is_empty());
        Self {
            seen: variable(c"TT_VISIBLE_DEVICES").map_or(VisibleDevicesVariable::All, VisibleDevicesVariable::Only),
            is_mock: [c"TT_METAL_MOCK_CLUSTER_DESC_PATH", c"TT_METAL_SIMULATOR"].iter().any(is_set),
        }
    }

    pub(super) fn of_this_process() -> Environment<'static> {
        Environment::of(variable)
    }

    /// Writes the environment to the header. Within an event if there may be readers.
    pub(super) fn write(&self, region: &Region) {
        let word = region.header(header::VISIBLE_IS_SET);
        // If a thread dies here, the list matches no chip.
        protocol::withdraw(word, pair(header::VISIBLE_CUT, high(self.word())));
        region.set_text(HEADER, 0, header::VISIBLE, header::VISIBLE_BYTES, self.text());
        word.publish(self.word());
    }

    fn is_written(&self, region: &Region) -> bool {
        region.header(header::VISIBLE_IS_SET).load(Relaxed) == self.word()
            && region.has_text(HEADER, 0, header::VISIBLE, header::VISIBLE_BYTES, self.text())
    }

    /// The state of the text, and the flags.
    fn word(&self) -> u64 {
        let visible = match self.seen {
            VisibleDevicesVariable::All => 0,
            // The text must be followed by a NUL.
            VisibleDevicesVariable::Only(text) if text.len() < header::VISIBLE_BYTES => header::VISIBLE_WHOLE,
            VisibleDevicesVariable::Only(_) | VisibleDevicesVariable::Unknown => header::VISIBLE_CUT,
        };
        pair(visible, if self.is_mock { header::FLAG_MOCK } else { 0 })
    }

    fn text(&self) -> &[u8] {
        match self.seen {
            VisibleDevicesVariable::Only(text) => text,
            VisibleDevicesVariable::All | VisibleDevicesVariable::Unknown => &[],
        }
    }
}

impl Session<'_> {
    /// Reads TT_VISIBLE_DEVICES and related variables again. A program may set them between its first report and its first device, and
    /// TT-Metal reads them when that device opens.
    pub fn reread_environment(&mut self) {
        let (state, environment) = (self.state, Environment::of_this_process());
        if state.is_hosted() || environment.is_written(&state.region) {
            return;
        }
        let event = state.begin(self.time);
        environment.write(&state.region);
        state.end(event, Op::Nothing, &EventBody::default());
    }
}

fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: takes a C string and returns a C string or null, which the program owns. It is copied immediately, as usual for getenv.
    let value = unsafe {
        let value = libc::getenv(name.as_ptr());
        if value.is_null() {
            return None;
        }
        CStr::from_ptr(value)
    };
    Some(value.to_bytes())
}
