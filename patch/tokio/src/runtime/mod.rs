//! Runtimes: what runs tasks.

mod local;

pub use self::local::{LocalOptions, LocalRuntime};
pub use crate::scheduler::{
    Builder, EnterGuard, Handle, Runtime, RuntimeFlavor, RuntimeId as Id, RuntimeMetrics,
    TryCurrentError, is_rt_shutdown_err, worker_index,
};
