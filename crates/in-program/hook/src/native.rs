//! Stacks of threads without Python: return addresses per program or library, which readers convert to source lines. Recorded only with
//! operations (`ttmon run --ops`), because unwinding takes some microseconds.

use ttmon_client::hooked;
use ttmon_ledger::layout::stack::{FRAMES_MAX, NO_PYTHON};
use ttmon_ledger::writer::Frame;

use crate::coverage::{Feature, hit};
use crate::object::{self, Object};
use crate::operation::Addresses;

/// Returns the ledger's number of a stack of return addresses.
pub(crate) fn stack_number(addresses: &Addresses) -> u32 {
    let hash = hash(addresses);
    hooked::writer().stack(hash).unwrap_or_else(|| add(hash, addresses))
}

/// The hash includes the number of unloaded objects, because another library may be loaded at the same address later.
fn hash(addresses: &Addresses) -> u64 {
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0xA076_1D64_78BD_642F).rotate_left(29);
    addresses.as_slice().iter().fold(mix(0x6E61_7469_7665, object::unloads()), |hash, address| mix(hash, *address as u64))
}

#[cold]
fn add(hash: u64, addresses: &Addresses) -> u32 {
    let own = Object::of(stack_number as *const () as usize).map(|code| code.base);
    let mut frames = [Frame::default(); FRAMES_MAX];
    let mut count = 0;
    let mut last: Option<(Object, u32)> = None;
    for address in addresses.as_slice() {
        // An address within the call instruction; the return address is that of the next one.
        let address = address.wrapping_sub(1);
        if !last.as_ref().is_some_and(|(code, _)| code.has(address)) {
            let Some(code) = Object::with_path(address) else { continue };
            if Some(code.base) == own {
                continue;
            }
            let (path, build_id) = (code.path(), code.build_id.as_str());
            let added = hooked::with(|session| session.native_code(path, build_id).ok_or_else(|| session.refuse_stack()));
            match added {
                Some(Ok(number)) => last = Some((code, number)),
                Some(Err(refused)) => return refused,
                None => return 0,
            }
        }
        let (Some((code, number)), Some(frame)) = (&last, frames.get_mut(count)) else { continue };
        let Ok(line) = u32::try_from(address.wrapping_sub(code.base)) else { continue };
        *frame = Frame { code: *number, line };
        count += 1;
    }
    let frames = frames.get(..count).unwrap_or_default();
    if frames.is_empty() {
        return NO_PYTHON;
    }
    hit(Feature::Stacks);
    hooked::with(|session| session.add_stack(hash, frames, addresses.is_cut)).unwrap_or(0)
}
