//! Event counters of the server.

/// Counted since the start of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is named, in words, in `ROWS`")]
pub struct Counters {
    pub connections: u64,
    pub connections_refused: u64,
    pub messages: u64,
    pub allocations: u64,
    pub references: u64,
    pub replaced: u64,
    pub frees: u64,
    pub unknown_frees: u64,
    pub double_frees: u64,
    pub ambiguous_frees: u64,
    pub queries: u64,
    pub infos: u64,
    pub dumps: u64,
    pub malformed: u64,
    pub odd_types: u64,
    pub bad_devices: u64,
    pub bad_sizes: u64,
    pub bad_pids: u64,
    pub labelled: u64,
    pub of_the_dead: u64,
    pub entries_refused: u64,
    pub owners_refused: u64,
    pub memory_refused: u64,
    pub peers_dropped: u64,
    pub deaths: u64,
    pub handed_over: u64,
    pub handed_refused: u64,
    pub adopted: u64,
    pub complaints_left_out: u64,
    pub listen_failures: u64,
}

/// A counter's name in JSON, its text, and its value.
type Row = (&'static str, &'static str, fn(&Counters) -> u64);

/// All counters.
pub const ROWS: &[Row] = &[
    ("connections", "connections", |counters| counters.connections),
    ("connections_refused", "connections refused: too many, or no descriptor left", |counters| counters.connections_refused),
    ("messages", "messages", |counters| counters.messages),
    ("allocations", "allocations", |counters| counters.allocations),
    ("references", "allocations of something live, with the same size", |counters| counters.references),
    ("replaced", "allocations of something live, with another size", |counters| counters.replaced),
    ("frees", "frees", |counters| counters.frees),
    ("unknown_frees", "frees of something never seen", |counters| counters.unknown_frees),
    ("double_frees", "frees of something freed before", |counters| counters.double_frees),
    ("ambiguous_frees", "frees that could have meant another buffer", |counters| counters.ambiguous_frees),
    ("queries", "questions for memory", |counters| counters.queries),
    ("infos", "questions for devices", |counters| counters.infos),
    ("dumps", "dumps", |counters| counters.dumps),
    ("malformed", "connections that spoke something else", |counters| counters.malformed),
    ("odd_types", "messages that only servers send", |counters| counters.odd_types),
    ("bad_devices", "events without a device", |counters| counters.bad_devices),
    ("bad_sizes", "events with a size that no chip has", |counters| counters.bad_sizes),
    ("bad_pids", "events without a pid, or of a peer that cannot be seen", |counters| counters.bad_pids),
    ("labelled", "events under the pid of a stranger", |counters| counters.labelled),
    ("of_the_dead", "events of processes that had ended", |counters| counters.of_the_dead),
    ("entries_refused", "events refused: too many entries or devices of one process", |counters| counters.entries_refused),
    ("owners_refused", "events refused: too many processes", |counters| counters.owners_refused),
    ("memory_refused", "events refused: no memory", |counters| counters.memory_refused),
    ("peers_dropped", "peers dropped that did not read their replies", |counters| counters.peers_dropped),
    ("deaths", "processes that ended", |counters| counters.deaths),
    ("handed_over", "ledgers handed over", |counters| counters.handed_over),
    ("handed_refused", "ledgers handed over and not kept: no ledger, not the sender's, or no place left", |counters| {
        counters.handed_refused
    }),
    ("adopted", "ledgers taken over from an earlier server", |counters| counters.adopted),
    ("listen_failures", "failed tries to listen at a socket whose place is taken", |counters| counters.listen_failures),
    ("complaints_left_out", "complaints not printed: too many about one user in a minute", |counters| counters.complaints_left_out),
];
