//! What is typed on the terminal, and what is not shown.
//!
//! A line `$ COMMAND` is typed and run, `# WORDS` is typed and does nothing, `% COMMAND` is run
//! without a trace, `~ COMMAND` without being typed, `. SECONDS` is time to read, `= TITLE` names the picture. What begins with
//! blanks continues the line before it.

use std::time::Duration;

#[derive(Debug, PartialEq)]
pub(crate) struct Script {
    pub(crate) title: String,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// This is typed and, unless it is a remark, run.
    Typed {
        line: String,
        command: Option<String>,
    },
    Hidden(String),
    /// This is run while what was started before goes on.
    Meanwhile(String),
    Pause(Duration),
}

impl Script {
    pub(crate) fn parse(text: &str) -> Result<Script, String> {
        let mut script = Script { title: String::new(), steps: Vec::new() };
        let mut lines = text.lines().enumerate().peekable();
        while let Some((at, line)) = lines.next() {
            let mut line = line.to_owned();
            while let Some((_, more)) = lines.next_if(|(_, next)| next.starts_with("  ")) {
                line.push('\n');
                line.push_str(more);
            }
            let Some((mark, rest)) = line.split_once(' ') else {
                if line.is_empty() {
                    continue;
                }
                return Err(format!("line {}: `{line}` has no blank behind its mark", at + 1));
            };
            match mark {
                "=" => rest.clone_into(&mut script.title),
                "$" => script
                    .steps
                    .push(Step::Typed { line: rest.to_owned(), command: Some(rest.to_owned()) }),
                "#" => script.steps.push(Step::Typed { line: line.clone(), command: None }),
                "%" => script.steps.push(Step::Hidden(rest.to_owned())),
                "~" => script.steps.push(Step::Meanwhile(rest.to_owned())),
                "." => match rest.parse() {
                    Ok(seconds) => script.steps.push(Step::Pause(Duration::from_secs_f32(seconds))),
                    Err(_) => return Err(format!("line {}: `{rest}` is no number", at + 1)),
                },
                _ => return Err(format!("line {}: `{mark}` is none of = $ # % ~ .", at + 1)),
            }
        }
        Ok(script)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_say_what_a_line_is() {
        let script =
            Script::parse("= A title\n\n% cd /x\n  ls\n~ ls\n$ toolbus tools\n# so\n. 1.5\n");
        let typed = |line: &str, runs| Step::Typed { line: line.into(), command: runs };
        assert_eq!(
            script.unwrap(),
            Script {
                title: "A title".into(),
                steps: vec![
                    Step::Hidden("cd /x\n  ls".into()),
                    Step::Meanwhile("ls".into()),
                    typed("toolbus tools", Some("toolbus tools".into())),
                    typed("# so", None),
                    Step::Pause(Duration::from_millis(1500)),
                ],
            }
        );
        assert_eq!(Script::parse("! x").unwrap_err(), "line 1: `!` is none of = $ # % ~ .");
        assert_eq!(Script::parse("\n. x").unwrap_err(), "line 2: `x` is no number");
        assert_eq!(Script::parse("$x").unwrap_err(), "line 1: `$x` has no blank behind its mark");
    }
}
