//! A line of `ttmon events`: the reference server's words, with the kind and the tag it left out of frees.

use ttmon_model::event::{BufferEvent, Op};

use crate::style::Style;

/// One event in words, without a newline.
pub fn event(event: &BufferEvent, style: &Style<'_>) -> String {
    style.clean(&words(event, style.ascii))
}

fn words(event: &BufferEvent, ascii: bool) -> String {
    let pid = event.pid;
    let (good, bad) = if ascii { ("+", "-") } else { ("✓", "✗") };
    let kind = event.kind.map_or(String::new(), |kind| kind.name().to_uppercase());
    let place = event.place();
    let tag = event.tag.as_ref().map_or(String::new(), |tag| format!(" tag {tag:?}"));
    let (size, refs) = (event.size.unwrap_or(0), event.refs.unwrap_or(0));
    let address = format!("{:#x}", event.address.unwrap_or(0));
    match (event.op, event.program, &event.refusal) {
        (Op::Alloc, Some(program), _) => format!("{good} [PID {pid}] Program {program} has {size} bytes of {kind} at {address} on {place}"),
        (Op::Alloc, ..) => format!("{good} [PID {pid}] Allocated {size} bytes of {kind} on {place} (buffer_id={address}){tag}"),
        (Op::Free, Some(program), _) => format!("{bad} [PID {pid}] Program {program} gave up {size} bytes of {kind} on {place}"),
        (Op::Free, ..) => format!("{bad} [PID {pid}] Freed buffer {address} on {place} ({size} bytes of {kind}, FINAL){tag}"),
        (Op::Ref, ..) => format!("{good} [PID {pid}] Buffer {address} on {place} now has {refs} references ({size} bytes of {kind}){tag}"),
        (Op::Unref, ..) => {
            format!("{bad} [PID {pid}] Freed buffer {address} on {place} ({size} bytes of {kind}, {refs} references left){tag}")
        }
        (Op::FreeAll, ..) => format!("{bad} [PID {pid}] Freed all {kind} on {place}"),
        (Op::Clash, _, Some(refusal)) => format!("! [PID {pid}] Clash: {}{tag}", refusal.words(&place)),
        (Op::Clash, ..) => format!("! [PID {pid}] Circular buffers clash with {kind} buffers on {place}"),
        (Op::OutOfMemory, _, Some(refusal)) => format!("! [PID {pid}] Out of memory: {}{tag}", refusal.words(&place)),
        (Op::OutOfMemory, ..) => format!("! [PID {pid}] Out of memory: {size} bytes of {kind} on {place}"),
        (Op::Open, ..) => format!("{good} [PID {pid}] Opened {place}"),
        (Op::Close, ..) => format!("{bad} [PID {pid}] Closed {place}"),
        (Op::Mark, ..) => format!("= [PID {pid}] Mark"),
        (Op::Exit, ..) => format!("= [PID {pid}] Exited"),
        (Op::Exec, ..) => format!("= [PID {pid}] Became another program"),
        (Op::Overrun, ..) => match event.overrun.unwrap_or(0) {
            1 => format!("! [PID {pid}] 1 earlier event is no longer in the recorder"),
            count => format!("! [PID {pid}] {count} earlier events are no longer in the recorder"),
        },
    }
}
