//! How many tokens something is: characters by four, until a provider says what a request really was. Pure.

use agentd_llm::{Arguments, Block, ModelReply, ToolSpec, Usage};
use serde::Serialize;

/// Before a provider has said anything.
const CHARS_PER_TOKEN: f64 = 4.0;
/// What a provider can mean at most and at least: beyond it its numbers are of something else, as where it leaves out
/// what it had in its cache.
const RATIOS: std::ops::RangeInclusive<f64> = 0.5..=8.0;

/// From characters to tokens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gauge {
    chars_per_token: f64,
    is_calibrated: bool,
}

impl Default for Gauge {
    fn default() -> Self {
        Self {
            chars_per_token: CHARS_PER_TOKEN,
            is_calibrated: false,
        }
    }
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "estimates"
)]
impl Gauge {
    /// A request of so many characters was so many tokens.
    pub(crate) fn calibrate(&mut self, chars: u64, tokens: u64) {
        if tokens > 0 && chars > 0 {
            let ratio = chars as f64 / tokens as f64;
            self.chars_per_token = ratio.clamp(*RATIOS.start(), *RATIOS.end());
            self.is_calibrated = true;
        }
    }

    pub(crate) fn tokens(&self, chars: u64) -> u64 {
        (chars as f64 / self.chars_per_token).ceil() as u64
    }

    pub(crate) fn chars(&self, tokens: u64) -> u64 {
        (tokens as f64 * self.chars_per_token) as u64
    }

    /// What a request reads as far as a provider has said: nothing before it has.
    pub(crate) fn known(&self, chars: u64) -> u64 {
        if self.is_calibrated { self.tokens(chars) } else { 0 }
    }

    /// What a reply has to be charged. Some providers and gateways leave the usage out, and a limit must hold there too.
    pub(crate) fn charge(&self, asked: u64, reply: &ModelReply) -> Usage {
        if reply.usage.total() > 0 {
            return reply.usage;
        }
        Usage {
            input: self.tokens(asked),
            output: self.tokens(reply.blocks.iter().map(block).sum()),
            cached: 0,
        }
    }
}

pub(crate) fn text(text: &str) -> u64 {
    u64::try_from(text.chars().count()).unwrap_or(u64::MAX)
}

/// Of what travels as JSON.
pub(crate) fn json(value: &impl Serialize) -> u64 {
    struct Counter(u64);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len() as u64);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // A counter takes everything; what cannot be written is not sent either.
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

pub(crate) fn arguments(arguments: &Arguments) -> u64 {
    match arguments {
        Arguments::Object(object) => json(object),
        Arguments::Invalid(raw) => text(raw),
    }
}

pub(crate) fn tools(tools: &[ToolSpec]) -> u64 {
    let of = |tool: &ToolSpec| text(&tool.name) + text(&tool.description) + json(&tool.input_schema);
    tools.iter().map(of).sum()
}

fn block(block: &Block) -> u64 {
    match block {
        Block::Text(said) => text(said),
        Block::ToolCall(call) => text(&call.name) + arguments(&call.arguments),
        Block::Opaque(opaque) => json(&opaque.value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_calibrates_within_reason() {
        let mut gauge = Gauge::default();
        assert_eq!(
            (gauge.tokens(400), gauge.chars(100), gauge.known(400)),
            (100, 400, 0)
        );
        gauge.calibrate(400, 0);
        assert_eq!(gauge.known(400), 0, "nothing was said");
        gauge.calibrate(400, 200);
        assert_eq!((gauge.tokens(400), gauge.known(400)), (200, 200));
        // All but one token came from a cache.
        gauge.calibrate(400_000, 1);
        assert_eq!(gauge.tokens(400_000), 50_000);
    }

    #[test]
    fn field_l10_a_reply_without_usage_is_charged_by_its_length() {
        let mut reply = ModelReply {
            blocks: vec![Block::Text("x".repeat(40))],
            stop: agentd_llm::Stop::End,
            usage: Usage::default(),
        };
        let charged = Gauge::default().charge(400, &reply);
        assert_eq!(
            charged,
            Usage {
                input: 100,
                output: 10,
                cached: 0
            }
        );
        reply.usage = Usage {
            input: 7,
            output: 0,
            cached: 0,
        };
        assert_eq!(Gauge::default().charge(400, &reply), reply.usage);
    }
}
