//! Names for what comes from another daemon, where its own name may mean something else.

/// Returns names for a policy, host or group of an aggregate: its own, then with the aggregate's
/// name appended, then with a number too.
pub(super) fn candidates(name: &str, aggregate: &str) -> impl Iterator<Item = String> {
    // Names are ASCII, of at most 64 bytes.
    let with = |end: String| {
        let room = 64usize.saturating_sub(end.len());
        format!("{}{end}", name.get(..room).unwrap_or(name))
    };
    let more = (2..).map(move |number: u32| with(format!("-{aggregate:.32}-{number}")));
    [name.to_owned(), with(format!("-{aggregate:.32}"))]
        .into_iter()
        .chain(more)
}
