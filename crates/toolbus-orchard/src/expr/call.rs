//! Function calls: arguments counted, converted, and looked at for what is unknown or sensitive
//! before the function itself is asked.

use std::cell::Cell;

use hcl_edit::Span as _;
use hcl_edit::expr::{Expression, FuncCall};

use super::Impure;
use super::eval::Evaluator;
use crate::diagnostic::{Code, Problem};
use crate::function::{self, Call, Fault, Function, Parameter, Sight};
use crate::value::{Kind, Type, Value};

impl Evaluator<'_> {
    pub(super) fn call(
        &mut self,
        call: &FuncCall,
        expression: &Expression,
    ) -> Result<Value, Problem> {
        let name = call.name.name.as_str();
        let function = match function::find(name) {
            Some(function) if !call.name.is_namespaced() => function,
            _ => return Err(self.unknown_function(call)),
        };
        if !call.args.expand_final() {
            self.check_count(function, call.args.len(), call)?;
        }
        // What looks at how its argument is evaluated cannot have it spread.
        match if call.args.expand_final() { "" } else { name } {
            "try" => return self.try_each(call),
            "can" => return self.can(call),
            "sensitive" => return Ok(self.only_argument(call)?.sensitive()),
            "nonsensitive" => return Ok(self.only_argument(call)?.bare()),
            "issensitive" => {
                let value = self.only_argument(call)?;
                return Ok(match value.contains_sensitive() {
                    // What the run brings may still be sensitive.
                    false if value.contains_unknown() => Value::unknown(Type::Bool),
                    is_sensitive => Value::bool(is_sensitive),
                });
            }
            _ => {}
        }
        let mut arguments = Vec::with_capacity(call.args.len());
        for argument in &call.args {
            let value = self.value(argument)?;
            self.look_through(&value, expression)?;
            arguments.push(value);
        }
        let mut taint = false;
        if call.args.expand_final() {
            let Some(last) = arguments.pop() else { return Ok(Value::NULL) };
            taint |= last.is_sensitive();
            match last.kind() {
                Kind::List(all) | Kind::Set(all) | Kind::Tuple(all) => {
                    arguments.extend(all.items().iter().cloned());
                }
                Kind::Unknown(ty) if !matches!(**ty, Type::String | Type::Number | Type::Bool) => {
                    return Ok(Value::unknown((function.gives)(&[])).with_sensitive(taint));
                }
                _ => {
                    let message = format!(
                        "what stands before `...` must be a list, not a {}",
                        last.kind_word()
                    );
                    let at = call.args.iter().last().unwrap_or(expression);
                    return Err(self.problem(Code::BadArgument, message, at));
                }
            }
            self.check_count(function, arguments.len(), call)?;
        }
        self.apply(function, arguments, taint, call, expression)
    }

    fn apply(
        &mut self,
        function: &Function,
        mut arguments: Vec<Value>,
        taint: bool,
        call: &FuncCall,
        expression: &Expression,
    ) -> Result<Value, Problem> {
        for (index, value) in arguments.iter_mut().enumerate() {
            let parameter = function.parameter(index);
            *value = function::argument(function, index, parameter, value)
                .map_err(|fault| self.fault(function, fault, call, expression))?;
        }
        let is_deep = function.sight == Sight::Deep;
        let taint = taint
            || arguments.iter().any(|value| match is_deep {
                true => value.contains_sensitive(),
                false => value.is_sensitive(),
            });
        let is_unknown = arguments.iter().any(|value| match is_deep {
            true => value.contains_unknown(),
            false => value.is_unknown(),
        });
        let asks_in_plan = function.is_impure && matches!(self.at.impure, Impure::Unknown);
        if is_unknown || asks_in_plan {
            let ty = (function.gives)(&arguments);
            return Ok(Value::unknown(ty).with_sensitive(taint));
        }
        let given = Call { arguments: &arguments, at: self.at, steps: Cell::new(0) };
        let result = (function.run)(&given);
        let value = result.map_err(|mut fault| {
            if taint {
                fault.hide();
            }
            self.fault(function, fault, call, expression)
        })?;
        self.step(given.steps.get(), expression)?;
        self.look_through(&value, expression)?;
        Ok(value.with_sensitive(taint))
    }

    fn only_argument(&mut self, call: &FuncCall) -> Result<Value, Problem> {
        match call.args.get(0) {
            Some(argument) => self.value(argument),
            None => Ok(Value::NULL),
        }
    }

    /// The first argument that evaluates; of an unknown one only the run can tell.
    fn try_each(&mut self, call: &FuncCall) -> Result<Value, Problem> {
        let mut last = None;
        for argument in &call.args {
            let outside = self.locals.len();
            match self.value(argument) {
                Ok(value) if value.contains_unknown() => {
                    let taint = value.contains_sensitive();
                    return Ok(Value::unknown(Type::Any).with_sensitive(taint));
                }
                Ok(value) => return Ok(value),
                Err(problem) if self.is_exhausted() => return Err(problem),
                Err(problem) => last = Some(problem),
            }
            self.locals.truncate(outside);
        }
        last.map_or(Ok(Value::NULL), Err)
    }

    fn can(&mut self, call: &FuncCall) -> Result<Value, Problem> {
        let outside = self.locals.len();
        match self.only_argument(call) {
            Ok(value) if value.contains_unknown() => {
                Ok(Value::unknown(Type::Bool).with_sensitive(value.contains_sensitive()))
            }
            Ok(value) => Ok(Value::bool(true).with_sensitive(value.contains_sensitive())),
            Err(problem) if self.is_exhausted() => Err(problem),
            Err(_) => {
                self.locals.truncate(outside);
                Ok(Value::bool(false))
            }
        }
    }

    fn check_count(
        &self,
        function: &Function,
        count: usize,
        call: &FuncCall,
    ) -> Result<(), Problem> {
        let most = function.parameters.len();
        let least = most - function.optional;
        if least <= count && (count <= most || function.rest.is_some()) {
            return Ok(());
        }
        let wanted = match (least, most, function.rest) {
            (0, 0, None) => "no arguments".to_owned(),
            (least, most, None) if least == most => plural(least),
            (least, most, None) => format!("{least} to {most} arguments"),
            (least, _, Some(_)) => format!("at least {}", plural(least)),
        };
        let name = function.name();
        let message = format!("`{name}` takes {wanted}, not {count}");
        let range = call.name.name.span().unwrap_or_default();
        let problem = self.problem_at(Code::BadArgument, message, range);
        Err(problem.help(format!("it is called as `{}`", function.usage)))
    }

    fn unknown_function(&self, call: &FuncCall) -> Problem {
        let name = call.name.name.as_str();
        let range = call.name.name.span().unwrap_or_default();
        let message = format!("there is no function `{name}`");
        let problem = self.problem_at(Code::UnknownFunction, message, range);
        match called_elsewhere(name) {
            Some(ours) => problem.help(format!("use `{ours}`")),
            None => problem.meant(name, function::names()),
        }
    }

    fn fault(
        &self,
        function: &Function,
        fault: Fault,
        call: &FuncCall,
        expression: &Expression,
    ) -> Problem {
        // Behind `...` several arguments stand at one place.
        let last = call.args.len().saturating_sub(1);
        let place = fault.argument.and_then(|index| call.args.get(index.min(last)));
        let message = format!("`{}`: {}", function.name(), fault.message);
        let mut problem = self.problem(fault.code, message, place.unwrap_or(expression));
        problem.help = fault.help;
        problem
    }
}

impl Function {
    fn parameter(&self, index: usize) -> Parameter {
        let named = self.parameters.get(index).copied();
        named.or(self.rest).unwrap_or(Parameter::Any)
    }
}

fn plural(count: usize) -> String {
    match count {
        1 => "1 argument".to_owned(),
        count => format!("{count} arguments"),
    }
}

/// What is called otherwise in languages that people come from.
fn called_elsewhere(name: &str) -> Option<&'static str> {
    Some(match name {
        "len" | "size" | "count" => "length(c)` or `strlen(s)",
        "upcase" | "uppercase" | "toupper" | "to_upper" => "upper(s)",
        "downcase" | "lowercase" | "tolower" | "to_lower" => "lower(s)",
        "capitalize" | "capitalise" | "titlecase" => "title(s)",
        "strip" => "trimspace(s)",
        "substring" | "mid" => "substr(s, offset, len)",
        "sprintf" | "printf" => "format(spec, v…)",
        "gsub" | "regexreplace" | "regex_replace" => "replace(s, find, with)",
        "match" | "regexmatch" => "regex(re, s)",
        "str" | "string" | "to_string" => "tostring(v)",
        "int" | "number" | "float" | "to_number" => "tonumber(v)",
        "bool" | "to_bool" => "tobool(v)",
        "list" | "array" => "tolist(v)",
        "set" | "unique" | "uniq" => "toset(v)` or `distinct(list)",
        "map" | "dict" => "tomap(v)",
        "typeof" => "type(v)",
        "first" | "last" | "nth" => "element(list, i)",
        "append" | "concatenate" => "concat(lists…)",
        "includes" | "has" | "contain" => "contains(c, v)",
        "now" | "plantimestamp" | "date" => "timestamp()",
        "textencodebase64" | "btoa" => "base64encode(s)",
        "textdecodebase64" | "atob" => "base64decode(s)",
        "bcrypt" | "sha" => "sha256(s)",
        "env" | "getenv" => "var.name` with `TOOLBUS_VAR_name",
        "random" | "rand" => "randint(low, high)",
        "parsejson" | "fromjson" | "json_decode" => "jsondecode(s)",
        "tojson" | "json" | "json_encode" => "jsonencode(v)",
        "readfile" | "read_file" | "templatefile" => "file(path)",
        "default" | "ifnull" => "coalesce(v…)",
        _ => return None,
    })
}
