//! Text from outside, made safe to show.

/// Cuts to `max` characters, with `…` where something was cut, and replaces control characters by spaces.
pub fn clip(text: &str, max: usize) -> String {
    let mut cut: String = text
        .chars()
        .take(max)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(max).is_some() {
        cut.pop();
        cut.push('…');
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clips_by_character_and_cleans() {
        assert_eq!(clip("a\nb\u{1b}[31m", 20), "a b [31m");
        assert_eq!(clip("ääää", 3), "ää…");
        assert_eq!(clip("ää", 2), "ää");
    }
}
