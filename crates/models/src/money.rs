//! Money and tokens in words.

pub fn format_usd(dollars: f64) -> String {
    format!("${dollars:.4}")
}
