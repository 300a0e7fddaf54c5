//! C interface of the module: memory for a question, the function that answers it, and the message of a panic.
#![expect(unsafe_code, reason = "a C interface exchanges pointers")]

use crate::Engine;
use std::cell::RefCell;
use std::ptr;
use std::slice;

thread_local! {
    static ENGINE: RefCell<Engine> = RefCell::default();
    static REPLY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Allocates memory for a question of `len` bytes, which [`ask`] frees.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn allocate(len: usize) -> *mut u8 {
    Box::leak(vec![0; len].into_boxed_slice()).as_mut_ptr()
}

/// Answers the question at `question` and returns the address of the reply, which stays until the next question. Its length is that of
/// [`reply_len`]. After a panic, which traps, the engine is of no more use but for [`panic_message`].
///
/// # Safety
///
/// The memory must be from [`allocate`] with the same `len`, and filled.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ask(question: *mut u8, len: usize) -> *const u8 {
    std::panic::set_hook(Box::new(|panic| PANIC.set(panic.to_string())));
    // SAFETY: the memory is that of a leaked box of this length.
    let question = unsafe { Box::from_raw(ptr::from_mut(slice::from_raw_parts_mut(question, len))) };
    let reply = ENGINE.with_borrow_mut(|engine| engine.answer(&question));
    REPLY.set(reply);
    REPLY.with_borrow(|reply| reply.as_ptr())
}

/// Returns the length of the last reply, bytes.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn reply_len() -> usize {
    REPLY.with_borrow(Vec::len)
}

/// Returns the address of the message of a panic, in UTF-8, of [`panic_len`] bytes.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn panic_message() -> *const u8 {
    PANIC.with_borrow(|message| message.as_ptr())
}

/// Returns the length of the message of a panic, bytes; 0 without one.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn panic_len() -> usize {
    PANIC.with_borrow(String::len)
}
