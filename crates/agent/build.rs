//! Compiles the kernel programs with clang for BPF, and their calculations (`bpf/law`) for this host, where a test calls them.

use libbpf_cargo::SkeletonBuilder;
use std::env;
use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where"));
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-changed=include");
    if let Err(error) = SkeletonBuilder::new()
        .source("bpf/agent.bpf.c")
        // 32-bit arithmetic, available since Linux 5.1, saves the marker a twelfth of its instructions.
        .clang_args(["-Wall", "-Wno-unused-function", "-Werror", "-mcpu=v3"])
        .build_and_generate(out.join("agent.skel.rs"))
    {
        panic!("bpf/agent.bpf.c: {error:#}; clang and libelf-dev are in the list of tools/need.sh");
    }
    cc::Build::new()
        .file("tests/integration/laws.c")
        .include("bpf/law")
        .warnings_into_errors(true)
        .compile("catnip_laws");
}
