//! A deterministic machine model that runs the policies of `placement`. Every figure it gives is simulated.
#![forbid(unsafe_code)]

mod machine;
mod published;
mod run;

pub use machine::{Load, State, TierModel, solve};
pub use published::{Cell, Dynamic, POLICIES, Report, report};
pub use run::{Outcome, Scenario, best_static, run};
