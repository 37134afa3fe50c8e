//! Runtimes: what runs tasks.

mod local;

pub use self::local::{LocalOptions, LocalRuntime};
pub use crate::scheduler::{
    Builder, EnterGuard, Handle, Runtime, RuntimeFlavor, RuntimeMetrics, TryCurrentError,
};
