//! Tokens where the provider does not count them: characters over a ratio that its counts of other answers set
//! (contract/runtime.md section 0).

use std::sync::atomic::{AtomicU32, Ordering};

/// Without any count, a token is about this many characters.
const CHARACTERS_PER_TOKEN: f32 = 4.0;
/// A ratio beyond these says more about the count (a cache, a proxy) than about the text.
const RATIOS: std::ops::RangeInclusive<f32> = 1.0..=8.0;

/// The ratio of one endpoint.
#[derive(Debug)]
pub(crate) struct Calibration(AtomicU32);

impl Default for Calibration {
    fn default() -> Self {
        Self(AtomicU32::new(CHARACTERS_PER_TOKEN.to_bits()))
    }
}

impl Calibration {
    fn ratio(&self) -> f32 {
        f32::from_bits(self.0.load(Ordering::Relaxed))
    }

    /// A request of so many characters was counted.
    pub(crate) fn learn(&self, characters: usize, tokens: u64) {
        if characters > 0 && tokens > 0 {
            let ratio = characters as f32 / tokens as f32;
            self.0.store(
                ratio.clamp(*RATIOS.start(), *RATIOS.end()).to_bits(),
                Ordering::Relaxed,
            );
        }
    }

    /// The tokens of so many characters.
    pub(crate) fn estimate(&self, characters: usize) -> u64 {
        (characters as f32 / self.ratio()).ceil() as u64
    }
}

/// The characters of a text in UTF-8. The standard library counts them many bytes at a time, and a request is long.
pub(crate) fn characters(text: &[u8]) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    std::str::from_utf8(text).map_or(text.len(), |text| text.chars().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_may_be_many_bytes() {
        let counted = ["", "plain", "ä語🦀"].map(|text| characters(text.as_bytes()));
        assert_eq!(counted, [0, 5, 3]);
        assert_eq!(characters(b"\xff\xfe"), 2);
    }

    #[test]
    fn counts_set_the_ratio_within_reason() {
        let calibration = Calibration::default();
        assert_eq!(calibration.estimate(401), 101);
        calibration.learn(400, 0);
        calibration.learn(0, 7);
        assert_eq!(calibration.estimate(400), 100);
        calibration.learn(400, 200);
        assert_eq!(calibration.estimate(400), 200);
        calibration.learn(1_000_000, 1);
        assert_eq!(calibration.estimate(400), 50);
    }
}
