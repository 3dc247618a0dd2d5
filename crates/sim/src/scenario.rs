//! Scenario files: tiers, cores, an access pattern, and what changes over time.

use serde::Deserialize;

use crate::machine::TierModel;

/// The largest memory that is simulated, in pages of 2 MiB.
pub const PAGES_MAX: u64 = 1 << 20;
/// The length of a run: one point of the timeline at least.
const SECONDS: [f64; 2] = [0.5, 100_000.0];
/// How often something may change in a run.
const CHANGES_MAX: f64 = 1e6;
/// The longest name, in characters.
const NAME_CHARS_MAX: usize = 60;
/// The lowest limit of a tier, in lines per ns.
const LINES_PER_NS_MIN: f64 = 1e-4;
pub(crate) const PAGES_PER_GIB: f64 = 512.0;

/// Which pages are accessed how often.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "pattern", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Access {
    /// A hot set and the rest; pages are chosen at random.
    Hot {
        /// The size of the hot set.
        hot_gib: f64,
        /// The part of the accesses that goes to the hot set only; the rest goes to all memory alike.
        hot_accesses: f64,
    },
    /// The k-th hottest page is accessed in proportion to 1 / k^`exponent`.
    Zipf {
        /// 0 is uniform.
        exponent: f64,
    },
    /// All pages alike.
    Uniform,
}

/// Something that changes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// When.
    pub at_s: f64,
    /// From then on it happens again at this interval; 0 for once.
    #[serde(default)]
    pub every_s: f64,
    /// Antagonist cores per tier from now on.
    pub contention: Option<Vec<f64>>,
    /// Application cores from now on.
    pub cores: Option<f64>,
    /// The hottest pages become the coldest ones and the other way round.
    #[serde(default)]
    pub hot_moves: bool,
}

/// What is simulated.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name in the output.
    pub name: String,
    /// How long it runs.
    #[serde(default = "forty")]
    pub seconds: f64,
    /// The seed of samples and of the choice of pages; `--seed` replaces it.
    #[serde(default = "one")]
    pub seed: u64,
    /// Application cores.
    pub cores: f64,
    /// All of the application's memory.
    pub memory_gib: f64,
    /// Lines in flight per core are multiplied by this; larger objects have more of them.
    #[serde(default = "unit")]
    pub window_scale: f64,
    /// Computation between an access and the next that depends on it.
    #[serde(default)]
    pub think_ns: f64,
    /// What the mover copies at most, each way, in GB/s.
    #[serde(default = "mover")]
    pub mover_gbps: f64,
    /// Lines that an antagonist core keeps in flight.
    #[serde(default = "antagonist")]
    pub antagonist_lines: f64,
    /// Antagonist cores per tier at the start; missing tiers have none.
    #[serde(default)]
    pub contention: Vec<f64>,
    /// The tiers, the default one first. Pages fill them in this order. None: the published machine's two.
    #[serde(default = "published", rename = "tier")]
    pub tiers: Vec<TierModel>,
    /// The access pattern.
    pub access: Access,
    /// What changes, in order of time.
    #[serde(default, rename = "event")]
    pub events: Vec<Event>,
}

fn published() -> Vec<TierModel> {
    vec![TierModel::published_default(), TierModel::published_alternate()]
}
fn forty() -> f64 {
    40.0
}
fn one() -> u64 {
    1
}
fn unit() -> f64 {
    1.0
}
/// Published for `HeMem`.
fn mover() -> f64 {
    2.8
}
/// Fitted.
fn antagonist() -> f64 {
    19.2
}

/// What is wrong with a scenario.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum ScenarioError {
    /// No TOML, or a field that is unknown, missing or of the wrong kind.
    #[error("{0}")]
    Syntax(String),
    /// A figure that makes no sense.
    #[error("`{field}` is {value}; {rule}")]
    Figure {
        /// Which one.
        field: String,
        /// What it is.
        value: f64,
        /// What it may be.
        rule: String,
    },
    /// Memory or events that do not fit the machine.
    #[error("{0}")]
    Fit(String),
}

fn number(field: &str, value: f64, low: f64, high: f64) -> Result<(), ScenarioError> {
    if value.is_finite() && value >= low && value <= high {
        return Ok(());
    }
    Err(ScenarioError::Figure {
        field: field.into(),
        value,
        rule: format!("it must be from {low} to {high}"),
    })
}

/// Names are shown on terminals, and that of a scenario begins its charts' file names.
fn name(field: &str, name: &str) -> Result<(), ScenarioError> {
    let is_plain = |letter: char| letter.is_alphanumeric() || " -_.+".contains(letter);
    let count = name.chars().count();
    if (1..=NAME_CHARS_MAX).contains(&count) && name.chars().all(is_plain) && !name.starts_with('.') {
        return Ok(());
    }
    Err(ScenarioError::Fit(format!(
        "`{field}` is {name:?}; it must have 1 to {NAME_CHARS_MAX} letters, digits, blanks and any of -_.+, and not begin \
         with a dot"
    )))
}

impl Scenario {
    /// Parses and checks a file's text.
    ///
    /// # Errors
    /// If it is no TOML, has unknown or missing fields, or figures that make no sense.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let scenario: Self = toml::from_str(text)
            .map_err(|error| ScenarioError::Syntax(error.to_string().trim_end().into()))?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Checks all figures.
    ///
    /// # Errors
    /// With the first figure that makes no sense.
    pub fn check(&self) -> Result<(), ScenarioError> {
        name("name", &self.name)?;
        number("seconds", self.seconds, SECONDS[0], SECONDS[1])?;
        number("cores", self.cores, 0.01, 1e5)?;
        number("memory_gib", self.memory_gib, 1.0 / PAGES_PER_GIB, PAGES_MAX as f64 / PAGES_PER_GIB)?;
        number("window_scale", self.window_scale, 0.01, 100.0)?;
        number("think_ns", self.think_ns, 0.0, 1e6)?;
        number("mover_gbps", self.mover_gbps, 0.0, 1e4)?;
        number("antagonist_lines", self.antagonist_lines, 0.0, 1e4)?;
        if self.tiers.is_empty() || self.tiers.len() > 8 {
            return Err(ScenarioError::Fit(format!(
                "there are {} tiers; it must be 1 to 8",
                self.tiers.len()
            )));
        }
        self.tiers.iter().try_for_each(TierModel::check)?;
        let room: f64 = self.tiers.iter().map(|tier| tier.capacity_gib).sum();
        if self.memory_gib > room {
            let memory = self.memory_gib;
            return Err(ScenarioError::Fit(format!(
                "`memory_gib` is {memory}, but the tiers hold {room} GiB"
            )));
        }
        self.check_access()?;
        self.check_contention("contention", &self.contention)?;
        let mut last = 0.0;
        let mut changes = 0.0;
        for (at, event) in self.events.iter().enumerate() {
            let event_name = format!("event {}: ", at + 1);
            number(&format!("{event_name}at_s"), event.at_s, last, self.seconds)?;
            if event.every_s != 0.0 {
                number(&format!("{event_name}every_s"), event.every_s, 0.1, SECONDS[1])?;
            }
            if let Some(cores) = event.cores {
                number(&format!("{event_name}cores"), cores, 0.01, 1e5)?;
            }
            if let Some(contention) = &event.contention {
                self.check_contention(&format!("{event_name}contention"), contention)?;
            }
            last = event.at_s;
            changes +=
                if event.every_s > 0.0 { (self.seconds - event.at_s) / event.every_s + 1.0 } else { 1.0 };
        }
        if changes > CHANGES_MAX {
            return Err(ScenarioError::Fit(format!("there are {changes:.0} changes; at most {CHANGES_MAX}")));
        }
        Ok(())
    }

    fn check_access(&self) -> Result<(), ScenarioError> {
        match self.access {
            Access::Uniform => Ok(()),
            Access::Zipf { exponent } => number("access: exponent", exponent, 0.0, 10.0),
            Access::Hot { hot_gib, hot_accesses } => {
                number("access: hot_accesses", hot_accesses, 0.0, 1.0)?;
                if hot_gib > self.memory_gib {
                    let memory = self.memory_gib;
                    let text = format!("the hot set has {hot_gib} GiB, but `memory_gib` is {memory}");
                    return Err(ScenarioError::Fit(text));
                }
                number("access: hot_gib", hot_gib, 1.0 / PAGES_PER_GIB, 1e6)
            }
        }
    }

    fn check_contention(&self, name: &str, cores: &[f64]) -> Result<(), ScenarioError> {
        if cores.len() > self.tiers.len() {
            let (given, tiers) = (cores.len(), self.tiers.len());
            return Err(ScenarioError::Fit(format!(
                "`{name}` has {given} figures, but there are {tiers} tiers"
            )));
        }
        cores.iter().try_for_each(|cores| number(name, *cores, 0.0, 1e4))
    }

    /// The times at which something changes, in order.
    #[must_use]
    pub fn changes(&self) -> Vec<(f64, &Event)> {
        let mut all = Vec::new();
        for event in &self.events {
            let mut at = event.at_s;
            loop {
                all.push((at, event));
                at += event.every_s;
                if event.every_s <= 0.0 || at >= self.seconds {
                    break;
                }
            }
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all
    }

    /// The published GUPS experiment with that many antagonist cores in the default tier.
    #[must_use]
    pub fn gups(antagonists: f64) -> Self {
        Self {
            name: "gups".into(),
            seconds: forty(),
            seed: one(),
            cores: 15.0,
            memory_gib: 72.0,
            window_scale: 1.0,
            think_ns: 0.0,
            mover_gbps: mover(),
            antagonist_lines: antagonist(),
            contention: vec![antagonists],
            tiers: published(),
            access: Access::Hot { hot_gib: 24.0, hot_accesses: 0.9 },
            events: Vec::new(),
        }
    }
}

impl TierModel {
    /// Checks all figures.
    ///
    /// # Errors
    /// With the first figure that makes no sense.
    pub fn check(&self) -> Result<(), ScenarioError> {
        name("tier: name", &self.name)?;
        let check =
            |field: &str, value, low, high| number(&format!("tier {}: {field}", self.name), value, low, high);
        check("capacity_gib", self.capacity_gib, 1.0 / PAGES_PER_GIB, 1e6)?;
        check("base_ns", self.base_ns, 1.0, 1e6)?;
        check("slope_ns", self.slope_ns, 0.0, 1e4)?;
        if self.lines_per_ns_max != 0.0 {
            check("lines_per_ns_max", self.lines_per_ns_max, LINES_PER_NS_MIN, 1e4)?;
        }
        check("window", self.window, 0.01, 1e3)?;
        check("window_falls_from", self.window_falls_from, 0.0, 1e9)?;
        check("window_falls_over", self.window_falls_over, 0.0, 1e9)?;
        check("window_falls_by", self.window_falls_by, 0.0, 0.9)
    }
}
