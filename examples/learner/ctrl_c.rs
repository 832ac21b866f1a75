//! Ctrl-C ends an example in order.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// A flag that the first Ctrl-C raises; the second one ends the program at once.
pub fn flag() -> Result<Arc<AtomicBool>, ctrlc::Error> {
    let flag = Arc::new(AtomicBool::new(false));
    let raised = flag.clone();
    ctrlc::set_handler(move || {
        if raised.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    })?;
    Ok(flag)
}
