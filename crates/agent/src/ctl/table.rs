//! Tables whose columns align, of text that may be anything.

use switchyard_model::Printable;

/// A cell is never longer.
pub(super) const MAX_CELL: usize = 120;

/// Nor is one of a wide table.
pub(super) const MAX_WIDE_CELL: usize = 4_000;

/// Aligned lines: a header in capitals, then rows. Columns are two spaces apart, the last is not filled up.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    aligned(Some(header), rows, MAX_CELL)
}

/// The same, with or without a header, of cells of another length. What is longer than usual is not made room for in other rows.
pub(super) fn aligned(header: Option<&[&str]>, rows: &[Vec<String>], longest: usize) -> String {
    let header = header.map(|header| header.iter().map(|text| (*text).to_owned()).collect());
    let rows = rows.iter().map(|row| row.iter().map(|cell| cut(cell, longest)).collect());
    let lines: Vec<Vec<String>> = header.into_iter().chain(rows).collect();
    let mut widths: Vec<usize> = Vec::new();
    for line in &lines {
        widths.resize(widths.len().max(line.len()), 0);
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count().min(MAX_CELL));
        }
    }
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Printable, and not too long.
fn cut(cell: &str, longest: usize) -> String {
    let cell = printable(cell);
    if cell.chars().count() <= longest {
        return if cell.is_empty() { "-".to_owned() } else { cell };
    }
    cell.chars().take(longest.saturating_sub(1)).chain(['…']).collect()
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

    #[test]
    fn a_long_cell_of_a_wide_table_is_whole_and_takes_no_room_from_others() {
        let rows = [vec!["x".repeat(500), "a".to_owned()], vec!["y".to_owned(), "b".to_owned()]];
        let text = aligned(None, &rows, MAX_WIDE_CELL);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0].len(), lines[1].len()), (2, 503, MAX_CELL + 3));
        assert_eq!(aligned(Some(&["A"]), &[], MAX_CELL), "A\n");
    }
}
