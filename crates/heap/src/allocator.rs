//! The allocator: the system's, watched.
//!
//! In: requests for memory. Out: the system allocator's answers, unchanged; the recorder hears of them while it is on.
//!
//! Invariants
//! - A sample is recorded before the program gets its memory and forgotten before the memory goes back, so that no other
//!   thread can have the same address meanwhile.

#![expect(unsafe_code, reason = "an allocator is an unsafe trait of unsafe functions")]

use std::alloc::{GlobalAlloc, Layout, System};

use crate::recorder;

/// By how much the heap grows at a time, in bytes. What nobody uses of it is only an address.
#[cfg(target_env = "gnu")]
const STEP: libc::c_int = 4 << 20;

/// Lets memory come from one heap that grows in large steps. glibc gives each thread a heap of its own, which grows page by page, with a
/// system call for each: a first list of 10,000 Services needs thousands of them. To be called before there are threads, and not where
/// many threads allocate all the time: they would wait for each other.
pub fn grow_in_steps() {
    // SAFETY: `mallopt` takes numbers, and refuses those that it does not know.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_TOP_PAD, STEP);
    }
}

/// The system's allocator, for `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sampling;

// SAFETY: Every pointer comes from `System` and goes to `System` with the layout that the caller gave, so its promises are
// ours. The recorder gets addresses as numbers, never reads or writes there, and never unwinds.
unsafe impl GlobalAlloc for Sampling {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: The caller keeps the rules of `alloc`, which are those of `System`.
        let memory = unsafe { System.alloc(layout) };
        if recorder::is_on() {
            recorder::allocated(memory.addr(), layout.size());
        }
        memory
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: As in `alloc`.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if recorder::is_on() {
            recorder::allocated(memory.addr(), layout.size());
        }
        memory
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if recorder::is_on() {
            recorder::freed(memory.addr());
        }
        // SAFETY: The caller got this memory with this layout from us, and we from `System`.
        unsafe { System.dealloc(memory, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if recorder::is_on() {
            // If there is no room the old memory stays in use and is no longer known: too little is better than wrong.
            recorder::freed(memory.addr());
        }
        // SAFETY: As in `dealloc`; the new size is as the caller promises.
        let moved = unsafe { System.realloc(memory, layout, new_size) };
        if recorder::is_on() {
            recorder::allocated(moved.addr(), new_size);
        }
        moved
    }
}

/// The addresses of the callers, the innermost first; returns how many there are.
pub(crate) fn walk(stack: &mut [usize]) -> usize {
    let mut free = stack.iter_mut();
    let mut depth = 0;
    // Where a thread begins, there is nothing to return to.
    let step = |frame: &backtrace::Frame| match (frame.ip().addr(), free.next()) {
        (0, _) | (_, None) => false,
        (address, Some(place)) => {
            *place = address;
            depth += 1;
            true
        }
    };
    // SAFETY: The lock that this function leaves out protects a library of Windows. Elsewhere it is the unwinder that
    // panics use, in any number of threads; it neither allocates from us nor runs code of the program.
    unsafe { backtrace::trace_unsynchronized(step) };
    depth
}
