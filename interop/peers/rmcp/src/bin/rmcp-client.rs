//! A client made with the official Rust SDK, in both eras.
//!
//!     rmcp-client builtin|rusty URL
//!     rmcp-client builtin|rusty COMMAND WORD…

use std::env;
use std::error::Error;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ElicitRequestParams,
    ElicitResult, ElicitationAction, ErrorData, Implementation, ProgressNotificationParam,
    ProtocolVersion,
};
use rmcp::service::{NotificationContext, RequestContext, RunningService, ServiceError};
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde_json::{Value, json};
use tokio::process::Command;

/// Progress, and of how much.
type Told = (f64, Option<f64>);

/// Accepts every question, and remembers what progress it was told.
#[derive(Clone, Default)]
struct User {
    progress: Arc<Mutex<Vec<Told>>>,
}

impl ClientHandler for User {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_elicitation().build();
        ClientConfig::new(capabilities, Implementation::new("rusty-client", "1"))
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let answer = ElicitResult::new(ElicitationAction::Accept);
        Ok(answer.with_content(json!({"name": "Ada"})))
    }

    async fn on_progress(
        &self,
        told: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.progress.lock().expect("nobody panicked").push((told.progress, told.total));
    }
}

type Client = RunningService<RoleClient, User>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = env::args().skip(1);
    let (what, target) = (words.next().expect("what to try"), words.next().expect("whom to call"));
    let words: Vec<String> = words.collect();
    let modern = vec![ProtocolVersion::V_2026_07_28];
    for (lifecycle, version) in [
        (ClientLifecycleMode::Initialize, ProtocolVersion::V_2025_11_25),
        (
            ClientLifecycleMode::Auto { preferred_versions: modern, legacy_version: None },
            ProtocolVersion::V_2026_07_28,
        ),
    ] {
        let user = User::default();
        let client = if target.starts_with("http://") {
            let transport = StreamableHttpClientTransport::from_uri(target.clone());
            user.serve_with_lifecycle(transport, lifecycle).await?
        } else {
            let mut command = Command::new(&target);
            command.args(&words);
            user.serve_with_lifecycle(TokioChildProcess::new(command)?, lifecycle).await?
        };
        let server = client.peer_info().expect("it has introduced itself");
        same("version", &server.protocol_version, &version);
        match what.as_str() {
            "builtin" => builtin(&client).await?,
            "rusty" => rusty(&client).await?,
            other => panic!("`{other}` is nothing to try"),
        }
        client.cancel().await?;
    }
    Ok(())
}

async fn builtin(client: &Client) -> Result<(), ServiceError> {
    let tools = client.list_all_tools().await?;
    let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
    same("tools", &names[..3], &["add", "blob", "count"][..]);
    same("add", text(&call(client, "add", json!({"a": 1, "b": 2})).await?), "3".to_owned());
    same("upper", text(&call(client, "upper", json!({"text": "hé"})).await?), "HÉ".to_owned());
    let failed = call(client, "fail", json!({"message": "oops"})).await?;
    same("fail", (failed.is_error, text(&failed)), (Some(true), "oops".to_owned()));
    match call(client, "nope", json!({})).await {
        Err(ServiceError::McpError(error)) => {
            same("unknown tool", error.code.0, -32602);
            same("unknown tool", &*error.message, "unknown tool: nope");
        }
        other => panic!("an unknown tool was called: {other:?}"),
    }
    // Those that take longest are asked first, and come last.
    let slow = call(client, "sleep", json!({"ms": 300}));
    let fast = async {
        for n in 0..100 {
            let sum = call(client, "add", json!({"a": n, "b": n})).await?;
            same("a hundred", text(&sum), (2 * n).to_string());
        }
        Ok(())
    };
    let (slow, fast): (_, Result<(), ServiceError>) = tokio::join!(slow, fast);
    fast?;
    same("sleep", text(&slow?), r#"{"slept_ms":300}"#.to_owned());
    Ok(())
}

async fn rusty(client: &Client) -> Result<(), ServiceError> {
    let server = client.peer_info().expect("it has introduced itself");
    same("who", server.server_info.as_ref().map(|info| &*info.name), Some("rusty"));
    let sum = call(client, "add", json!({"a": 1, "b": 2})).await?;
    same("add", sum.structured_content, Some(json!({"sum": 3})));
    same("fail", call(client, "fail", json!({})).await?.is_error, Some(true));
    same("ask", text(&call(client, "ask", json!({})).await?), "hello Ada".to_owned());
    let steps = call(client, "steps", json!({"count": 3})).await?;
    same("steps", text(&steps), "3 steps".to_owned());
    let told = client.service().progress.lock().expect("nobody panicked").clone();
    same("progress", told, vec![(1.0, Some(3.0)), (2.0, Some(3.0)), (3.0, Some(3.0))]);
    Ok(())
}

async fn call(
    client: &Client,
    tool: &'static str,
    arguments: Value,
) -> Result<CallToolResult, ServiceError> {
    let arguments = arguments.as_object().cloned().unwrap_or_default();
    client.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await
}

fn text(result: &CallToolResult) -> String {
    let texts = result.content.iter().filter_map(|block| block.as_text());
    texts.map(|text| text.text.clone()).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn same<T: Debug + PartialEq>(what: &str, got: T, want: T) {
    assert_eq!(got, want, "{what}");
}
