//! A connection that stays open, for tests about running connections.

use std::net::SocketAddr;
use std::time::Duration;

use crate::dial::{Answer, Line};

/// An open TCP connection, or a UDP socket with a fixed source port.
#[derive(Debug)]
pub struct Held {
    line: Line,
    timeout: Duration,
}

impl Held {
    pub(crate) fn new(line: Line, timeout: Duration) -> Self {
        Self { line, timeout }
    }

    /// Asks once more through the same connection. A UDP answer that comes after its question timed out is taken for the next one.
    pub fn ask(&mut self) -> Answer {
        self.line.ask(self.timeout)
    }

    /// Our own address and port.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.line.local_addr()
    }
}
