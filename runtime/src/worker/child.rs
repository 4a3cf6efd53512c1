//! stub
/// stub
pub async fn main() -> u8 { 0 }
