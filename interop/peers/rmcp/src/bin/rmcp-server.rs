//! A server made with the official Rust SDK: `rmcp-server` on pipes, `rmcp-server http` on a
//! port of its own choice, which it prints.

use std::error::Error;
use std::sync::Arc;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ElicitRequest,
    ElicitRequestParams, ErrorData, Implementation, InputRequest, InputRequests,
    InputRequiredResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
    ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::stdio;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use serde_json::{Value, json};
use tokio::net::TcpListener;

struct Tools;

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("rusty", "1.2.3"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = |name| Tool::new(name, "", object(json!({"type": "object"})));
        let tools = ["add", "steps", "fail", "ask", "die"].map(tool);
        Ok(ListToolsResult { tools: tools.into(), ..ListToolsResult::default() })
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let argument = |name: &str| {
            let value = call.arguments.as_ref().and_then(|arguments| arguments.get(name));
            value.and_then(Value::as_i64).unwrap_or_default()
        };
        match &*call.name {
            "add" => Ok(structured(json!({"sum": argument("a") + argument("b")}))),
            "steps" => steps(argument("count"), context).await,
            "fail" => Ok(CallToolResult::error(vec![ContentBlock::text("no luck")]).into()),
            "ask" => ask(&call, context).await,
            "die" => std::process::exit(7),
            _ => Err(ErrorData::invalid_params(format!("unknown tool: {}", call.name), None)),
        }
    }
}

/// Tells progress on the way.
async fn steps(
    count: i64,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    if let Some(token) = context.meta.get_progress_token() {
        for step in 1..=count {
            let progress = ProgressNotificationParam::new(token.clone(), step as f64);
            let _ = context.peer.notify_progress(progress.with_total(count as f64)).await;
        }
    }
    Ok(said(&format!("{count} steps")))
}

/// Asks the user: in the old era by a request of its own, in the new one by an answer.
async fn ask(
    call: &CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let question = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: "Who are you?".to_owned(),
        requested_schema: serde_json::from_value(schema).map_err(internal)?,
    };
    let name = if context.protocol_version() != Some(ProtocolVersion::V_2026_07_28) {
        let answer = context.peer.create_elicitation(question).await.map_err(internal)?;
        answer.content.and_then(|content| Some(content["name"].as_str()?.to_owned()))
    } else if let Some(answers) = &call.input_responses {
        answers.get("who").and_then(|answer| Some(answer["content"]["name"].as_str()?.to_owned()))
    } else {
        let request = InputRequest::Elicitation(ElicitRequest::new(question));
        let requests = InputRequests::from_iter([("who".to_owned(), request)]);
        return Ok(InputRequiredResult::new(Some(requests), Some("asked".to_owned())).into());
    };
    Ok(said(&format!("hello {}", name.unwrap_or_default())))
}

fn said(text: &str) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

fn structured(value: Value) -> CallToolResponse {
    CallToolResult::structured(value).into()
}

fn internal(error: impl Error) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

fn object(value: Value) -> serde_json::Map<String, Value> {
    value.as_object().cloned().unwrap_or_default()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() != Some("http") {
        Tools.serve(stdio()).await?.waiting().await?;
        return Ok(());
    }
    let sessions = Arc::new(LocalSessionManager::default());
    let config = StreamableHttpServerConfig::default();
    let service = StreamableHttpService::new(|| Ok(Tools), sessions, config);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        let service = TowerToHyperService::new(service.clone());
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::spawn(connection);
    }
}
