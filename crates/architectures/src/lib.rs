//! architectures
