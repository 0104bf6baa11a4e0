//! Columns under each other, two blanks between them, no lines drawn: it can be cut and grepped.

use super::width::{columns, cut, padded};

/// The rows, each ending with a newline, two blanks before each.
pub(crate) fn indented<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    plain(rows).lines().map(|line| format!("  {line}\n")).collect()
}

/// The rows, each ending with a newline.
///
/// A column is as wide as its widest cell; the last one is not padded.
pub(crate) fn plain<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let mut widths = [0; COLUMNS];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = columns(cell).max(*width);
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells = widths.iter().zip(row).map(|(width, cell)| padded(cell, *width));
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The rows in lines of at most `width` columns. Where that is too little, cells are cut: those
/// of the first of these columns down to the width beside it, then those of the next.
pub(crate) fn fitted<const COLUMNS: usize>(
    mut rows: Vec<[String; COLUMNS]>,
    width: usize,
    shrink: &[(usize, usize)],
) -> String {
    let widest = |rows: &[[String; COLUMNS]], at: usize| {
        rows.iter().map(|row| columns(&row[at])).max().unwrap_or(0)
    };
    for (column, least) in shrink {
        let widths = (0..COLUMNS).map(|at| widest(&rows, at));
        // Columns of nothing have blanks before them, which are not there at the end of a line.
        let total: usize = widths.filter(|width| *width != 0).map(|width| width + 2).sum();
        let over = total.saturating_sub(width + 2);
        let room = widest(&rows, *column).saturating_sub(over).max(*least);
        rows.iter_mut().for_each(|row| row[*column] = cut(&row[*column], room));
    }
    plain(&rows).lines().map(|line| format!("{}\n", cut(line, width))).collect()
}

#[cfg(test)]
mod tests {
    use super::{fitted, indented};

    #[test]
    fn what_is_too_wide_is_cut_where_it_hurts_least() {
        let rows = [["add", "a, b", "Adds two numbers"], ["upper", "text", "Shouts"]];
        let rows = || rows.map(|row| row.map(str::to_owned)).to_vec();
        let shrink = [(2, 6), (1, 3)];
        assert_eq!(
            fitted(rows(), 40, &shrink),
            "add    a, b  Adds two numbers\nupper  text  Shouts\n"
        );
        assert_eq!(fitted(rows(), 24, &shrink), "add    a, b  Adds two n…\nupper  text  Shouts\n");
        assert_eq!(fitted(rows(), 18, &shrink), "add    a,…  Adds…\nupper  te…  Shouts\n");
        assert_eq!(fitted(rows(), 10, &shrink), "add    a,…\nupper  te…\n");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["add", "a, b", "Adds"], ["größe", "", ""], ["upper", "text", "Shouts"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        let lines = ["  add    a, b  Adds", "  größe", "  upper  text  Shouts", ""];
        assert_eq!(indented(&rows), lines.join("\n"));
    }
}
