//! Actors on Tokio: a task with an unbounded channel as mailbox.
use crate::{report, since};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};

struct Message {
    value: u64,
    from: Option<UnboundedSender<Message>>,
}

type Box_ = UnboundedSender<Message>;

fn send(to: &Box_, value: u64, from: Option<Box_>) {
    let _ = to.send(Message { value, from });
}

async fn pingpong(quick: bool) -> bool {
    let n: u64 = if quick { 100_000 } else { 1_000_000 };
    let (ping, mut ping_end) = unbounded_channel::<Message>();
    let (pong, mut pong_end) = unbounded_channel::<Message>();
    let start = Instant::now();
    let a = tokio::spawn(async move {
        for _ in 0..n {
            let m = pong_end.recv().await.unwrap();
            send(&m.from.unwrap(), m.value + 1, None);
        }
    });
    let b = tokio::spawn(async move {
        let mut good = true;
        for i in 0..n {
            send(&pong, 2 * i, Some(ping.clone()));
            good &= ping_end.recv().await.unwrap().value == 2 * i + 1;
        }
        good
    });
    a.await.unwrap();
    let good = b.await.unwrap();
    report("actor_pingpong", since(start, n as f64), "ns/rtt");
    good
}

const RING: u64 = 503;

async fn ring(quick: bool) -> bool {
    let n: u64 = if quick { 200_000 } else { 2_000_000 };
    let (boxes, ends): (Vec<Box_>, Vec<UnboundedReceiver<Message>>) = (0..RING).map(|_| unbounded_channel()).unzip();
    let start = Instant::now();
    let mut tasks = Vec::new();
    for (i, mut end) in ends.into_iter().enumerate() {
        let next = boxes[(i + 1) % RING as usize].clone();
        tasks.push(tokio::spawn(async move {
            while let Some(m) = end.recv().await {
                if m.value > 0 {
                    send(&next, m.value - 1, None);
                }
                if m.value < RING {
                    break;
                }
            }
        }));
    }
    send(&boxes[0], n, None);
    for task in tasks {
        task.await.unwrap();
    }
    report("actor_ring", since(start, n as f64), "ns/hop");
    true
}

const BIG: usize = 120;
const PING: u64 = 0;
const PONG: u64 = 1;
const END: u64 = 2;

async fn big(quick: bool) -> bool {
    let rounds: u64 = if quick { 1_000 } else { 10_000 };
    let (boxes, ends): (Vec<Box_>, Vec<UnboundedReceiver<Message>>) = (0..BIG).map(|_| unbounded_channel()).unzip();
    let boxes = Arc::new(boxes);
    let (done, mut done_end) = unbounded_channel::<u64>();
    let start = Instant::now();
    let mut tasks = Vec::new();
    for (i, mut end) in ends.into_iter().enumerate() {
        let boxes = boxes.clone();
        let done = done.clone();
        tasks.push(tokio::spawn(async move {
            let mut random = (i as u64).wrapping_mul(0x9e3779b97f4a7c15).wrapping_add(1);
            let (mut sent, mut seen) = (0, 0);
            let mut somebody = |sent: &mut u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                *sent += 1;
                send(&boxes[random as usize % BIG], PING, Some(boxes[i].clone()));
            };
            somebody(&mut sent);
            while let Some(m) = end.recv().await {
                match m.value {
                    PING => send(&m.from.unwrap(), PONG, None),
                    END => break,
                    _ => {
                        seen += 1;
                        if sent < rounds {
                            somebody(&mut sent);
                        } else if seen == rounds {
                            let _ = done.send(seen);
                        }
                    }
                }
            }
        }));
    }
    let mut sum = 0;
    for _ in 0..BIG {
        sum += done_end.recv().await.unwrap();
    }
    for to in boxes.iter() {
        send(to, END, None);
    }
    for task in tasks {
        task.await.unwrap();
    }
    report("actor_big", since(start, (2 * rounds) as f64 * BIG as f64), "ns/message");
    sum == rounds * BIG as u64
}

async fn create(quick: bool) -> bool {
    let n: u64 = if quick { 20_000 } else { 200_000 };
    let start = Instant::now();
    let mut tasks = Vec::with_capacity(n as usize);
    for i in 0..n {
        let (tx, mut end) = unbounded_channel::<Message>();
        tasks.push(tokio::spawn(async move { end.recv().await.unwrap().value == i }));
        send(&tx, i, None);
    }
    let mut good = true;
    for task in tasks {
        good &= task.await.unwrap();
    }
    report("actor_create", since(start, n as f64), "ns/process");
    good
}

/// None: not a workload of actors.  Runs inside a task, on a worker.
pub async fn run(workload: &str, quick: bool) -> Option<bool> {
    match workload {
        "actor_pingpong" => Some(pingpong(quick).await),
        "actor_ring" => Some(ring(quick).await),
        "actor_big" => Some(big(quick).await),
        "actor_create" => Some(create(quick).await),
        _ => None,
    }
}
