//! The allocator at work, in this test's own process: what is in use is found under the name of who allocated it, and what
//! is freed is not.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test ends at the first surprise")]

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::thread;

use switchyard_heap::{Amount, Profile, Sampling, functions, profile, start};

#[global_allocator]
static ALLOCATOR: Sampling = Sampling;

const CHUNK: usize = 64 << 10;

#[inline(never)]
fn keep_for_long(chunks: usize) -> Vec<Vec<u8>> {
    std::hint::black_box((0..chunks).map(|_| Vec::with_capacity(CHUNK)).collect())
}

#[inline(never)]
fn grow_step_by_step() -> Vec<u64> {
    let mut list = Vec::new();
    for n in 0..4_000_000 {
        list.push(std::hint::black_box(n));
    }
    list
}

#[inline(never)]
fn churn_in_a_thread(rounds: usize, hand_over: &mpsc::Sender<Vec<u8>>) {
    for n in 0..rounds {
        let mut memory = vec![0_u8; 1 + n * 37 % 100_000];
        memory.reserve_exact(n * 91 % 50_000);
        // Half of it is freed by another thread.
        if n % 2 == 0 {
            hand_over.send(memory).unwrap();
        }
    }
}

/// What functions whose names hold this text allocated, and have in use.
fn of(profile: &Profile, name: &str) -> (Amount, Amount) {
    let addresses: BTreeSet<usize> =
        profile.stacks.iter().flat_map(|stack| stack.addresses.to_vec()).collect();
    let functions = functions(&addresses);
    let (mut allocated, mut in_use) = (Amount::default(), Amount::default());
    for stack in &profile.stacks {
        if stack.addresses.iter().any(|at| functions[at].iter().any(|function| function.name.contains(name)))
        {
            allocated.objects += stack.allocated.objects;
            allocated.bytes += stack.allocated.bytes;
            in_use.objects += stack.in_use.objects;
            in_use.bytes += stack.in_use.bytes;
        }
    }
    (allocated, in_use)
}

/// With 512 samples the estimate is right to a few in a hundred; 30 are seven standard deviations.
fn is_about(estimate: u64, truth: usize) -> bool {
    let truth = truth as u64;
    (truth * 7 / 10..truth * 13 / 10).contains(&estimate)
}

#[test]
fn memory_in_use_is_found_under_the_name_of_who_asked() {
    start();
    const CHUNKS: usize = 4096;
    let kept = keep_for_long(CHUNKS);
    let (allocated, in_use) = of(&profile(), "keep_for_long");
    assert!(is_about(in_use.bytes, CHUNKS * CHUNK) && is_about(in_use.objects, CHUNKS), "{in_use:?}");
    assert_eq!(allocated, in_use, "nothing was freed");
    drop(kept);
    let (allocated, in_use) = of(&profile(), "keep_for_long");
    assert_eq!(in_use, Amount::default(), "all was freed");
    assert!(is_about(allocated.bytes, CHUNKS * CHUNK), "{allocated:?}");
}

#[test]
fn memory_that_moves_is_counted_once() {
    start();
    let list = grow_step_by_step();
    let (_, in_use) = of(&profile(), "grow_step_by_step");
    // One list of 32 MiB: it is certainly sampled, and stands for itself.
    assert_eq!((in_use.objects, in_use.bytes), (1, 32 << 20), "{in_use:?}");
    drop(list);
    assert_eq!(of(&profile(), "grow_step_by_step").1, Amount::default());
}

#[test]
fn nothing_is_left_of_what_many_threads_freed() {
    start();
    let (send, receive) = mpsc::channel();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let send = send.clone();
            thread::spawn(move || churn_in_a_thread(5_000, &send))
        })
        .collect();
    drop(send);
    // Read while others write, too.
    let looked = thread::spawn(|| (0..50).map(|_| profile().stacks.len()).max());
    receive.into_iter().for_each(drop);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(looked.join().unwrap() > Some(0));
    let (allocated, in_use) = of(&profile(), "churn_in_a_thread");
    assert!(allocated.bytes > 100 << 20, "{allocated:?}");
    let channel = 1 << 20;
    assert!(in_use.bytes < channel, "{in_use:?}");
}
