//! What collecting promises, one contract a file. One program, so that what they share is built once.

mod adoption;
mod agents;
mod boundaries;
mod budgets;
mod check_env;
mod classic_control;
mod configuration;
mod estimators;
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
mod run_files;
#[path = "../support/mod.rs"]
mod support;
mod trajectories;
mod weight_sync;
mod workers;
