//! What a program was refused, in words: the request, what was free, and whether order alone would have made room.

use serde_json::{Map, Value, json};
use ttmon_ledger::layout::Refused;
use ttmon_ledger::reader::Failure;
use ttmon_print::size;
use ttmon_source::ledgers::buffer_kind;

/// Whether the free memory would have been enough in one piece; `None` where the request per bank is not known.
pub(crate) fn fits_without_fragmentation(failure: &Failure) -> Option<bool> {
    (failure.what == Refused::OutOfMemory && failure.per_bank > 0).then_some(failure.per_bank <= failure.free_per_bank)
}

/// The figures as JSON, the same in the report of a run and among events.
pub(crate) fn figures(failure: &Failure, place: &str) -> Map<String, Value> {
    let known = |value: u64| Some(value).filter(|_| failure.per_bank > 0);
    let top = failure.largest.iter().map(|large| {
        json!({
            "address": format!("{:#x}", large.address),
            "size": large.size,
            "per_bank": Some(large.per_bank).filter(|per_bank| *per_bank > 0),
            "tag": text(&large.tag),
            "op": text(&large.operation),
        })
    });
    let document = json!({
        "banks": Some(failure.banks).filter(|banks| *banks > 0),
        "per_bank": known(failure.per_bank),
        "free_per_bank": known(failure.free_per_bank),
        "largest_free_per_bank": known(failure.largest_free_per_bank),
        "fits_without_fragmentation": fits_without_fragmentation(failure),
        "top": top.collect::<Vec<_>>(),
        "operation": text(&failure.operation),
        "message": text(&failure.message),
        "words": words(failure, place),
    });
    match document {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// A text that is there.
pub(crate) fn text(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// One line for people; `place` is where it was asked for.
pub(crate) fn words(failure: &Failure, place: &str) -> String {
    match failure.what {
        Refused::OutOfMemory => out_of_memory(failure, place),
        Refused::Clash => clash(failure, place),
    }
}

fn out_of_memory(failure: &Failure, place: &str) -> String {
    let kind = buffer_kind(failure.kind).name().to_uppercase();
    let mut text = format!("asked {} {kind} on {place}", size(failure.size));
    if failure.per_bank == 0 || failure.banks == 0 {
        return text;
    }
    let banks = if failure.banks == 1 { "in one bank".to_owned() } else { format!("in each of {} banks", failure.banks) };
    text += &format!(
        " ({} {banks}): {} free per bank, largest block {}: ",
        size(failure.per_bank),
        size(failure.free_per_bank),
        size(failure.largest_free_per_bank)
    );
    text += &match failure.per_bank {
        // The allocator had its own reasons; ours would be a guess.
        asked if asked <= failure.largest_free_per_bank => "there is a block of that size".to_owned(),
        asked if asked <= failure.free_per_bank => "would fit if not fragmented".to_owned(),
        asked => format!("{} per bank too little is free", size(asked - failure.free_per_bank)),
    };
    text
}

/// TT-Metal says it in figures: `... clash with L1 buffers on core range [...]. L1 buffer allocated at 114688 and static circular
/// buffer region ends at 118112`, or `... grow to 1600000 B which is beyond max L1 size of 1499136 B`.
fn clash(failure: &Failure, place: &str) -> String {
    let message = first_line(&failure.message);
    let number = |after: &str| {
        let rest = &message[message.find(after)? + after.len()..];
        rest[..rest.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(rest.len())].parse::<u64>().ok()
    };
    match (number("allocated at "), number("region ends at "), number("grow to "), number("max L1 size of ")) {
        (Some(buffer), Some(end), ..) if end > buffer => {
            let reach = size(end - buffer);
            format!("circular buffers of a program reach {reach} into the L1 buffer at {buffer:#x} on {place}: they end at {end:#x}")
        }
        (.., Some(end), Some(most)) if end > most => {
            format!("circular buffers of a program grow to {} on {place}, {} beyond what a core has", size(end), size(end - most))
        }
        _ if message.is_empty() => format!("circular buffers of a program clash with L1 on {place}"),
        _ => format!("circular buffers of a program clash with L1 on {place}: {message}"),
    }
}

/// TT-Metal's messages go on with a backtrace.
fn first_line(message: &str) -> &str {
    message.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(what: Refused) -> Failure {
        Failure {
            number: 1,
            time: 0,
            event: 1,
            what,
            kind: 1,
            allocator: 0,
            generation: 1,
            size: 32 << 20,
            per_bank: 512 << 10,
            banks: 64,
            free_per_bank: 700 << 10,
            largest_free_per_bank: 410 << 10,
            tag: String::new(),
            operation: String::new(),
            largest: Vec::new(),
            message: "\n  Out of Memory: not enough space\nbacktrace:\n".to_owned(),
            is_message_cut: false,
        }
    }

    #[test]
    fn the_request_and_what_was_free() {
        let fragmented = failure(Refused::OutOfMemory);
        assert_eq!(
            words(&fragmented, "device 0"),
            "asked 32.0MB L1 on device 0 (512.0KB in each of 64 banks): 700.0KB free per bank, largest block 410.0KB: would fit if not fragmented"
        );
        assert_eq!(fits_without_fragmentation(&fragmented), Some(true));
        let full = Failure { free_per_bank: 12 << 10, largest_free_per_bank: 12 << 10, ..failure(Refused::OutOfMemory) };
        assert!(words(&full, "device 0").ends_with("12.0KB free per bank, largest block 12.0KB: 500.0KB per bank too little is free"));
        assert_eq!(fits_without_fragmentation(&full), Some(false));
        let unknown = Failure { per_bank: 0, banks: 0, ..failure(Refused::OutOfMemory) };
        assert_eq!(words(&unknown, "device 0"), "asked 32.0MB L1 on device 0");
        assert_eq!(fits_without_fragmentation(&unknown), None);
    }

    #[test]
    fn a_clash_is_told_in_figures() {
        let clash = |message: &str| words(&Failure { message: message.to_owned(), ..failure(Refused::Clash) }, "device 0");
        assert_eq!(
            clash(
                "Statically allocated circular buffers in program 0 clash with L1 buffers on core range [0-0 - 7-7]. L1 buffer allocated at 114688 and static circular buffer region ends at 118112\nbacktrace"
            ),
            "circular buffers of a program reach 3.3KB into the L1 buffer at 0x1c000 on device 0: they end at 0x1cd60"
        );
        assert_eq!(
            clash("Statically allocated circular buffers on core range [0-0] grow to 1600000 B which is beyond max L1 size of 1499136 B"),
            "circular buffers of a program grow to 1.5MB on device 0, 98.5KB beyond what a core has"
        );
        // Words that are not known are passed on.
        assert_eq!(
            clash("They clash: allocated at x"),
            "circular buffers of a program clash with L1 on device 0: They clash: allocated at x"
        );
        assert_eq!(clash(""), "circular buffers of a program clash with L1 on device 0");
        assert_eq!(fits_without_fragmentation(&failure(Refused::Clash)), None);
    }
}
