//! The `postern` binary: everything is in the library.

fn main() -> std::process::ExitCode {
    postern::cli::run()
}
