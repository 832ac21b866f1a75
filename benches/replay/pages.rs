//! Memory in large pages where there are any, as that of replay buffers is: random reads of small ones mostly wait for the
//! tables of pages.

use memmap2::MmapMut;

/// So many bytes, all 1.
pub fn ones(bytes: usize) -> MmapMut {
    let mut memory = MmapMut::map_anon(bytes.max(1)).expect("memory");
    #[cfg(target_os = "linux")]
    let _without = memory.advise(memmap2::Advice::HugePage);
    memory.fill(1);
    memory
}
