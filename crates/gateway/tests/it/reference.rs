//! The generated pages about methods are current. `make generate` sets `TIDEGATE_BLESS=1`, and the test then writes them.

use std::fs;
use std::path::Path;

fn current(name: &str, generated: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os("TIDEGATE_BLESS").is_some_and(|value| value == "1") {
        fs::write(&file, generated).unwrap();
        return;
    }
    let stored = fs::read_to_string(&file).unwrap_or_default();
    assert!(stored == generated, "docs/reference/{name} is not what the table says; run `make generate`");
}

#[test]
fn the_pages_about_methods_are_what_the_table_says() {
    current("methods.md", &tidegate_gateway::methods_reference());
    let schema = serde_json::to_string_pretty(&tidegate_gateway::methods_schema()).unwrap();
    current("methods.schema.json", &format!("{schema}\n"));
    current("methods.ts", &tidegate_gateway::methods_typescript());
}
