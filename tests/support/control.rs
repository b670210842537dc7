//! An operator at the control socket of a running host. What is asked for is left to the tests.

use std::path::Path;

use serde_json::{Value, json};

use super::{socket::Socket, wire::Wire};

/// A connection to a control socket.
pub struct Control {
    wire: Socket,
    asked: u64,
}

impl Control {
    /// Connects.
    pub fn connect(path: &Path) -> Control {
        Control { wire: Socket::connect(path), asked: 0 }
    }

    /// Asks and waits for the answer: the result, or the message of the refusal.
    pub fn ask(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.asked += 1;
        let asked = json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params});
        self.wire.write(format!("{asked}\n").as_bytes());
        let line = self.wire.line().expect("the host answers");
        let mut answer: Value = serde_json::from_str(&line).expect("an answer is JSON");
        assert_eq!(answer["id"], self.asked, "{answer}");
        match answer["error"]["message"].as_str() {
            Some(message) => Err(message.to_owned()),
            None => Ok(answer["result"].take()),
        }
    }

    /// The status of a door.
    pub fn door(&mut self, name: &str) -> Value {
        let status = self.ask("status", json!({})).expect("status is always told");
        let doors = status["doors"].as_array().expect("a list").iter();
        doors.clone().find(|door| door["door"] == name).expect("the door is there").clone()
    }
}
