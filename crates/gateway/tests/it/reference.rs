//! The generated pages about methods are current. `make generate` sets `TIDEGATE_BLESS=1`, and the test then writes them.

use std::fs;
use std::path::Path;

fn current(path: &str, generated: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("TIDEGATE_BLESS").is_some_and(|value| value == "1") {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, generated).unwrap();
        return;
    }
    let stored = fs::read_to_string(&file).unwrap_or_default();
    assert!(stored == generated, "{path} is not what the table says; run `make generate`");
}

#[test]
fn the_pages_about_methods_are_what_the_table_says() {
    current("docs/reference/methods.md", &tidegate_gateway::methods_reference());
    let schema = serde_json::to_string_pretty(&tidegate_gateway::methods_schema()).unwrap();
    current("docs/reference/methods.schema.json", &format!("{schema}\n"));
    current("docs/reference/methods.ts", &tidegate_gateway::methods_typescript());
}

#[test]
fn the_types_of_the_page_are_what_the_table_says() {
    current("web/src/gateway/methods.ts", &tidegate_gateway::native_typescript());
}
