//! Outside bytes at every reader: those of the corpus, mutated and cut anywhere. Nothing panics, and in which chunks a
//! stream comes changes nothing.

use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;

use crate::codec;
use crate::dialect::Dialect;
use crate::wire::{Fault, Heard};

const DIALECTS: [(&str, Dialect); 4] = [
    ("openai", Dialect::Openai),
    ("openai-responses", Dialect::OpenaiResponses),
    ("anthropic", Dialect::Anthropic),
    ("bedrock", Dialect::Bedrock),
];

/// Every response of the corpus, with its dialect.
static SEEDS: LazyLock<Vec<(Dialect, Vec<u8>)>> = LazyLock::new(|| {
    let mut seeds = Vec::new();
    for (name, dialect) in DIALECTS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/corpus")
            .join(name);
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().path())
            .collect();
        files.sort();
        for file in files
            .iter()
            .filter(|file| file.extension().is_some_and(|kind| kind == "response"))
        {
            seeds.push((dialect, std::fs::read(file).unwrap()));
        }
    }
    seeds
});

/// What a stream in these chunks is read as, and what was told.
fn heard<'a>(dialect: Dialect, chunks: impl Iterator<Item = &'a [u8]>) -> (Result<Heard, Fault>, String) {
    let mut reader = codec::reader(dialect);
    let mut told = String::new();
    for chunk in chunks {
        match reader.push(chunk, &mut |text| told.push_str(text)) {
            Ok(true) => break,
            Ok(false) => {}
            Err(fault) => return (Err(fault), told),
        }
    }
    (reader.end(), told)
}

fn in_chunks(dialect: Dialect, bytes: &[u8], sizes: &[usize]) -> (Result<Heard, Fault>, String) {
    let mut chunks = Vec::new();
    let mut rest = bytes;
    let mut sizes = sizes.iter().cycle();
    while !rest.is_empty() {
        let size = sizes.next().copied().unwrap_or(1).clamp(1, rest.len());
        let (chunk, after) = rest.split_at(size);
        chunks.push(chunk);
        rest = after;
    }
    heard(dialect, chunks.into_iter())
}

#[test]
fn every_cut_of_the_corpus_is_read_alike() {
    for (dialect, bytes) in SEEDS.iter() {
        let whole = heard(*dialect, std::iter::once(bytes.as_slice()));
        for size in [1, 3, 64] {
            assert_eq!(in_chunks(*dialect, bytes, &[size]), whole, "{dialect:?} {size}");
        }
        for cut in (0..bytes.len()).step_by(61) {
            let (first, second) = bytes.split_at(cut);
            assert_eq!(
                heard(*dialect, [first, second].into_iter()),
                whole,
                "{dialect:?} {cut}"
            );
        }
    }
}

#[test]
fn a_stream_that_ends_anywhere_is_an_answer_or_a_fault() {
    for (dialect, bytes) in SEEDS.iter() {
        for end in (0..bytes.len()).step_by(23) {
            let _ = heard(*dialect, std::iter::once(&bytes[..end]));
            let _ = codec::whole(*dialect, &bytes[..end]);
        }
    }
}

proptest! {
    #![proptest_config(agentd_noise::cases(if cfg!(debug_assertions) { 256 } else { 4096 }))]

    #[test]
    fn mutated_answers_are_read_alike_in_any_chunks(
        seed in any::<prop::sample::Index>(),
        edits in agentd_noise::Edits::any(0..6),
        sizes in prop::collection::vec(1_usize..200, 1..8),
    ) {
        let (dialect, bytes) = seed.get(&SEEDS);
        let mut bytes = bytes.clone();
        edits.apply(&mut bytes);
        let whole = heard(*dialect, std::iter::once(bytes.as_slice()));
        prop_assert_eq!(in_chunks(*dialect, &bytes, &sizes), whole);
        let _ = codec::whole(*dialect, &bytes);
    }

    #[test]
    fn any_bytes_at_any_reader(bytes in prop::collection::vec(any::<u8>(), 0..400), sizes in prop::collection::vec(1_usize..50, 1..4)) {
        for (_, dialect) in DIALECTS {
            let whole = heard(dialect, std::iter::once(bytes.as_slice()));
            prop_assert_eq!(in_chunks(dialect, &bytes, &sizes), whole);
            let _ = codec::whole(dialect, &bytes);
        }
    }
}

#[test]
fn what_is_held_of_a_stream_is_bounded() {
    // Texts, arguments and reasoning without end: each is refused soon after the bound.
    let openai = |delta: &str| format!("data: {{\"choices\":[{{\"delta\":{delta}}}]}}\n\n");
    let long = "x".repeat(64 * 1024);
    let pieces = [
        (Dialect::Openai, openai(&format!("{{\"content\":\"{long}\"}}"))),
        (
            Dialect::Openai,
            openai(&format!("{{\"reasoning_content\":\"{long}\"}}")),
        ),
        (
            Dialect::Openai,
            openai(&format!(
                "{{\"tool_calls\":[{{\"index\":0,\"function\":{{\"name\":\"t\",\"arguments\":\"[{long}\"}}}}]}}"
            )),
        ),
        (
            Dialect::Anthropic,
            format!(
                "data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{long}\"}}}}\n\n"
            ),
        ),
        (
            Dialect::OpenaiResponses,
            format!(
                "data: {{\"type\":\"response.output_item.done\",\"item\":{{\"type\":\"x\",\"y\":\"{long}\"}}}}\n\n"
            ),
        ),
    ];
    for (dialect, piece) in pieces {
        let mut reader = codec::reader(dialect);
        let mut pushed = 0;
        let fault = loop {
            match reader.push(piece.as_bytes(), &mut |_| {}) {
                Ok(_) => pushed += piece.len(),
                Err(fault) => break fault,
            }
            assert!(pushed < 10 * 1024 * 1024, "{dialect:?}");
        };
        assert!(
            matches!(&fault, Fault::Malformed(why) if why.contains("longer")),
            "{dialect:?} {fault:?}"
        );
    }
    // A line or a message that never ends.
    for (_, dialect) in DIALECTS {
        let mut reader = codec::reader(dialect);
        let chunk = vec![b'x'; 1024 * 1024];
        let mut chunks = 0;
        while reader.push(&chunk, &mut |_| {}).is_ok() {
            chunks += 1;
            assert!(chunks <= 8, "{dialect:?}");
        }
    }
}

#[test]
fn arguments_in_many_pieces_are_not_read_again_with_each() {
    // With the name in the first piece, and in every one: read anew each time it would be gigabytes.
    for repeated in ["", "\"name\":\"t\","] {
        let event = |name: &str, text: &str| {
            format!(
                "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":0,\"function\":{{{name}\"arguments\":\"{text}\"}}}}]}}}}]}}\n\n"
            )
        };
        let began = std::time::Instant::now();
        let mut reader = codec::reader(Dialect::Openai);
        let mut push = |event: String| reader.push(event.as_bytes(), &mut |_| {}).unwrap();
        push(event("\"name\":\"t\",", "{\\\"a\\\":\\\""));
        for _ in 0..64 * 1024 {
            push(event(repeated, "xxxx"));
        }
        push(event(repeated, "\\\"}"));
        push("data: [DONE]\n\n".to_owned());
        let heard = reader.end().unwrap();
        let [crate::message::Block::ToolCall(call)] = heard.blocks.as_slice() else {
            panic!("{:?}", heard.blocks.len());
        };
        let expected = serde_json::json!({"a": "x".repeat(256 * 1024)});
        assert_eq!(
            call.arguments,
            crate::message::Arguments::parse(&expected.to_string())
        );
        assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
    }
}
