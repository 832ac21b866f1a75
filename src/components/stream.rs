//! Writing the columns of rollouts: past the caches where those would not keep them anyway.

use bytemuck::{Pod, bytes_of, cast_slice, cast_slice_mut, pod_align_to_mut};

/// Bytes of a rollout from which on its columns are written past the caches: more than most cores have of them. Nobody
/// reads there before the rollout is complete; in the caches it would push out the rows' own columns, after it was
/// fetched from memory to be overwritten.
const LARGE: usize = 16 << 20;

/// How the columns of a rollout are written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Writer {
    past_caches: bool,
}

impl Writer {
    /// For a rollout of `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { past_caches: bytes >= LARGE }
    }

    /// Whether columns are written past the caches.
    pub(crate) fn past_caches(self) -> bool {
        self.past_caches
    }

    /// Copies as much of `from` as `to` holds.
    #[inline(always)]
    pub(crate) fn copy<V: Pod>(self, from: &[V], to: &mut [V]) {
        let n = to.len().min(from.len());
        let (from, to) = (cast_slice(&from[..n]), cast_slice_mut(&mut to[..n]));
        if !self.past_caches {
            return copy_in_pieces(from, to);
        }
        copy_past_caches(from, to);
    }

    /// Makes every value of `to` this one. A value's size is a power of two up to 16.
    pub(crate) fn fill<V: Pod>(self, to: &mut [V], value: V) {
        if !self.past_caches {
            return to.fill(value);
        }
        let (head, words, tail) = pod_align_to_mut::<V, u128>(to);
        let mut word = [0; 16];
        word.chunks_exact_mut(size_of::<V>()).for_each(|place| place.copy_from_slice(bytes_of(&value)));
        head.fill(value);
        stream(words, std::iter::repeat(u128::from_ne_bytes(word)));
        tail.fill(value);
    }
}

fn copy_past_caches(from: &[u8], to: &mut [u8]) {
    let (head, words, tail) = pod_align_to_mut::<u8, u128>(to);
    let (first, rest) = from.split_at(head.len());
    let (blocks, last) = rest.as_chunks::<16>();
    head.copy_from_slice(first);
    stream(words, blocks.iter().map(|block| u128::from_ne_bytes(*block)));
    tail.copy_from_slice(last);
}

/// In pieces: glibc copies more than 2 KiB by `rep movsb`, which took 15 times as long on an AMD Zen 3 when both sides
/// lie at the same place of a page, as columns of 1,024 rows do.
#[inline(always)]
fn copy_in_pieces(from: &[u8], to: &mut [u8]) {
    const PIECE: usize = 2048;
    if to.len() <= PIECE {
        return to.copy_from_slice(from);
    }
    for (to, from) in to.chunks_mut(PIECE).zip(from.chunks(PIECE)) {
        to.copy_from_slice(from);
    }
}

/// Writes `values` to `words` without bringing those into the caches.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[expect(unsafe_code, reason = "such stores are intrinsics, of a feature that every x86-64 has")]
fn stream(words: &mut [u128], values: impl Iterator<Item = u128>) {
    use std::arch::x86_64::{_mm_set_epi64x, _mm_sfence, _mm_stream_si128};

    for (word, value) in words.iter_mut().zip(values) {
        // SAFETY: the pointer is an exclusive reference to 16 bytes that are aligned to 16. SSE2 is part of x86-64.
        // Test: `writers_write_the_same`.
        unsafe {
            _mm_stream_si128(std::ptr::from_mut(word).cast(), _mm_set_epi64x((value >> 64) as i64, value as i64));
        }
    }
    // These stores are not ordered by the locks that hand the columns to another thread.
    // SAFETY: SSE is part of x86-64.
    unsafe { _mm_sfence() };
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn stream(words: &mut [u128], values: impl Iterator<Item = u128>) {
    words.iter_mut().zip(values).for_each(|(word, value)| *word = value);
}

/// Asks for the lines that hold `values`, so that those who read there soon need not wait.
#[inline(always)]
pub(crate) fn fetch<V>(values: &[V]) {
    fetch_bytes(values.as_ptr().cast(), size_of_val(values));
}

/// Asks for the lines of `bytes` bytes from `from` on, so that those who read there soon need not wait. The place may be
/// any.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
#[expect(unsafe_code, reason = "the instruction is an intrinsic, of a feature that every x86-64 has")]
pub(crate) fn fetch_bytes(from: *const u8, bytes: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

    const LINE: usize = 64;
    // The last byte's line by itself: how many are asked for does not depend on the place, which no processor could guess.
    // SAFETY: SSE is part of x86-64, and a prefetch reads and writes nothing, whatever the address.
    let ask = |byte| unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(byte).cast()) };
    let mut byte = 0;
    while byte < bytes {
        ask(byte);
        byte += LINE;
    }
    ask(bytes.wrapping_sub(1));
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
pub(crate) fn fetch_bytes(_: *const u8, _: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_write_the_same() {
        let near = Writer::new(LARGE - 1);
        let far = Writer::new(LARGE);
        assert!(far.past_caches && !near.past_caches);
        let from: Vec<u64> = (1..2_000).collect();
        for (first, n) in [(0, 0), (0, 1), (1, 1), (1, 2), (3, 31), (0, 1_000), (1, 1_500)] {
            let mut to = [vec![0_u64; 2_000], vec![0; 2_000]];
            for (to, writer) in to.iter_mut().zip([near, far]) {
                writer.copy(&from[..n], &mut to[first..first + n]);
                writer.fill(&mut to[first + n..][..n / 4], 7);
                writer.fill(&mut cast_slice_mut::<u64, u8>(to)[(first + n) * 8 + 3..][..n], 5);
            }
            assert_eq!(to[0], to[1], "{n} from {first}");
            assert_eq!(to[1][first..first + n], from[..n]);
        }
    }
}
