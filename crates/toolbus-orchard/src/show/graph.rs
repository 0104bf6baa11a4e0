//! Which action needs which, for programs that draw.

use std::fmt::Write as _;

use toolbus_proto::json::write_string;

use crate::plan::Graph;

/// In the language of Graphviz.
pub fn dot(name: &str, graph: &Graph) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let mut out = format!("digraph {} {{\n", quoted(name));
    for node in &graph.nodes {
        let _ = writeln!(out, "  {};", quoted(node));
    }
    for (from, to) in edges(graph) {
        let _ = writeln!(out, "  {} -> {};", quoted(&graph.nodes[from]), quoted(&graph.nodes[to]));
    }
    out.push_str("}\n");
    out
}

/// In the language of Mermaid.
pub fn mermaid(graph: &Graph) -> String {
    let mut out = "graph TD\n".to_owned();
    for (index, node) in graph.nodes.iter().enumerate() {
        let _ = writeln!(out, "  n{}[\"{}\"]", index + 1, node.replace('"', "#quot;"));
    }
    for (from, to) in edges(graph) {
        let _ = writeln!(out, "  n{} --> n{}", from + 1, to + 1);
    }
    out
}

/// As one line of JSON.
pub fn json(name: &str, graph: &Graph) -> String {
    let mut out = b"{\"format_version\":\"1.0\",\"kind\":\"graph\",\"scenario\":".to_vec();
    write_string(&mut out, name);
    out.extend_from_slice(b",\"nodes\":[");
    for (index, node) in graph.nodes.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"" } else { b"," });
        write_string(&mut out, node);
    }
    out.extend_from_slice(b"],\"edges\":[");
    for (index, (from, to)) in edges(graph).enumerate() {
        out.extend_from_slice(if index == 0 { b"{\"from\":" } else { b",{\"from\":" });
        write_string(&mut out, &graph.nodes[from]);
        out.extend_from_slice(b",\"to\":");
        write_string(&mut out, &graph.nodes[to]);
        out.push(b'}');
    }
    out.extend_from_slice(b"]}\n");
    String::from_utf8_lossy(&out).into_owned()
}

/// From what is needed to what needs it.
fn edges(graph: &Graph) -> impl Iterator<Item = (usize, usize)> {
    let needs = graph.depends_on.iter().enumerate();
    needs.flat_map(|(to, needs)| needs.iter().map(move |from| (*from, to)))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn what_is_needed_points_at_what_needs_it() {
        let graph = Graph {
            nodes: ["action.a.x[\"k\"]", "action.a.y"].map(str::to_owned).to_vec(),
            depends_on: vec![[].into(), [0].into()],
        };
        let all = [dot("s\"x", &graph), mermaid(&graph), json("s", &graph)].concat();
        expect![[r#"
            digraph "s\"x" {
              "action.a.x[\"k\"]";
              "action.a.y";
              "action.a.x[\"k\"]" -> "action.a.y";
            }
            graph TD
              n1["action.a.x[#quot;k#quot;]"]
              n2["action.a.y"]
              n1 --> n2
            {"format_version":"1.0","kind":"graph","scenario":"s","nodes":["action.a.x[\"k\"]","action.a.y"],"edges":[{"from":"action.a.x[\"k\"]","to":"action.a.y"}]}
        "#]]
        .assert_eq(&all);
    }
}
