//! Values that must fit a type as they are: what a provider takes.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::{Misfit, Mismatch, Step, name, next_kind, shown, unfit};
use crate::json::{Kind, Scanner};
use crate::jsonrpc::kind;
use crate::orchard::types::{Presence, Type};

/// Looks through the value once.
pub(super) fn check(ty: &Type, value: &str) -> Result<(), Mismatch> {
    // Most are of a kind that need not be looked into.
    match (ty, kind(value)) {
        (Type::Any, _)
        | (Type::String, Kind::String)
        | (Type::Number, Kind::Number)
        | (Type::Bool, Kind::Bool) => Ok(()),
        _ => Checker { path: Vec::new() }.value(ty, &mut Scanner::new(value)),
    }
}

struct Checker<'a> {
    path: Vec<Step<'a>>,
}

impl<'a> Checker<'a> {
    fn value(&mut self, ty: &Type, scanner: &mut Scanner<'a>) -> Result<(), Mismatch> {
        let kind = next_kind(scanner);
        match (ty, kind) {
            (Type::Any, _)
            | (Type::String, Kind::String)
            | (Type::Number, Kind::Number)
            | (Type::Bool, Kind::Bool) => self.pass(scanner),
            (Type::List(element) | Type::Set(element), Kind::Array) => {
                self.array(scanner, |_| Some(&**element)).map(drop)
            }
            (Type::Tuple(elements), Kind::Array) => {
                let got = self.array(scanner, |index| elements.get(index))?;
                match got == elements.len() {
                    true => Ok(()),
                    false => Err(self.misfit(Misfit::Length { want: elements.len(), got })),
                }
            }
            (Type::Map(element), Kind::Object) => {
                self.members(scanner, |_| Some((&**element, false))).map(drop)
            }
            (Type::Object(fields), Kind::Object) => {
                let seen = self.members(scanner, |name| {
                    fields.get(name).map(|field| (&field.ty, field.presence != Presence::Required))
                })?;
                for (name, field) in fields {
                    if field.presence == Presence::Required && !seen.contains(name.as_str()) {
                        self.path.push(Step::Key(Cow::Owned(name.clone())));
                        return Err(self.misfit(Misfit::Required));
                    }
                }
                Ok(())
            }
            _ => Err(self.misfit(unfit(ty, kind))),
        }
    }

    fn array<'t>(
        &mut self,
        scanner: &mut Scanner<'a>,
        ty: impl Fn(usize) -> Option<&'t Type>,
    ) -> Result<usize, Mismatch> {
        scanner.enter_array();
        let mut count = 0;
        while scanner.more(count == 0, b']').map_err(|error| self.misfit(Misfit::NotJson(error)))? {
            match ty(count) {
                Some(ty) => self.step(Step::Index(count), ty, scanner)?,
                None => self.pass(scanner)?,
            }
            count += 1;
        }
        Ok(count)
    }

    /// Checks the members that `ty` has a type for; the flag beside it says that `null` will do.
    fn members<'t>(
        &mut self,
        scanner: &mut Scanner<'a>,
        ty: impl Fn(&str) -> Option<(&'t Type, bool)>,
    ) -> Result<BTreeSet<Cow<'a, str>>, Mismatch> {
        scanner.enter_object();
        let mut seen = BTreeSet::new();
        let mut first = true;
        loop {
            let key = scanner.key(first).map_err(|error| self.misfit(Misfit::NotJson(error)))?;
            let Some(key) = key else { return Ok(seen) };
            first = false;
            let name = name(key);
            match ty(&name) {
                Some((_, true)) if next_kind(scanner) == Kind::Null => self.pass(scanner)?,
                Some((ty, _)) => self.step(Step::Key(name.clone()), ty, scanner)?,
                None => self.pass(scanner)?,
            }
            seen.insert(name);
        }
    }

    fn step(
        &mut self,
        step: Step<'a>,
        ty: &Type,
        scanner: &mut Scanner<'a>,
    ) -> Result<(), Mismatch> {
        self.path.push(step);
        self.value(ty, scanner)?;
        self.path.pop();
        Ok(())
    }

    fn pass(&self, scanner: &mut Scanner<'a>) -> Result<(), Mismatch> {
        scanner.value().map(drop).map_err(|error| self.misfit(Misfit::NotJson(error)))
    }

    fn misfit(&self, fault: Misfit) -> Mismatch {
        Mismatch { path: shown(&self.path), fault }
    }
}
