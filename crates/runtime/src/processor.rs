//! What the processor can do, found out before anybody needs it.

/// Has this process, and so each that it forks, know the processor's features. Parsers that choose their instructions by
/// them ask at their first use, which in a process that serves one connection is always; and under a virtual machine
/// each of the some twenty `cpuid` instructions of the answer goes by way of the host: 80 µs in all, which were a quarter of
/// such a process's time. Costs next to nothing when it has been called before.
pub fn know() {
    #[cfg(target_arch = "x86_64")]
    let _ = std::is_x86_feature_detected!("avx2");
}
