//! What threads wait with. The model check of [`turns`](super::turns) puts its own in the place of this module.

pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
