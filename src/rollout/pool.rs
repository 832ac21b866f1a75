//! Arenas: the blocks that batches borrow and give back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::block::Block;
use crate::{error::Error, task::Task};

/// Blocks of a collector. A batch takes its block along and gives it back when it is dropped, on whatever thread.
pub(crate) struct ArenaPool<T: Task> {
    shared: Arc<Mutex<Shared<T>>>,
    columns: usize,
    max_arenas: usize,
}

struct Shared<T: Task> {
    #[expect(clippy::vec_box, reason = "blocks change hands all the time, as pointers")]
    free: Vec<Box<Block<T>>>,
    /// Blocks in being, free or not.
    made: usize,
}

impl<T: Task> Clone for ArenaPool<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), columns: self.columns, max_arenas: self.max_arenas }
    }
}

impl<T: Task> ArenaPool<T> {
    pub(crate) fn new(columns: usize, max_arenas: usize) -> Self {
        // Room for all, so that giving one back does not allocate.
        let shared = Shared { free: Vec::with_capacity(max_arenas), made: 0 };
        Self { shared: Arc::new(Mutex::new(shared)), columns, max_arenas }
    }

    fn lock(&self) -> MutexGuard<'_, Shared<T>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A free block, or a new one while there are fewer than `max_arenas`.
    pub(crate) fn take(&self) -> Result<Box<Block<T>>, Error> {
        let mut shared = self.lock();
        if let Some(block) = shared.free.pop() {
            return Ok(block);
        }
        if shared.made >= self.max_arenas {
            return Err(Error::ArenasHeld { max_arenas: self.max_arenas });
        }
        shared.made += 1;
        Ok(Box::new(Block::new(self.columns)))
    }

    pub(crate) fn give_back(&self, block: Box<Block<T>>) {
        self.lock().free.push(block);
    }

    /// Bytes of the free blocks, and the number of blocks in being.
    pub(crate) fn memory(&self) -> (usize, usize) {
        let shared = self.lock();
        (shared.free.iter().map(|block| block.memory()).sum(), shared.made)
    }
}
