//! How the static program is linked: at fixed addresses. A program that may stand anywhere has 640 KiB of addresses that
//! are fixed up when it starts, which each worker would then hold for itself; so they are pages of the file, which all
//! share. What is given up: the program's own code and constants are where everybody can know them. Heap, stacks and
//! mappings stay at random addresses, nothing is writable and executable, and no crate of ours has `unsafe` code; what
//! could be led astray is a fault in the C libraries (TLS, SQLite, zstd). The operator, which holds keys of others and
//! starts no workers, stays as it was.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let of_target = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let is_static = of_target("FEATURE")
        .split(',')
        .any(|feature| feature == "crt-static");
    if is_static && of_target("OS") == "linux" && of_target("ENV") == "gnu" {
        for argument in ["-no-pie", "-static"] {
            println!("cargo::rustc-link-arg-bins={argument}");
        }
    }
}
