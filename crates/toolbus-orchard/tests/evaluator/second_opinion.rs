//! What others make of the same expression: `hcl-rs`, where it means the same (small whole
//! numbers, operands that need no conversion, branches of one type), and the reference
//! implementation in Go, by a table of what it gave.

use std::str::FromStr;

use hcl::eval::Evaluate;
use proptest::prelude::*;

use crate::evaluator::evaluating::planned;

/// Expressions by what they give.
#[derive(Debug, Clone)]
struct Texts {
    number: BoxedStrategy<String>,
    bool: BoxedStrategy<String>,
    text: BoxedStrategy<String>,
    list: BoxedStrategy<String>,
    object: BoxedStrategy<String>,
}

fn leaves() -> Texts {
    let words = "[a-c]{0,3}| ?x ?|é|\\\\n|\\$\\$\\{|%%\\{|\\\\u00e9";
    let key = prop::sample::select(vec!["a", "b"]);
    Texts {
        number: prop_oneof![
            (0i64..20).prop_map(|number| number.to_string()),
            (1i64..9).prop_map(|number| format!("-{number}"))
        ]
        .boxed(),
        bool: any::<bool>().prop_map(|bool| bool.to_string()).boxed(),
        text: words.prop_map(|word| format!("\"{word}\"")).boxed(),
        list: Just("[1, 2]".to_owned()).boxed(),
        object: key.prop_map(|key| format!("{{ {key} = 1, c = 2 }}")).boxed(),
    }
}

fn deeper(inner: &Texts) -> Texts {
    let Texts { number, bool, text, list, object } = inner.clone();
    let strip = || prop::sample::select(vec!["", "~"]);
    let template = (text.clone(), text.clone(), number.clone(), strip(), strip()).prop_map(
        |(before, inner, number, start, end)| {
            let before = before.trim_matches('"').to_owned();
            format!("\"{before} ${{{start}{inner}{end}}} ${{{start} {number} {end}}} {before}\"")
        },
    );
    let choice = (bool.clone(), text.clone(), strip(), strip()).prop_map(|(cond, inner, start, end)| {
        format!("\"x %{{{start} if {cond} {end}}} ${{{inner}}} %{{{start} else {end}}} y %{{{start} endif {end}}} z\"")
    });
    let repeated = (list.clone(), strip(), strip()).prop_map(|(list, start, end)| {
        format!("\"x %{{{start} for i, e in {list} {end}}} ${{i}} %{{{start} endfor {end}}} z\"")
    });
    Texts {
        number: prop_oneof![
            number.clone(),
            (number.clone(), prop::sample::select(vec!["+", "-", "*"]), number.clone())
                .prop_map(|(one, op, two)| format!("({one} {op} {two})")),
            (number.clone(), 1..7).prop_map(|(one, two)| format!("({one} % {two})")),
            (bool.clone(), number.clone(), number.clone())
                .prop_map(|(cond, one, two)| format!("({cond} ? {one} : {two})")),
            number.clone().prop_map(|number| format!("{{ k = {number} }}.k")),
            (number.clone(), number.clone()).prop_map(|(one, two)| format!("[{one}, {two}][1]")),
        ]
        .boxed(),
        bool: prop_oneof![
            (
                number.clone(),
                prop::sample::select(vec!["<", "<=", ">", ">=", "==", "!="]),
                number.clone()
            )
                .prop_map(|(one, op, two)| format!("({one} {op} {two})")),
            (bool.clone(), prop::sample::select(vec!["&&", "||", "==", "!="]), bool.clone())
                .prop_map(|(one, op, two)| format!("({one} {op} {two})")),
            (text.clone(), text.clone()).prop_map(|(one, two)| format!("({one} == {two})")),
            (list.clone(), list.clone()).prop_map(|(one, two)| format!("({one} != {two})")),
            bool.clone().prop_map(|bool| format!("!{bool}")),
        ]
        .boxed(),
        text: prop_oneof![
            text.clone(),
            template,
            choice,
            repeated,
            (bool.clone(), text.clone(), text.clone())
                .prop_map(|(cond, one, two)| format!("({cond} ? {one} : {two})")),
            text.clone().prop_map(|text| format!("\"${{{text}}}\"")),
        ]
        .boxed(),
        list: prop_oneof![
            (number.clone(), text.clone()).prop_map(|(number, text)| format!("[{number}, {text}]")),
            (list.clone(), list.clone()).prop_map(|(one, two)| format!("[{one}, {two}]")),
            list.clone().prop_map(|list| format!("[for i, e in {list} : [i, e] if i < 1]")),
            list.clone().prop_map(|list| format!("[for e in {list} : {{ a = e }}][*].a")),
            list.clone().prop_map(|list| format!("[for e in {list} : {{ a = [e, 1] }}].*.a[0]")),
            object.clone().prop_map(|object| format!("[for k, v in {object} : k]")),
            object.clone().prop_map(|object| format!("{object}[*].c")),
            Just("null[*]".to_owned()),
        ]
        .boxed(),
        object: prop_oneof![
            (text.clone(), list.clone())
                .prop_map(|(text, list)| format!("{{ a = {text}, c = {list} }}")),
            list.clone().prop_map(|list| format!("{{ c = [for e in {list} : e] }}")),
            object.clone().prop_map(|object| format!("{{ for k, v in {object} : k => [v] }}")),
            list.clone()
                .prop_map(|list| format!("{{ c = {{ for i, e in {list} : \"k\" => e... }} }}")),
        ]
        .boxed(),
    }
}

fn any_expression() -> BoxedStrategy<String> {
    let texts = (0..3).fold(leaves(), |inner, _| deeper(&inner));
    prop_oneof![texts.number, texts.bool, texts.text, texts.list, texts.object].boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn both_agree(text in any_expression()) {
        let theirs = hcl::Expression::from_str(&text).ok().map(|expression| {
            expression.evaluate(&hcl::eval::Context::new()).map_err(|error| error.to_string())
        });
        let Some(Ok(theirs)) = theirs else { return Ok(()) };
        let theirs: serde_json::Value = serde_json::to_value(&theirs).unwrap();
        let ours = planned(&text);
        prop_assert!(ours.is_ok(), "{}\n{:?}\n{}", text, ours, theirs);
        let ours = ours.unwrap().to_json().unwrap();
        let ours: serde_json::Value = serde_json::from_str(ours.as_str()).unwrap();
        prop_assert_eq!(&ours, &theirs, "{}", text);
    }
}

/// Each line of `reference.txt` is `EXPRESSION → JSON : TYPE` or `EXPRESSION → error`, written by
/// `interop/hcl` with hcl 2.25 and cty 1.19. Behind ` ≠ ` stands what we give instead, where the
/// language of scenarios has a rule of its own.
#[test]
fn the_reference_implementation_agrees() {
    let table = include_str!("reference.txt");
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (text, theirs) = line.split_once(" → ").expect(line);
        let expected = theirs.split_once(" ≠ ").map_or(theirs, |(_, ours)| ours);
        let ours = match planned(text) {
            Ok(value) => format!("{} : {}", value.shown(), value.ty()),
            Err(_) => "error".to_owned(),
        };
        count += 1;
        if ours != expected {
            let message = planned(text).err().map(|problem| problem.message).unwrap_or_default();
            wrong.push(format!("{text} → {expected}\n  ours: {ours} {message}"));
        }
    }
    assert!(900 < count, "{count}");
    assert!(wrong.is_empty(), "{} of {count}\n{}", wrong.len(), wrong.join("\n"));
}
