//! A deterministic machine model that runs the policies of `placement`. Every figure it gives is simulated.
#![forbid(unsafe_code)]

mod best;
mod chart;
mod cost;
mod figures;
mod machine;
mod pages;
mod published;
mod run;
mod scenario;
mod shipped;
mod tables;

pub use best::best_static;
pub use chart::{ChartError, published as draw_published, timelines as draw_timelines};
pub use machine::{Load, State, TierModel, solve};
pub use published::{Against, Cell, POLICIES, Report, Runs, report, timed};
pub use run::{Outcome, Point, run};
pub use scenario::{Access, Event, Scenario, ScenarioError};
pub use shipped::{Kind, SHIPPED, Shipped, names, shipped};
pub use warmset_placement::tier::POLICIES as KNOWN_POLICIES;
