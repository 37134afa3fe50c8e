//! The processor's features, detected once, before fork.
//!
//! A micro-optimisation. Parsers that choose their instructions by the processor's features ask for
//! these features at their first use. A process for one connection pays for the question each time.
//! The detection takes some twenty `cpuid` instructions, and under a virtual machine the host
//! executes each.
//!
//! | gain | measured by | delete it if it gains less than |
//! | --- | --- | --- |
//! | a fifth of a process that serves one connection: 261 µs of processor time a request, and 1.25 [1.21 to 1.28] times as much without | `duality compare http -a fork -c 20 --close --binary …` | 5 % of such a request |

/// Detects the processor's features for this process, and for the processes that it forks later.
/// Repeated calls cost next to nothing.
pub fn detect_features() {
    #[cfg(target_arch = "x86_64")]
    let _ = std::is_x86_feature_detected!("avx2");
}
