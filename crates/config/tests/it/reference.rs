//! The generated reference and schema in `docs/reference` are those of the code.

use std::path::Path;

use tidegate_config::{json_schema, reference_markdown};

fn compare_or_bless(name: &str, generated: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, generated).unwrap();
        return;
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == generated,
        "docs/reference/{name} is out of date; run: TIDEGATE_BLESS=1 cargo test -p tidegate-config"
    );
}

#[test]
fn the_config_reference_is_up_to_date() {
    compare_or_bless("config.md", &reference_markdown());
}

#[test]
fn the_config_schema_is_up_to_date() {
    compare_or_bless("config.schema.json", &(serde_json::to_string_pretty(&json_schema()).unwrap() + "\n"));
}
