//! Typed storage behind bytes.

use bytemuck::Pod;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.bytes().serialize(to)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let read = Vec::<u8>::deserialize(from)?;
        let mut bytes = Self::default();
        bytes.resize(read.len());
        bytes.bytes_mut().copy_from_slice(&read);
        Ok(bytes)
    }
}
