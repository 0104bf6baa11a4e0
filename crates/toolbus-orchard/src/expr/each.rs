//! `for` over lists, sets and maps, in expressions and in templates.

use std::collections::BTreeMap;

use hcl_edit::expr::{Expression, ForExpr};
use hcl_edit::{Decorated, Ident};

use super::eval::Evaluator;
use crate::diagnostic::{Code, Problem, excerpt};
use crate::value::{Kind, Type, Value, unify_all};

/// What a `for` goes through.
pub(super) struct Items {
    /// Key and value, or `None` where only the run will tell how many there are.
    pub(super) known: Option<Vec<(Value, Value)>>,
    /// Some key and some value, where it is not known.
    pub(super) sample: (Value, Value),
    pub(super) is_sensitive: bool,
}

impl Evaluator<'_> {
    /// The items of a collection, lists by index, maps by key.
    pub(super) fn items(&mut self, collection: &Expression) -> Result<Items, Problem> {
        let value = self.value(collection)?;
        let is_sensitive = value.is_sensitive();
        let none = (Value::NULL, Value::NULL);
        let known = match value.kind() {
            Kind::List(all) | Kind::Tuple(all) => {
                let indexes = (0..).map(|index: usize| Value::number(index));
                indexes.zip(all.items().iter().cloned()).collect()
            }
            Kind::Set(all) => all.items().iter().map(|it| (it.clone(), it.clone())).collect(),
            Kind::Map(all) | Kind::Object(all) => {
                let pair = |(key, value): (&String, &Value)| (key.as_str().into(), value.clone());
                all.items().iter().map(pair).collect()
            }
            Kind::Unknown(ty) => {
                let sample = sample(ty).ok_or_else(|| self.not_a_collection(&value, collection))?;
                return Ok(Items { known: None, sample, is_sensitive });
            }
            Kind::Null => {
                let message = "`for` needs a list, set or map, but this is null";
                return Err(self.problem(Code::NullValue, message, collection));
            }
            _ => return Err(self.not_a_collection(&value, collection)),
        };
        Ok(Items { known: Some(known), sample: none, is_sensitive })
    }

    fn not_a_collection(&self, value: &Value, collection: &Expression) -> Problem {
        let message =
            format!("`for` needs a list, set or map, but this is a {}", value.kind_word());
        self.problem(Code::TypeMismatch, message, collection)
    }

    pub(super) fn each(&mut self, each: &ForExpr) -> Result<Value, Problem> {
        let items = self.items(&each.intro.collection_expr)?;
        let mut result = Gathered { taint: items.is_sensitive, ..Gathered::default() };
        let is_unknown = items.known.is_none();
        for (key, value) in items.known.unwrap_or_else(|| vec![items.sample]) {
            let names = names(each.intro.key_var.as_ref(), &each.intro.value_var, key, value);
            self.with_locals(names, |evaluator| evaluator.item(each, &mut result))?;
        }
        result.is_unknown |= is_unknown;
        Ok(result.value(each))
    }

    /// One round: the key, if there is one, and the value go into the result.
    fn item(&mut self, each: &ForExpr, result: &mut Gathered) -> Result<(), Problem> {
        if let Some(cond) = &each.cond {
            let is_wanted = self.value(&cond.expr)?;
            let what = "the condition behind `if`";
            let is_wanted = self.converted(&is_wanted, &Type::Bool, what, &cond.expr)?;
            result.taint |= is_wanted.is_sensitive();
            match is_wanted.as_bool() {
                Some(true) => {}
                Some(false) => return Ok(()),
                None => result.is_unknown = true,
            }
        }
        let Some(key_expr) = &each.key_expr else {
            let value = self.value(&each.value_expr)?;
            result.take(&value).ok_or_else(|| self.too_big(&each.value_expr))?;
            result.elements.push(value);
            return Ok(());
        };
        let key = self.value(key_expr)?;
        let key = self.string(&key, "a key", key_expr)?;
        result.taint |= key.is_sensitive();
        let value = self.value(&each.value_expr)?;
        result.take(&value).ok_or_else(|| self.too_big(&each.value_expr))?;
        let Some(name) = key.as_str() else {
            result.is_unknown = true;
            result.elements.push(value);
            return Ok(());
        };
        let group = result.members.entry(name.to_owned()).or_default();
        if !each.grouping && !group.is_empty() {
            let message = match key.is_sensitive() || result.taint {
                true => "two items have the same key".to_owned(),
                false => format!("two items have the key {}", excerpt(name)),
            };
            let problem = self.problem(Code::Duplicate, message, key_expr);
            return Err(problem.help("to keep all of them write `...` behind the value"));
        }
        group.push(value);
        Ok(())
    }
}

/// Some key and value of a collection of this type; `None` if it is none.
fn sample(ty: &Type) -> Option<(Value, Value)> {
    let unknown = |ty: &Type| Value::unknown(ty.clone());
    let any_of = |types: &mut dyn Iterator<Item = &Type>| {
        Value::unknown(unify_all(types).unwrap_or(Type::Any))
    };
    Some(match ty {
        Type::Any => (unknown(ty), unknown(ty)),
        Type::List(element) => (unknown(&Type::Number), unknown(element)),
        Type::Set(element) => (unknown(element), unknown(element)),
        Type::Map(element) => (unknown(&Type::String), unknown(element)),
        Type::Tuple(types) => (unknown(&Type::Number), any_of(&mut types.iter())),
        Type::Object(fields) => {
            (unknown(&Type::String), any_of(&mut fields.values().map(|field| &field.ty)))
        }
        Type::String | Type::Number | Type::Bool => return None,
    })
}

/// The names that hold in one round.
pub(super) fn names(
    key_var: Option<&Decorated<Ident>>,
    value_var: &Decorated<Ident>,
    key: Value,
    value: Value,
) -> impl IntoIterator<Item = (String, Value)> {
    let key = key_var.map(|name| (name.as_str().to_owned(), key));
    key.into_iter().chain([(value_var.as_str().to_owned(), value)])
}

/// What has come together.
#[derive(Default)]
struct Gathered {
    elements: Vec<Value>,
    members: BTreeMap<String, Vec<Value>>,
    taint: bool,
    is_unknown: bool,
    count: usize,
    text_bytes: usize,
}

impl Gathered {
    /// Counts a value before it is kept; `None` if that is more than a value may be.
    fn take(&mut self, value: &Value) -> Option<()> {
        let much = value.summary();
        self.count += much.elements + 1;
        self.text_bytes += much.text_bytes;
        let fits = self.count <= crate::value::ELEMENTS_MAX
            && self.text_bytes <= crate::value::TEXT_BYTES_MAX;
        fits.then_some(())
    }

    fn value(self, each: &ForExpr) -> Value {
        let taint = self.taint;
        if self.is_unknown {
            let all = self.elements.iter().chain(self.members.values().flatten());
            let is_sensitive = all.clone().any(Value::contains_sensitive);
            let types: Vec<Type> = all.map(Value::ty).collect();
            let element = Box::new(unify_all(&types).unwrap_or(Type::Any));
            let ty = match (&each.key_expr, each.grouping) {
                (None, _) => Type::List(element),
                (Some(_), false) => Type::Map(element),
                (Some(_), true) => Type::Map(Box::new(Type::List(element))),
            };
            return Value::unknown(ty).with_sensitive(taint || is_sensitive);
        }
        let value = match (&each.key_expr, each.grouping) {
            (None, _) => Value::tuple(self.elements),
            (Some(_), true) => {
                let groups = self.members.into_iter();
                Value::object(groups.map(|(key, group)| (key, Value::tuple(group))).collect())
            }
            (Some(_), false) => {
                let members = self.members.into_iter();
                let first = |(key, mut group): (String, Vec<Value>)| Some((key, group.pop()?));
                Value::object(members.filter_map(first).collect())
            }
        };
        value.with_sensitive(taint)
    }
}
