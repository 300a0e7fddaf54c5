//! Test of the memory that reading a large recording needs, measured by an allocator that records the peak.

use catnip_lab::read_har;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs::File;
use std::io::{BufWriter, Write};

thread_local! {
    /// Number of bytes allocated by this thread only, since the test harness may allocate memory at any time in other threads.
    static IN_USE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

struct Measuring;

// SAFETY: every call is passed to the system allocator unchanged.
unsafe impl GlobalAlloc for Measuring {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.set(IN_USE.get() + layout.size() as isize);
        PEAK.set(PEAK.get().max(IN_USE.get()));
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`, which is also the contract of `System`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.set(IN_USE.get() - layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Measuring = Measuring;

const MEGABYTE: usize = 1 << 20;
const OBJECTS: usize = 400;

/// Writes a recording with bodies of 50 MB in total, one of them of 10 MB.
fn write_har(to: &mut impl Write) -> std::io::Result<()> {
    let body = "iVBORw0KGgo\\n".repeat(8500);
    write!(to, r#"{{"log":{{"version":"1.2","pages":[],"entries":["#)?;
    for number in 0..OBJECTS {
        let (seconds, millis) = (number / 50, number % 50 * 20);
        let comma = if number > 0 { "," } else { "" };
        write!(
            to,
            r#"{comma}{{"startedDateTime":"2026-01-31T12:00:{seconds:02}.{millis:03}Z","time":15,"request":{{"method":"GET",
            "url":"https://example.org/{number}?q=1","headers":[{{"name":"Cookie","value":"{}"}}],"headersSize":-1,
            "bodySize":0}},"response":{{"status":200,"headersSize":300,"bodySize":100000,"content":{{"size":100000,
            "encoding":"base64","text":""#,
            "c".repeat(2000),
        )?;
        for _ in 0..if number == 7 { 100 } else { 1 } {
            to.write_all(body.as_bytes())?;
        }
        write!(to, r#""}}}},"timings":{{"wait":5,"send":0,"receive":1}}}}"#)?;
    }
    write!(to, "]}}}}")
}

#[test]
fn a_har_of_fifty_megabytes_with_bodies_takes_less_than_one_megabyte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.har");
    let mut file = BufWriter::new(File::create(&path).unwrap());
    write_har(&mut file).unwrap();
    file.flush().unwrap();
    drop(file);
    let size = std::fs::metadata(&path).unwrap().len() as usize;
    assert!(size > 50 * MEGABYTE, "{size} bytes");
    let before = IN_USE.get();
    PEAK.set(before);
    let (site, told) = read_har(&path, false).unwrap();
    let peak = (PEAK.get() - before) as usize;
    assert_eq!((told[0].objects, told[0].bytes), (OBJECTS, OBJECTS as u64 * 100_300));
    assert_eq!(site.pages[0].objects.len(), OBJECTS);
    assert!(peak < MEGABYTE, "{peak} bytes at a time");
    println!("{size} bytes read with {peak} bytes in use at most");
}
