//! Columns under each other, two blanks between them, no lines drawn: it can be cut and grepped.

/// The rows, each ending with a newline, two blanks before each.
pub(crate) fn indented<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    plain(rows).lines().map(|line| format!("  {line}\n")).collect()
}

/// The rows, each ending with a newline.
///
/// A column is as wide as its widest cell, counted in characters; the last one is not padded.
pub(crate) fn plain<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let mut widths = [0; COLUMNS];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells = widths.iter().zip(row).map(|(width, cell)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::indented;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["add", "a, b", "Adds"], ["größe", "", ""], ["upper", "text", "Shouts"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        let lines = ["  add    a, b  Adds", "  größe", "  upper  text  Shouts", ""];
        assert_eq!(indented(&rows), lines.join("\n"));
    }
}
