//! Compiles the programs of the kernel with clang, and the laws among them for a test on the host.

use libbpf_cargo::SkeletonBuilder;
use std::env;
use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where"));
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-changed=include");
    if let Err(error) = SkeletonBuilder::new()
        .source("bpf/agent.bpf.c")
        // Arithmetic of 32 bits, which Linux has had since 5.1, spares the marker a twelfth of its instructions.
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
