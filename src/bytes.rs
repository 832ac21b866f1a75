//! Typed storage behind bytes.

use bytemuck::Pod;

/// Bytes that are aligned for any plain old data.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bytes {
    words: Vec<u128>,
    len: usize,
}

impl Bytes {
    /// Resizes to `len` bytes; what is new or was there before is unspecified, but initialised.
    pub(crate) fn resize(&mut self, len: usize) {
        let words = len.div_ceil(16);
        if self.words.len() < words {
            // Doubling keeps batches of varying size from allocating for ever.
            let room = words.max(if self.words.is_empty() { 0 } else { self.words.len() * 2 });
            self.words.resize(room, 0);
        }
        self.len = len;
    }

    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }

    #[inline(always)]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len]
    }

    /// The bytes as values; `V` must not be zero-sized.
    #[inline(always)]
    pub(crate) fn values<V: Pod>(&self) -> &[V] {
        bytemuck::cast_slice(self.bytes())
    }

    #[inline(always)]
    pub(crate) fn values_mut<V: Pod>(&mut self) -> &mut [V] {
        bytemuck::cast_slice_mut(self.bytes_mut())
    }

    pub(crate) fn capacity(&self) -> usize {
        self.words.capacity() * 16
    }
}
