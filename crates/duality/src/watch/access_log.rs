//! `--access-log`: copies lines about requests to a file, from the pipe to which all processes of
//! the server write (`duality_runtime::visibility::RequestLog`).
//!
//! A separate thread reads the pipe 50 times in a second. The thread opens the file again after a
//! reload (SIGHUP). It reports how many lines a full pipe or a full disk dropped.

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
use crate::failure::{Failure, Party};

const FLAG: &str = "--access-log";

/// The interval at which the thread reads. A megabyte of pipe is enough for 300,000 lines in a
/// second.
const LOOK: Duration = Duration::from_millis(20);

/// The time for which a report about dropped lines covers further ones.
const QUIET: Duration = Duration::from_secs(10);

/// An open access log.
pub(crate) struct AccessLog {
    writer: Arc<Mutex<Writer>>,
}

impl AccessLog {
    /// Opens the file, and begins a line for each request.
    ///
    /// # Errors
    ///
    /// One line that names the flag and the file.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let output = Output::append(path, FLAG)?;
        reload::prepare();
        let pipe = visibility::prepare_request_log().map_err(|error| {
            Failure::new(Party::Machine, format!("{FLAG}: {error}{}", remedy(&error)))
        })?;
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
    /// If no thread can be made.
    pub(super) fn start(&self) -> Result<(), Failure> {
        let writer = self.writer.clone();
        children::helper();
        let thread = thread::Builder::new().name("access-log".into()).spawn(move || {
            loop {
                writer.lock().unwrap_or_else(PoisonError::into_inner).look();
                thread::sleep(LOOK);
            }
        });
        thread.map(drop).map_err(|error| {
            Failure::new(Party::Machine, format!("{FLAG}: {error}{}", remedy(&error)))
        })
    }

    /// Writes the remaining lines. The server must have ended.
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
    /// The number of reloads so far.
    reloads: u64,
    /// Lines that could not be written to the file.
    lost: u64,
    /// Dropped lines that have been reported.
    told: u64,
    told_at: Option<Instant>,
}

impl Writer {
    /// Writes the lines so far, to a new file after a reload.
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

    /// Reports the lines that were dropped since the last report, unless that was recent.
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
