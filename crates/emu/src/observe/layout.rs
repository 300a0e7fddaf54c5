//! Layout of certificates for terminals.

use crate::link::EDGES;
use catnip_cli::text::wrapped;
use std::iter;

/// Row of a certificate: its name, and four cells with the requested and the delivered value for up, and both values for down.
pub(crate) type Line<'a> = (&'a str, [String; 4]);

/// Smallest width of a cell, characters.
const MIN_CELL_WIDTH: usize = 12;

/// Formats the rows of a certificate. The two directions are side by side if they fit into `width` characters, otherwise one below the
/// other.
pub(crate) fn table(rows: &[Line<'_>], width: usize) -> String {
    let text = side_by_side(rows);
    let fits = text.lines().all(|line| line.chars().count() <= width);
    if fits { text } else { stacked(rows, width) }
}

/// Formats the name of a row, in front of its cells.
fn name(name: &str) -> String {
    format!("  {name:<9} ")
}

fn side_by_side(rows: &[Line<'_>]) -> String {
    let line = |first: &str, [a, b, c, d]: [&str; 4]| {
        let line = format!("{}{a:<18} {b:<32} {c:<18} {d}", name(first));
        format!("{}\n", line.trim_end())
    };
    let lines = rows.iter().map(|(first, cells)| line(first, cells.each_ref().map(String::as_str)));
    line("", ["up: requested", "delivered", "down: requested", "delivered"]) + &lines.collect::<String>()
}

/// Formats the direction up and, below it, the direction down, in lines of at most `width` characters. Long cells are wrapped.
fn stacked(rows: &[Line<'_>], width: usize) -> String {
    let mut text = String::new();
    for (direction, first) in EDGES.into_iter().zip([0, 2]) {
        let titles = [format!("{direction}: requested"), "delivered".into()];
        let longest = rows.iter().map(|(_, cells)| cells[first].len()).chain([titles[0].len()]).max();
        let available = width.saturating_sub(name("").len() + 1).max(2 * MIN_CELL_WIDTH);
        let requested_width = longest.unwrap_or(0).min((available / 2).max(MIN_CELL_WIDTH));
        let delivered_width = available - requested_width;
        let cells = rows.iter().map(|(row, cells)| (*row, [&cells[first], &cells[first + 1]]));
        for (row, [a, b]) in iter::once(("", titles.each_ref())).chain(cells) {
            let (a, b) = (wrapped(a, requested_width, ""), wrapped(b, delivered_width, ""));
            let names = iter::once(row).chain(iter::repeat(""));
            let (left, right) = (a.lines().chain(iter::repeat("")), b.lines().chain(iter::repeat("")));
            let lines = a.lines().count().max(b.lines().count());
            for ((row, a), b) in names.zip(left).zip(right).take(lines) {
                text += format!("{}{a:<requested_width$} {b}", name(row)).trim_end();
                text.push('\n');
            }
        }
    }
    text
}
