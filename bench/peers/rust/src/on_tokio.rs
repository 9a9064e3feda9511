//! Tokio: `workers` is None for the single-threaded scheduler.
use crate::{report, report_wake, since, GROUP, WAKES};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

async fn spawn_join(quick: bool) -> bool {
    let n = if quick { 100_000 } else { 1_000_000 };
    let mut handles = Vec::with_capacity(GROUP);
    let start = Instant::now();
    for _ in 0..n / GROUP {
        for _ in 0..GROUP {
            handles.push(tokio::spawn(async {}));
        }
        for h in handles.drain(..) {
            h.await.unwrap();
        }
    }
    report("spawn_join", since(start, n as f64), "ns/task");
    true
}

fn fib(n: u32) -> Pin<Box<dyn Future<Output = u64> + Send>> {
    Box::pin(async move {
        if n < 2 {
            return n as u64;
        }
        let a = tokio::spawn(fib(n - 1));
        let b = fib(n - 2).await;
        a.await.unwrap() + b
    })
}

// fib(30), not 35: a fork costs many times a weft fork, and does not depend on n.
async fn fork_join() -> bool {
    let start = Instant::now();
    let value = tokio::spawn(fib(30)).await.unwrap();
    report("fib", since(start, 1346268.0), "ns/fork");
    value == 832040
}

async fn yielding(quick: bool) -> bool {
    let n: usize = if quick { 1_000_000 } else { 10_000_000 };
    let start = Instant::now();
    let make = || {
        tokio::spawn(async move {
            for _ in 0..n / 2 {
                tokio::task::yield_now().await
            }
        })
    };
    let (a, b) = (make(), make());
    a.await.unwrap();
    b.await.unwrap();
    report("yield", since(start, n as f64), "ns/yield");
    true
}

fn wake(rt: &Runtime, quick: bool) -> bool {
    let n = if quick { 300 } else { WAKES };
    let handle = rt.handle().clone();
    let latency = Arc::new(Mutex::new(Vec::with_capacity(n)));
    let (shared, (stop, stopped)) = (latency.clone(), tokio::sync::oneshot::channel::<()>());
    let outside = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        for _ in 0..n {
            std::thread::sleep(Duration::from_millis(1));
            let (l, start) = (shared.clone(), Instant::now());
            handle.spawn(async move {
                let us = start.elapsed().as_nanos() as f64 / 1e3;
                l.lock().unwrap().push(us);
            });
        }
        std::thread::sleep(Duration::from_millis(20));
        stop.send(()).unwrap();
    });
    rt.block_on(stopped).unwrap(); // with the single-threaded scheduler this thread is the worker
    outside.join().unwrap();
    let us = latency.lock().unwrap().clone();
    report_wake(us, n)
}

fn rss() -> f64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with("Rss:")).unwrap_or("Rss: 0 kB");
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0
}

// One size a process: what an earlier one freed would not be seen.
async fn idle_memory(n: usize, name: &'static str) -> bool {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let parked = Arc::new(AtomicUsize::new(0));
    let before = rss();
    for _ in 0..n {
        let (g, p) = (gate.clone(), parked.clone());
        tokio::spawn(async move {
            p.fetch_add(1, Ordering::SeqCst);
            let _permit = g.acquire().await;
            p.fetch_sub(1, Ordering::SeqCst);
        });
    }
    while parked.load(Ordering::SeqCst) < n {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    report(name, (rss() - before) / n as f64, "bytes");
    gate.add_permits(n);
    while parked.load(Ordering::SeqCst) > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    before > 0.0
}

// A field of /proc/self/status in bytes, or CPU seconds of this process.
fn most_resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with("VmHWM:")).unwrap_or("VmHWM: 0 kB");
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0
}

fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let rest = text.rsplit(')').next().unwrap_or("");
    let ticks: Vec<f64> = rest.split_whitespace().skip(11).take(2).map(|t| t.parse().unwrap_or(0.0)).collect();
    ticks.iter().sum::<f64>() / 100.0
}

async fn sleepers(quick: bool) -> bool {
    let n: usize = if quick { 50_000 } else { 1_000_000 };
    let woke = Arc::new(AtomicUsize::new(0));
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let mut handles = Vec::with_capacity(n);
    let mut random: u64 = 1;
    for _ in 0..n {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let until = Instant::now() + Duration::from_millis(1 + (random >> 33) % 1000);
        let w = woke.clone();
        handles.push(tokio::spawn(async move {
            tokio::time::sleep_until(until.into()).await;
            if Instant::now() >= until {
                w.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    for h in handles {
        h.await.unwrap();
    }
    report("sleepers_wall", start.elapsed().as_secs_f64(), "s");
    report("sleepers_cpu", cpu_seconds() - cpu, "s");
    report("sleepers_rss", most_resident() / 1e6, "MB");
    woke.load(Ordering::Relaxed) == n
}

// Polls a timer once: 1 when it waits.
struct Once<'a>(Pin<&'a mut tokio::time::Sleep>);

impl Future for Once<'_> {
    type Output = usize;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<usize> {
        Poll::Ready(self.0.as_mut().poll(cx).is_pending() as usize)
    }
}

// Set by polling it once, cleared by dropping it.
async fn timer(quick: bool) -> bool {
    let n: usize = if quick { 1_000_000 } else { 10_000_000 };
    let start = Instant::now();
    let mut random: u64 = 1;
    let mut set = 0;
    for _ in 0..n {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let until = start + Duration::from_millis(3_600_000 + (random >> 33) % 1000);
        let sleep = tokio::time::sleep_until(until.into());
        tokio::pin!(sleep);
        set += Once(sleep).await;
    }
    report("timer", since(start, n as f64), "ns");
    set == n
}

const FIGHTERS: usize = 8;

// Eight tasks want the same lock.  Tokio's own, which suspend: the std ones would block a worker.
async fn fight<F, Fut>(name: &'static str, quick: bool, total: Arc<AtomicUsize>, body: F) -> bool
where
    F: Fn(usize) -> Fut,
    Fut: Future<Output = bool> + Send + 'static,
{
    let times = if quick { 100_000 } else { 1_000_000 };
    let start = Instant::now();
    let tasks: Vec<_> = (0..FIGHTERS).map(|_| tokio::spawn(body(times))).collect();
    let mut ok = true;
    for t in tasks {
        ok &= t.await.unwrap();
    }
    report(name, since(start, (times * FIGHTERS) as f64), "ns/op");
    ok && total.load(Ordering::SeqCst) == times * FIGHTERS
}

async fn fight_mutex(quick: bool) -> bool {
    let (lock, total) = (Arc::new(tokio::sync::Mutex::new(0usize)), Arc::new(AtomicUsize::new(0)));
    fight("mutex", quick, total.clone(), |times| {
        let (lock, total) = (lock.clone(), total.clone());
        async move {
            for _ in 0..times {
                *lock.lock().await += 1;
            }
            total.store(*lock.lock().await, Ordering::SeqCst);
            true
        }
    })
    .await
}

async fn fight_sem(quick: bool) -> bool {
    let (sem, total) = (Arc::new(tokio::sync::Semaphore::new(1)), Arc::new(AtomicUsize::new(0)));
    fight("sem", quick, total.clone(), |times| {
        let (sem, total) = (sem.clone(), total.clone());
        async move {
            for _ in 0..times {
                let _permit = sem.acquire().await.unwrap();
                total.store(total.load(Ordering::Relaxed) + 1, Ordering::Relaxed); // the permit protects it
            }
            true
        }
    })
    .await
}

async fn fight_rwlock(quick: bool) -> bool {
    let (lock, total) = (Arc::new(tokio::sync::RwLock::new(0usize)), Arc::new(AtomicUsize::new(0)));
    fight("rwlock", quick, total.clone(), |times| {
        let (lock, total) = (lock.clone(), total.clone());
        async move {
            let (mut seen, mut good) = (0, true);
            for i in 0..times {
                if i % 8 == 0 {
                    *lock.write().await += 8;
                } else {
                    let now = *lock.read().await;
                    good &= now >= seen;
                    seen = now;
                }
            }
            total.store(*lock.read().await, Ordering::SeqCst);
            good
        }
    })
    .await
}

async fn blocking(quick: bool) -> bool {
    let n: usize = if quick { 2000 } else { 50_000 };
    let start = Instant::now();
    let mut sum = 0;
    for i in 0..n {
        sum += tokio::task::spawn_blocking(move || (i >= n) as usize + 1).await.unwrap();
    }
    report("blocking", since(start, n as f64) / 1e3, "us");
    sum == n
}

pub fn run(workload: &str, workers: Option<usize>, quick: bool) -> Option<bool> {
    let rt = match workers {
        None => Builder::new_current_thread().enable_all().build().unwrap(),
        Some(w) => Builder::new_multi_thread().worker_threads(w).enable_all().build().unwrap(),
    };
    // The body is a task itself, so that it runs on a worker.
    match workload {
        "spawn_join" => Some(rt.block_on(async { tokio::spawn(spawn_join(quick)).await.unwrap() })),
        "fib" => Some(rt.block_on(fork_join())),
        "yield" if workers.unwrap_or(1) == 1 => Some(rt.block_on(yielding(quick))),
        "wake" => Some(wake(&rt, quick)),
        "mutex" => Some(rt.block_on(fight_mutex(quick))),
        "sem" => Some(rt.block_on(fight_sem(quick))),
        "rwlock" => Some(rt.block_on(fight_rwlock(quick))),
        "idle_memory_100k" => Some(rt.block_on(idle_memory(100_000, "idle_memory_100k"))),
        "idle_memory_1m" => Some(rt.block_on(idle_memory(1_000_000, "idle_memory_1m"))),
        "sleepers" => Some(rt.block_on(async { tokio::spawn(sleepers(quick)).await.unwrap() })),
        "blocking" => Some(rt.block_on(async { tokio::spawn(blocking(quick)).await.unwrap() })),
        "echo" => Some(rt.block_on(async { tokio::spawn(crate::servers::serve(false)).await.unwrap() })),
        "http" => Some(rt.block_on(async { tokio::spawn(crate::servers::serve(true)).await.unwrap() })),
        "timer" => Some(rt.block_on(async { tokio::spawn(tokio::task::unconstrained(timer(quick))).await.unwrap() })),
        _ => {
            let name = workload.to_string();
            rt.block_on(async {
                tokio::spawn(async move {
                    match crate::channels::run(&name, quick).await {
                        None => crate::actors::run(&name, quick).await,
                        done => done,
                    }
                })
                .await
                .unwrap()
            })
        }
    }
}
