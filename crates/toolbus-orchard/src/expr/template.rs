//! Templates: text with `${…}` and `%{…}` in it, between quotes or as a heredoc.

use hcl_edit::expr::Expression;
use hcl_edit::template::{
    Directive, Element, ForDirective, IfDirective, Interpolation, Strip, Template,
};

use super::each::names;
use super::eval::Evaluator;
use crate::diagnostic::Problem;
use crate::value::{TEXT_BYTES_MAX, Type, Value};

/// What has been written so far.
#[derive(Default)]
struct Text {
    out: String,
    is_unknown: bool,
    is_sensitive: bool,
}

/// Is the white space at its ends to go, because what stands beside it has a `~`?
#[derive(Clone, Copy, Default)]
struct Trim {
    start: bool,
    end: bool,
}

impl Evaluator<'_> {
    pub(super) fn template(&mut self, expression: &Expression) -> Result<Value, Problem> {
        let elements: Vec<&Element> = match expression {
            Expression::StringTemplate(template) => template.iter().collect(),
            Expression::HeredocTemplate(heredoc) => heredoc.template.iter().collect(),
            _ => Vec::new(),
        };
        // Alone, it is not made text: `"${x}"` is x itself.
        if let [Element::Interpolation(only)] = elements[..] {
            return self.value(&only.expr);
        }
        let mut text = Text::default();
        self.elements(&elements, Trim::default(), &mut text, expression)?;
        let value = match text.is_unknown {
            true => Value::unknown(Type::String),
            false => Value::string(text.out),
        };
        Ok(value.with_sensitive(text.is_sensitive))
    }

    fn nested(
        &mut self,
        template: &Template,
        trim: Trim,
        text: &mut Text,
        whole: &Expression,
    ) -> Result<(), Problem> {
        let elements: Vec<&Element> = template.iter().collect();
        self.elements(&elements, trim, text, whole)
    }

    fn elements(
        &mut self,
        elements: &[&Element],
        trim: Trim,
        text: &mut Text,
        whole: &Expression,
    ) -> Result<(), Problem> {
        for (index, element) in elements.iter().enumerate() {
            match element {
                Element::Literal(literal) => {
                    let before = index.checked_sub(1).map(|index| elements[index]);
                    let behind = elements.get(index + 1);
                    let mut literal = literal.value().as_str();
                    if before.map_or(trim.start, trims_behind) {
                        literal = trimmed_start(literal);
                    }
                    if behind.map_or(trim.end, |element| trims_before(element)) {
                        literal = trimmed_end(literal);
                    }
                    self.write(text, literal, whole)?;
                }
                Element::Interpolation(interpolation) => {
                    self.interpolation(interpolation, text, whole)?;
                }
                Element::Directive(directive) => match &**directive {
                    Directive::If(choice) => self.choice(choice, text, whole)?,
                    Directive::For(each) => self.repeated(each, text, whole)?,
                },
            }
        }
        Ok(())
    }

    fn write(&mut self, text: &mut Text, more: &str, whole: &Expression) -> Result<(), Problem> {
        if TEXT_BYTES_MAX < text.out.len() + more.len() {
            return Err(self.too_big(whole));
        }
        self.step_over_text(more.len(), whole)?;
        text.out.push_str(more);
        Ok(())
    }

    fn interpolation(
        &mut self,
        interpolation: &Interpolation,
        text: &mut Text,
        whole: &Expression,
    ) -> Result<(), Problem> {
        let value = self.value(&interpolation.expr)?;
        let value = self.string(&value, "what a template puts in", &interpolation.expr)?;
        text.is_sensitive |= value.is_sensitive();
        match value.as_str() {
            Some(more) => self.write(text, more, whole),
            None => {
                text.is_unknown = true;
                Ok(())
            }
        }
    }

    fn choice(
        &mut self,
        choice: &IfDirective,
        text: &mut Text,
        whole: &Expression,
    ) -> Result<(), Problem> {
        let condition = &choice.if_expr.cond_expr;
        let holds = self.value(condition)?;
        let holds = self.converted(&holds, &Type::Bool, "the condition", condition)?;
        text.is_sensitive |= holds.is_sensitive();
        let end = choice.endif_expr.strip;
        let behind = choice.else_expr.as_ref().map_or(end, |other| other.strip);
        let one = Trim { start: strips_end(choice.if_expr.strip), end: strips_start(behind) };
        let other = choice.else_expr.as_ref().map(|other| {
            (&other.template, Trim { start: strips_end(other.strip), end: strips_start(end) })
        });
        match (holds.as_bool(), other) {
            (Some(true), _) => self.nested(&choice.if_expr.template, one, text, whole),
            (Some(false), Some((template, trim))) => self.nested(template, trim, text, whole),
            (Some(false), None) => Ok(()),
            (None, other) => {
                text.is_unknown = true;
                let mut both = vec![(&choice.if_expr.template, one)];
                both.extend(other);
                for (template, trim) in both {
                    // What is wrong in a part that may not be wanted does not count.
                    let mut aside = Text::default();
                    let outside = self.locals.len();
                    let result = self.nested(template, trim, &mut aside, whole);
                    self.locals.truncate(outside);
                    if self.is_exhausted() {
                        return result;
                    }
                    text.is_sensitive |= aside.is_sensitive;
                }
                Ok(())
            }
        }
    }

    fn repeated(
        &mut self,
        each: &ForDirective,
        text: &mut Text,
        whole: &Expression,
    ) -> Result<(), Problem> {
        let intro = &each.for_expr;
        let items = self.items(&intro.collection_expr)?;
        text.is_sensitive |= items.is_sensitive;
        text.is_unknown |= items.known.is_none();
        let trim =
            Trim { start: strips_end(intro.strip), end: strips_start(each.endfor_expr.strip) };
        for (key, value) in items.known.unwrap_or_else(|| vec![items.sample]) {
            self.step(1, whole)?;
            let names = names(intro.key_var.as_ref(), &intro.value_var, key, value);
            self.with_locals(names, |evaluator| {
                evaluator.nested(&intro.template, trim, text, whole)
            })?;
        }
        Ok(())
    }
}

/// Without the blanks in front, up to the first line break and with it: what stands on the
/// next line keeps its indent.
fn trimmed_start(text: &str) -> &str {
    let text = text.trim_start_matches(is_blank);
    text.strip_prefix("\r\n").or_else(|| text.strip_prefix('\n')).unwrap_or(text)
}

/// The same at the end.
fn trimmed_end(text: &str) -> &str {
    let text = text.trim_end_matches(is_blank);
    text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n')).unwrap_or(text)
}

fn is_blank(char: char) -> bool {
    char.is_whitespace() && char != '\n' && char != '\r'
}

/// Does white space behind this go?
fn trims_behind(element: &Element) -> bool {
    strips_end(match element {
        Element::Literal(_) => Strip::None,
        Element::Interpolation(interpolation) => interpolation.strip,
        Element::Directive(directive) => match &**directive {
            Directive::If(choice) => choice.endif_expr.strip,
            Directive::For(each) => each.endfor_expr.strip,
        },
    })
}

/// Does white space before this go?
fn trims_before(element: &Element) -> bool {
    strips_start(match element {
        Element::Literal(_) => Strip::None,
        Element::Interpolation(interpolation) => interpolation.strip,
        Element::Directive(directive) => match &**directive {
            Directive::If(choice) => choice.if_expr.strip,
            Directive::For(each) => each.for_expr.strip,
        },
    })
}

fn strips_start(strip: Strip) -> bool {
    strip.strip_start()
}

fn strips_end(strip: Strip) -> bool {
    strip.strip_end()
}
