//! A receiver of webhooks.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

/// Confirms every message, and keeps all of them.
pub(crate) struct Webhook {
    pub(crate) port: u16,
    received: Arc<Mutex<String>>,
}

impl Webhook {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let received = Arc::new(Mutex::new(String::new()));
        let receives = Arc::clone(&received);
        thread::spawn(move || {
            for mut peer in listener.incoming().map_while(Result::ok) {
                let mut bytes = [0; 65_536];
                let mut text = String::new();
                while let Ok(count @ 1..) = peer.read(&mut bytes) {
                    text += &String::from_utf8_lossy(&bytes[..count]);
                    let length = text.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.trim().parse::<usize>().ok());
                    let body = text.split_once("\r\n\r\n").map(|(_, body)| body.len());
                    if body.is_some() && body >= length {
                        break;
                    }
                }
                // A sender that has gone needs no answer.
                let _ = peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                receives.lock().unwrap().push_str(&text);
            }
        });
        Self { port, received }
    }

    /// Whether a message of Alertmanager with this status has come, about a hot device.
    pub(crate) fn has_received(&self, status: &str) -> bool {
        let text = self.received.lock().unwrap();
        text.contains(&format!("\"status\":\"{status}\"")) && text.contains("TtmonHot")
    }
}
