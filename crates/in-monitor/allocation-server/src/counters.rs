//! Event counters of the server.

/// A counter's name in JSON, its text, and its value.
type Row = (&'static str, &'static str, fn(&Counters) -> u64);

macro_rules! counters {
    ($($name:ident: $words:literal,)*) => {
        /// Counted since the start of the server.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $(#[doc = $words] pub $name: u64,)*
        }

        /// All counters.
        pub const ROWS: &[Row] = &[$((stringify!($name), $words, |counters| counters.$name)),*];
    };
}

counters! {
    connections: "connections",
    connections_refused: "connections refused: too many, or no descriptor left",
    messages: "messages",
    allocations: "allocations",
    references: "allocations of something live, with the same size",
    replaced: "allocations of something live, with another size",
    frees: "frees",
    unknown_frees: "frees of something never seen",
    double_frees: "frees of something freed before",
    ambiguous_frees: "frees that could have meant another buffer",
    queries: "questions for memory",
    infos: "questions for devices",
    dumps: "dumps",
    malformed: "connections that spoke something else",
    odd_types: "messages that only servers send",
    bad_devices: "events without a device",
    bad_sizes: "events with a size that no chip has",
    bad_pids: "events without a pid, or of a peer that cannot be seen",
    labelled: "events under the pid of a stranger",
    of_the_dead: "events of processes that had ended",
    entries_refused: "events refused: too many entries or devices of one process",
    owners_refused: "events refused: too many processes",
    memory_refused: "events refused: no memory",
    peers_dropped: "peers dropped that did not read their replies",
    deaths: "processes that ended",
    handed_over: "ledgers handed over",
    handed_refused: "ledgers handed over and not kept: no ledger, not the sender's, or no place left",
    adopted: "ledgers taken over from an earlier server",
    listen_failures: "failed tries to listen at a socket whose place is taken",
    complaints_left_out: "complaints not printed: too many about one user in a minute",
}
