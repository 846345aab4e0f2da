//! Tables whose columns align, of text that may be anything.

use switchyard_model::Printable;

/// A cell is never longer.
const MAX_CELL: usize = 120;

/// Aligned lines: a header in capitals, then rows. Columns are two spaces apart, the last is not filled up.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let header: Vec<String> = header.iter().map(|text| (*text).to_owned()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| cut(cell)).collect()).collect();
    let mut widths: Vec<usize> = vec![0; header.len()];
    for row in std::iter::once(&header).chain(&rows) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in std::iter::once(&header).chain(&rows) {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Printable, and not too long.
fn cut(cell: &str) -> String {
    let cell = printable(cell);
    if cell.chars().count() <= MAX_CELL {
        return if cell.is_empty() { "-".to_owned() } else { cell };
    }
    cell.chars().take(MAX_CELL - 1).chain(['…']).collect()
}

/// Without anything that a terminal would act on.
pub(super) fn printable(text: &str) -> String {
    Printable(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_nothing_acts_on_a_terminal() {
        let rows = [
            vec!["web".to_owned(), "10.96.0.1".to_owned(), "x".to_owned()],
            vec!["a\x1b[31m\u{202e}\u{61c}\n\u{e0041}b".to_owned(), String::new(), "é".repeat(200)],
        ];
        let text = table(&["NAME", "IP", "LAST"], &rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[1].find("10.96.0.1"), lines[0].find("IP"));
        assert!(!text.replace('\n', "").contains(switchyard_model::is_unseen), "{text}");
        assert!(lines[2].ends_with('…') && lines[2].contains("  -  "), "{text}");
    }
}
