//! What people and scripts are shown: problems with their source, plans, graphs. Text goes out,
//! nothing is printed here.

mod drawing;
pub mod graph;
mod json;
mod line_break;
mod plan;
pub mod problems;
mod schema;
mod wrap;

pub use json::{Invalid, ProviderFailed, invalid, plan_json, validated};
pub use plan::{Ink, plan_drawn, plan_text, secrets_of};
pub use schema::{json_schema, schema_text};
