//! A blocking client.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::{Answer, Envelope, Greeting, MAX_LINE, Refusal, Request, SCHEMA};

/// Why a request got no reply.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No connection.
    #[error("cannot connect to the control socket {path}: {source}")]
    Connect {
        /// The socket.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The connection broke.
    #[error("control connection: {0}")]
    Io(#[from] std::io::Error),
    /// The peer speaks something else.
    #[error("not a control socket of this version: {0}")]
    Protocol(String),
    /// The device refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// No running instance, or more than one.
    #[error("{0}")]
    Which(String),
}

/// A connection to one device's control socket.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    last_id: u64,
}

impl Client {
    /// Connects and checks the greeting.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let stream = UnixStream::connect(path)
            .map_err(|source| ClientError::Connect { path: path.display().to_string(), source })?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut client = Self { stream: BufReader::new(stream), last_id: 0 };
        let greeting: Greeting = client.line()?;
        if greeting.schema != SCHEMA {
            return Err(ClientError::Protocol(format!(
                "it has schema {}, this program {SCHEMA}",
                greeting.schema
            )));
        }
        Ok(client)
    }

    fn line<T: DeserializeOwned>(&mut self) -> Result<T, ClientError> {
        let mut line = String::new();
        (&mut self.stream).take(MAX_LINE as u64).read_line(&mut line)?;
        if !line.ends_with('\n') {
            return Err(ClientError::Protocol("the connection ended within a line".into()));
        }
        serde_json::from_str(&line).map_err(|e| ClientError::Protocol(e.to_string()))
    }

    /// Sends one request and returns its reply as JSON.
    pub fn ask_json(&mut self, request: Request) -> Result<serde_json::Value, ClientError> {
        self.last_id += 1;
        let envelope = Envelope { id: self.last_id, request };
        let mut line = serde_json::to_string(&envelope).map_err(std::io::Error::other)?;
        line.push('\n');
        self.stream.get_mut().write_all(line.as_bytes())?;
        let answer: Answer = self.line()?;
        match answer {
            Answer { error: Some(refusal), .. } => Err(refusal.into()),
            Answer { id, ok: Some(value), .. } if id == self.last_id => Ok(value),
            other => Err(ClientError::Protocol(format!("unexpected answer {other:?}"))),
        }
    }

    /// Sends one request and returns its reply.
    pub fn ask<T: DeserializeOwned>(&mut self, request: Request) -> Result<T, ClientError> {
        serde_json::from_value(self.ask_json(request)?)
            .map_err(|e| ClientError::Protocol(e.to_string()))
    }
}

/// The control socket of the only running instance, under `$XDG_RUNTIME_DIR/mlx5emu/`.
pub fn find_socket(runtime_dir: &Path) -> Result<PathBuf, ClientError> {
    let dir = runtime_dir.join("mlx5emu");
    let mut found: Vec<PathBuf> = std::fs::read_dir(&dir)
        .map(|entries| entries.flatten().map(|e| e.path()).collect())
        .unwrap_or_default();
    // A socket that nobody listens on was left by an instance that was killed.
    found.retain(|path| {
        path.extension().is_some_and(|e| e == "control") && UnixStream::connect(path).is_ok()
    });
    match found.as_slice() {
        [path] => Ok(path.clone()),
        [] => Err(ClientError::Which(format!(
            "no running instance under {}; name its socket with --control",
            dir.display()
        ))),
        many => Err(ClientError::Which(format!(
            "{} running instances under {}; name one with --control",
            many.len(),
            dir.display()
        ))),
    }
}
