//! Allocator that ends the program with an error message when memory is exhausted.

use std::alloc::{GlobalAlloc, Layout, System};

/// System allocator that ends the program when an allocation fails.
struct AbortOnFailure;

#[global_allocator]
static MEMORY: AbortOnFailure = AbortOnFailure;

// SAFETY: all calls are passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for AbortOnFailure {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        or_abort(unsafe { System.alloc(layout) }, layout.size())
    }
    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        or_abort(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }
    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        or_abort(unsafe { System.realloc(memory, layout, bytes) }, bytes)
    }
    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        unsafe { System.dealloc(memory, layout) }
    }
}

#[inline]
fn or_abort(memory: *mut u8, bytes: usize) -> *mut u8 {
    if memory.is_null() {
        abort(bytes);
    }
    memory
}

/// Ends the program with exit code 2, as for invalid input. Must not allocate memory.
#[cold]
fn abort(bytes: usize) -> ! {
    // A progress bar hides the cursor.
    let show_cursor: &[u8] = if unsafe { libc::isatty(2) } == 1 { b"\r\x1b[K\x1b[?25h" } else { b"" };
    let mut digits = [0u8; 20];
    let mut first = digits.len();
    let mut rest = bytes >> 20;
    while first == digits.len() || rest > 0 {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let advice = b" MB more cannot be had; try fewer seeds, tables or --threads\n";
    for part in [show_cursor, b"error: memory: ", &digits[first..], advice] {
        // SAFETY: the bytes are valid, and a failed write changes nothing.
        unsafe { libc::write(2, part.as_ptr().cast(), part.len()) };
    }
    // SAFETY: the function does not return.
    unsafe { libc::_exit(2) }
}
