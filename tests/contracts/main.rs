//! What collecting promises, one contract a file. One program, so that what they share is built once.

mod adoption;
mod agents;
mod async_batched;
mod boundaries;
mod budgets;
mod check_env;
mod checkpoints;
mod classic_control;
mod configuration;
mod episodes;
mod estimators;
mod everywhere;
mod exploration;
mod failures;
mod fields;
mod grid_world;
mod holding;
mod hooks;
mod host;
mod lanes;
mod layering;
mod nested;
mod numbers;
mod policies;
mod progress;
mod recurrent;
mod reproducible;
mod resets;
mod resume;
mod run_files;
mod spoiled;
#[path = "../support/mod.rs"]
mod support;
mod trajectories;
mod weight_sync;
mod workers;
