//! The scenario unfolded: every component and action as often as it stands there, with the
//! names by which they find each other. It is built while planning and only looked at later.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use toolbus_proto::orchard::schema::{self, ProviderSchema};

use crate::diagnostic::Problem;
use crate::model::{Action, Body, ComponentBlock, Item};
use crate::source::Sources;
use crate::value::{Type, Value};

/// How many actions, or components, a scenario may have.
pub const NODES_MAX: usize = 10_000;

/// A body with values of its own: the scenario is 0, then each component as often as it is included.
pub(crate) type ModuleId = usize;

/// An action with values of its own, in the order in which they were met.
pub(crate) type SlotId = usize;

/// The scenario unfolded.
pub(crate) struct World {
    pub(crate) sources: Rc<Sources>,
    /// Values of the scenario's variables; what is not there is unknown.
    pub(crate) variables: BTreeMap<String, Value>,
    /// What the types of actions mean, by their blocks.
    pub(crate) bindings: HashMap<*const Action, Binding>,
    /// Is a `for_each` that is not known no problem, because variables may be missing?
    pub(crate) is_lenient: bool,
    pub(crate) modules: RefCell<Vec<Rc<Module>>>,
    pub(crate) slots: RefCell<Vec<Rc<Slot>>>,
    /// What was found wrong while unfolding.
    pub(crate) problems: RefCell<Vec<Problem>>,
}

/// One body with values of its own.
pub(crate) struct Module {
    pub(crate) body: Rc<Body>,
    /// `component.T.I`, or nothing for the scenario.
    pub(crate) path: String,
    pub(crate) parent: Option<Parent>,
    pub(crate) actions: Vec<OnceCell<Family>>,
    pub(crate) components: Vec<OnceCell<Family>>,
}

/// Who includes a component.
pub(crate) struct Parent {
    pub(crate) module: ModuleId,
    pub(crate) item: Item,
    pub(crate) block: Rc<ComponentBlock>,
    pub(crate) each: Option<Each>,
}

/// `each.key` and `each.value`.
#[derive(Debug, Clone)]
pub struct Each {
    /// The key.
    pub key: Value,
    /// The value.
    pub value: Value,
}

/// The instances of a block: slots of an action, modules of a component.
#[derive(Debug, Clone)]
pub(crate) enum Family {
    One(usize),
    /// By key.
    Many(Rc<BTreeMap<String, usize>>),
    /// Which there are is not known; one stands for all.
    Unknown(usize),
    /// There are none, because something is wrong, which was told.
    Broken,
}

impl Family {
    /// All instances, by key order.
    pub(crate) fn all(&self) -> Vec<usize> {
        match self {
            Family::One(only) | Family::Unknown(only) => vec![*only],
            Family::Many(instances) => instances.values().copied().collect(),
            Family::Broken => Vec::new(),
        }
    }
}

/// One action with values of its own.
pub(crate) struct Slot {
    pub(crate) module: ModuleId,
    pub(crate) item: Item,
    pub(crate) action: Rc<Action>,
    pub(crate) each: Option<Each>,
    pub(crate) address: String,
}

/// What the type of an action means.
#[derive(Debug, Clone)]
pub(crate) struct Binding {
    /// The instance of a provider.
    pub(crate) provider: usize,
    pub(crate) schema: Rc<ProviderSchema>,
    pub(crate) action_type: String,
    /// Its outputs before the run.
    pub(crate) unknown: Value,
    /// The type of its outputs.
    pub(crate) output_type: Type,
}

impl Binding {
    pub(crate) fn new(provider: usize, schema: Rc<ProviderSchema>, action_type: &str) -> Binding {
        let outputs = schema.actions.get(action_type).and_then(|action| action.outputs.as_ref());
        let unknown = match outputs {
            Some(outputs) => Value::unknown(outputs.ty.clone()).with_sensitive(outputs.sensitive),
            None => Value::object(BTreeMap::new()),
        };
        let none = || Type::Object(BTreeMap::new());
        let output_type = outputs.map_or_else(none, |outputs| outputs.ty.clone());
        Binding { provider, schema, action_type: action_type.to_owned(), unknown, output_type }
    }

    pub(crate) fn action(&self) -> &schema::Action {
        &self.schema.actions[&self.action_type]
    }
}

impl World {
    pub(crate) fn module(&self, id: ModuleId) -> Rc<Module> {
        self.modules.borrow()[id].clone()
    }

    pub(crate) fn slot(&self, id: SlotId) -> Rc<Slot> {
        self.slots.borrow()[id].clone()
    }

    pub(crate) fn binding(&self, action: &Rc<Action>) -> Option<&Binding> {
        self.bindings.get(&Rc::as_ptr(action))
    }

    /// The outputs of an action before the run.
    pub(crate) fn unknown_outputs(&self, action: &Rc<Action>) -> Value {
        let any = || Value::unknown(Type::Any);
        self.binding(action).map_or_else(any, |binding| binding.unknown.clone())
    }

    /// Takes one more body.
    pub(crate) fn add_module(
        &self,
        body: Rc<Body>,
        path: String,
        parent: Option<Parent>,
    ) -> ModuleId {
        let cells = |count: usize| (0..count).map(|_| OnceCell::new()).collect();
        let (actions, components) = (cells(body.actions.len()), cells(body.components.len()));
        let mut modules = self.modules.borrow_mut();
        modules.push(Rc::new(Module { body, path, parent, actions, components }));
        modules.len() - 1
    }

    pub(crate) fn add_slot(&self, slot: Slot) -> SlotId {
        let mut slots = self.slots.borrow_mut();
        slots.push(Rc::new(slot));
        slots.len() - 1
    }

    pub(crate) fn problem(&self, problem: Problem) {
        self.problems.borrow_mut().push(problem);
    }
}

impl Module {
    /// The name of something in it: `component.T.I.local.n`.
    pub(crate) fn name(&self, inside: &str) -> String {
        match self.path.is_empty() {
            true => inside.to_owned(),
            false => format!("{}.{inside}", self.path),
        }
    }

    pub(crate) fn family(&self, item: Item) -> &OnceCell<Family> {
        match item {
            Item::Action(at) => &self.actions[at],
            Item::Component(at) => &self.components[at],
        }
    }

    /// `action.T.N` or `component.T.I`, with the way to it.
    pub(crate) fn address(&self, item: Item) -> String {
        let (word, ty, name) = match item {
            Item::Action(at) => {
                let action = &self.body.actions[at];
                ("action", &action.ty.text, &action.name.text)
            }
            Item::Component(at) => {
                let component = &self.body.components[at];
                ("component", &component.ty.text, &component.name.text)
            }
        };
        self.name(&format!("{word}.{ty}.{name}"))
    }
}
