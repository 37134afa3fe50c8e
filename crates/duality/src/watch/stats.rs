//! The counters as a line of JSON.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use duality_runtime::visibility::{self, QueueReport};
use serde_json::{Map, Value, json};

use super::Subject;
use super::output::Output;
use crate::failure::Failure;

/// The version of the form. The version changes when a field changes its meaning, and not for a new
/// field.
const VERSION: u32 = 1;

/// The file of the counters, and the constant fields.
pub(super) struct Stats {
    output: Output,
    subject: Subject,
    start: Instant,
}

impl Stats {
    pub(super) fn new(output: Output, subject: Subject) -> Self {
        Self { output, subject, start: Instant::now() }
    }

    /// Writes the present counters.
    pub(super) fn write(&mut self) -> Result<(), Failure> {
        let line = format!("{}\n", self.object());
        self.output.write(&line)
    }

    fn object(&self) -> Value {
        let totals = visibility::totals();
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut object = Map::new();
        object.insert("version".into(), json!(VERSION));
        object.insert("service".into(), json!(self.subject.service));
        object.insert("architecture".into(), json!(self.subject.architecture));
        object.insert("pid".into(), json!(std::process::id()));
        object.insert("time_unix_ms".into(), json!(since_epoch.as_millis() as u64));
        object.insert("elapsed_ms".into(), json!(self.start.elapsed().as_millis() as u64));
        object.insert("tasks_now".into(), json!(totals.tasks_now()));
        object.insert("connections_now".into(), json!(totals.connections_now()));
        for (name, value) in totals.named() {
            object.insert(name.into(), json!(value));
        }
        let queues = visibility::queues();
        object.insert("queues".into(), queues.iter().map(queue).collect());
        object.insert("uncounted_threads".into(), json!(visibility::uncounted_threads()));
        Value::Object(object)
    }
}

fn queue(queue: &QueueReport) -> Value {
    json!({
        "name": queue.name,
        "length": queue.length,
        "length_most": queue.length_most,
        "threads": queue.threads,
        "threads_most": queue.threads_most,
        "executed": queue.executed,
    })
}
