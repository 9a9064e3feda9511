//! sum.rs - weft from Rust, with fibers: closures as children of a nursery, which cannot outlive what they borrow.
//!
//! usage: rustc -O sum.rs -L DIR -l weft && ./sum
//!
//! Rust code may be suspended anywhere: it keeps nothing beside its stack.  A panic must not leave a fiber, and thread-locals are those of the worker, on
//! which a fiber stays.
use std::ffi::{c_int, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicI64, Ordering};
use std::ptr;

#[repr(C)]
struct Nursery([*mut c_void; 32]); // its place must not change: it is boxed

extern "C" {
    fn weft_fiber_run(config: *const c_void, run: extern "C" fn(*mut c_void) -> c_int, arg: *mut c_void, result: *mut c_void) -> c_int;
    fn weft_sleep(ns: i64) -> c_int;
    fn weft_nursery_init(n: *mut Nursery, rt: *mut c_void, config: *const c_void) -> c_int;
    fn weft_nursery_go(n: *mut Nursery, run: extern "C" fn(*mut c_void) -> c_int, arg: *mut c_void, handle: *mut *mut c_void) -> c_int;
    fn weft_nursery_cancel(n: *mut Nursery);
    fn weft_nursery_await(n: *mut Nursery) -> c_int;
}

type Body<'a> = Box<dyn FnOnce() -> Result<(), c_int> + Send + 'a>;
const PANIC: c_int = -2; // WEFT_ABI_PANIC
const CANCELLED: c_int = -125; // -ECANCELED

/// What every fiber runs: a boxed closure.  A child that is cancelled before it begins is never run, and its closure is lost with it: scope() keeps them.
extern "C" fn trampoline(arg: *mut c_void) -> c_int {
    let body = unsafe { &mut *(arg as *mut Option<Body>) }.take().unwrap();
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code,
        Err(_) => PANIC,
    }
}

/// Run all of them at once, and return when all have ended: with the first error.
fn scope(bodies: Vec<Body>) -> Result<(), c_int> {
    let mut nursery = Box::new(Nursery([ptr::null_mut(); 32]));
    let mut kept: Vec<Option<Body>> = bodies.into_iter().map(Some).collect();
    let mut refused = 0;
    let code = unsafe {
        let error = weft_nursery_init(&mut *nursery, ptr::null_mut(), ptr::null());
        if error < 0 {
            return Err(error);
        }
        for body in kept.iter_mut() {
            let error = weft_nursery_go(&mut *nursery, trampoline, body as *mut _ as *mut c_void, ptr::null_mut());
            if error < 0 {
                refused = error;
                weft_nursery_cancel(&mut *nursery); // all or none
            }
        }
        weft_nursery_await(&mut *nursery)
    };
    match code {
        0 => Ok(()),
        CANCELLED if refused < 0 => Err(refused),
        _ => Err(code),
    }
}

fn sleep(ns: i64) -> Result<(), c_int> {
    match unsafe { weft_sleep(ns) } {
        0 => Ok(()),
        code => Err(code),
    }
}

fn program() -> Result<(), c_int> {
    let sum = AtomicI64::new(0); // borrowed by the children
    let add = |first: i64| -> Result<(), c_int> {
        for i in 0..100 {
            sum.fetch_add(first + i, Ordering::Relaxed);
            sleep(1000)?;
        }
        Ok(())
    };
    scope(vec![Box::new(|| add(0)), Box::new(|| add(1000)), Box::new(|| add(2000))])?;
    println!("300 numbers, sum {}", sum.load(Ordering::Relaxed));
    std::panic::set_hook(Box::new(|_| ()));
    let ended = scope(vec![
        Box::new(|| sleep(i64::MAX)), // cancelled, because of the other
        Box::new(|| { sleep(1000)?; panic!("oh") }),
    ]);
    println!("a child panicked: {}", ended == Err(PANIC));
    Ok(())
}

extern "C" fn first(_: *mut c_void) -> c_int {
    program().map_or_else(|code| code, |()| 0)
}

fn main() {
    let code = unsafe { weft_fiber_run(ptr::null(), first, ptr::null_mut(), ptr::null_mut()) };
    std::process::exit((code != 0) as i32);
}
