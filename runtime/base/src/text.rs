//! Text from outside, made safe to show.

/// The target of audit lines, which are let through whatever the level is.
pub const AUDIT: &str = "agentd::audit";

/// The target of log lines that hold what was said: words of people, models and tools. They are let through only where
/// `observability.log_content` says so.
pub const CONTENT: &str = "agentd::content";

/// Of one text in such a line.
const CONTENT_CHARS: usize = 4096;

/// A text as such a line shows it.
pub fn content(text: &str) -> String {
    clip(text, CONTENT_CHARS)
}

/// Cuts to `max` characters, with `…` where something was cut, replaces control characters by spaces and leaves out what
/// [`is_unseen`].
pub fn clip(text: &str, max: usize) -> String {
    let mut seen = text
        .chars()
        .filter(|c| !is_unseen(*c))
        .map(|c| if c.is_control() { ' ' } else { c });
    let mut cut: String = seen.by_ref().take(max).collect();
    if seen.next().is_some() {
        cut.pop();
        cut.push('…');
    }
    cut
}

/// Whether nobody sees the character, or it changes how others are seen: marks of direction, characters without width,
/// tags, variation selectors, fillers. Who reads the text is told something else by it than who approves it.
#[rustfmt::skip]
pub fn is_unseen(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clips_by_character_and_cleans() {
        assert_eq!(clip("a\nb\u{1b}[31m", 20), "a b [31m");
        assert_eq!(clip("ääää", 3), "ää…");
        assert_eq!(clip("ää", 2), "ää");
        assert_eq!(clip("a\u{202e}b\u{e0041}\u{200b}", 2), "ab");
    }

    #[test]
    fn what_is_unseen() {
        for c in
            "\u{200b}\u{200d}\u{202a}\u{202e}\u{2066}\u{2069}\u{feff}\u{e007f}\u{ad}\u{fe0f}\u{2028}".chars()
        {
            assert!(is_unseen(c), "{c:?}");
        }
        for c in "a é語 \u{a0}…😀\n".chars() {
            assert!(!is_unseen(c), "{c:?}");
        }
    }
}
