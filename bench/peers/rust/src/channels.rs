//! Tokio's channels.  It has no capacity 0: select uses 1.
use crate::{report, since};
use std::future::Future;
use std::pin::Pin;
use std::time::Instant;
use tokio::sync::mpsc::{channel, Receiver, Sender};

async fn pingpong(quick: bool) -> bool {
    let n: u64 = if quick { 100_000 } else { 1_000_000 };
    let (there, mut there_end) = channel::<u64>(1);
    let (back, mut back_end) = channel::<u64>(1);
    let pong = tokio::spawn(async move {
        while let Some(ball) = there_end.recv().await {
            back.send(ball + 1).await.unwrap();
        }
    });
    let mut good = true;
    let start = Instant::now();
    for i in 0..n {
        there.send(i).await.unwrap();
        good &= back_end.recv().await == Some(i + 1);
    }
    report("pingpong", since(start, n as f64), "ns/rtt");
    drop(there);
    pong.await.unwrap();
    good
}

async fn mpsc(quick: bool) -> bool {
    let n: u64 = if quick { 400_000 } else { 4_000_000 };
    let each = n / 4;
    let (tx, mut rx) = channel::<u64>(1024);
    let start = Instant::now();
    for _ in 0..4 {
        let tx = tx.clone();
        tokio::spawn(async move {
            for i in 0..each {
                tx.send(i).await.unwrap();
            }
        });
    }
    drop(tx);
    let mut sum = 0;
    while let Some(v) = rx.recv().await {
        sum += v;
    }
    report("mpsc", since(start, n as f64), "ns/message");
    sum == 4 * (each * (each - 1) / 2)
}

fn node(parent: Sender<u64>, first: u64, leaves: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        if leaves == 1 {
            parent.send(first).await.unwrap();
            return;
        }
        let (tx, mut rx) = channel::<u64>(10);
        let share = leaves / 10;
        for i in 0..10 {
            tokio::spawn(node(tx.clone(), first + i * share, share));
        }
        drop(tx);
        let mut sum = 0;
        while let Some(part) = rx.recv().await {
            sum += part;
        }
        parent.send(sum).await.unwrap();
    })
}

async fn skynet(quick: bool) -> bool {
    let leaves: u64 = if quick { 100_000 } else { 1_000_000 };
    let (root, mut end) = channel::<u64>(1);
    let start = Instant::now();
    tokio::spawn(node(root, 0, leaves));
    let sum = end.recv().await.unwrap();
    report("skynet", start.elapsed().as_nanos() as f64 / 1e6, "ms");
    sum == leaves * (leaves - 1) / 2
}

fn lane(each: u64) -> Receiver<u64> {
    let (tx, rx) = channel::<u64>(1);
    tokio::spawn(async move {
        for i in 0..each {
            tx.send(i).await.unwrap();
        }
    });
    rx
}

async fn select_2(n: u64) -> (f64, bool) {
    let each = n / 2;
    let start = Instant::now();
    let (mut a, mut b) = (lane(each), lane(each));
    let (mut sum, mut count) = (0, 0);
    while let Some(v) = tokio::select! {
        Some(v) = a.recv() => Some(v),
        Some(v) = b.recv() => Some(v),
        else => None,
    } {
        sum += v;
        count += 1;
    }
    (since(start, n as f64), count == n && sum == 2 * (each * (each - 1) / 2))
}

async fn select_8(n: u64) -> (f64, bool) {
    let each = n / 8;
    let start = Instant::now();
    let (mut a, mut b, mut c, mut d) = (lane(each), lane(each), lane(each), lane(each));
    let (mut e, mut f, mut g, mut h) = (lane(each), lane(each), lane(each), lane(each));
    let (mut sum, mut count) = (0, 0);
    while let Some(v) = tokio::select! {
        Some(v) = a.recv() => Some(v),
        Some(v) = b.recv() => Some(v),
        Some(v) = c.recv() => Some(v),
        Some(v) = d.recv() => Some(v),
        Some(v) = e.recv() => Some(v),
        Some(v) = f.recv() => Some(v),
        Some(v) = g.recv() => Some(v),
        Some(v) = h.recv() => Some(v),
        else => None,
    } {
        sum += v;
        count += 1;
    }
    (since(start, n as f64), count == n && sum == 8 * (each * (each - 1) / 2))
}

async fn select(quick: bool) -> bool {
    let n: u64 = if quick { 100_000 } else { 1_000_000 };
    let (two, ok) = select_2(n).await;
    let (eight, good) = select_8(n).await;
    report("select_2", two, "ns/message");
    report("select_8", eight, "ns/message");
    ok && good
}

/// None: not a workload of channels.  Runs inside a task, on a worker.
pub async fn run(workload: &str, quick: bool) -> Option<bool> {
    match workload {
        "pingpong" => Some(pingpong(quick).await),
        "mpsc" => Some(mpsc(quick).await),
        "skynet" => Some(skynet(quick).await),
        "select" => Some(select(quick).await),
        _ => None,
    }
}
