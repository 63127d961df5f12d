//! A line of `ttmon events`: time, pid, event, size, kind, devices.

use ttmon_model::event::{BufferEvent, Op};
use ttmon_model::units::size;

use crate::style::Style;

/// Formats one event, without a newline. `time` is the event's time on the user's clock, or empty.
pub fn event(event: &BufferEvent, time: &str, style: &Style<'_>) -> String {
    let what = event.op.name();
    style.clean(format!("{time:<12}  {:>7}  {what:<8}  {}", event.pid, words(event)).trim_end())
}

fn words(event: &BufferEvent) -> String {
    let kind = event.kind.map_or(String::new(), |kind| kind.name().to_uppercase());
    let place = event.place();
    let tag = event.tag.as_ref().map_or(String::new(), |tag| format!("  tag {tag:?}"));
    let line = event.line.as_ref().map_or(String::new(), |line| format!("  {line}"));
    let bytes = size(event.size.unwrap_or(0));
    let refs = event.refs.unwrap_or(0);
    let address = format!("{:#x}", event.address.unwrap_or(0));
    let buffer = format!("{bytes:>8}  {kind:<8}  {place}  {address}");
    match (event.op, event.program, &event.refusal) {
        (Op::Alloc | Op::Free, Some(program), _) => format!("{buffer}  program {program}"),
        (Op::Alloc | Op::Free, ..) => format!("{buffer}{tag}{line}"),
        (Op::Ref, ..) => format!("{buffer}  now {refs} references{tag}"),
        (Op::Unref, ..) => format!("{buffer}  {refs} references left{tag}"),
        (Op::FreeAll, ..) => format!("all {kind} on {place}"),
        (Op::Clash | Op::OutOfMemory, _, Some(refusal)) => format!("{}{tag}", refusal.words(&place)),
        (Op::Clash, ..) => format!("circular buffers clash with {kind} buffers on {place}"),
        (Op::OutOfMemory, ..) => format!("{bytes} of {kind} on {place}"),
        (Op::Open | Op::Close, ..) => place,
        (Op::Mark | Op::Exit, ..) => String::new(),
        (Op::Exec, ..) => "became another program".to_owned(),
        (Op::Overrun, ..) => match event.overrun.unwrap_or(0) {
            1 => "1 earlier event is no longer in the recorder".to_owned(),
            count => format!("{count} earlier events are no longer in the recorder"),
        },
    }
}
