//! The program `mlx5emu`.
fn main() {}
