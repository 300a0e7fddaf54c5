//! Text that is wrapped to the width of the terminal.

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
