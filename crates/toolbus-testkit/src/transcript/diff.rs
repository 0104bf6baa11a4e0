//! How two conversations differ, line by line.

/// The lines of both: two blanks before what they share, `-` before what was expected, `+`
/// before what was found.
pub(super) fn diff(expected: &str, found: &str) -> String {
    let expected: Vec<&str> = expected.lines().collect();
    let found: Vec<&str> = found.lines().collect();
    let shared = shared(&expected, &found);
    let mut out = String::new();
    let mut write = |mark: &str, line: &str| {
        out.push_str(mark);
        out.push_str(line);
        out.push('\n');
    };
    let (mut left, mut right) = (0, 0);
    while left < expected.len() || right < found.len() {
        if left < expected.len() && right < found.len() && expected[left] == found[right] {
            write("  ", expected[left]);
            left += 1;
            right += 1;
        } else if right == found.len()
            || left < expected.len() && shared[left][right + 1] <= shared[left + 1][right]
        {
            write("- ", expected[left]);
            left += 1;
        } else {
            write("+ ", found[right]);
            right += 1;
        }
    }
    out
}

/// How many lines `left[i..]` and `right[j..]` share in order, for every `i` and `j`.
fn shared(left: &[&str], right: &[&str]) -> Vec<Vec<usize>> {
    let mut shared = vec![vec![0; right.len() + 1]; left.len() + 1];
    for i in (0..left.len()).rev() {
        for j in (0..right.len()).rev() {
            shared[i][j] = if left[i] == right[j] {
                shared[i + 1][j + 1] + 1
            } else {
                shared[i + 1][j].max(shared[i][j + 1])
            };
        }
    }
    shared
}
