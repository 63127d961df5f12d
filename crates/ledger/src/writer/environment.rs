//! Which devices a program sees, as its environment says: in the header from the start, and again when a device opens.

use std::{ffi::CStr, sync::atomic::Ordering::Relaxed};

use crate::layout::{Op, header};

use super::{
    Session,
    event::EventBody,
    memory::{Region, high, pair},
    protocol::{self, Word},
};

/// TT_VISIBLE_DEVICES of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisibleDevicesVariable<'a> {
    /// It is not set.
    All,
    /// What it says.
    Only(&'a [u8]),
    /// It may not be read, or is too long: the devices cannot be determined.
    Unknown,
}

/// Which chips a program works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Environment<'a> {
    /// The devices it sees.
    pub seen: VisibleDevicesVariable<'a>,
    /// TT-Metal works on chips that are not there.
    pub is_mock: bool,
}

impl<'a> Environment<'a> {
    /// The environment with these variables.
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

    /// Writes it; inside an event, where there may be readers.
    pub(super) fn write(&self, region: &Region) {
        let word = region.header(header::VISIBLE_IS_SET);
        // A thread that dies here leaves a list that maps no chip.
        protocol::withdraw(word, pair(header::VISIBLE_CUT, high(self.word())));
        region.set_header_text(header::VISIBLE, header::VISIBLE_BYTES, self.text());
        word.publish(self.word());
    }

    fn is_written(&self, region: &Region) -> bool {
        region.header(header::VISIBLE_IS_SET).load(Relaxed) == self.word()
            && region.has_header_text(header::VISIBLE, header::VISIBLE_BYTES, self.text())
    }

    /// What the text is, and the flags beside it.
    fn word(&self) -> u64 {
        let visible = match self.seen {
            VisibleDevicesVariable::All => 0,
            // A NUL stands behind it.
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
    /// Reads TT_VISIBLE_DEVICES and the like again: a program may set them between its first report and its first device, and
    /// TT-Metal looks when that opens.
    pub fn reread_environment(&mut self) {
        let (books, environment) = (self.books, Environment::of_this_process());
        if books.is_hosted() || environment.is_written(&books.region) {
            return;
        }
        let event = books.begin(self.time);
        environment.write(&books.region);
        books.end(event, Op::Nothing, &EventBody::default());
    }
}

fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: a C string in, a C string or null out. It stays the program's; we copy it at once, as getenv's users do.
    let value = unsafe {
        let value = libc::getenv(name.as_ptr());
        if value.is_null() {
            return None;
        }
        CStr::from_ptr(value)
    };
    Some(value.to_bytes())
}
