//! Engine of a page in a browser: the simulator as a WebAssembly module without imports, whose one function answers questions.

#![deny(unsafe_code)]

mod engine;
#[cfg(target_family = "wasm")]
mod interface;
mod message;
mod models;
mod study;

pub use engine::Engine;
pub use message::Message;
