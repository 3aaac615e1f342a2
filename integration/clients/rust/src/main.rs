//! The driver of async-openai, in the loop of its example "chat-stream", in the protocol that ../README.md
//! describes.

use async_openai::{
    Client,
    config::OpenAIConfig,
    types::chat::{ChatCompletionRequestUserMessage, CreateChatCompletionRequestArgs},
};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use std::{error::Error, io::BufRead, time::Instant};

/// A case, as it is read from a line.
#[derive(Deserialize)]
struct Case {
    id: u64,
    base_url: String,
    prompt: String,
}

/// What a program that uses the client has seen of one answer.
#[derive(Serialize, Default)]
struct Seen {
    id: u64,
    text: String,
    reasoning: String,
    tools: Vec<String>,
    details: Vec<String>,
    finish: String,
    error: Option<Failure>,
    ms: u128,
}

/// An error that the client has returned.
#[derive(Serialize)]
struct Failure {
    how: &'static str,
    r#type: &'static str,
    message: String,
    code: String,
}

/// ask is the client's documented loop.
async fn ask(case: &Case, seen: &mut Seen) -> Result<(), Box<dyn Error + Send + Sync>> {
    let config = OpenAIConfig::new()
        .with_api_base(&case.base_url)
        .with_api_key("key");
    let request = CreateChatCompletionRequestArgs::default()
        .model("hermes-agent")
        .messages([ChatCompletionRequestUserMessage::from(case.prompt.as_str()).into()])
        .build()?;
    let mut stream = Client::with_config(config).chat().create_stream(request).await?;
    while let Some(result) = stream.next().await {
        for choice in result?.choices {
            seen.text += choice.delta.content.as_deref().unwrap_or_default();
            if let Some(reason) = choice.finish_reason {
                seen.finish = format!("{reason:?}").to_lowercase();
            }
        }
    }
    Ok(())
}

/// version is that of the client in Cargo.toml.
fn version() -> &'static str {
    let entry = include_str!("../Cargo.toml").split("async-openai = { version = \"=").nth(1);
    entry.and_then(|rest| rest.split('"').next()).unwrap_or_default()
}

#[tokio::main]
async fn main() {
    println!("{}", serde_json::json!({ "version": version() }));
    let mut cases = Vec::new();
    for line in std::io::stdin().lock().lines() {
        let case: Case = serde_json::from_str(&line.expect("a line")).expect("a case");
        cases.push(tokio::spawn(async move {
            let begin = Instant::now();
            let mut seen = Seen { id: case.id, ..Seen::default() };
            if let Err(error) = ask(&case, &mut seen).await {
                let message = error.to_string();
                seen.error = Some(Failure { how: "error", r#type: "OpenAIError", message, code: String::new() });
            }
            seen.ms = begin.elapsed().as_millis();
            println!("{}", serde_json::to_string(&seen).expect("JSON"));
        }));
    }
    for case in cases {
        let _ = case.await;
    }
}
