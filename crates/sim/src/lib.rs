//! A deterministic machine model that runs the policies of `placement`.
