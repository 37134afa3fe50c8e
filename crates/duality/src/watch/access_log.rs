//! `--access-log`: lines of requests, from the pipe that all processes of the server write to
//! (`duality_runtime::visibility::RequestLog`), to a file.
//!
//! A thread of its own looks at the pipe 50 times in a second. It opens the file again after a
//! reload (SIGHUP). It says how many lines were dropped: by a full pipe, or by a full disk.

use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use duality_architectures::common::children;
use duality_architectures::common::pressure::remedy;
use duality_runtime::visibility::{self, RequestLog};
use duality_runtime::{log, reload};

use super::output::Output;

const FLAG: &str = "--access-log";

/// How often the thread looks. A megabyte of pipe is enough for 300,000 lines in a second.
const LOOK: Duration = Duration::from_millis(20);

/// How long a report about dropped lines covers further ones.
const QUIET: Duration = Duration::from_secs(10);

/// An access log, which is open.
pub(crate) struct AccessLog {
    writer: Arc<Mutex<Writer>>,
}

impl AccessLog {
    /// Opens the file, and has each request write a line from now on.
    ///
    /// # Errors
    ///
    /// One line that names the flag and the file.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let output = Output::append(path, FLAG)?;
        reload::prepare();
        let pipe = visibility::prepare_request_log()
            .map_err(|error| format!("{FLAG}: {error}{}", remedy(&error)))?;
        let writer = Writer {
            pipe,
            output,
            path: path.to_owned(),
            buffer: vec![0; 1 << 16],
            reloads: reload::requests(),
            lost: 0,
            told: 0,
            told_at: None,
        };
        Ok(Self { writer: Arc::new(Mutex::new(writer)) })
    }

    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// When there can be no thread.
    pub(super) fn start(&self) -> Result<(), String> {
        let writer = self.writer.clone();
        children::helper();
        let thread = thread::Builder::new().name("access-log".into()).spawn(move || {
            loop {
                writer.lock().unwrap_or_else(PoisonError::into_inner).look();
                thread::sleep(LOOK);
            }
        });
        thread.map(drop).map_err(|error| format!("{FLAG}: {error}{}", remedy(&error)))
    }

    /// Writes what is left. The server has ended.
    pub(super) fn finish(&self) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.look();
        writer.tell_dropped(true);
    }
}

struct Writer {
    pipe: RequestLog,
    output: Output,
    path: PathBuf,
    buffer: Vec<u8>,
    /// The reloads that were carried out.
    reloads: u64,
    /// Lines that could not be written to the file.
    lost: u64,
    /// Dropped lines that were told.
    told: u64,
    told_at: Option<Instant>,
}

impl Writer {
    /// Writes what has come, to a new file after a reload.
    fn look(&mut self) {
        if mem::replace(&mut self.reloads, reload::requests()) != self.reloads {
            match Output::append(&self.path, FLAG) {
                Ok(output) => self.output = output,
                Err(problem) => log::warn(format_args!("{problem}; going on with the old file")),
            }
        }
        while let Ok(count @ 1..) = self.pipe.read(&mut self.buffer) {
            let lines = &self.buffer[..count];
            if let Err(problem) = self.output.write_bytes(lines) {
                if self.lost == 0 {
                    log::warn(format_args!("{FLAG}: {problem}; lines are lost"));
                }
                self.lost += lines.iter().filter(|&&byte| byte == b'\n').count() as u64;
            }
        }
        self.tell_dropped(false);
    }

    /// Says how many lines were dropped since it was last said, unless that was lately.
    fn tell_dropped(&mut self, is_last: bool) {
        let dropped = self.lost + visibility::dropped_log_lines();
        let is_quiet = self.told_at.is_some_and(|at| at.elapsed() < QUIET) && !is_last;
        if dropped > self.told && !is_quiet {
            let more = dropped - mem::replace(&mut self.told, dropped);
            self.told_at = Some(Instant::now());
            log::warn(format_args!(
                "{FLAG}: {more} lines were dropped: the disk is too slow or full"
            ));
        }
    }
}
