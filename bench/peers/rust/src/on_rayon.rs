//! rayon: jobs on the caller's stack that run to their end.
use crate::{report, report_wake, since, FIB, FIB_FORKS, FIB_VALUE, GROUP, WAKES};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn fib(n: u32) -> u64 {
    if n < 2 {
        return n as u64;
    }
    let (a, b) = rayon::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

fn spawn_join(quick: bool) -> bool {
    let n = if quick { 100_000 } else { 1_000_000 };
    let start = Instant::now();
    for _ in 0..n / GROUP {
        rayon::scope(|s| {
            for _ in 0..GROUP {
                s.spawn(|_| {});
            }
        });
    }
    report("spawn_join", since(start, n as f64), "ns/task");
    true
}

fn wake(pool: &rayon::ThreadPool, quick: bool) -> bool {
    let n = if quick { 300 } else { WAKES };
    let latency = Arc::new(Mutex::new(Vec::with_capacity(n)));
    let done = Arc::new(AtomicUsize::new(0));
    std::thread::sleep(Duration::from_millis(50));
    for _ in 0..n {
        std::thread::sleep(Duration::from_millis(1));
        let (l, d, start) = (latency.clone(), done.clone(), Instant::now());
        pool.spawn(move || {
            let us = start.elapsed().as_nanos() as f64 / 1e3;
            l.lock().unwrap().push(us);
            d.fetch_add(1, Ordering::SeqCst);
        });
    }
    while done.load(Ordering::SeqCst) < n {
        std::thread::sleep(Duration::from_millis(1));
    }
    let us = latency.lock().unwrap().clone();
    report_wake(us, n)
}

pub fn run(workload: &str, workers: usize, quick: bool) -> Option<bool> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build().unwrap();
    match workload {
        "fib" => Some(pool.install(|| {
            let start = Instant::now();
            let value = fib(FIB);
            report("fib", since(start, FIB_FORKS), "ns/fork");
            value == FIB_VALUE
        })),
        "spawn_join" => Some(pool.install(|| spawn_join(quick))),
        "wake" => Some(wake(&pool, quick)),
        _ => None, // rayon's jobs cannot wait for anything but jobs
    }
}
