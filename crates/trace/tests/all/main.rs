//! The tests of traces: their files, and the logs that they are made of. They are one program: to
//! link one for each file takes longer than to run them.

mod captures;
mod file;
mod formats;
mod readers;
