//! Text for terminals: wrapped to their width, and without characters that control them.

use std::fmt::{self, Display, Write};

/// Text in which characters that would control a terminal or turn the order of what follows are escapes, such as `\u{1b}`. Names of files,
/// addresses and answers of other programs may contain them.
#[derive(Debug)]
pub struct Plain<T>(pub T);

impl<T: Display> Display for Plain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(controls) {
            let rest = part.trim_end_matches(controls);
            self.0.write_str(rest)?;
            part[rest.len()..]
                .chars()
                .try_for_each(|control| write!(self.0, "{}", control.escape_unicode()))?;
        }
        Ok(())
    }
}

/// Returns true for characters that control terminals, lines and tabs excepted, or the direction of text (Unicode's bidirectional controls).
fn controls(character: char) -> bool {
    let turns =
        matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (character.is_control() && !matches!(character, '\n' | '\t'))
}

/// Returns the number of columns of the terminal on standard error; `None` if standard error is no terminal.
pub fn terminal_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

/// Wraps a text to lines of at most `width` characters, except for longer words. All lines except the first begin with `indent`.
pub fn wrapped(text: &str, width: usize, indent: &str) -> String {
    let start = text.len() - text.trim_start().len();
    let mut lines = text[..start].to_string();
    let mut used = start;
    for (index, word) in text[start..].split(' ').enumerate() {
        let len = word.chars().count();
        if index > 0 && used + 1 + len > width {
            lines += &format!("\n{indent}");
            used = indent.len();
        } else if index > 0 {
            lines.push(' ');
            used += 1;
        }
        lines += word;
        used += len;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_controls_a_terminal_is_shown_and_the_rest_is_as_it_is() {
        let text = "a\u{1b}]0;owned\u{7}\r\n\tb\u{9b}31m\u{202e}c ü–";
        assert_eq!(
            Plain(text).to_string(),
            r"a\u{1b}]0;owned\u{7}\u{d}".to_string() + "\n\tb" + r"\u{9b}31m\u{202e}c ü–"
        );
        assert_eq!(Plain(format_args!("{}", "\u{1b}\u{1b}")).to_string(), r"\u{1b}\u{1b}");
    }
}
