//! The Rust peers: `peer tokio|tokio-current|rayon WORKLOAD WORKERS [quick]`.
//! See ../common/peer.h for the output.
mod actors;
mod channels;
mod on_rayon;
mod on_tokio;
mod servers;

use std::time::Instant;

pub const GROUP: usize = 1000;
pub const FIB: u32 = 35;
pub const FIB_FORKS: f64 = 14930351.0;
pub const FIB_VALUE: u64 = 9227465;
pub const WAKES: usize = 2000;
pub const SKIP: i32 = 77;

pub fn report(name: &str, value: f64, unit: &str) {
    println!("{}\t{:.3}\t{}", name, value, unit);
}

pub fn since(start: Instant, n: f64) -> f64 {
    start.elapsed().as_nanos() as f64 / n
}

pub fn report_wake(mut us: Vec<f64>, expected: usize) -> bool {
    if us.len() != expected {
        return false;
    }
    us.sort_by(|a, b| a.partial_cmp(b).unwrap());
    report("wake_p50", us[us.len() / 2], "us");
    report("wake_p99", us[us.len() * 99 / 100], "us");
    true
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.len() < 4 {
        std::process::exit(2);
    }
    let workers: usize = args[3].parse().unwrap_or(0);
    let quick = args.get(4).map_or(false, |a| a == "quick");
    let ok = match args[1].as_str() {
        "tokio" => on_tokio::run(&args[2], Some(workers), quick),
        "tokio-current" if workers == 1 => on_tokio::run(&args[2], None, quick),
        "rayon" => on_rayon::run(&args[2], workers, quick),
        _ => None,
    };
    std::process::exit(match ok {
        None => SKIP,
        Some(true) => 0,
        Some(false) => 1,
    });
}
