//! Parser of hexadecimal bytes in text files.

/// Parses hexadecimal text. A `#` begins a comment. Lines with expected results are skipped.
pub(crate) fn bytes(text: &str) -> Vec<u8> {
    let lines = text.lines().filter(|line| !line.starts_with("expect: "));
    let digits: String =
        lines.flat_map(|line| line.split('#').next()).flat_map(str::split_whitespace).collect();
    let pair = |i| u8::from_str_radix(&digits[i..i + 2], 16).expect("two hexadecimal digits");
    (0..digits.len()).step_by(2).map(pair).collect()
}
