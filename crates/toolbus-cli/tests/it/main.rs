//! The program as its users meet it: pages of arguments in; stdout, stderr and exit code out.

mod call;
mod color;
mod help;
mod page;
mod scripts;
mod tools;
mod usage;
