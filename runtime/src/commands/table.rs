//! What others said, for a terminal: as tables, and without what could steer it. Pure.

use agentd_base::text::is_unseen;

/// Columns as wide as their widest cell; nothing at the end of a line.
pub(super) fn table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let head = head.map(str::to_owned);
    let mut widths = [0; N];
    for row in std::iter::once(&head).chain(rows) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &[String; N]| {
        let cells = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    std::iter::once(&head)
        .chain(rows)
        .map(line)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Line ends and tabs stay; what else could steer a terminal becomes `\u{…}`.
pub(super) fn clean(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => c.to_string(),
            c if c.is_control() || is_unseen(c) => c.escape_default().to_string(),
            c => c.to_string(),
        })
        .collect()
}
