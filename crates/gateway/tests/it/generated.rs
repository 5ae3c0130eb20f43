//! The stored OpenAPI document is current. `make generate` sets `TIDEGATE_BLESS=1`, and the same test then writes it.

use std::fs;
use std::path::Path;

#[test]
fn the_document_of_the_interface_is_current() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/openapi.json");
    let document = format!("{}\n", serde_json::to_string_pretty(&tidegate_gateway::openapi()).unwrap());
    if std::env::var_os("TIDEGATE_BLESS").is_some_and(|value| value == "1") {
        return fs::write(file, document).unwrap();
    }
    let stored = fs::read_to_string(file).unwrap_or_default();
    assert!(
        stored == document,
        "docs/reference/openapi.json is not what the types say; run `make generate` and commit it"
    );
}
