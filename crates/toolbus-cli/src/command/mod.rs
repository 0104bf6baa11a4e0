//! The commands, one file each: its arguments with their help, and what it does.

mod add;
mod auth;
pub(crate) mod call;
mod check;
mod complete;
mod completions;
mod config;
mod decode;
mod demo;
mod describe;
mod doctor;
mod help;
mod init;
mod link;
mod lock;
mod log;
mod login;
mod logout;
mod man;
mod page;
mod remove;
mod search;
mod serve;
mod tools;
pub(crate) mod wire;

pub(crate) use wire::spelled_out;

use crate::args::Globals;
use crate::failed::Failed;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Demo(demo::DemoArgs),
    Tools(tools::ToolsArgs),
    Describe(describe::DescribeArgs),
    Call(call::CallArgs),
    Serve(serve::ServeArgs),
    Init(init::InitArgs),
    Add(add::AddArgs),
    Remove(remove::RemoveArgs),
    Link(link::LinkArgs),
    Unlink(link::UnlinkArgs),
    #[command(subcommand)]
    Config(config::ConfigCommand),
    Doctor(doctor::DoctorArgs),
    Login(login::LoginArgs),
    Logout(logout::LogoutArgs),
    Auth(auth::AuthArgs),
    Lock(lock::LockArgs),
    Log(log::LogArgs),
    Page(page::PageArgs),
    Search(search::SearchArgs),
    #[command(flatten)]
    Wire(wire::WireCommand),
    Check(check::CheckArgs),
    #[command(subcommand)]
    Decode(decode::DecodeCommand),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
    #[command(hide = true)]
    Complete(complete::CompleteArgs),
    #[command(hide = true)]
    Help(help::HelpArgs),
}

impl Command {
    pub(crate) fn run(self, globals: &Globals) -> Result<(), Failed> {
        match self {
            Command::Demo(args) => demo::run(&args, globals),
            Command::Tools(args) => tools::run(&args, globals),
            Command::Describe(args) => describe::run(&args, globals),
            Command::Call(args) => call::run(&args, globals),
            Command::Serve(args) => serve::run(&args, globals),
            Command::Init(args) => init::run(&args, globals),
            Command::Add(args) => add::run(&args, globals),
            Command::Remove(args) => remove::run(&args, globals),
            Command::Link(args) => link::run(&args, globals),
            Command::Unlink(args) => link::run_unlink(&args, globals),
            Command::Config(command) => config::run(&command, globals),
            Command::Doctor(args) => doctor::run(&args, globals),
            Command::Login(args) => login::run(&args, globals),
            Command::Logout(args) => logout::run(&args, globals),
            Command::Auth(args) => auth::run(&args, globals),
            Command::Lock(args) => lock::run(&args, globals),
            Command::Log(args) => log::run(&args, globals),
            Command::Page(args) => page::run(&args, globals),
            Command::Search(args) => search::run(&args, globals),
            Command::Wire(command) => command.run(globals),
            Command::Check(args) => check::run(&args, globals),
            Command::Decode(command) => decode::run(command),
            Command::Completions(args) => completions::run(&args),
            Command::Complete(args) => complete::run(&args),
            Command::Man(args) => man::run(&args),
            Command::Help(args) => help::run(&args, globals),
        }
    }
}

/// The command that these names lead to: none of them to toolbus itself.
fn named(names: &[String]) -> Result<clap::Command, Failed> {
    let mut command = crate::args::command();
    // Gives each command its full name and the options it inherits.
    command.build();
    for (at, name) in names.iter().enumerate() {
        let Some(found) = command.find_subcommand(name) else {
            let path = names[..=at].join(" ");
            return Err(Failed::usage(format!("there is no command `{path}`"))
                .hint("`toolbus --help` shows all commands"));
        };
        command = found.clone();
    }
    Ok(command)
}
