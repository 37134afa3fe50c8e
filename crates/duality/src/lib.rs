//! duality
