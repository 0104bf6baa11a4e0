//! The attributes and blocks inside a block, taken out one by one; what is left over is unknown.

use hcl_edit::Span as _;
use hcl_edit::expr::Expression;
use hcl_edit::structure::{Block, Body, Structure};
use toolbus_proto::orchard::types::Type;

use super::{Attribute, Expr, Name};
use crate::diagnostic::{Code, FileId, Problem, Span};
use crate::value::Value;

/// Who reads one file, and what was found wrong.
pub(super) struct Reader<'a> {
    pub(super) file: FileId,
    pub(super) text: &'a str,
    pub(super) problems: &'a mut Vec<Problem>,
}

/// A block with its labels.
pub(super) struct Labelled {
    pub(super) labels: Vec<Name>,
    pub(super) header: Span,
    pub(super) fields: Fields,
}

/// What is inside a block.
pub(super) struct Fields {
    pub(super) attributes: Vec<Attribute>,
    pub(super) blocks: Vec<Block>,
}

impl Fields {
    /// Takes the attribute of this name out.
    pub(super) fn take(&mut self, name: &str) -> Option<Attribute> {
        let at = self.attributes.iter().position(|attribute| attribute.name.text == name)?;
        Some(self.attributes.remove(at))
    }
}

impl Reader<'_> {
    pub(super) fn problem(&mut self, code: Code, span: Span, message: impl Into<String>) {
        self.problems.push(Problem::error(code, message).at(span));
    }

    pub(super) fn span(&self, range: Option<std::ops::Range<usize>>) -> Span {
        Span::new(self.file, range.unwrap_or_default())
    }

    pub(super) fn expr(&self, expression: Expression) -> Expr {
        Expr::new(self.file, expression)
    }

    pub(super) fn fields(&self, body: Body) -> Fields {
        let mut fields = Fields { attributes: Vec::new(), blocks: Vec::new() };
        for structure in body {
            match structure {
                Structure::Attribute(attribute) => {
                    let span = self.span(attribute.key.span());
                    let name = Name { text: attribute.key.as_str().to_owned(), span };
                    fields.attributes.push(Attribute { name, value: self.expr(attribute.value) });
                }
                Structure::Block(block) => fields.blocks.push(block),
            }
        }
        fields
    }

    /// The block, if it has as many labels as `wanted` names.
    pub(super) fn labelled(&mut self, block: Block, wanted: &[&str]) -> Option<Labelled> {
        let header = self.header(&block);
        if block.labels.len() != wanted.len() {
            let kind = block.ident.as_str();
            let shown: String = wanted.iter().map(|label| format!(" \"{label}\"")).collect();
            let count = match wanted.len() {
                0 => "no label",
                1 => "one label",
                _ => "two labels",
            };
            let message = format!("`{kind}` takes {count}");
            let problem = Problem::error(Code::Syntax, message).at(header);
            self.problems.push(problem.help(format!("write `{kind}{shown} {{`")));
            return None;
        }
        let name = |label: &hcl_edit::structure::BlockLabel| Name {
            text: label.as_str().to_owned(),
            span: self.span(label.span()),
        };
        let labels = block.labels.iter().map(name).collect();
        let fields = self.fields(block.body);
        Some(Labelled { labels, header, fields })
    }

    /// From the block's keyword to its last label.
    pub(super) fn header(&self, block: &Block) -> Span {
        let ident = block.ident.span().unwrap_or_default();
        let last = block.labels.last().and_then(hcl_edit::Span::span);
        Span::new(self.file, ident.start..last.map_or(ident.end, |label| label.end))
    }

    /// What is left over of a block that knows these attributes and blocks.
    pub(super) fn nothing_else(
        &mut self,
        what: &str,
        fields: Fields,
        attributes: &[&str],
        blocks: &[&str],
    ) {
        for attribute in fields.attributes {
            self.unknown_attribute(what, &attribute, attributes, blocks);
        }
        for block in &fields.blocks {
            self.unknown_block(what, block, blocks, attributes);
        }
    }

    fn unknown_attribute(
        &mut self,
        what: &str,
        attribute: &Attribute,
        attributes: &[&str],
        blocks: &[&str],
    ) {
        let name = &attribute.name.text;
        let message = format!("{what} has no attribute `{name}`");
        let problem =
            Problem::error(Code::UnknownAttribute, message).at(attribute.name.span.clone());
        self.problems.push(match blocks.contains(&name.as_str()) {
            true => problem.help(format!("`{name}` is a block: write `{name} {{`")),
            false => problem.meant(name, attributes.iter().copied()),
        });
    }

    pub(super) fn unknown_block(
        &mut self,
        what: &str,
        block: &Block,
        blocks: &[&str],
        attributes: &[&str],
    ) {
        let name = block.ident.as_str();
        let message = format!("{what} has no block `{name}`");
        let problem = Problem::error(Code::UnknownBlock, message).at(self.header(block));
        self.problems.push(match attributes.contains(&name) {
            true => problem.help(format!("`{name}` is an attribute: write `{name} = `")),
            false => problem.meant(name, blocks.iter().copied()),
        });
    }

    pub(super) fn duplicate(&mut self, what: &str, again: Span, first: Span) {
        let problem = Problem::error(Code::Duplicate, format!("{what} is declared twice"));
        self.problems.push(problem.at(again).label(first, "first here"));
    }

    /// A value that is the same in every run: it may refer to nothing.
    pub(super) fn constant(&mut self, attribute: &Attribute, ty: &Type) -> Option<Value> {
        match super::constant(&attribute.value, ty) {
            Ok(value) => Some(value),
            Err(problem) => {
                self.problems.push(problem);
                None
            }
        }
    }

    /// The text of an attribute that may refer to nothing.
    pub(super) fn text(&mut self, attribute: Option<Attribute>) -> Option<String> {
        let value = self.constant(&attribute?, &Type::String)?;
        value.as_str().map(str::to_owned)
    }

    /// Is it `true`? Left out it is not.
    pub(super) fn flag(&mut self, attribute: Option<Attribute>) -> bool {
        let value = attribute.and_then(|attribute| self.constant(&attribute, &Type::Bool));
        value.and_then(|value| value.as_bool()).unwrap_or(false)
    }
}
