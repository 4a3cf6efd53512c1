//! What a command has to say, on standard output. A model's or a peer's text is somebody else's: on a terminal it may
//! not move the cursor, change colours or titles, or answer for the user, so control characters are left out there. In
//! a pipe or a file it stays as it is.

use std::borrow::Cow;
use std::io::{ErrorKind, IsTerminal as _, Write as _};

/// Writes the text and one newline. Whoever closed our output does not want it: that is no fault.
///
/// # Errors
/// When it could not be written: somebody takes it for the answer, so it must not be taken for success.
pub(crate) fn print(text: &str) -> std::io::Result<()> {
    let out = std::io::stdout();
    let text = if out.is_terminal() {
        shown(text)
    } else {
        Cow::Borrowed(text)
    };
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    let mut out = out.lock();
    match write!(out, "{text}{newline}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// The text as a terminal gets it.
fn shown(text: &str) -> Cow<'_, str> {
    let moves = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if text.contains(moves) {
        Cow::Owned(text.replace(moves, ""))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_no_control_characters_but_newline_and_tab() {
        for (text, expected) in [
            ("plain ä 𝄞\n\tlines\n", "plain ä 𝄞\n\tlines\n"),
            ("\u{1b}[31mred\u{1b}[0m", "[31mred[0m"),
            ("\u{1b}]0;title\u{7}x", "]0;titlex"),
            ("over\rwritten\u{8}\u{0}\u{7f}", "overwritten"),
            ("eight bits: \u{9b}31m\u{9d}0;t\u{9c}", "eight bits: 31m0;t"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }
}
