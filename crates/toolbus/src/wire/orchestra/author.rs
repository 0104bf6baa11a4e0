//! An author's tools as a plugin: what a program is that a hub has started.

use std::process::ExitCode;
use std::rc::Rc;

use tokio::signal::unix::{SignalKind, signal};
use toolbus_proto::orchestra::plugin::{manifest, manifest_line};
use toolbus_proto::orchestra::wire::PluginManifest;

use super::front::{Plugin, PluginEnded, PluginError, PluginFlags};
use crate::author::console::{failed, print, say};
use crate::author::{Authored, StartedKind, Tools};
use crate::bus::TIMEOUT;
use crate::bus::back::causes;

/// How an author's tools are served to a hub.
pub(in crate::wire) struct Author;

impl StartedKind for Author {
    fn serve(&self, tools: &mut Option<Tools>, words: &[String]) -> Option<ExitCode> {
        let flags = PluginFlags::of(words)?;
        let tools = tools.take()?;
        let flags = match flags {
            Ok(flags) => flags,
            Err(error) => return Some(failed(error, &[], None, 2)),
        };
        let mut names: Vec<_> = tools.specs().iter().map(|tool| tool.name.to_string()).collect();
        names.sort();
        let mut told = manifest(tools.name(), tools.version(), names);
        if let Some(instructions) = tools.usage() {
            instructions.clone_into(&mut told.description);
        }
        if flags.manifest {
            return Some(print(&format!("{}\n", manifest_line(&told))));
        }
        Some(run(tools.into_authored(), flags, &told))
    }
}

fn run(tools: Authored, flags: PluginFlags, told: &PluginManifest) -> ExitCode {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build_local(tokio::runtime::LocalOptions::default());
    match runtime {
        Ok(runtime) => runtime.block_on(serve(tools, flags, told)),
        Err(error) => failed(format_args!("cannot start the event loop: {error}"), &[], None, 1),
    }
}

async fn serve(tools: Authored, flags: PluginFlags, told: &PluginManifest) -> ExitCode {
    let options = flags.options(&told.id, TIMEOUT);
    let ended = async {
        let plugin = Plugin::bind(options, Rc::new(tools)).await?;
        // A hub that reads no more must not stop us: these lines are few.
        say(format_args!("READY {}", plugin.address()));
        let hub = plugin.register(told).await?;
        if let Some(hub) = &hub {
            say(format_args!("registered with orchestrator at {}", hub.address()));
        }
        let stopping = async {
            asked_to_end().await;
            plugin.stop();
            std::future::pending().await
        };
        Ok::<_, PluginError>(tokio::select! {
            ended = plugin.serve(hub) => ended,
            ended = stopping => ended,
        })
    };
    match ended.await {
        Ok(PluginEnded::ShutDown | PluginEnded::Stopped) => ExitCode::SUCCESS,
        Ok(PluginEnded::HubGone(_) | PluginEnded::ParentGone) => {
            failed("the orchestrator is gone", &[], None, 3)
        }
        Err(error) => {
            let code = match error {
                PluginError::Certificates(_) | PluginError::Tls(_) => 2,
                PluginError::Listen(_) | PluginError::Rejected(_) => 1,
                PluginError::Hub { .. } => 3,
            };
            failed(causes(&error), &[], error.hint().as_deref(), code)
        }
    }
}

/// Waits for SIGINT or SIGTERM; for ever if they cannot be heard.
async fn asked_to_end() {
    let listen = |kind| signal(kind).ok();
    let (Some(mut interrupt), Some(mut terminate)) =
        (listen(SignalKind::interrupt()), listen(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
