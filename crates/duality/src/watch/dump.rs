//! A dump: every task with its stage, its wait, the length of the wait, and its calls.

use std::collections::HashMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use duality_runtime::visibility::{
    self, LoopReport, QueueReport, TaskReport, ThreadReport, Threads, Trace, Wait,
};

use super::Subject;

/// Tasks that are listed.
const LISTED: usize = 1000;

/// The time limit for a loop's answer. If a task holds a loop, the dump names both.
const PATIENCE: Duration = Duration::from_secs(1);

/// The whole text.
pub(super) fn dump(subject: &Subject) -> String {
    let survey = visibility::survey(LISTED as u32, PATIENCE);
    let threads = visibility::threads(LISTED);
    let mut text = heading(subject, &survey.answered, &threads);
    for queue in visibility::queues() {
        let QueueReport { name, length, threads, executed, .. } = queue;
        let _ =
            writeln!(text, "  queue {name}: {length} wait, {threads} threads, {executed} executed");
    }
    for turn in &survey.silent {
        let thread = turn.thread;
        let _ = match turn.turn {
            Some(turn) => writeln!(
                text,
                "  the loop of thread {thread} does not answer: task {}, stage {}, holds it",
                turn.task(),
                turn.stage().as_deref().unwrap_or("-")
            ),
            None => writeln!(text, "  the loop of thread {thread} does not answer"),
        };
    }
    let total = survey.answered.iter().map(|report| report.tasks).sum::<usize>() + threads.count;
    let many_loops = survey.answered.len() + survey.silent.len() > 1;
    let mut stacks = Stacks::default();
    let mut lines: Vec<(Duration, String)> = Vec::new();
    for report in &survey.answered {
        for task in &report.longest {
            let place = many_loops.then_some(report.thread);
            lines.push((task.waited, task_line(task, place, &mut stacks)));
        }
    }
    for thread in &threads.longest {
        lines.push((thread.waited, thread_line(thread)));
    }
    // A stable sort, so that waits that began at one moment stay in order.
    lines.sort_by_key(|(waited, _)| std::cmp::Reverse(*waited));
    lines.truncate(LISTED);
    let listed = lines.len();
    for (_, line) in lines {
        let _ = writeln!(text, "  {line}");
    }
    if total > listed {
        let _ = writeln!(text, "  and {} more", total - listed);
    }
    stacks.write(&mut text);
    text.push_str("duality: end of the dump\n");
    text
}

fn heading(subject: &Subject, loops: &[LoopReport], threads: &Threads) -> String {
    let Subject { service, architecture } = subject;
    let mut text =
        format!("duality: dump of process {}, {service} under {architecture}", std::process::id());
    for (index, report) in loops.iter().enumerate() {
        let lead = if index == 0 { ':' } else { ',' };
        let LoopReport { thread, tasks, ready, .. } = report;
        let _ = write!(text, "{lead} {tasks} tasks, {ready} of them ready, on thread {thread}");
    }
    if threads.count > 0 {
        let lead = if loops.is_empty() { ':' } else { ',' };
        let _ = write!(text, "{lead} {} tasks that are threads or processes", threads.count);
    }
    text.push('\n');
    text
}

fn task_line(task: &TaskReport, thread: Option<u32>, stacks: &mut Stacks) -> String {
    let mut line = format!("task {}", task.number);
    if let Some(thread) = thread {
        let _ = write!(line, " of thread {thread}");
    }
    let _ = write!(line, ", stage {}, ", task.stage.as_deref().unwrap_or("-"));
    let seconds = task.waited.as_secs_f64();
    let _ = match task.wait {
        Wait::Begin => write!(line, "has not run for {seconds:.3} s"),
        _ if task.is_ready => write!(line, "is ready, has not run for {seconds:.3} s"),
        wait => write!(line, "waits for {seconds:.3} s {}", purpose(wait, task.peer)),
    };
    if let Some(due) = task.due.filter(|_| !task.is_ready) {
        let _ = write!(line, ", which comes in {:.3} s", due.as_secs_f64());
    }
    if let Some(trace) = &task.trace {
        let _ = write!(line, "; stack {}", stacks.number(trace));
    }
    line
}

fn thread_line(thread: &ThreadReport) -> String {
    let mut line = String::new();
    if thread.process != std::process::id() {
        let _ = write!(line, "process {}", thread.process);
    } else {
        let _ = write!(line, "thread {}", thread.thread);
    }
    let _ = write!(line, ", stage {}, ", thread.stage.as_deref().unwrap_or("-"));
    let _ = match thread.wait {
        Wait::Nothing => write!(line, "runs"),
        wait => write!(
            line,
            "waits for {:.3} s {}",
            thread.waited.as_secs_f64(),
            purpose(wait, thread.peer)
        ),
    };
    line
}

/// The object of a wait, as words after "waits".
fn purpose(wait: Wait, peer: Option<SocketAddr>) -> String {
    let peer = peer.map_or_else(String::new, |peer| format!(" ({peer})"));
    match wait {
        Wait::Begin | Wait::Nothing => "to run".into(),
        Wait::Read(descriptor) => format!("to read descriptor {descriptor}{peer}"),
        Wait::Write(descriptor) => format!("to write descriptor {descriptor}{peer}"),
        Wait::Time => "for a time".into(),
        Wait::Lock => "for a lock".into(),
        Wait::Notify => "for a notification".into(),
        Wait::Receive => "to receive from a channel".into(),
        Wait::Send => "to send to a channel".into(),
        Wait::Join => "for a task to end".into(),
        Wait::Offload => "for work on a helper thread".into(),
        Wait::Turn => "for its next turn".into(),
        Wait::Foreign => "for a future of the service's own".into(),
        Wait::Several => "for several things at once".into(),
    }
}

/// The stacks of the listed tasks. Many tasks wait at the same place, so each stack is printed
/// once.
#[derive(Default)]
struct Stacks {
    numbers: HashMap<Trace, usize>,
    traces: Vec<Trace>,
}

impl Stacks {
    fn number(&mut self, trace: &Trace) -> usize {
        if let Some(&number) = self.numbers.get(trace) {
            return number;
        }
        self.traces.push(trace.clone());
        self.numbers.insert(trace.clone(), self.traces.len());
        self.traces.len()
    }

    fn write(&self, text: &mut String) {
        for (index, trace) in self.traces.iter().enumerate() {
            let _ = writeln!(text, "  stack {}:", index + 1);
            for frame in visibility::name_frames(trace) {
                let _ = writeln!(text, "    {frame}");
            }
        }
    }
}
